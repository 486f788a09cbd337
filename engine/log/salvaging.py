"""Copies the valid part of a damaged log into a new one that records this (CONTRACT.md §4.5).

The longest prefix with a valid chain, valid entries and existing large strings is copied byte for
byte, so its hashes still match any noted ones. A last entry of the kind `x-refold.salvaged` has the
source, the copied amount and the damage after it. Logs of children that the prefix names are copied
with it, unless they belong to a different start or have a different head. The damaged log is only
read.

`engine.log.recovery` defines torn tails and their removal by a resume.
"""

import contextlib
import os
import shutil
from collections.abc import Iterator
from functools import reduce
from pathlib import Path
from typing import Final

import attrs

from refold.engine.errors import EventMalformed, LogDamaged, LogExists, LogUnsupported, UsageError
from refold.engine.events.events import (
    SALVAGED,
    ChildFinished,
    ChildStarted,
    Extension,
    Recorded,
    RunFinished,
    RunStarted,
)
from refold.engine.events.outcome import ChildRef
from refold.engine.log.beside import add_pack, broken_packs, named_blobs, packs_of
from refold.engine.log.blobs import BlobStore
from refold.engine.log.damage import ChainEnd, Damage
from refold.engine.log.descriptors import NEW_FILE, sync
from refold.engine.log.line import NO_HASH, parts_of
from refold.engine.log.names import blobs_of, check_place, check_root, child_path, files_of
from refold.engine.log.reader import Entry, open_log, read_entries
from refold.engine.log.recovery import sync_path
from refold.engine.log.writer import LogWriter

_CHUNK: Final = 1024 * 1024
_CHILDREN_MAX: Final = 500
"""The maximum number of children in the note, damaged ones first: it must fit in a line."""


@attrs.define
class _Start:
    """A child as described in its parent's entries."""

    number: int
    hash: str
    """Of the `child.started` entry."""
    anchor: ChildRef | None = None
    """The child's head when it was joined; `None` if it was not."""


@attrs.frozen
class Prefix:
    """How far a log verifies."""

    path: Path
    size: int
    """Of the whole file, in bytes."""
    wrong: Damage | None
    """Why they are not more; `None` where nothing follows."""
    entries: int = 0
    head: str = ""
    """Hash of the last of them; empty for none."""
    offset: int = 0
    """Their end, in bytes."""
    is_sealed: bool = False
    """Whether the last of them is `run.finished`."""
    parent: str = ""
    """Hash of the start that the first entry answers; empty for none."""
    starts: tuple[_Start, ...] = ()
    """The children that they name."""


@attrs.frozen
class Salvaged:
    """The kept and the lost parts of a salvage."""

    log: Path
    """The new log."""
    source: Prefix
    """How far the damaged log verifies: so many of its entries are kept."""
    children: tuple[Prefix, ...]
    """The same of each child's log that the kept entries name; one without entries is not kept."""
    blobs: int
    """Large strings kept."""
    contents: int
    """Packs with contents of files kept (CONTRACT.md §16.16)."""
    head: str
    """Of the new log, its note included."""


def prefix_of(path: str | os.PathLike[str]) -> Prefix:
    """Return how far the log at `path` verifies.

    Raises:
        LogMissing: it does not exist, or cannot be read.
        LogUnsupported: it was written by a newer version.
    """
    log = Path(path)
    entries, head, offset, line, is_sealed, parent = 0, "", 0, 0, False, ""
    starts: dict[str, _Start] = {}
    wrong: Damage | None = None
    try:
        for entry in read_entries(log, resolve=True):
            line = entry.offset
            _refuse_misshapen(entry, log)
            event = entry.event
            _take_note(starts, entry, event)
            if isinstance(event, RunStarted):
                parent = str((event.parent or {}).get("hash", ""))
            is_sealed = isinstance(event, RunFinished)
            entries, head = entry.seq + 1, entry.hash
            offset = entry.offset + len(entry.line)
    except LogDamaged as error:
        wrong = Damage(*error.args)
    except EventMalformed as error:
        where = f"{error.kind} at {error.pointer or '(the data itself)'}: {error.expected}"
        wrong = Damage(str(log), entries + 1, line, where, error.found, "schema")
    except LogUnsupported as error:
        if error.path:  # of the format; an unknown kind has none
            raise
        wrong = Damage(str(log), entries + 1, line, error.expected, error.found, "unknown kind")
    named = tuple(starts.values())
    return Prefix(log, log.stat().st_size, wrong, entries, head, offset, is_sealed, parent, named)


def _refuse_misshapen(entry: Entry, log: Path) -> None:
    """Raise LogDamaged if the bytes around an entry's data differ from the writer's form."""
    if parts_of([entry.line]) is None:
        place = ChainEnd(str(log), entry.seq, entry.offset, NO_HASH)
        expected = "the members of an entry, in their order"
        raise place.damage("no entry", expected, "others").as_error()


def _take_note(starts: dict[str, _Start], entry: Entry, event: Recorded) -> None:
    """Keep an entry's data about a child, by the call key of its start."""
    match event:
        case ChildStarted():
            starts[entry.call or ""] = _Start(event.number, entry.hash)
        case ChildFinished() if entry.call in starts:
            starts[entry.call].anchor = event.outcome.child
        case _:
            pass


def salvage(path: str | os.PathLike[str], out: str | os.PathLike[str]) -> Salvaged:
    """Copy the valid parts of the log at `path`, and of the logs below it, to the new log `out`.

    The new log is intact and, without its end, not complete: it may be resumed.  If only bytes
    after `run.finished` are lost, it is the whole record, without a note.

    Raises:
        LogDamaged: not even the first entry verifies; nothing was written.
        LogExists: a log exists at `out`, or at a path of its children.
        LogMissing: the log at `path` does not exist.
        LogNameRefused: `out` cannot be a root's log, or no file can be made there.
        LogUnsupported: the log was written by a newer version.
        OSError: the copy could not be written; it was removed.
        UsageError: nothing is wrong with the logs.
    """
    source, new = prefix_of(path), Path(out)
    check_root(new)
    check_place(new)
    children = list(_below(source))
    if source.wrong is None and all(child.wrong is None for _, child in children):
        raise UsageError(f"{source.path}: each line verifies, so there is nothing to salvage")
    if source.entries == 0 and source.wrong is not None:
        raise source.wrong.as_error()
    copies = [(reduce(child_path, at, new), child) for at, child in children if child.entries]
    for target, _ in [(new, source), *copies]:
        if target.exists() or target.is_symlink():
            raise LogExists(str(target))
    new.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = tuple(child for _, child in children)
    with _nothing_left_behind(new, [target for target, _ in copies]):
        blobs = _copy_blobs([source, *(child for _, child in copies)], new)
        contents = _copy_contents(source.path, new)
        for target, child in copies:
            _copy(child, target)
        _copy(source, new)  # last: where it is, all else is
        sync_path(new.absolute().parent)
        head = source.head if source.is_sealed else _noted(new, source, found)
    return Salvaged(new, source, found, blobs, contents, head)


@contextlib.contextmanager
def _nothing_left_behind(new: Path, children: list[Path]) -> Iterator[None]:
    """Remove an unfinished copy, because half a log would not be recognisable as one.

    Raises:
        OSError: a file could not be removed; names it.
    """
    beside = [each for each in (blobs_of(new), files_of(new)) if not each.exists()]
    try:
        yield
    except BaseException as error:
        if not isinstance(error, FileExistsError):  # then it is somebody else's
            for made in (new, *children):
                made.unlink(missing_ok=True)
            for folder in beside:
                shutil.rmtree(folder, ignore_errors=True)
        if isinstance(error, OSError) and error.filename is None:
            error.filename = str(new)
        raise


def _below(top: Prefix) -> Iterator[tuple[tuple[int, ...], Prefix]]:
    """Yield the logs that the prefixes name and that are there, with their numbers from the top."""
    waiting: list[tuple[tuple[int, ...], Prefix]] = [((), top)]
    for numbers, above in waiting:
        for start in above.starts:
            place = child_path(above.path, start.number)
            if place.is_file() and not place.is_symlink():
                found = ((*numbers, start.number), _child(place, start))
                waiting.append(found)
                yield found


def _child(path: Path, start: _Start) -> Prefix:
    """Return how far a child's log verifies; not at all if its start does not match (§5.4)."""
    try:
        found = prefix_of(path)
    except LogUnsupported as error:
        return _none_of(path, "newer format", error.expected, error.found)
    if not found.entries:
        return found
    if found.parent != start.hash:
        return _none_of(path, "another child: parent", start.hash, found.parent or "none")
    anchor = start.anchor
    if anchor and found.entries >= anchor.events and found.head != anchor.head:
        expected = f"{anchor.events} entries and the head {anchor.head[:12]}"
        return _none_of(path, "another end", expected, f"{found.entries} and {found.head[:12]}")
    return found


def _none_of(path: Path, what: str, expected: str, found: str) -> Prefix:
    wrong = Damage(str(path), 1, 0, expected, found, what)
    return Prefix(path, path.stat().st_size, wrong)


def _copy_blobs(logs: list[Prefix], new: Path) -> int:
    """Keep the large strings that the kept entries name; they were there a moment ago."""
    store, kept = BlobStore(blobs_of(new)), set()
    for log in logs:
        inside = BlobStore(blobs_of(log.path))
        for line, _, name, size in named_blobs(log.path):
            if line <= log.entries and name not in kept:
                store.put(inside.get(name, size).encode())
                kept.add(name)
    return len(kept)


def _copy_contents(log: Path, new: Path) -> int:
    """Keep the packs with contents of files that are whole."""
    broken = {*broken_packs(log)}
    return len([add_pack(files_of(new), pack) for pack in packs_of(log) if pack not in broken])


def _copy(source: Prefix, target: Path) -> None:
    left = source.offset
    with (
        open_log(source.path) as file,
        open(os.open(target, NEW_FILE, 0o600), "wb") as copy,  # noqa: PTH123 - a descriptor
    ):
        while left and (chunk := file.read(min(left, _CHUNK))):
            copy.write(chunk)
            left -= len(chunk)
        copy.flush()
        sync(copy.fileno())


def _noted(new: Path, source: Prefix, children: tuple[Prefix, ...]) -> str:
    """Append the note on the new log, and return its head."""
    note = {
        "source": _name(source.path),
        "entries": source.entries,
        "head": source.head,
        "lost_bytes": source.size - source.offset,
        "damage": _plain(source.wrong),
        "children": [
            {"source": _name(child.path), "entries": child.entries, "damage": _plain(child.wrong)}
            for child in sorted(children, key=lambda child: child.wrong is None)[:_CHILDREN_MAX]
        ],
    }
    with LogWriter.resume(new).writer as log:
        log.append(Extension(SALVAGED, note))
        return log.head


def _name(path: Path) -> str:
    """Return a file's name for a log: bytes that are not text are escaped."""
    return os.fsencode(path.name).decode(errors="backslashreplace")


def _plain(wrong: Damage | None) -> dict[str, object] | None:
    if wrong is None:
        return None
    told = {name: value for name, value in wrong.as_json().items() if name != "path"}
    return told | {name: f"{told[name]:.500}" for name in ("expected", "found")}
