"""The folder of a watched command at any entry of its log.  Rules: CONTRACT.md §16.16."""

import contextlib
import functools
import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import attrs

from refold.engine.errors import ContentMissing, EntryMissing, UsageError
from refold.engine.events.events import FOLDER
from refold.engine.log.reader import read_entries
from refold.engine.observed.binding import Bindings
from refold.engine.workspace import packing
from refold.engine.workspace.contents import Contents
from refold.engine.workspace.diffs import unified
from refold.engine.workspace.entries import (
    FileChange,
    FolderChanged,
    FolderEntry,
    FolderState,
    read_entry,
)
from refold.engine.workspace.left_out import is_volatile
from refold.engine.workspace.paths import as_text
from refold.engine.workspace.tree import TreeEntry


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


def folder_changes(log: Path) -> Iterator[tuple[int, FolderChanged, FolderState]]:
    """Yield each entry with changes: its seq, its data, and the folder after it."""
    state = FolderState()
    for seq, entry in folder_entries(log):
        if entry is not None:
            state.apply(entry)
        if isinstance(entry, FolderChanged) and entry.changes:
            yield seq, entry, state


def folder_diffs(
    log: Path, *, has_diffs: bool = True
) -> Iterator[tuple[int, tuple[str, ...], FileChange, list[str]]]:
    """Yield each change: its entry's seq, the calls that can have made it, the change, its diff.

    Raises:
        LogDamaged: the log does not verify; the entries before the damage are yielded.
        FolderRefused: an entry has invalid folder data.
    """
    with contextlib.ExitStack() as left:
        contents: Contents | None = None
        for seq, entry, state in folder_changes(log):
            if has_diffs and contents is None:
                contents = left.enter_context(contents_of(log, state))
            for change in entry.changes:
                diff = [] if contents is None else diff_lines(change, contents)
                yield seq, entry.suspects(change), change, diff


@contextlib.contextmanager
def contents_of(log: Path, folder: FolderState) -> Iterator[Contents]:
    """Give what reads contents: from the log, today's repository, packs of git beside the log."""
    assert folder.started is not None
    with tempfile.TemporaryDirectory(prefix="refold-") as made:
        contents, _ = packing.contents_of(log, folder.started, Path(made))
        with contents:
            yield contents


def diff_lines(change: FileChange, contents: Contents) -> list[str]:
    """Return a change as a unified diff, or one line of description if there is no text."""
    held: list[bytes | None] = []
    for entry in (change.before, change.after):
        try:
            held.append(None if entry is None else contents.content(entry))
        except ContentMissing as error:
            return [f"{as_text(change.path)}: {error.why}"]
    before, after = change.before, change.after
    lines = unified(held[0], held[1], as_text(change.path))
    if before is not None and after is not None and before.mode != after.mode:
        lines = [f"{as_text(change.path)}: mode {before.mode} to {after.mode}", *lines]
    return lines


@attrs.frozen(kw_only=True)
class FileDifference:
    """A file that two runs left otherwise behind."""

    path: str
    in_a: bool
    in_b: bool
    diff: tuple[str, ...] = ()
    """A unified diff from a to b, or a description if there is no text."""


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
    with contents_of(a, one) as contents_a, contents_of(b, other) as contents_b:
        whole_a = functools.cache(lambda: contents_a.whole(one.tree))
        whole_b = functools.cache(lambda: contents_b.whole(other.tree))
        before, after = one.tree, other.tree
        if before.bases != after.bases:
            before, after = whole_a(), whole_b()
        paths = sorted(before.by_path.keys() | after.by_path.keys(), key=os.fsencode)
        found = []
        for path in paths:
            entries = before.by_path.get(path), after.by_path.get(path)
            if entries[0] == entries[1] or is_volatile(path, ignored):
                continue
            old, old_text = _held(entries[0] or whole_a().by_path.get(path), contents_a)
            new, new_text = _held(entries[1] or whole_b().by_path.get(path), contents_b)
            if old != new or not _is_same(path, old_text, new_text, bindings):
                lines = unified(old_text, new_text, as_text(path))
                ends = {"in_a": bool(old), "in_b": bool(new)}
                found.append(FileDifference(path=as_text(path), **ends, diff=tuple(lines)))
        return tuple(found)


def _is_same(path: str, old: bytes | None, new: bytes | None, bindings: Bindings) -> bool:
    if old == new or old is None or new is None:
        return old == new
    texts = (each.decode(errors="surrogateescape") for each in (old, new))
    return bindings.is_same_file(path, *texts)


def _held(entry: TreeEntry | None, contents: Contents) -> tuple[str, bytes | None]:
    """Return a file's final mode, empty if it is gone, and its content or a description."""
    if entry is None or entry.kind == "gone":
        return "", None
    try:
        return entry.mode, contents.content(entry)
    except ContentMissing as error:
        return entry.mode, error.why.encode()
