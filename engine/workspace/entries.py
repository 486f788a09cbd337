"""The data of the entries `x-refold.folder` in a log: the folder at the start, changes, the end.

Read strictly, because a log may come from anyone. Pure. Rules: CONTRACT.md §16.16.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar, Final

import attrs

from refold.engine.errors import FolderRefused
from refold.engine.events.events import FOLDER, Extension
from refold.engine.workspace import forms, paths, tree
from refold.engine.workspace.forms import NUMBER, TEXT, Form
from refold.engine.workspace.git import SETTINGS
from refold.engine.workspace.tree import ENTRY, PATH, PLACE, FileTree, TreeEntry, check_folders

_SETTING_MAX: Final = 1000
"""Characters of a value of git's configuration."""
STASHES: Final = "logs/refs/stash"
MERGED: Final = "MERGE_HEAD"
SPARSE: Final = "info/sparse-checkout"
OWN_TEXTS: Final = (
    "logs/HEAD", "ORIG_HEAD", MERGED, "MERGE_MSG", "MERGE_MODE", "CHERRY_PICK_HEAD",
    "REVERT_HEAD", "REBASE_HEAD", SPARSE,
)  # fmt: skip
"""Files of a work tree that git reads, and runs nothing of; of reflogs, the last lines."""
OPERATIONS: Final = re.compile(r"(?:rebase-merge|rebase-apply|sequencer)/[a-z0-9-]+|BISECT_[A-Z_]+")
"""Likewise, of what is in progress: the others there name programs and their options."""
COMMON_TEXTS: Final = (STASHES, "info/exclude", "shallow")
"""Likewise, of all work trees of a repository."""
TEXT_MAX: Final = 1 << 20
"""Bytes of such a file."""
_REF: Final = r"refs(?=/.)(?:(?!\.\.|//|@\{)[^\0-\x20\x7f~^:?*\[\\])+"


@attrs.frozen
class Worktree:
    """Another work tree of a repository, as its git folder has it; texts as git wrote them."""

    name: str
    """Of its folder in `worktrees`; empty for the main work tree."""
    at: str
    """The path of its `.git` file; empty for the main work tree."""
    head: str
    """The branch, `refs/heads/…`, or the commit that is checked out."""


@attrs.frozen
class Staged:
    """An entry of an index that differs from the commit."""

    path: str
    mode: str = ""
    """Empty, as all below, for a removed entry."""
    id: str = ""
    stage: int = 0
    digest: str = ""
    """Of the content beside the log, and its size; empty for one that is not kept."""
    size: int = 0


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
    """`<id> <ref>`, one per line, behind it the ref that it follows: the upstream of a branch,
    the target of a symbolic one."""
    index: tuple[Staged, ...] = ()
    """Differences of the index from the commit."""
    settings: Mapping[str, str] = attrs.field(factory=dict)
    """Those of `git.SETTINGS` that held when the command started, by their names."""
    git_file: str = ""
    """The path in `.git` if it is a file, as written there; empty if it is a folder."""
    common: str = ""
    """For a linked work tree: the path of the git folder with its branches, as written there."""
    worktrees: tuple[Worktree, ...] = ()
    """The other work trees when the command started; of a linked one, the main one as well."""
    texts: Mapping[str, str] = attrs.field(factory=dict)
    """Files in its git folder when the command started: `OWN_TEXTS`, `OPERATIONS` and
    `COMMON_TEXTS`."""
    passed: tuple[str, ...] = ()
    """Files at which git did not look then: `assume-unchanged`, or `skip-worktree`."""


@attrs.frozen
class Mode:
    """The permissions of a file or a folder that is not as this umask makes new ones."""

    path: str
    """Empty for the top."""
    mode: str
    """As git writes modes, with all its digits: `040555`, `100600`. What another's file lets the
    command's user do stands in each of the last three."""


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


@attrs.frozen
class _Entry:
    when: ClassVar[str]

    def as_event(self) -> Extension:
        """Return the entry of a log."""
        return Extension(FOLDER, {"when": self.when, **_ENTRIES[self.when].write(self)})


@attrs.frozen
class FolderStarted(_Entry):
    """The folder when the command was started."""

    when = "start"
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
    umask: str = "022"
    """Of the command."""
    modes: tuple[Mode, ...] = ()
    """By path; of more than 10,000, none."""


@attrs.frozen
class FolderChanged(_Entry):
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

    @property
    def when(self) -> str:  # type: ignore[override] # of two kinds
        """Its kind."""
        return "end" if self.is_end else "change"

    def suspects(self, change: FileChange) -> tuple[str, ...]:
        """Return the calls that can have made a change."""
        return change.calls or self.calls


@attrs.frozen
class FolderLost(_Entry):
    """From here on, the folder is not recorded."""

    when = "lost"
    why: str


FolderEntry = FolderStarted | FolderChanged | FolderLost


def _closed(is_one: Callable[[str, str], bool]) -> Form:
    """Return the form of texts by name: no name but those of a log reaches a git folder."""

    def read(found: Any) -> Any:
        pairs = forms.exactly(dict).read(found).items()
        if not all(is_one(name, TEXT.read(value)) for name, value in pairs):
            raise ValueError
        return found

    return Form(read, dict)


def _is_setting(name: str, value: str) -> bool:
    return name in SETTINGS and value.isprintable() and len(value) <= _SETTING_MAX


def _is_text(name: str, text: str) -> bool:
    is_known = name in (*OWN_TEXTS, *COMMON_TEXTS) or OPERATIONS.fullmatch(name)
    return bool(is_known) and len(text.encode()) <= TEXT_MAX


def _path_of_git(text: Any) -> str:
    """Read a path that git wrote into a file, which may lead anywhere."""
    path = paths.of_text(text)
    if "\0" in path or len(os.fsencode(path)) > paths.PATH_MAX:
        raise ValueError
    return path


def _absolute(text: Any) -> str:
    return paths.of_text(forms.matching("(?s)/.*").read(text))


def _change(line: Any) -> Any:
    path, *ends, added, removed, calls = line
    told = (one if one is None else ENTRY.read([path, *one]) for one in ends)
    found = _CHANGE.read([path, *told, added, removed, calls])
    if any(one is not None and one.kind == "gone" for one in (found.before, found.after)):
        raise FolderRefused(paths.as_text(found.path), "null for a missing file", "gone")
    return found


def _change_as_json(change: FileChange) -> list[Any]:
    path, *ends, added, removed, calls = _CHANGE.write(change)
    return [path, *(one and ENTRY.write(one)[1:] for one in ends), added, removed, calls]


_LED: Final = Form(_path_of_git, paths.as_text)
_ID: Final = forms.matching(tree.ID)
_MAYBE_ID: Final = forms.matching(f"(?:{tree.ID})?")
_NAME: Final = Form(lambda name: PLACE.read(forms.matching("[^/]*").read(name)), paths.as_text)
_TIME: Final = forms.matching(r"[0-9]{1,12} [+-][0-9]{4}")
WORKTREE: Final = forms.row(Worktree, _NAME, _LED, forms.matching(f"(?:{tree.ID}|{_REF})?"))
_STAGED: Final = forms.row(
    Staged, PATH, TEXT, _MAYBE_ID, NUMBER, forms.matching(f"(?:{tree.DIGEST})?"), NUMBER,
    check=lambda one: one.stage in range(4),
)  # fmt: skip
MADE: Final = forms.row(
    MadeObject, _ID, forms.matching(tree.DIGEST), forms.listed(_ID), forms.listed(_TIME)
)
_CHANGE: Final = forms.row(
    FileChange, PATH, Form(), Form(), forms.optional(NUMBER), forms.optional(NUMBER),
    forms.listed(TEXT), check=lambda one: one.before != one.after,
)  # fmt: skip
REPOSITORY: Final = forms.members(
    Repository, path=PLACE, commit=_MAYBE_ID, branch=forms.matching(f"(?:{_REF})?"),
    refs=forms.matching(f"(?:(?:{tree.ID}) {_REF}(?: {_REF})?\n)*"), index=forms.lines(_STAGED),
    settings=_closed(_is_setting), git_file=_LED, common=_LED,
    worktrees=forms.listed(WORKTREE), texts=_closed(_is_text),
    passed=forms.listed(PATH),
)  # fmt: skip
_CHANGED: Final = forms.members(
    FolderChanged, changes=forms.lines(Form(_change, _change_as_json)), calls=forms.listed(TEXT),
    made=forms.lines(MADE), altered=forms.listed(PATH),
    repositories=forms.optional(forms.listed(REPOSITORY)),
)  # fmt: skip
_MODE: Final = forms.row(Mode, PLACE, forms.matching(r"(?:040|100)[0-7]{3}"))
_STARTED: Final = forms.members(
    FolderStarted, path=Form(_absolute, paths.as_text), below=PLACE, log=PLACE, by_git=NUMBER,
    tree=Form(FileTree.of_text, lambda tree: tree.text), repositories=forms.listed(REPOSITORY),
    umask=forms.matching("0[0-7]{2}"), modes=forms.listed(_MODE),
)  # fmt: skip
_ENTRIES: Final = {
    "start": _STARTED, "change": _CHANGED, "end": _CHANGED,
    "lost": forms.members(FolderLost, why=TEXT),
}  # fmt: skip
"""Forms of entries, by `when`."""


def read_entry(data: Mapping[str, Any]) -> FolderEntry:
    """Parse an entry of the kind `x-refold.folder`; `data` with its large texts.

    Raises:
        FolderRefused: Refold does not write such an entry, or it has a forbidden path.
    """
    form = _ENTRIES.get(str(data.get("when")))
    if form is None:
        raise FolderRefused("when", "start, change, end or lost", f"{dict(data)!r:.80}")
    found: FolderEntry = form.read(data)
    match found:
        case FolderStarted():
            check_folders(found.tree.by_path, [one.path for one in found.repositories])
        case FolderChanged():
            return attrs.evolve(found, is_end=data["when"] == "end")
    return found


def contents_named(entry: FolderEntry) -> Iterator[TreeEntry]:
    """Yield the contents beside the log that an entry names first."""
    files: Iterable[TreeEntry | None] = ()
    staged: Iterable[Staged] = ()
    if isinstance(entry, FolderStarted):
        files = entry.tree.differs
    elif isinstance(entry, FolderChanged):
        files = (change.after for change in entry.changes)
    if not isinstance(entry, FolderLost):
        staged = (one for each in entry.repositories or () for one in each.index)
    yield from (each for each in files if each is not None and each.digest)
    for one in staged:
        if one.digest:
            yield TreeEntry(one.path, one.mode, "git", one.id, one.size, one.digest)


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
        self.before = ""
        """What the run that this one continues left in the user's folder, as lines of a tree."""
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
    def by_git(self) -> int:
        """How many files are as in the commits."""
        count = self.started.by_git if self.started is not None else 0
        bases = (self._in_base[path] for path in self._differs)
        return count - sum(one is not None and one.kind == "git" for one in bases)

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
            if change.after == self._in_base.setdefault(change.path, change.before):
                self._differs.pop(change.path, None)
            else:
                self._differs[change.path] = change.after or TreeEntry(change.path, "", "gone")
