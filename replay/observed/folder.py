"""The folder of a watched command at any entry of its log.  Rules: CONTRACT.md §16.16."""

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import attrs

from refold.engine.errors import EntryMissing, RefoldError, UsageError
from refold.engine.events.events import FOLDER
from refold.engine.log.reader import read_entries
from refold.engine.observed.binding import Bindings
from refold.engine.workspace import packing
from refold.engine.workspace.contents import Contents
from refold.engine.workspace.entries import (
    FileChange,
    FolderChanged,
    FolderEntry,
    FolderState,
    read_entry,
)
from refold.engine.workspace.inside import DiskFile, scratch_folder
from refold.engine.workspace.left_out import is_volatile
from refold.engine.workspace.paths import as_text
from refold.engine.workspace.tree import FilePair, TreeEntry, changed


def folder_entries(log: Path) -> Iterator[tuple[int, FolderEntry | None]]:
    """Yield the seq of each entry of a log, and its folder data, if any.

    Raises:
        LogDamaged: the log does not verify; a torn tail is ignored.
        FolderRefused: an entry has invalid folder data.
    """
    for entry in read_entries(log, resolve=True, torn_ok=True):
        yield entry.seq, read_entry(entry.data) if entry.kind == FOLDER else None


def folder_at(log: Path, at: int | None = None) -> FolderState:
    """Return the folder after an entry, negative from the end; by default at the end.

    Raises:
        EntryMissing: the log has no such entry.
        UsageError: the log has no folder there.
    """
    said = list(folder_entries(log))
    last = len(said) - 1 if at is None else at if at >= 0 else len(said) + at
    if not 0 <= last < len(said):
        raise EntryMissing(str(log), at if at is not None else last, len(said))
    state = FolderState()
    for _, entry in said[: last + 1]:
        if entry is not None:
            state.apply(entry)
    if state.started is None:
        raise UsageError(f"{log}: no folder was recorded before or at entry {last}")
    return state


def folder_diffs(
    log: Path, *, has_diffs: bool = True
) -> Iterator[tuple[int, tuple[str, ...], FileChange, list[str]]]:
    """Yield each change: its entry's seq, the calls that can have made it, the change, its diff.

    Raises:
        LogDamaged: the log does not verify; the entries before the damage are yielded.
        FolderRefused: an entry has invalid folder data.
    """
    found, damage = list[tuple[int, tuple[str, ...], FileChange]](), None
    folder = FolderState()
    try:
        for seq, entry in folder_entries(log):
            if entry is not None:
                folder.apply(entry)
            if isinstance(entry, FolderChanged):
                found += [(seq, entry.suspects(change), change) for change in entry.changes]
    except RefoldError as error:
        damage = error
    diffs = [list[str]()] * len(found)
    if has_diffs and found:
        with contents_of(log, folder) as contents:
            diffs = contents.diffs([(one.path, one.before, one.after) for _, _, one in found])
    for each, diff in zip(found, diffs, strict=True):
        yield *each, diff
    if damage is not None:
        raise damage


@contextlib.contextmanager
def contents_of(log: Path, folder: FolderState) -> Iterator[Contents]:
    """Give what reads contents: from the log, today's repository, packs of git beside the log."""
    assert folder.started is not None
    with scratch_folder() as made:
        contents, _ = packing.contents_of(log, folder.started, made)
        with contents:
            yield contents


Reader = Callable[[TreeEntry | None], DiskFile | None]
"""Returns what an entry holds."""


@attrs.frozen(kw_only=True)
class FileDifference:
    """A file that two runs left otherwise behind."""

    path: str
    in_a: bool
    in_b: bool
    diff: tuple[str, ...] = ()
    """A unified diff from a to b, or a description if there is no text."""


def differing_files(
    changes: Iterable[FilePair], bindings: Bindings, was: Reader, now: Reader
) -> list[FilePair]:
    """Return the files that two runs left otherwise behind, of all that may differ.

    `bindings` decide which texts are equal, and which files of one run alone are the same one.
    """
    ends = {path: (old, new) for path, old, new in changes}

    def is_same(path: str, other: str) -> bool:
        old, new = was(ends[path][0]), now(ends[other][1])
        if old is None or new is None or old.mode != new.mode or old.content == new.content:
            return old == new
        texts = (one.content.decode(errors="surrogateescape") for one in (old, new))
        return bindings.is_same_file(path, *texts)

    only_was, only_now = ([p for p, pair in ends.items() if pair[side] is None] for side in (1, 0))
    for path, other in bindings.file_pairs(only_was, only_now, is_same).items():
        ends[path] = ends[path][0], ends.pop(other)[1]
    return [(path, *pair) for path, pair in ends.items() if not is_same(path, path)]


def folder_differences(
    a: Path, b: Path, bindings: Bindings, ignored: Iterable[str]
) -> tuple[FileDifference, ...]:
    """Return how the final folders of two runs differ; nothing, unless both have one.

    `bindings` decide which texts are equal, and `ignored` are patterns of paths.

    Raises:
        ContentMissing: they began at different commits, and one is no longer in the repository.
        FolderRefused: an entry has invalid folder data.
    """
    try:
        one, other = folder_at(a), folder_at(b)
    except UsageError:
        return ()
    with contents_of(a, one) as contents, contents_of(b, other) as contents_b:
        whole_a = functools.cache(lambda: contents.whole(one.tree).by_path)
        whole_b = functools.cache(lambda: contents_b.whole(other.tree).by_path)
        before, after = one.tree.by_path, other.tree.by_path
        if one.tree.bases != other.tree.bases:
            before, after = whole_a(), whole_b()
        contents.borrow(contents_b)
        changes = (
            (path, _there(old or whole_a().get(path)), _there(new or whole_b().get(path)))
            for path, old, new in changed(before, after)
            if not is_volatile(path, ignored)
        )
        found = differing_files(changes, bindings, contents.held, contents.held)
        return tuple(
            FileDifference(
                path=as_text(path), in_a=old is not None, in_b=new is not None, diff=tuple(lines)
            )
            for (path, old, new), lines in zip(found, contents.diffs(found), strict=True)
        )


def _there(entry: TreeEntry | None) -> TreeEntry | None:
    return None if entry is None or entry.kind == "gone" else entry
