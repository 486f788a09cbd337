"""Today's folder: which one it is, and how its files differ from a record.

It is only read.  Rules: CONTRACT.md §16.20.
"""

import contextlib
import functools
import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

import attrs

from refold.engine.errors import ContentMissing, FolderRefused, GitFailed
from refold.engine.workspace.contents import Contents
from refold.engine.workspace.entries import FolderStarted, FolderState
from refold.engine.workspace.git import (
    CONTENT_MAX,
    Git,
    RepositoryObjects,
    blob_id,
    work_tree_around,
)
from refold.engine.workspace.inside import FOLDER, DiskFile, held_at
from refold.engine.workspace.left_out import OF_AIDER, LogFiles, is_volatile
from refold.engine.workspace.paths import as_text, is_git
from refold.engine.workspace.scanning import Scanner
from refold.engine.workspace.tree import FileTree, TreeEntry, is_below
from refold.proxy.copies.whose import Decision, Files, PathStates, is_own
from refold.proxy.recorded_here import is_recorded_here
from refold.replay.observed.folder import contents_of

_COMMITS: Final = 1000
"""Of the history of a record, those that are looked for in today's repository."""
_SAMPLE: Final = 400
"""Files of a record that are looked for in today's folder, at most."""
_WORD: Final = re.compile(r"[^\s;&|()'\"=@<>$`]+")
_FILES: Final = ("git", "cut", "out")
_CACHES: Final = ("__pycache__", "*/__pycache__", "*_cache", ".coverage")
"""Patterns of caches, if git ignores them."""
_PROGRAMS: Final = frozenset(
    (".py", ".pth", ".so", ".js", ".mjs", ".cjs", ".ts", ".tsx", ".mts", ".sh", ".rb", ".php",
     ".pl", ".jar", ".exe", ".dll")
)  # fmt: skip
_OF_SYSTEM: Final = (
    "/proc", "/sys", "/dev", "/run", "/etc", "/usr", "/bin", "/sbin", "/lib", "/lib64",
)  # fmt: skip


def is_ordinary(path: str) -> bool:
    """Return whether a folder of a log is one of work: none of the system, HOME or above it."""
    plain, home = os.path.normpath(path), os.path.realpath(os.environ.get("HOME", "/"))
    above = f"{plain.rstrip('/')}/"
    return plain == path and not any(
        f"{each}/".startswith(above) or (each != home and above.startswith(f"{each}/"))
        for each in (home, *_OF_SYSTEM)
    )


@attrs.frozen
class RecordedFolder:
    """The folder of a record, with what reads its contents."""

    log: Path
    head: str
    """Of the log."""
    state: FolderState
    contents: Contents
    whole: FileTree
    """All files at the start."""
    gits: Mapping[str, Git]
    """Repositories with its objects, by path."""

    @property
    def started(self) -> FolderStarted:
        """Its start."""
        assert self.state.started is not None
        return self.state.started

    @functools.cached_property
    def place(self) -> Path | None:
        """The recorded folder, if the run was recorded here, or this process runs in the folder.

        Any log can name a folder of the user's, which is no reason to open it.
        """
        place, here = Path(self.started.path), Path.cwd()
        is_in = any(here.is_relative_to(each) for each in (place, os.path.realpath(place)))
        # One stands in HOME and in / wherever one works.
        is_known = (is_in and is_ordinary(str(place))) or is_recorded_here(self.head)
        return place if is_known and place.is_dir() else None

    @functools.cached_property
    def committed(self) -> Mapping[str, TreeEntry]:
        """The files of the recorded commits, by path, as far as they are here."""
        found = dict[str, TreeEntry]()
        for one in self.started.repositories:
            git = self.gits.get(one.path)
            if git is not None and one.commit:
                with contextlib.suppress(ContentMissing), RepositoryObjects(git) as objects:
                    found |= {each.path: each for each in objects.files(one.commit, one.path)}
        return found

    def entries(self, path: str) -> set[TreeEntry | None]:
        """Return all that the record knows that a path held."""
        start = self.whole.by_path.get(path)
        in_commit = {self.committed[path]} if path in self.committed else set()
        return {start, *self.states.get(path, ()), *in_commit}

    @functools.cached_property
    def states(self) -> Mapping[str, set[TreeEntry | None]]:
        """What paths held that the run changed, or that the run before it left changed."""
        found = {path: {*entries} for path, entries in self.state.states.items()}
        for one in FileTree.of_text(self.state.before).differs:
            found.setdefault(one.path, set()).add(None if one.kind == "gone" else one)
        return found


def todays_folder(recorded: RecordedFolder) -> Path | None:
    """Return the user's folder of a record; `None` if this machine does not have one.

    It is the current one, if that is the recorded folder, or a clone, a work tree or a copy of it:
    it shares commits, or holds most of the recorded files. Else it is the recorded one, if the run
    was recorded on this machine.
    """
    started, home = recorded.started, Path(os.path.realpath(os.environ.get("HOME", "/")))
    place, here, below = Path(started.path), Path.cwd(), Path(started.below).parts
    whole = here.parents[len(below) - 1] if below and here.parts[-len(below) :] == below else here
    for folder in (here, *here.parents):
        if folder in (place, Path(os.path.realpath(place)), home, *home.parents):
            break
        is_top = folder in (here, whole) or (folder / ".git").exists()
        if is_top and is_ordinary(str(folder)) and _is_of(folder, recorded):
            return folder
    return recorded.place


def _is_of(folder: Path, recorded: RecordedFolder) -> bool:
    return _shares_commits(folder, recorded) or _holds_most(folder, recorded)


def _shares_commits(folder: Path, recorded: RecordedFolder) -> bool:
    """Return whether an outermost repository of the record has commits that one here has."""
    tops = [
        one
        for one in recorded.started.repositories
        if not any(
            one.path != other.path and is_below(one.path, other.path)
            for other in recorded.started.repositories
        )
    ]
    for one in tops:
        if not (folder / one.path / ".git").exists():
            continue
        ids = [one.commit, *(line.partition(" ")[0] for line in one.refs.splitlines())]
        with contextlib.suppress(GitFailed, KeyError, OSError):
            git = recorded.gits[one.path]
            known = git.output("rev-list", f"--max-count={_COMMITS}", one.commit).decode()
            ids += known.split()
        given = "".join(f"{each}\n" for each in ids if each).encode()
        with contextlib.suppress(GitFailed, OSError):
            said = Git(folder / one.path).output("cat-file", "--batch-check", given=given).decode()
            if any(line.split(" ")[1:2] == ["commit"] for line in said.splitlines()):
                return True
    return False


def _holds_most(folder: Path, recorded: RecordedFolder) -> bool:
    """Return whether more than half of the recorded files are here, as they were at some time."""
    files = [each for each in recorded.whole.differs if each.kind == "git"]
    step = max(1, len(files) // _SAMPLE)
    sample = list(islice(files, 0, None, step))
    found = 0
    for each in sample:
        if held := held_at(folder, each.path):
            entries = {each, *recorded.states.get(each.path, ())}
            found += any(map(held.is_as, entries))
    return found * 2 > len(sample)


@attrs.frozen
class Edits:
    """What becomes of the files of today's folder that differ from the start of a record."""

    today: Path | None = None
    decision: Decision = attrs.field(factory=Decision)
    held: Mapping[str, DiskFile | None] = attrs.field(factory=dict)
    """The used files, by path; `None` for a removed one."""
    problem: str = ""
    """Why today's folder was not compared; empty if it was."""

    @property
    def unused(self) -> tuple[str, ...]:
        """The edits that the copy does not have."""
        return self.decision.paths("unused")

    @property
    def used(self) -> tuple[str, ...]:
        """The edits that it has."""
        return tuple(self.held)

    def line(self, recorded: str) -> str:
        """Name today's folder if it differs from the recorded one."""
        is_same = self.today is None or str(self.today) == recorded
        return "" if is_same else f"files: {self.today}, recorded in {recorded}"

    def notes(self, recorded: str) -> list[str]:
        """Return lines for a report; `recorded` is the path of the recorded folder."""
        if self.today is None:
            return [f"{recorded} is not on this machine, so all files are as recorded"]
        if self.problem:
            return [f"{self.today} was not compared with the recorded folder: {self.problem}"]
        return self.decision.notes(self.today)

    def tree(self, whole: FileTree) -> FileTree:
        """Return the files of the start with the used ones in their place."""
        files = dict(whole.by_path)
        for path, held in self.held.items():
            files.pop(path, None)
            if held is not None:
                named = blob_id(held.content)
                files[path] = TreeEntry(path, held.mode, "git", named, len(held.content))
        return FileTree.of((), files.values())


def edits_of(
    recorded: RecordedFolder, today: Path | None, files: Files, command: Sequence[str]
) -> Edits:
    """Compare today's folder with a record, and decide whose files a copy gets.

    `command` is what will run: files that its words name are the agent's own.
    """
    if today is None:
        return Edits()
    if not is_ordinary(str(today)):
        return Edits(today, problem="it is not a folder of work")
    try:
        paths = _states(recorded, today, _named(recorded.started, today, command))
    except (GitFailed, FolderRefused, ContentMissing, OSError, ValueError) as error:
        return Edits(today, problem=str(error) or type(error).__name__)
    places = (one.path for one in recorded.started.repositories if one.path)
    decision = Decision.of(paths, files, {*recorded.whole.by_path, *places})
    return Edits(today, decision, {path: held_at(today, path) for path in decision.paths("used")})


def _named(started: FolderStarted, today: Path, command: Sequence[str]) -> set[str]:
    """Return the paths that words of a command name, below the folder."""
    found = set[str]()
    for word in (part for each in command for part in _WORD.findall(each)):
        for top in (started.path, os.fspath(today)):
            path = os.path.relpath(word, top) if word.startswith("/") else word
            found |= {os.path.normpath(path), os.path.normpath(Path(started.below, path))}
    return found


def _scanned(recorded: RecordedFolder, today: Path) -> tuple[dict[str, TreeEntry], list[str]]:
    """Return all files of today's folder by path, and the paths of its repositories.

    The log's files are left out; a clone may have them as well.
    """
    started, here = recorded.started, today / recorded.started.below
    logs = [recorded.log, *([today / started.log] if started.log else [])]
    held = [LogFiles(log, today, here, holds_others=True) for log in logs]
    with Scanner(today, held[-1]) as scanner:
        scanner.scan()
        files = {
            path: each
            for path, each in scanner.whole().items()
            if not any(log_files.hold(path) for log_files in held)
        }
        return files, [one.path for one in scanner.state.repositories]


def _states(recorded: RecordedFolder, today: Path, words: Collection[str]) -> dict[str, PathStates]:
    """Return the states of each path that differs from the start of the record."""
    now, repositories = _scanned(recorded, today)
    start, changed = recorded.whole.by_path, recorded.states
    places = [one.path for one in recorded.started.repositories]
    missing = [path for path in places if path and not (today / path / ".git").exists()]
    out = [each.path for each in start.values() if (each.kind, each.mode) == ("out", FOLDER)]
    written = {each for entries in changed.values() for each in entries}
    tracked = functools.cache(lambda: _tracked(today, repositories))
    found = {}
    for path in start.keys() | now.keys() | _own_below(today, start, now):
        one, other = start.get(path), now.get(path)
        if (_key(one) == _key(other) and one is not None) or _is_passed(path, one, other, words):
            continue
        is_bulky = other is not None and (other.size or 0) > CONTENT_MAX
        is_bulky |= one is None and other is not None and other.mode == FOLDER
        held, entries = None if is_bulky else held_at(today, path), recorded.entries(path)
        lacks = not all(each is None or each.is_restorable for each in entries)
        is_lost = any(is_below(path, place) for place in missing)
        is_written = held is not None and bool(held.content) and any(map(held.is_as, written))
        found[path] = PathStates(
            now="bulky" if is_bulky else "" if held is None else f"{held.mode} {held.digest}",
            known={_state(each, held) for each in entries},
            is_committed=path in recorded.committed and not is_lost,
            in_git=any(is_below(path, place) for place in places),
            is_changed=path in changed,
            is_written=one is None and is_written,
            is_tracked=one is None and path in tracked(),
            is_own=is_own(path, words),
            is_left_out=lacks or any(is_below(path, folder) for folder in out),
            is_bulky=is_bulky,
        )
    return found


def _state(entry: TreeEntry | None, held: DiskFile | None) -> str:
    """Return the state of an entry; equal entries and files have equal states."""
    if entry is None or entry.kind in ("gone", "folder", "commit"):
        return ""
    is_same = held is not None and held.is_as(entry)
    return f"{held.mode} {held.digest}" if held and is_same else f"{entry.mode} {entry.value}"


def _own_below(
    today: Path, start: Mapping[str, TreeEntry], now: Mapping[str, TreeEntry]
) -> set[str]:
    """Return an agent's own files in new folders that git ignores."""
    folders = [path for path, each in now.items() if each.value == "ignored" and path not in start]
    return {
        os.fspath(Path(above, name).relative_to(today))
        for path in folders
        if is_own(f"{path}/any")
        for above, _, names in islice(os.walk(today / path), _SAMPLE)
        for name in names
    }


def _key(entry: TreeEntry | None) -> tuple[str, str, str] | None:
    return None if entry is None else (entry.mode, entry.kind, entry.value)


def _is_passed(
    path: str, one: TreeEntry | None, other: TreeEntry | None, words: Collection[str]
) -> bool:
    """Return whether a path is ignored: not a file, or a cache."""
    kinds = {each.kind for each in (one, other) if each is not None} or {"git"}
    is_ignored = one is None and other is not None and other.value == "ignored"
    more = (*OF_AIDER, *(_CACHES if is_ignored else ()))
    is_cache = is_volatile(path, more) and not is_own(path, words)
    return kinds.isdisjoint(_FILES) or is_cache or any(map(is_git, path.split("/")))


def _tracked(today: Path, repositories: Iterable[str]) -> set[str]:
    """Return the files that git tracks in today's folder."""
    return {
        f"{at}/{name}" if at else name
        for at in repositories
        for name in Git(today / at).lines("ls-files", "-z")
    }


def programs_of(log: Path, folder: FolderState) -> tuple[str, ...]:
    """Return the paths of program files of a record that differ from those where the user stands.

    They have the suffix of a program, or may be executed, or are links; by path.
    """
    started = folder.started
    if started is None:
        return ()
    here = Path.cwd()
    is_in = here.is_relative_to(started.path)
    own = Path(started.path) if is_in else work_tree_around(here) or here
    with contents_of(log, folder) as contents:
        try:
            files = contents.whole(started.tree).differs
        except ContentMissing:  # the commits are not here, so nothing can be run
            files = started.tree.differs
    found = filter(_is_program, files)
    held = ((each, held_at(own, each.path)) for each in found)
    return tuple(as_text(each.path) for each, now in held if now is None or not now.is_as(each))


def _is_program(entry: TreeEntry) -> bool:
    is_named = os.path.splitext(entry.path)[1] in _PROGRAMS  # noqa: PTH122 - a text
    return entry.is_restorable and (is_named or entry.mode in ("100755", "120000"))
