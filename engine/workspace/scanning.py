"""Scans a folder on disk for its files and their differences from git.

git lists what is not as in an index of this process's own, which begins with the files of the
commit that is checked out. Those files are read once, and the index gets what was kept of them: so
each look lists only what changed since. Nothing in the folder is written, and of the repositories
in it, only objects, refs and indexes are read. Rules: CONTRACT.md §16.16.
"""

import contextlib
import itertools
import math
import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import attrs

from refold.engine.errors import ContentMissing, FolderRefused, GitFailed
from refold.engine.workspace.contents import Store
from refold.engine.workspace.entries import (
    FileChange,
    FolderChanged,
    FolderStarted,
    FolderState,
    Repository,
    Staged,
)
from refold.engine.workspace.git import Git, IndexEntry, RepositoryObjects, object_folders
from refold.engine.workspace.inside import FOLDER, LINK, Inside, mode_of
from refold.engine.workspace.left_out import TOTAL_MAX, LogFiles, is_key, why_out
from refold.engine.workspace.linked import git_at, places_of
from refold.engine.workspace.made import NewObjects
from refold.engine.workspace.paths import checked
from refold.engine.workspace.tree import Base, FileTree, TreeEntry, changed, in_order

_GITLINK: Final = "160000"
_NOTHING: Final = "000000"
_COMPILED: Final = "__pycache__"
_LOOKS: Final = 50_000
"""Files and folders that git ignores, whose times are asked for at the end."""
_UNREAD_MAX: Final = 200
"""Files that git reads at each look, before it notes their times: for that, it looks at all."""
_LIST: Final = ("ls-files", "-z", "--exclude-standard")
_TREES: Final = ("pack-objects", "--revs", "--stdout", "-q", "--filter=blob:none")
_REFS: Final = ("for-each-ref", "--format=%(HEAD)%(objectname) %(refname) %(upstream)%(symref)")
_REMOTE_MAX: Final = 1000
"""Branches of remotes: of more, none is noted."""
_DIFF: Final = ("diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-ext-diff", "--no-textconv")


@attrs.define
class _Known:
    """A repository of the folder, or a folder that is in none, from one look to the next."""

    ask: Git
    """With an index of the kept files."""
    tree: str
    """The git tree of that index at the last look."""
    excluding: list[Path]
    """Files with the user's own rules on what git ignores."""
    lent: list[Path] = attrs.field(factory=list)
    """Folders of the user's objects."""
    unread: int = 0
    """Files whose times are not in the index: git reads them at each look."""
    looked_at: set[str] = attrs.field(factory=set)
    """Files that are looked at in any case: of some, the index has nothing."""
    staged: list[IndexEntry] | None = None
    """What differs in the user's index from the commit, if it was just asked for."""
    begun_with: tuple[Any, ...] = ()
    """The settings and places of the user's."""
    submodules: dict[str, tuple[str, str]] = attrs.field(factory=dict)
    """The commit that is checked out, and the one in the index, by path."""


class Scanner(contextlib.AbstractContextManager["Scanner"]):
    """Looks at one folder, as often as asked; a context manager."""

    def __init__(
        self,
        top: Path,
        log_files: LogFiles,
        scrubbed: Callable[[bytes], bytes] = bytes,
        *,
        packs: Path | None = None,
        objects: NewObjects | None = None,
        is_copy: bool = False,
        seen: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Take the folder, resolved, and the folder that gets packs of contents, if they are kept.

        `objects` finds commits and tags that are new. Of a copy, no repository is asked after the
        first look: a command may have left anything there. For `seen`, see `linked.git_at`.
        """
        self.state = FolderState()
        """The result of all scans; its start has the files of the commits alone."""
        self._left = contextlib.ExitStack()
        self._objects = objects
        self._top = top
        self._log_files = log_files
        self._scrubbed = scrubbed
        self._packs = packs
        self._is_copy = is_copy
        self._led = seen
        self._cut: set[str] = set()
        """Ids of contents without their secrets."""
        self._room = TOTAL_MAX
        self._known: dict[str, _Known] = {}
        self._seen: set[str] = set()
        """Paths of repositories that are there."""
        self._bases: list[Base] = []
        """From the first scan."""
        self._first: dict[str, TreeEntry] = {}
        """Ignored files and empty folders at the first scan."""
        self._out: dict[str, TreeEntry] = {}
        """Files that were left out, and empty folders: no git tree has them."""
        self._began = 0
        self._by_git = 0
        self._numbers = itertools.count()
        self._before: dict[str, TreeEntry] = {}
        self._after: dict[str, TreeEntry] = {}
        """Entries of the git trees at paths that differ from the scan before."""
        self._counts: dict[str, tuple[int | None, int | None]] = {}
        """Of lines that were added and removed there."""
        self._repositories: list[Repository] = []

    @cached_property
    def _store(self) -> Store:
        user = self._user("")
        kind = user.line("rev-parse", "--show-object-format") if user is not None else ""
        return self._left.enter_context(Store(self._top, kind or "sha1", self._packs))

    @property
    def _is_first(self) -> bool:
        return self.state.started is None

    def scan(self, *, is_last: bool = False, is_whole: bool = True) -> FolderChanged:
        """Look at the folder; return what changed since the scan before, or since the commits.

        If it is not `is_whole`, only new commits and tags are looked for.

        Raises:
            GitFailed: git cannot be run, or failed.
            OSError: a content could not be kept.
        """
        found = self._scanned(is_last=is_last) if is_whole or self._is_first else FolderChanged(())
        if self._objects is not None:
            own = (one.path for one in self._repositories)
            found = attrs.evolve(found, made=self._objects.find_new(own))
        self.state.apply(found)
        return found

    def _scanned(self, *, is_last: bool) -> FolderChanged:
        out, self._out = self._out, {}
        self._before, self._after, self._counts = {}, {}, {}
        self._repositories, self._seen = [], set()
        with Inside(self._top) as self._inside:
            self._repository("")
        self._store.keep()
        for path in self._known.keys() - self._seen:  # it is no repository any more, or gone
            self._compare(path, self._known.pop(path), self._store.empty)
        for path, entry in self._first.items():
            if entry.kind == "out" or _is_empty(self._top / path):
                self._out.setdefault(path, entry)
        if self._is_first:
            self._room, self._began = TOTAL_MAX, time.time_ns()
            tree = FileTree.of(self._bases, ())
            self.state.apply(FolderStarted(os.fspath(self._top), "", tree, (), self._by_git))
        if is_last:
            self._store.merge()
        repositories = tuple(sorted(self._repositories, key=in_order))
        return FolderChanged(
            tuple(
                FileChange(path, before, after, *self._counts.get(path, (None, None)))
                for path, before, after in changed(out | self._before, self._out | self._after)
            ),
            repositories=None if repositories == self.state.repositories else repositories,
            altered=tuple(self._altered()) if is_last else (),
        )

    def _altered(self) -> Iterator[str]:
        """Yield ignored paths that have changed since the first scan, as far as that is quick."""
        rest = _LOOKS
        for path, entry in sorted(self._first.items()):
            if entry.value != "ignored" or path.endswith(_COMPILED):
                continue
            for found in itertools.islice(_times(self._top / path), rest):
                rest -= 1
                if found >= self._began:
                    yield path
                    break

    def whole(self) -> Mapping[str, TreeEntry]:
        """Return all files that the last scan found, by path.

        Raises:
            GitFailed: git failed.
        """
        found = dict(self._out)
        for at, known in self._known.items():
            for path, mode, named, _ in known.ask.staged():
                if (entry := self._entry(_joined(at, path), mode, named)) is not None:
                    found[entry.path] = entry
        return found

    def __exit__(self, *_: object) -> None:
        """Remove the repository of this process."""
        self._left.close()

    # --- one repository ------------------------------------------------------------------

    def _user(self, at: str) -> Git | None:
        """Return whom to ask of the user's repository at a path; `None` if nobody is asked."""
        is_there = os.path.lexists(self._top / at / ".git")
        is_asked = is_there and (self._is_first or not self._is_copy)
        return git_at(self._top, at, self._led) if is_asked else None

    def _repository(self, at: str) -> str:
        """Look at the repository at a path, and those within; return its commit."""
        user, known = self._user(at), self._known.get(at)
        if known is None:
            known = self._known[at] = self._begun(at, user)
        self._seen.add(at)
        listed = known.ask.lines(*_LIST, "-m", "-o", *self._excluding(known))
        found, looked_at, known.looked_at = dict[str, TreeEntry | None](), known.looked_at, set()
        for path in dict.fromkeys([*looked_at, *listed]):
            whole = _joined(at, path.rstrip("/"))
            if path.endswith("/"):
                self._within(whole)
            elif self._is_nameable(whole) and not (
                path in known.submodules and self._is_folder(whole)
            ):
                entry = self._found(whole)
                if entry is not None and entry.kind == "out":
                    self._out[whole] = entry
                    known.looked_at.add(path)
                found[path] = None if whole in self._out else entry
        found = {**dict(self._submodules(at, known)), **found}
        self._store.keep()
        if found:
            known.unread += len(found)
            known.ask.index_as(found.items(), is_quick=known.unread < _UNREAD_MAX)
            known.unread *= known.unread < _UNREAD_MAX
            self._compare(at, known, known.ask.tree_of_index())
        if self._is_first:
            self._set_apart(at, known)
        if user is None:
            return ""
        self._repositories.append(self._repository_at(at, user, known))
        return self._repositories[-1].commit

    def _begun(self, at: str, user: Git | None) -> _Known:
        """Begin with the files of the commit that is checked out, if there is one from the start.

        Of a repository that comes later, all files are kept.
        """
        ask = self._store.looking(self._top / at, str(next(self._numbers)))
        if user is None:
            return _Known(ask, self._store.empty, [] if at else [self._store.ignored])
        known = _Known(ask, self._store.empty, user.excluding(), object_folders(user))
        commit, _, tree = user.line("rev-parse", "-q", "HEAD", "HEAD^{tree}").partition("\n")
        if not self._is_first or len(tree) != self._store.width:
            known.looked_at.update(user.lines("ls-files", "-z"))
            return known
        self._bases.append(Base(at, tree))
        known.tree = tree
        trees = user.output(*_TREES, given=f"{tree}\n".encode())  # the user may lose them
        ask.output("index-pack", "--stdin", given=trees)
        ask.output("read-tree", tree)
        files = ask.lines("ls-files", "-s", "-z")
        for told, _, path in (line.partition("\t") for line in files):
            if told.startswith(_GITLINK):
                known.submodules[path] = (told.split(" ")[1],) * 2
            elif is_key(path):
                known.looked_at.add(path)
        self._by_git += len(files) - len(known.submodules)
        ask.index_as((path, None) for path in known.looked_at)
        known.staged = _staged(user, commit)
        known.looked_at.update(path for path, *_ in known.staged)
        return known

    def _submodules(self, at: str, known: _Known) -> Iterator[tuple[str, TreeEntry | None]]:
        """Look at submodules; yield those whose commit is not as in the index."""
        for path, (start, held) in known.submodules.items():
            whole = _joined(at, path)
            now = self._within(whole) or start if self._is_folder(whole) else ""
            if now != held:
                known.submodules[path] = start, now
                yield path, TreeEntry(whole, _GITLINK, "commit", now) if now else None

    def _excluding(self, known: _Known) -> list[str]:
        found = (one for one in known.excluding if one.is_file())
        if self._is_copy:  # whose command may have put a link there
            top = os.fspath(self._top)
            found = (
                one
                for one in found
                if os.path.realpath(one) == os.fspath(one) or not one.is_relative_to(top)
            )
        return [f"--exclude-from={one}" for one in found]

    def _within(self, path: str) -> str:
        is_there = self._inside.status(f"{path}/.git") is not None
        is_there = is_there and self._is_nameable(path) and path not in self._seen
        return self._repository(path) if is_there else ""

    def _compare(self, at: str, known: _Known, tree: str) -> None:
        """Note what differs from the git tree of the look before, with counts of lines."""
        if tree == known.tree:
            return
        two, known.tree = (known.tree, tree), tree
        ask = attrs.evolve(known.ask, top=self._top)  # its own folder may be gone
        try:
            counts = [] if self._is_first or self._packs is None else ["--numstat"]
            said = ask.lines(*_DIFF, *counts, *two, lent=known.lent)
        except GitFailed:  # the user's repository has lost a content
            said = ask.lines(*_DIFF, *two, lent=known.lent)
        words = iter(said)
        for word in words:
            if word.startswith(":"):
                mode, mode_now, named, named_now, _ = word[1:].split(" ")
                path = _joined(at, next(words))
                if (before := self._entry(path, mode, named)) is not None:
                    self._before[path] = before
                if (after := self._entry(path, mode_now, named_now)) is not None:
                    self._after[path] = after
            else:
                *counts, path = word.split("\t", 2)
                added, removed = (int(one) if one.isdecimal() else None for one in counts)
                whole = _joined(at, path)  # it may leave one repository and be in another
                is_alone = whole not in self._counts
                self._counts[whole] = (added, removed) if is_alone else (None, None)

    def _entry(self, path: str, mode: str, named: str) -> TreeEntry | None:
        """Return what the index has at a path."""
        if mode in (_NOTHING, _GITLINK):
            return None if mode == _NOTHING else TreeEntry(path, mode, "commit", named)
        digest, size = self._store.kept.get(named, ("", None))
        return TreeEntry(path, mode, "cut" if named in self._cut else "git", named, size, digest)

    def _set_apart(self, at: str, known: _Known) -> None:
        """Note the ignored files and the empty folders."""
        others = *_LIST, "-o", "--directory", *self._excluding(known)
        for path in known.ask.lines(*others, "-i"):
            whole = _joined(at, path.rstrip("/"))
            found = None if path.endswith("/") else self._inside.status(whole)
            mode, size = ("100644", found.st_size) if found is not None else (FOLDER, None)
            self._first[whole] = TreeEntry(whole, mode, "out", "ignored", size)
        for path in known.ask.lines(*others):
            if path.endswith("/"):
                for folder in _empty_below(self._top / at / path):
                    whole = os.fspath(folder.relative_to(self._top))
                    self._first[whole] = TreeEntry(whole, FOLDER, "folder")
        self._first = {
            path: entry for path, entry in self._first.items() if self._is_nameable(path)
        }

    def _repository_at(self, at: str, user: Git, known: _Known) -> Repository:
        """Return git's data other than files; what nobody records is left out."""
        if self._packs is None:
            return Repository(at, user.line("rev-parse", "-q", "--verify", "HEAD"))
        said = user.output(*_REFS).decode().splitlines()
        head, branch = next((line[1:].split(" ")[:2] for line in said if line[0] == "*"), ("", ""))
        commit = head or user.line("rev-parse", "-q", "--verify", "HEAD")
        refs = [line[1:].rstrip() for line in said]
        remote = {line for line in refs if line.split(" ")[1].startswith("refs/remotes/")}
        if len(remote) > _REMOTE_MAX:
            refs = [line for line in refs if line not in remote]
        staged, known.staged = known.staged, None
        index = list[Staged]()
        if not known.begun_with:  # as they are when the command starts: it may change them
            git_dir = Path(user.line("rev-parse", "--absolute-git-dir"))
            flagged = (line for line in user.lines("ls-files", "-v", "-z") if line[0] in "hsS")
            passed = tuple(line[2:] for line in flagged if os.path.lexists(user.top / line[2:]))
            known.begun_with = user.settings(), *places_of(user, git_dir), passed
        with RepositoryObjects(user) as objects:
            for path, mode, blob, stage in _staged(user, commit) if staged is None else staged:
                if self._is_nameable(_joined(at, path)):
                    kept = self._kept(objects, path, mode, blob)
                    index.append(Staged(path, mode, blob, stage, *kept))
        return Repository(
            at,
            commit,
            branch or user.line("symbolic-ref", "-q", "HEAD"),
            "".join(f"{line}\n" for line in refs),
            tuple(index),
            *known.begun_with,
        )

    def _kept(self, objects: RepositoryObjects, path: str, mode: str, blob: str) -> tuple[str, int]:
        """Keep a content of the user's index; return its digest and size."""
        is_file = blob and mode != _GITLINK and not is_key(path)
        if is_file and blob not in self._store.kept:
            with contextlib.suppress(ContentMissing):
                content = objects.blob(blob)
                if self._scrubbed(content) == content:
                    self._store.put(content, self._takes)
        return self._store.kept.get(blob, ("", 0)) if is_file else ("", 0)

    # --- one file ------------------------------------------------------------------------

    def _found(self, path: str) -> TreeEntry | None:
        """Return the file at a path; its content is put."""
        found = self._inside.status(path)
        if found is None or stat.S_ISDIR(found.st_mode):
            return None  # what is in a folder is listed for itself
        mode, size = mode_of(found), found.st_size
        if why := why_out(path, found):
            return TreeEntry(path, mode, "out", why, size)
        try:
            content = self._inside.content(path)
        except (FolderRefused, OSError):
            return TreeEntry(path, mode, "out", "unreadable", size)
        if content is None:
            return TreeEntry(path, mode, "out", "changing", size)
        kept = self._scrubbed(content) if mode != LINK else content
        if not (named := self._store.put(kept, self._takes)):
            return TreeEntry(path, mode, "out", "total", len(content))
        if kept != content:
            self._cut.add(named)
        return TreeEntry(path, mode, "git", named, len(kept))

    def _is_nameable(self, path: str) -> bool:
        """Return whether a log may name a path: not its own files, nor what git takes for its."""
        if self._log_files.hold(path):
            return False
        try:
            return bool(checked(path))
        except FolderRefused:
            return False

    def _takes(self, size: int) -> bool:
        """Return whether that much more may be kept, and count it."""
        is_taken = size <= self._room
        self._room -= size if is_taken else 0
        return is_taken

    def _is_folder(self, path: str) -> bool:
        found = self._inside.status(path)
        return found is not None and stat.S_ISDIR(found.st_mode)


def _joined(at: str, path: str) -> str:
    return f"{at}/{path}" if at else path


def _staged(user: Git, commit: str) -> list[IndexEntry]:
    """Return what differs in the user's index from a commit, or with an empty one from nothing."""
    found, has_stages = list[IndexEntry](), False
    commit = commit or user.line("hash-object", "-t", "tree", "--stdin")
    words = iter(user.lines("diff-index", "--cached", "-z", "--no-renames", commit))
    for told in words:
        _, mode, _, named, letter = told.split(" ")
        path = next(words)
        if letter != "U":
            found.append((path, *(("", "") if mode == _NOTHING else (mode, named)), 0))
        has_stages |= letter == "U"
    found += user.staged("-u") if has_stages else ()
    return sorted(found, key=lambda one: (os.fsencode(one[0]), one[3]))


def _times(path: Path) -> Iterator[float]:
    """Yield when a file, or what is in a folder, changed last; infinity if it is gone."""
    try:
        yield path.lstat().st_ctime_ns
    except OSError:
        yield math.inf
    for above, folders, files in os.walk(path):
        folders[:] = [name for name in folders if name != _COMPILED]
        for name in (*folders, *files):
            with contextlib.suppress(OSError):
                yield os.lstat(os.path.join(above, name)).st_ctime_ns  # noqa: PTH118 - many


def _is_empty(folder: Path) -> bool:
    try:
        with os.scandir(folder) as found:
            return not folder.is_symlink() and next(found, None) is None
    except OSError:
        return False


def _empty_below(folder: Path) -> Iterator[Path]:
    """Yield the empty folders of a folder, itself included; of a repository, none."""
    for above, folders, files in os.walk(folder):
        if ".git" in (*folders, *files):
            folders.clear()
        elif not folders and not files:
            yield Path(above)
