"""Scans a folder on disk for its files and their differences from git.

git lists its unchanged and its ignored files. All others are read once: a file with the same times
and size is not read again. A folder that is not in git is also scanned by git, with a repository
elsewhere. Nothing in the folder is written. Rules: CONTRACT.md §16.16.
"""

import contextlib
import math
import os
import stat
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Final, Self

import attrs

from refold.engine.errors import ContentMissing, FolderRefused
from refold.engine.workspace.entries import MadeObject, Repository
from refold.engine.workspace.git import Git, RepositoryObjects, between, blob_id
from refold.engine.workspace.left_out import TOTAL_MAX, WITHOUT_GIT, LogFiles, is_key, why_out
from refold.engine.workspace.made import NewObjects
from refold.engine.workspace.paths import as_text, checked
from refold.engine.workspace.status import NOTHING, STATUS, GitStatus
from refold.engine.workspace.tree import Base, FileTree, Kind, TreeEntry, as_lines

_CONVERTED: Final = ":(exclude,attr:!filter !ident !working-tree-encoding)"
_LINE_ENDS: Final = ":(exclude,attr:!text !eol !crlf)"
"""Paths with such attributes."""
_UNDER_WAY: Final = {
    "rebase-merge": "rebase", "rebase-apply": "rebase", "MERGE_HEAD": "merge",
    "CHERRY_PICK_HEAD": "cherry-pick", "REVERT_HEAD": "revert", "BISECT_LOG": "bisect",
}  # fmt: skip
_FOLDER: Final = "040000"
_COMPILED: Final = "__pycache__"
_LOOKS: Final = 50_000
"""Files and folders that git ignores, whose times are asked for at the end."""
_GITLINK: Final = "160000"
_READS: Final = 3
"""How often a file is read that changes while it is."""
_RACY_NS: Final = 50_000_000
"""A file that was read so soon after it changed may have changed again since, within one tick of
the file system's clock."""


@attrs.frozen
class FolderScan:
    """The result of a scan of a folder."""

    tree: FileTree
    repositories: tuple[Repository, ...]
    by_git: int
    """Files that git has unchanged."""
    made: tuple[MadeObject, ...] = ()
    altered: tuple[str, ...] = ()
    """At the last scan, ignored paths that have changed since the first."""
    """Commits and tags that are new since the scan before."""


@attrs.frozen
class _Held:
    """A file as it was read."""

    seen: tuple[int, ...]
    is_settled: bool
    entry: TreeEntry
    blob: str
    """The id that git gives its content; empty where that is not known."""


@attrs.define
class _Known:
    """Cached data of a repository as long as its commit is checked out."""

    git: Git
    commit: str
    base: Base | None
    files: set[str] = attrs.field(factory=set)
    special: dict[str, tuple[str, str]] = attrs.field(factory=dict)
    """Files that are looked at though git has them unchanged, with mode and blob in the index."""
    submodules: dict[str, str] = attrs.field(factory=dict)
    """The commit in the index, by path."""
    moved: dict[str, tuple[str, str, str, str]] = attrs.field(factory=dict)
    """What differs from the commit of the start: mode and blob then, mode and blob now."""
    told_of: tuple[object, ...] = ()
    repository: Repository | None = None


class Scanner:
    """Looks at one folder, as often as asked; a context manager."""

    def __init__(
        self,
        top: Path,
        log_files: LogFiles,
        put: Callable[[bytes], str],
        scrubbed: Callable[[bytes], bytes],
        *,
        keeps_commits: bool = False,
        objects: NewObjects | None = None,
        apart: Mapping[str, Git] | None = None,
    ) -> None:
        """Take the folder, resolved, and what keeps a content.

        `keeps_commits` leaves none to commits that are made later: the repository will be removed.
        `objects` finds commits and tags that are new. With `apart`, git asks these repositories, by
        path, and none that is in the folder: a command may have left anything there.
        """
        self._objects = objects
        self._last: FolderScan | None = None
        self._top = top
        self._log_files = log_files
        self._put = put
        self._scrubbed = scrubbed
        self._keeps_commits = keeps_commits
        self._given = apart
        self._held: dict[str, _Held] = {}
        self._room = TOTAL_MAX
        self._known: dict[str, _Known] = {}
        self._bases: dict[str, Base] = {}
        """By path, from the first scan."""
        self._apart: dict[str, TreeEntry] = {}
        """Ignored files and empty folders at the first scan."""
        self._elsewhere: tempfile.TemporaryDirectory[str] | None = None
        self._is_first = True
        self._began = 0
        self._asks_refs = True
        self._in_base: dict[str, TreeEntry] = {}
        """The bases' entries at scanned paths."""
        self._differs: dict[str, TreeEntry] = {}
        self._repositories: list[Repository] = []

    def scan(self, *, is_last: bool = False, is_whole: bool = True) -> FolderScan:
        """Look at the folder; at all branches and tags only the first time and the last.

        If it is not `is_whole`, only new commits and tags are looked for.

        Raises:
            GitFailed: git cannot be run, or failed.
            OSError: a content could not be kept.
        """
        if self._last is not None and not is_whole:
            return self._with_objects(self._last)
        self._asks_refs = self._is_first or is_last
        self._differs, self._repositories = {}, []
        by_git = self._repository("")
        for path, entry in self._apart.items():
            if entry.kind == "out" or _is_empty(self._top / path):
                self._differs.setdefault(path, entry)
        if self._is_first:
            self._room, self._is_first, self._began = TOTAL_MAX, False, time.time_ns()
        tree = FileTree.of(self._bases.values(), self._differs.values())
        repositories = sorted(self._repositories, key=lambda one: os.fsencode(one.path))
        altered = tuple(self._altered()) if is_last else ()
        self._last = FolderScan(tree, tuple(repositories), by_git, altered=altered)
        return self._with_objects(self._last)

    def _with_objects(self, scan: FolderScan) -> FolderScan:
        if self._objects is None:
            return scan
        own = [at for at, known in self._known.items() if not known.git.git_dir]
        return attrs.evolve(scan, made=self._objects.look(own))

    def _altered(self) -> Iterator[str]:
        """Yield ignored paths that have changed since the first scan, as far as that is quick."""
        rest = _LOOKS
        for path, entry in sorted(self._apart.items()):
            if entry.value != "ignored" or path.endswith(_COMPILED):
                continue
            for found in islice(_times(self._top / path), rest):
                rest -= 1
                if found >= self._began:
                    yield path
                    break

    def in_base(self, path: str) -> TreeEntry | None:
        """Return the base's entry at a path that differed from it in some scan."""
        return self._in_base.get(path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the repository that was made elsewhere."""
        if self._elsewhere is not None:
            self._elsewhere.cleanup()
        if self._objects is not None:
            self._objects.close()

    # --- one repository ------------------------------------------------------------------

    def _repository(self, at: str) -> int:
        """Look at the repository at a path, and those within; count files that are as there."""
        known = self._known.get(at)
        git = known.git.again if known is not None else self._git(at)
        if self._given is None and git.git_dir and os.path.lexists(self._top / ".git"):
            known, git = None, Git(self._top)  # made by the command
        said = GitStatus.of(git.lines(*STATUS, *(["--ignored=matching"] if self._is_first else [])))
        if known is None or known.commit != said.commit or said.touches_attributes:
            known = self._known[at] = self._learnt(git, at, said)
        known.git = git
        for path, (mode_before, blob_before, mode, blob) in known.moved.items():
            whole = _joined(at, path)
            self._differs[whole] = self._committed(whole, mode, blob)
            if mode_before != NOTHING:
                self._in_base[whole] = _of_git(whole, mode_before, blob_before)
        looked_at = known.special | said.changed
        if self._keeps_commits:
            looked_at = dict.fromkeys(known.moved, ("", "")) | looked_at
        for path, in_commit in looked_at.items():
            self._look(at, path, known, known.moved.get(path, in_commit)[:2])
        by_git = len(known.files - looked_at.keys())
        by_git += sum(self._submodule(at, *one) for one in known.submodules.items())
        by_git += sum(self._within(_joined(at, path)) for path in said.inner)
        if self._is_first:
            self._set_apart(git, at, said)
        if not git.git_dir:
            self._repositories.append(self._told(at, known, said))
        return by_git

    def _git(self, at: str) -> Git:
        """Return whom to ask of the files at a path: at the top, there may be no repository."""
        if self._given is None and (at or os.path.lexists(self._top / ".git")):
            return Git(self._top / at)
        if (git := (self._given or {}).get(at)) is not None:
            return git
        if self._elsewhere is None:
            self._elsewhere = tempfile.TemporaryDirectory(prefix="refold-")
        git = Git.made(self._top / at, Path(self._elsewhere.name, str(len(self._known))))
        if not at:
            (exclude := Path(git.git_dir, "info/exclude")).parent.mkdir()
            exclude.write_text("\n".join(WITHOUT_GIT))
        return git

    def _learnt(self, git: Git, at: str, said: GitStatus) -> _Known:
        """Ask what hangs on the commit that is checked out."""
        tree = _line(git, "rev-parse", "HEAD^{tree}") if said.commit else ""
        if self._is_first and tree:
            self._bases[at] = Base(at, tree)
        known = _Known(git, said.commit, self._bases.get(at))
        if known.base is not None and known.base.tree != tree:
            now = tree or _line(git, "hash-object", "-t", "tree", "--stdin")
            known.moved = {path: told for path, *told in between(git, known.base.tree, now)}  # type: ignore[misc]
        files: dict[str, tuple[str, str]] = {}
        for line in git.lines("ls-files", "-v", "-s", "-z"):
            about, _, path = line.partition("\t")
            flag, mode, blob, _ = about.split(" ")
            if mode == _GITLINK:
                known.submodules[path] = blob
                continue
            files[path] = (mode, blob)
            # Lower case: assume-unchanged; S: skip-worktree.  git does not look at either.
            if flag != "H" or known.base is None or is_key(path):
                known.special[path] = (mode, blob)
        known.files = set(files)
        for path in (
            *git.lines("ls-files", "-z", "--", _CONVERTED),
            *self._line_ends(git, at, files),
        ):
            known.special[path] = files.get(path, ("", ""))
        return known

    def _line_ends(self, git: Git, at: str, files: dict[str, tuple[str, str]]) -> Iterator[str]:
        """Yield files whose line ends git converts: those on disk have another size."""
        maybe = files if git.converts_line_ends else git.lines("ls-files", "-z", "--", _LINE_ENDS)
        names = [path for path in maybe if path in files]
        asked = "".join(f"{files[path][1]}\n" for path in names).encode()
        sizes = git.said("cat-file", "--batch-check=%(objectsize)", given=asked) if names else b""
        for path, size in zip(names, sizes.split(b"\n"), strict=False):
            if str(_size(self._top / at / path)).encode() != size:
                yield path

    def _submodule(self, at: str, path: str, commit: str) -> int:
        whole = _joined(at, path)
        if not os.path.lexists(self._top / whole):
            self._differs[whole] = TreeEntry(whole, "", "gone")
        self._in_base.setdefault(whole, _of_git(whole, _GITLINK, commit))
        count = self._within(whole)
        now = self._known[whole].commit if whole in self._known else commit
        if now and now != commit:
            self._differs[whole] = TreeEntry(whole, _GITLINK, "commit", now)
        return count

    def _within(self, path: str) -> int:
        git_dir = f"{path}/.git"
        is_there = os.path.lexists(self._top / git_dir) or path in (self._given or {})
        is_there = is_there and self._is_real(git_dir) and (self._top / path).is_dir()
        return self._repository(path) if is_there and not self._log_files.hold(path) else 0

    def _set_apart(self, git: Git, at: str, said: GitStatus) -> None:
        """Note the ignored files and the empty folders."""
        for path in said.ignored:
            whole = _joined(at, path.rstrip("/"))
            mode, size = (
                (_FOLDER, None) if path.endswith("/") else ("100644", _size(self._top / whole))
            )
            self._apart[whole] = TreeEntry(whole, mode, "out", "ignored", size)
        for path in git.lines("ls-files", "-z", "--others", "--directory", "--exclude-standard"):
            if path.endswith("/"):
                for folder in _empty_below(self._top / at / path):
                    whole = os.fspath(folder.relative_to(self._top))
                    self._apart[whole] = TreeEntry(whole, _FOLDER, "folder")
        self._apart = {
            path: entry for path, entry in self._apart.items() if self._can_be_said(path)
        }

    def _told(self, at: str, known: _Known, said: GitStatus) -> Repository:
        """Return git's data other than files; queried again only if it can have changed."""
        before = known.repository
        if before is not None and known.told_of == said.beside_files and not self._asks_refs:
            return before
        git = known.git
        refs = git.said("for-each-ref", "--format=%(objectname) %(refname)").decode()
        own = [line for line in refs.splitlines() if " refs/remotes/" not in line]
        git_dir = Path(os.fsdecode(git.said("rev-parse", "--absolute-git-dir")).removesuffix("\n"))
        begun = {what for name, what in _UNDER_WAY.items() if (git_dir / name).exists()}
        known.told_of = said.beside_files
        with RepositoryObjects(git) as objects:
            staged = (one for one in said.staged if self._can_be_said(one[0]))
            index = as_lines(self._staged(objects, *one) for one in staged)
        known.repository = Repository(
            at,
            said.commit,
            said.branch,
            "".join(f"{line}\n" for line in own),
            index,
            tuple(sorted(begun)),
        )
        return known.repository

    def _staged(
        self, objects: RepositoryObjects, path: str, mode: str, blob: str, stage: int
    ) -> list[object]:
        named, size = "", 0
        if blob and mode != _GITLINK and not is_key(path):
            with contextlib.suppress(ContentMissing):
                content = objects.blob(blob)
                if self._scrubbed(content) == content and self._takes(len(content)):
                    named, size = self._put(content), len(content)
        return [as_text(path), mode, blob, stage, named, size]

    # --- one file ------------------------------------------------------------------------

    def _look(self, at: str, path: str, known: _Known, in_base: tuple[str, ...]) -> None:
        """Add the entry at a path, unless it equals the base's: this mode, this blob."""
        whole = _joined(at, path)
        if not self._can_be_said(whole):
            return
        mode, blob = in_base if known.base is not None and in_base[0] != NOTHING else ("", "")
        if blob:
            self._in_base[whole] = _of_git(whole, mode, blob)
        entry, named = self._found(whole, len(known.commit) or len(blob_id(b"")))
        self._differs.pop(whole, None)
        if entry is None and blob:
            self._differs[whole] = TreeEntry(whole, "", "gone")
        elif entry is not None and (named, entry.mode) != (blob, mode):
            self._differs[whole] = entry

    def _committed(self, path: str, mode: str, blob: str) -> TreeEntry:
        """Return a later commit's entry at a path; a file that was read before has not changed."""
        held = self._held.get(path)
        is_same = held is not None and (held.entry.mode, held.blob) == (mode, blob)
        return held.entry if held is not None and is_same else _of_git(path, mode, blob)

    def _found(self, path: str, length: int) -> tuple[TreeEntry | None, str]:
        """Return the file at a path, and the id, of that length, that git gives its content."""
        full = self._top / path
        try:
            found = full.lstat()
        except (FileNotFoundError, NotADirectoryError):
            return None, ""
        if stat.S_ISDIR(found.st_mode) or not self._is_real(path):
            return None, ""  # what is in a folder is listed for itself
        seen = (found.st_mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)
        held = self._held.get(path)
        if held is None or held.seen != seen or not held.is_settled:
            is_settled = time.time_ns() > max(found.st_mtime_ns, found.st_ctime_ns) + _RACY_NS
            held = _Held(seen, is_settled, *self._read(path, found, length))
            self._held[path] = held
        return held.entry, held.blob

    def _read(self, path: str, found: os.stat_result, length: int) -> tuple[TreeEntry, str]:
        mode = "100755" if found.st_mode & stat.S_IXUSR else "100644"
        if why := why_out(path, found):
            return TreeEntry(path, mode, "out", why, found.st_size), ""
        try:
            if stat.S_ISLNK(found.st_mode):
                target = os.readlink(self._top / path)  # noqa: PTH115 - its text as it is
                text = os.fsencode(target)
                return TreeEntry(path, "120000", "link", target, len(text)), blob_id(text, length)
            content = _content(self._top / path)
        except OSError:
            return TreeEntry(path, mode, "out", "unreadable", found.st_size), ""
        if content is None:
            return TreeEntry(path, mode, "out", "changing", found.st_size), ""
        if not self._takes(len(content)):
            return TreeEntry(path, mode, "out", "total", len(content)), ""
        kept = self._scrubbed(content)
        kind: Kind = "own" if kept == content else "cut"
        return TreeEntry(path, mode, kind, self._put(kept), len(kept)), blob_id(content, length)

    def _can_be_said(self, path: str) -> bool:
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

    def _is_real(self, path: str) -> bool:
        """Return whether no parent folder of a path is a link, which could lead outside."""
        above = os.fspath(self._top / path.rpartition("/")[0])
        return os.path.realpath(above) == above.rstrip("/")


def _joined(at: str, path: str) -> str:
    return f"{at}/{path}" if at else path


def _line(git: Git, *arguments: str) -> str:
    return git.said(*arguments).decode().strip()


def _of_git(path: str, mode: str, blob: str) -> TreeEntry:
    """Return a commit's entry at a path."""
    if mode == NOTHING:
        return TreeEntry(path, "", "gone")
    return TreeEntry(path, mode, "commit" if mode == _GITLINK else "git", blob)


def _size(path: Path) -> int | None:
    try:
        return path.lstat().st_size
    except OSError:
        return None


def _content(path: Path) -> bytes | None:
    """Return a consistent content of a file; `None` if it changes during every read."""
    for _ in range(_READS):
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
        with os.fdopen(os.open(path, flags), "rb") as file:
            before = os.fstat(file.fileno())
            content = file.read()
            after = os.fstat(file.fileno())
        if (before.st_mtime_ns, before.st_size) == (after.st_mtime_ns, len(content)):
            return content
    return None


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
