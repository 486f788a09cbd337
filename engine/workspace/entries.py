"""The data of the entries `x-refold.folder` in a log: the folder at the start, changes, the end.

Read strictly, because a log may come from anyone. Pure. Rules: CONTRACT.md §16.16.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Self

import attrs

from refold.engine.errors import FolderRefused
from refold.engine.events.events import FOLDER, Extension
from refold.engine.workspace import paths
from refold.engine.workspace.git import SETTINGS
from refold.engine.workspace.tree import (
    FileTree,
    TreeEntry,
    as_lines,
    check_folders,
    json_lines,
)

_HEX: Final = re.compile(r"[0-9a-f]{64}")
_ID: Final = re.compile(r"(?:[0-9a-f]{40}(?:[0-9a-f]{24})?)?")
_TIME: Final = re.compile(r"[0-9]{1,12} [+-][0-9]{4}")
_STAGES: Final = range(4)
_SETTING_MAX: Final = 1000
"""Characters of a value of git's configuration."""
_REF: Final = re.compile(r"(?:refs/[^\0-\x20\x7f~^:?*\[\\]+)?")


def _are_settings(found: Mapping[Any, Any]) -> bool:
    """Return whether all are of the closed list: no other name of a log reaches a configuration."""
    return all(
        name in SETTINGS
        and isinstance(value, str)
        and value.isprintable()
        and len(value) <= _SETTING_MAX
        for name, value in found.items()
    )


@attrs.frozen
class Worktree:
    """Another work tree of a repository, as its git folder has it; texts as git wrote them."""

    name: str
    """Of its folder in `worktrees`; empty for the main work tree."""
    at: str
    """The path of its `.git` file; empty for the main work tree."""
    head: str
    """The branch, `refs/heads/…`, or the commit that is checked out."""

    def as_json(self) -> list[str]:
        """Return the item of `worktrees`."""
        return [paths.as_text(self.name), paths.as_text(self.at), self.head]

    @classmethod
    def of_json(cls, data: Any) -> Self:
        """Parse an item.

        Raises:
            FolderRefused: it does not have this form.
        """
        match data:
            case [str(name), str(at), str(head)] if (
                "/" not in name
                and head.isprintable()
                and (_ID.fullmatch(head) or _REF.fullmatch(head))
            ):
                name = paths.of_text(name)
                return cls(name and paths.checked(name), _path_of_git(at), head)
            case _:
                raise FolderRefused("worktrees", "[name, path, head]", f"{data!r:.80}")


def _path_of_git(text: str) -> str:
    """Return a path that git wrote into a file, which may lead anywhere.

    Raises:
        FolderRefused: it is not one.
    """
    path = paths.of_text(text)
    if "\0" in path or len(os.fsencode(path)) > paths.PATH_MAX:
        raise FolderRefused(text[:80], "one path", "another text")
    return path


@attrs.frozen
class Repository:
    """The git data of one repository in the folder, other than its files."""

    path: str
    """Its path in the folder; empty for the top."""
    commit: str = ""
    """The checked-out commit; empty before the first commit."""
    branch: str = ""
    """`refs/heads/…`; empty where none is checked out."""
    refs: str = ""
    """`<id> <ref>`, one per line: branches, tags, the stash; without remote ones."""
    index: str = ""
    """Differences of the index from the commit: lines of [path, mode, id, stage, digest, size], the
    last two of the content beside the log; all but path and stage are empty for a removed entry,
    the last two for a content that is not kept."""
    under_way: tuple[str, ...] = ()
    """Operations in progress: `rebase`, `merge`, `cherry-pick`, `revert`, `bisect`, `am`."""
    settings: Mapping[str, str] = attrs.field(factory=dict)
    """Those of `git.SETTINGS` that held when the command started, by their names."""
    git_file: str = ""
    """The path in `.git` if it is a file, as written there; empty if it is a folder."""
    common: str = ""
    """For a linked work tree: the path of the git folder with its branches, as written there."""
    worktrees: tuple[Worktree, ...] = ()
    """The other work trees when the command started; of a linked one, the main one as well."""

    def as_json(self) -> dict[str, Any]:
        """Return the member of `repositories`."""
        return {
            "path": paths.as_text(self.path),
            "commit": self.commit,
            "branch": self.branch,
            "refs": self.refs,
            "index": self.index,
            "under_way": list(self.under_way),
            "settings": dict(self.settings),
            "git_file": paths.as_text(self.git_file),
            "common": paths.as_text(self.common),
            "worktrees": [one.as_json() for one in self.worktrees],
        }

    @classmethod
    def of_json(cls, data: Any) -> Self:
        """Parse a member.

        Raises:
            FolderRefused: it does not have this form.
        """
        match data:
            case {
                "path": str(path),
                "commit": str(commit),
                "branch": str(branch),
                "refs": str(refs),
                "index": str(index),
                "under_way": [*names],
                "settings": dict(settings),
                "git_file": str(git_file),
                "common": str(common),
                "worktrees": [*others],
            } if _are_settings(settings) and all(isinstance(name, str) for name in names):
                path = paths.of_text(path)
                told = (commit, branch, refs, index, tuple(names), settings)
                led = (_path_of_git(git_file), _path_of_git(common))
                trees = tuple(map(Worktree.of_json, others))
                found = cls(path and paths.checked(path), *told, *led, trees)
            case _:
                raise FolderRefused(
                    "repositories", "git's answers for each repository", f"{data!r:.80}"
                )
        named = [line.partition(" ")[::2] for line in refs.splitlines()]
        if not all(_is_ref(ref, each) for each, ref in [(commit, branch), *named]):
            raise FolderRefused("repositories", "ids and refs", f"{data!r:.200}")
        list(found.staged())
        return found

    def staged(self) -> Iterable[tuple[str, str, str, int, str, int]]:
        """Yield what differs in the index from the commit: path, mode, id, stage, digest, size.

        Raises:
            FolderRefused: a line is not one of these.
        """
        for line in json_lines(self.index):
            match line:
                case [str(path), str(mode), str(named), int(stage), str(content), int(size)] if (
                    _ID.fullmatch(named)
                    and stage in _STAGES
                    and (not content or _HEX.fullmatch(content))
                ):
                    path = paths.checked(paths.of_text(path))
                    yield path, mode, named, stage, content, size
                case _:
                    raise FolderRefused(
                        "index", "[path, mode, id, stage, digest, size]", f"{line!r:.80}"
                    )


def _is_ref(ref: str, named: str) -> bool:
    plain = _REF.fullmatch(ref) and ".." not in ref and "//" not in ref and "@{" not in ref
    return bool(plain) and _ID.fullmatch(named) is not None


@attrs.frozen
class MadeObject:
    """A commit or an annotated tag that is new in a repository of the folder."""

    id: str
    digest: str
    """Of its kind, message, and the files that its first parent has not; without the ids below."""
    named: tuple[str, ...] = ()
    """Its parents, or what it tags; the commits of submodules; new objects that its texts name."""
    times: tuple[str, ...] = ()
    """When it was written and committed, or tagged: seconds since 1970, and the zone."""
    bound_digest: str = attrs.field(default="", eq=False)
    """The digest with recorded values; in no log."""

    @property
    def digests(self) -> tuple[str, ...]:
        """Both digests."""
        return tuple(filter(None, (self.digest, self.bound_digest)))

    def as_json(self) -> list[Any]:
        """Return the line of a list."""
        return [self.id, self.digest, list(self.named), list(self.times)]

    @classmethod
    def of_json(cls, line: Any) -> Self:
        """Parse a line.

        Raises:
            FolderRefused: it does not have this form.
        """
        match line:
            case [str(named), str(digest), [*others], [*times]] if (
                all(isinstance(each, str) for each in (*others, *times))
                and all(each and _ID.fullmatch(each) for each in (named, *others))
                and all(map(_TIME.fullmatch, times))
                and _HEX.fullmatch(digest)
            ):
                return cls(named, digest, tuple(others), tuple(times))
            case _:
                raise FolderRefused("made", "[id, digest, ids, times]", f"{line!r:.80}")


@attrs.frozen
class FileChange:
    """What became of one path."""

    path: str
    before: TreeEntry | None
    """`None` where there was nothing."""
    after: TreeEntry | None
    """`None` where there is nothing now."""
    added: int | None = None
    """Lines; `None` if unknown: for a content that is not text, or is too long."""
    removed: int | None = None
    calls: tuple[str, ...] = ()
    """Call keys of the possible causes, if fewer than all of the entry's."""

    def as_json(self) -> list[Any]:
        """Return the line of a list of changes."""
        before, after = (one.as_json()[1:] if one else None for one in (self.before, self.after))
        counts = [self.added, self.removed]
        return [paths.as_text(self.path), before, after, *counts, list(self.calls)]

    @classmethod
    def of_json(cls, line: Any) -> Self:
        """Return the change of a line.

        Raises:
            FolderRefused: it is not one.
        """
        match line:
            case [
                str(path), list() | None as before, list() | None as after,
                int() | None as added, int() | None as removed, [*calls],
            ] if all(isinstance(call, str) for call in calls) and before != after:  # fmt: skip
                start, end = (
                    one if one is None else TreeEntry.of_json([path, *one])
                    for one in (before, after)
                )
            case _:
                expected = "[path, before, after, added, removed, calls]"
                raise FolderRefused("changes", expected, f"{line!r:.80}")
        found = cls(paths.checked(paths.of_text(path)), start, end, added, removed, tuple(calls))
        if any(one is not None and one.kind == "gone" for one in (start, end)):
            raise FolderRefused(path, "null for a missing file", "gone")
        return found


@attrs.frozen
class FolderStarted:
    """The folder when the command was started."""

    path: str
    """Absolute, as `os.fsdecode` gives it."""
    below: str
    """The path below it at which the command was started; empty for the top."""
    tree: FileTree
    repositories: tuple[Repository, ...] = ()
    """By path."""
    by_git: int = 0
    """Files that the commits have unchanged."""
    log: str = ""
    """The path of the log below the folder; empty if it is elsewhere."""

    def as_event(self) -> Extension:
        """Return the entry of a log."""
        data = {
            "when": "start",
            "path": paths.as_text(self.path),
            "below": paths.as_text(self.below),
            "log": paths.as_text(self.log),
            "tree": self.tree.text,
            "by_git": self.by_git,
            "repositories": [one.as_json() for one in self.repositories],
        }
        return Extension(FOLDER, data)


@attrs.frozen
class FolderChanged:
    """Files changed since the entry before; at the end also where none did."""

    changes: tuple[FileChange, ...]
    calls: tuple[str, ...] = ()
    """Call keys of those that were in progress: what changed was changed by one of them, or by
    what runs in the background; empty where none was."""
    repositories: tuple[Repository, ...] | None = None
    """The current git data; `None` if unchanged."""
    is_end: bool = False
    made: tuple[MadeObject, ...] = ()
    """Commits and tags that are new since the entry before, in the order of time."""
    altered: tuple[str, ...] = ()
    """At the end, paths that git ignores and that have changed since the start."""

    def as_event(self) -> Extension:
        """Return the entry of a log."""
        data: dict[str, Any] = {
            "when": "end" if self.is_end else "change",
            "changes": as_lines(one.as_json() for one in self.changes),
            "calls": list(self.calls),
            "made": as_lines(one.as_json() for one in self.made),
            "altered": [paths.as_text(path) for path in self.altered],
        }
        if self.repositories is not None:
            data["repositories"] = [one.as_json() for one in self.repositories]
        return Extension(FOLDER, data)

    def suspects(self, change: FileChange) -> tuple[str, ...]:
        """Return the calls that can have made a change."""
        return change.calls or self.calls


@attrs.frozen
class FolderLost:
    """From here on, the folder is not recorded."""

    why: str

    def as_event(self) -> Extension:
        """Return the entry of a log."""
        return Extension(FOLDER, {"when": "lost", "why": self.why})


FolderEntry = FolderStarted | FolderChanged | FolderLost


def read_entry(data: Mapping[str, Any]) -> FolderEntry:
    """Parse an entry of the kind `x-refold.folder`; `data` with its large texts.

    Raises:
        FolderRefused: Refold does not write such an entry, or it has a forbidden path.
    """
    match data:
        case {
            "when": "start", "path": str(path), "below": str(below), "log": str(log),
            "tree": str(text), "by_git": int(by_git),
            "repositories": [*said],
        }:  # fmt: skip
            tree = FileTree.of_text(text)
            path, below, log = map(paths.of_text, (path, below, log))
            if not path.startswith("/"):
                raise FolderRefused("path", "an absolute path", paths.as_text(path)[:80])
            repositories = tuple(map(Repository.of_json, said))
            check_folders(tree.by_path, [one.path for one in repositories])
            below, log = (each and paths.checked(each) for each in (below, log))
            return FolderStarted(path, below, tree, repositories, by_git, log)
        case {
            "when": "change" | "end" as when, "changes": str(text), "calls": [*calls],
            "made": str(lines), "altered": [*altered],
        } if all(isinstance(each, str) for each in (*calls, *altered)):  # fmt: skip
            told = data.get("repositories")
            changes = tuple(map(FileChange.of_json, json_lines(text)))
            repositories_now = None if told is None else tuple(map(Repository.of_json, told))
            made = tuple(map(MadeObject.of_json, json_lines(lines)))
            ends = when == "end"
            left = tuple(paths.checked(paths.of_text(each)) for each in altered)
            return FolderChanged(changes, tuple(calls), repositories_now, ends, made, left)
        case {"when": "lost", "why": str(why)}:
            return FolderLost(why)
        case _:
            raise FolderRefused("when", "start, change, end or lost", f"{dict(data)!r:.80}")


def contents_named(entry: FolderEntry) -> Iterator[TreeEntry]:
    """Yield the contents beside the log that an entry names first."""
    repositories: Iterable[Repository] = ()
    if isinstance(entry, FolderStarted):
        files: Iterable[TreeEntry | None] = entry.tree.differs
        repositories = entry.repositories
    elif isinstance(entry, FolderChanged):
        files = (change.after for change in entry.changes)
        repositories = entry.repositories or ()
    else:
        files = ()
    for each in files:
        if each is not None and each.digest:
            yield each
    for repository in repositories:
        for path, mode, named, _, digest, size in repository.staged():
            if digest:
                yield TreeEntry(path, mode, "git", named, size, digest)


_UNKNOWN: Final = TreeEntry("", "", "gone")


class FolderState:
    """The folder at an entry of a log, folded from the entries up to there."""

    def __init__(self) -> None:
        self.started: FolderStarted | None = None
        self.lost = ""
        """Why it is no longer recorded; empty while it is."""
        self.is_ended = False
        """Whether the log has its state at the end."""
        self.repositories: tuple[Repository, ...] = ()
        self.states: dict[str, set[TreeEntry | None]] = {}
        """What paths held that changed at some time, before and after each change."""
        self.places: dict[str, None] = {}
        """Paths at which there was a repository at some time."""
        self.made: list[MadeObject] = []
        """Commits and tags that were made, in order."""
        self.altered: set[str] = set()
        """Paths that git ignores, and that changed."""
        self._differs: dict[str, TreeEntry] = {}
        self._in_base: dict[str, TreeEntry | None] = {}
        """What the bases have at the paths that have changed."""

    @property
    def tree(self) -> FileTree:
        """The tree that is there now; empty before the start."""
        bases = self.started.tree.bases if self.started is not None else ()
        return FileTree.of(bases, self._differs.values())

    @property
    def left(self) -> str:
        """What is now at each path that has changed, as lines of a tree; `gone` for nothing."""
        now = ((path, self._differs.get(path, self._in_base[path])) for path in self.states)
        return FileTree.of((), (one or TreeEntry(path, "", "gone") for path, one in now)).text

    def apply(self, entry: FolderEntry) -> None:
        """Take the next entry.

        Raises:
            FolderRefused: it does not follow from those before.
        """
        match entry:
            case FolderStarted():
                if self.started is not None:
                    raise FolderRefused("when", "one start", "another")
                self.started = entry
                self._differs = dict(entry.tree.by_path)
                self._in_base = dict.fromkeys(self._differs, _UNKNOWN)
                self.repositories = entry.repositories
            case FolderLost(why=why):
                self.lost = why
            case FolderChanged():
                if self.started is None or self.lost:
                    raise FolderRefused("when", "a start before changes", "none")
                self._change(entry.changes)
                self.made += entry.made
                self.altered |= {*entry.altered}
                self.is_ended = entry.is_end
                if entry.repositories is not None:
                    self.repositories = entry.repositories
                    check_folders(self._differs, [one.path for one in entry.repositories])
        self.places |= dict.fromkeys(one.path for one in self.repositories)

    def _change(self, changes: tuple[FileChange, ...]) -> None:
        if len({change.path for change in changes}) < len(changes):
            raise FolderRefused("changes", "each path once", "the same path twice")
        for change in changes:
            self.states.setdefault(change.path, set()).update((change.before, change.after))
            gone = TreeEntry(change.path, "", "gone")
            if change.after == self._in_base.setdefault(change.path, change.before):
                self._differs.pop(change.path, None)
            else:
                self._differs[change.path] = change.after or gone
