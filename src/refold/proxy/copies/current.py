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
    blob_id,
    work_tree_around,
)
from refold.engine.workspace.inside import FOLDER, DiskFile, held_at
from refold.engine.workspace.left_out import OF_AIDER, LogFiles, home_folder, is_volatile
from refold.engine.workspace.paths import as_text, is_git, names_of
from refold.engine.workspace.scanning import Scanner
from refold.engine.workspace.tree import FileTree, TreeEntry, is_below
from refold.proxy.copies.whose import Fate, Files, PathStates, State, fates_of, is_own
from refold.proxy.recorded_here import is_recorded_here
from refold.replay.observed.folder import contents_of

_KINDS: Final = ("cat-file", "--batch-check=%(objecttype)")
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
    plain, home = os.path.normpath(path), home_folder()
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
        """The files of the recorded commits, by path."""
        return self.contents.based(self.started.tree)

    def entries(self, path: str) -> set[TreeEntry | None]:
        """Return all that the record knows that a path held."""
        start = self.whole.by_path.get(path)
        return {start, self.committed.get(path, start), *self.states.get(path, ())}

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
    started, home = recorded.started, Path(home_folder())
    place, here, below = Path(started.path), Path.cwd(), Path(started.below).parts
    whole = here.parents[len(below) - 1] if below and here.parts[-len(below) :] == below else here
    for folder in (here, *here.parents):
        if folder in (place, Path(os.path.realpath(place)), home, *home.parents):
            break
        is_top = folder in (here, whole) or (folder / ".git").exists()
        is_one = is_top and is_ordinary(str(folder))
        if is_one and (_shares_commits(folder, recorded) or _holds_most(folder, recorded)):
            return folder
    return recorded.place


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
        ids = [one.commit, *(line.partition(" ")[0] for line in one.refs.splitlines())]
        if (git := recorded.gits.get(one.path)) is not None:
            ids += git.line("rev-list", f"--max-count={_COMMITS}", one.commit).split()
        given = "".join(f"{each}\n" for each in ids if each).encode()
        with contextlib.suppress(GitFailed):  # none is here
            if b"commit" in Git(folder / one.path).output(*_KINDS, given=given).splitlines():
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
    fates: Mapping[str, Fate] = attrs.field(factory=dict)
    held: Mapping[str, DiskFile | None] = attrs.field(factory=dict)
    """The used files, by path; `None` for a removed one."""
    problem: str = ""
    """Why today's folder was not compared; empty if it was."""

    @property
    def unused(self) -> tuple[str, ...]:
        """The edits that the copy does not have."""
        return self.paths("unused")

    @property
    def used(self) -> tuple[str, ...]:
        """The edits that it has."""
        return tuple(self.held)

    def paths(self, fate: Fate) -> tuple[str, ...]:
        """Return the paths that have a fate, sorted."""
        return tuple(sorted(path for path, each in self.fates.items() if each == fate))

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
        told: list[tuple[Fate, str]] = [
            ("used", f"changed since the recording, and used from {self.today}: {{}}"),
            ("unused", "changed since the recording, but as recorded in the copy: {}"),
            ("kept", "{}: changed by the run and by you since: as recorded"),
            (
                "new",
                "new since the recording, so not in the copy: {}; for new files, use --copy today",
            ),
            ("missing", f"not in {self.today}, and not tracked by git, so as recorded: {{}}"),
        ]
        named = ((text, self.paths(fate)) for fate, text in told)
        return [text.replace("{}", names_of(paths)) for text, paths in named if paths]

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
    places = {one.path for one in recorded.started.repositories if one.path}
    start = {path for path, one in recorded.whole.by_path.items() if one.mode != FOLDER} - places
    fates = fates_of(paths, files, start | {f"{place}/.git" for place in places})
    used = {path: held_at(today, path) for path in sorted(fates) if fates[path] == "used"}
    return Edits(today, fates, used)


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
    also = [today / started.log] if started.log else []
    log_files = LogFiles(recorded.log, today, here, *also, holds_others=True)
    with Scanner(today, log_files) as scanner:
        scanner.scan()
        # A commit of a clone may have the log's files: what is tracked is not looked at.
        files = {path: one for path, one in scanner.whole().items() if not log_files.hold(path)}
        return files, [one.path for one in scanner.state.repositories]


def _states(recorded: RecordedFolder, today: Path, words: Collection[str]) -> dict[str, PathStates]:
    """Return the states of each path that differs from the start of the record."""
    now, repositories = _scanned(recorded, today)
    start, changed = recorded.whole.by_path, recorded.states
    places = [one.path for one in recorded.started.repositories]
    missing = [path for path in places if path and not (today / path / ".git").exists()]
    out = [each.path for each in start.values() if (each.kind, each.mode) == ("out", FOLDER)]
    written = {_state(each) for entries in changed.values() for each in entries if each}
    width = max((len(base.tree) for base in recorded.started.tree.bases), default=40)
    empty = blob_id(b"", width)
    tracked = functools.cache(lambda: _tracked(today, repositories))
    found = {}
    for path in start.keys() | now.keys() | _own_below(today, start, now):
        one, other = start.get(path), now.get(path)
        if (one == other and one is not None) or _is_passed(path, one, other, words):
            continue
        is_bulky = other is not None and (other.size or 0) > CONTENT_MAX
        is_bulky |= one is None and other is not None and other.mode == FOLDER
        entries, state = recorded.entries(path), _state(other)
        if is_bulky or other is None or other.kind != "git" or len(other.value) != width:
            held = None if is_bulky else held_at(today, path)
            here = None if held is None else (held.mode, blob_id(held.content, width))
            state = "bulky" if is_bulky else here
        lacks = not all(each is None or each.is_restorable for each in entries)
        is_lost = any(is_below(path, place) for place in missing)
        found[path] = PathStates(
            now=state,
            known={*map(_state, entries)},
            is_committed=path in recorded.committed and not is_lost,
            in_git=any(is_below(path, place) for place in places),
            is_changed=path in changed,
            is_written=one is None and state in written and empty not in (state or ""),
            is_tracked=one is None and path in tracked(),
            is_own=is_own(path, words),
            is_left_out=lacks or any(is_below(path, folder) for folder in out),
            is_bulky=is_bulky,
        )
    return found


def _state(entry: TreeEntry | None) -> State:
    is_file = entry is not None and entry.kind not in ("gone", "folder", "commit")
    return (entry.mode, entry.value) if entry and is_file else None


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
    listed = ((at, Git(today / at).lines("ls-files", "-z")) for at in repositories)
    return {f"{at}/{name}" if at else name for at, names in listed for name in names}


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
