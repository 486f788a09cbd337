"""Reads a log: its chain alone, or its entries.

It streams, in memory that does not grow with the log. Bytes are verified before they are parsed,
and nothing is ever written. `engine.log.damage` classifies breaks; `replay.audit.verify` checks the
consistency of the entries. Rules: CONTRACT.md §3 and §5.

This module needs only the JSON and hash libraries: the codec is imported when an event is
requested.
"""

import contextlib
import functools
import itertools
import operator
import os
import stat
from collections.abc import Callable, Iterator
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

import attrs

from refold.engine.encoding.canonical import Json, loads
from refold.engine.encoding.digest import EVENT
from refold.engine.errors import LogDamaged, LogMissing, LogUnsupported
from refold.engine.events.events import Recorded
from refold.engine.log.blobs import DOLLAR, BlobBroken, BlobStore, is_marked, resolved
from refold.engine.log.damage import TORN_TAIL, ChainEnd, Damage, format_of, judge
from refold.engine.log.descriptors import CLOEXEC, NONBLOCK, held_file, held_of, proved
from refold.engine.log.line import (
    FIRST,
    FORMAT,
    LINE_MAX,
    NO_HASH,
    TRAILER,
    data_of,
    trailer,
)
from refold.engine.log.names import blobs_of, missing_roots
from refold.engine.values import Value

_BUFFER: Final = 64 * 1024  # more only costs page faults, less costs calls
_CHUNK: Final = 32 * 1024
"""Bytes that are read ahead, and the rest of the last line in them."""
_KEPT_MAX: Final = 8 * _CHUNK
"""Bytes of a log whose lines are kept while it is held open."""
_BODY: Final = slice(None, -TRAILER)
_TRAILER: Final = slice(-TRAILER, None)
_OWN: Final = slice(-67, -3)
"""The place of the hash in a line."""
_HASHED: Final = sha256(EVENT)
_BETWEEN: Final = '"}\n,"hash":"'
"""Between the hashes of trailers that follow each other."""
_new: Final = tuple.__new__  # what a named tuple's own constructor does, at half the price
_members: Final = operator.itemgetter("kind", "data", "meta", "hash")
_SEAL: Final = b'{"seq":%d,"kind":"run.finished",'
_STATED: Final = b'"format"'
_OURS: Final = b'"format":%d,' % FORMAT


class Entry(NamedTuple):
    """One line of a log.  A tuple, because reading makes one for each line."""

    seq: int
    kind: str
    call: str | None
    cause: int | None
    data: dict[str, Any]
    """As the log holds it, blobs and wrapped objects included, unless they were resolved."""
    meta: dict[str, Any]
    hash: str
    line: bytes
    """The bytes, newline included."""
    offset: int
    """The offset of the line in the file."""

    @property
    def event(self) -> Recorded:
        """The event, built anew each time; needs `resolve=True` if the data has markers.

        Raises:
            EventMalformed: the data does not fit the kind.
            LogUnsupported: the kind is unknown.
        """
        return _structure()(self.kind, self.data)

    @property
    def data_bytes(self) -> bytes:
        """The canonical bytes of the data as logged: what digests and replay compare."""
        return data_of(self.line)


@attrs.frozen
class Scan(Value):
    """The chain of a log, without parsed lines."""

    path: str
    entries: int
    """Entries that verify, from the first on."""
    head: str
    """Hash of the last of them; empty for none."""
    offset: int
    """Their end in the file, in bytes."""
    damage: Damage | None
    torn: Damage | None
    sealed: bool
    """Whether the last entry is `run.finished`, and nothing follows."""
    ended: bool
    """Whether the last entry is `run.finished`, even with bytes after it: it is not resumable."""


@functools.cache
def _structure() -> Callable[[str, Json], Recorded]:
    from refold.engine.events.codec import structure  # noqa: PLC0415 - verifying needs no codec

    return structure


def open_log(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a plain file for reading.

    Raises:
        LogMissing: it does not exist, or cannot be opened.
    """
    held = held_file(path, functools.partial(open_plain, path, os.O_RDONLY), _BUFFER)
    return held or open(open_plain(path, os.O_RDONLY), "rb", _BUFFER)


def open_plain(path: str | os.PathLike[str], flags: int) -> int:
    """Return a descriptor of a plain file.

    Raises:
        LogMissing: it does not exist, or cannot be opened.
    """
    try:
        descriptor = os.open(path, flags | CLOEXEC | NONBLOCK)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        with contextlib.suppress(OSError, ValueError):
            if Path(path).name in missing_roots(each.name for each in Path(path).parent.iterdir()):
                why += ", but other files of its run exist"
        raise LogMissing(os.fspath(path), why) from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise LogMissing(os.fspath(path), "not a plain file")
    return descriptor


@contextlib.contextmanager
def reading(path: str | os.PathLike[str]) -> Iterator[None]:
    """Say of which file it is that reading failed: the system's error does not."""
    try:
        yield
    except OSError as error:
        raise LogMissing(os.fspath(path), error.strerror or str(error)) from None


OnLines = Callable[[list[bytes]], None]
"""Is shown all lines of a log in their order, some at a time, before they are verified."""


def scan(path: str | os.PathLike[str], on_lines: OnLines | None = None) -> Scan:
    """Verify the chain of the log at `path` from its first line on; `on_lines` gets its lines too.

    Raises:
        LogMissing: the file does not exist, or cannot be read.
        LogUnsupported: it was written by a newer version.
    """
    proof: Scan | None = proved(path)[0] if on_lines is None else None
    if proof is not None:
        return proof
    with open_log(path) as file, reading(path):
        return scan_file(file, os.fspath(path), on_lines)


def scan_file(file: BinaryIO, path: str, on_lines: OnLines | None = None) -> Scan:
    """Verify the chain of an open log."""
    chain = Chain(file, path, on_lines=on_lines)
    for _ in chain:
        pass
    return chain.scan()


class Chain:
    """The lines of an open log, verified some at a time.

    Of a file that is held open and was found sound, hashes are not checked again. They are read
    from `start` on, up to which the chain is known to hold.
    """

    def __init__(
        self,
        file: BinaryIO,
        path: str,
        *,
        verify: bool = True,
        on_lines: OnLines | None = None,
        start: ChainEnd | None = None,
    ) -> None:
        self._file = file
        self._verify = verify
        self._on_lines = on_lines
        self._held = held_of(file)
        self._before = self._held.signature() if self._held is not None else ()
        self._start = self._end = start or ChainEnd(path, 0, 0, NO_HASH)
        self._last = b""
        self._kept: list[bytes] = []
        """All lines so far, of a small log."""

    def __iter__(self) -> Iterator[tuple[int, int, list[bytes]]]:
        """Yield seq, offset and lines of each part of it, to its end or to where it breaks."""
        proof = self._held.proof if self._held is not None else None
        trusted = proof.offset if proof is not None else 0
        self._file.seek(self._start.offset)
        for batch in _batches(self._file):
            if self._on_lines is not None:
                self._on_lines(batch)
            end, after = self._end, self._file.tell()
            sound, head = _sound(batch, end, verify=self._verify and after > trusted)
            is_whole = sound == len(batch)
            lines = batch if is_whole else batch[:sound]
            if sound:
                offset = after if is_whole else end.offset + sum(map(len, lines))
                self._end = ChainEnd(end.path, end.seq + sound, offset, head)
                self._last = lines[-1]
                self._kept = self._kept + lines if offset <= _KEPT_MAX else []
                # Before the last lines are used: their reader may stop there, and ask no more.
                self._prove()
                yield end.seq, end.offset, lines
            if not is_whole:
                return

    def scan(self) -> Scan:
        """Return how far the chain holds, after its lines were read.

        Raises:
            LogUnsupported: it was written by a newer version.
        """
        end = self._end
        ended = self._last.startswith(_SEAL % (end.seq - 1))
        is_sound = end.seq > 0 and end.offset == os.fstat(self._file.fileno()).st_size
        wrong = None if is_sound else judge(self._file, end)
        torn = wrong if wrong is not None and wrong.what == TORN_TAIL else None
        damage, sealed = None if torn else wrong, ended and is_sound
        head = end.previous.decode()
        return Scan(end.path, end.seq, head, end.offset, damage, torn, sealed, ended)

    def _prove(self) -> None:
        """Keep the scan of a log that holds to its end, before its last lines are used."""
        held = self._held if self._verify and not self._start.seq else None
        if held is not None and self._end.offset == os.fstat(held.descriptor).st_size:
            held.prove(self._before, self.scan(), self._kept)


def _batches(file: BinaryIO) -> Iterator[list[bytes]]:
    """Yield the lines of `file`, some at a time; one that is too long for a log comes in pieces."""
    while chunk := file.read(_CHUNK):
        if not chunk.endswith(b"\n"):
            chunk += file.readline(LINE_MAX + 1)
        batch = BytesIO(chunk).readlines()
        if len(chunk) > LINE_MAX:
            batch = [
                line[at : at + LINE_MAX] for line in batch for at in range(0, len(line), LINE_MAX)
            ]
        yield batch


def _is_first(line: bytes, path: str) -> bool:
    """Return whether `line` is a valid first line.

    Raises:
        LogUnsupported: it is valid, but has a different format.
    """
    if not line.startswith(FIRST) or not line.endswith(trailer(NO_HASH, line[:-TRAILER])):
        return False
    if b"\\u" not in line and line.count(_STATED) == line.count(_OURS):
        return True  # most: to parse it takes 30 times as long
    version = format_of(line)
    if version not in (None, FORMAT):
        raise LogUnsupported(path, f"log format {FORMAT}", f"format {version!a:.40}")
    return True


def read_entries(
    path: str | os.PathLike[str],
    *,
    verify: bool = True,
    resolve: bool = False,
    torn_ok: bool = False,
    start: ChainEnd | None = None,
) -> Iterator[Entry]:
    """Yield the entries of the log at `path`, each after its own bytes have been verified.

    With `resolve`, blobs are read and wrapped objects unwrapped.  With `torn_ok`, a torn tail ends
    the entries like the end of the file.  Without `verify`, hashes are not checked.  Those before
    `start`, where a chain is known to hold up to, are passed over.

    Raises:
        LogDamaged: the next line does not verify; a torn tail has that word as its `what`.
        LogMissing: the file does not exist, or cannot be read.
        LogUnsupported: it was written by a newer version.
    """
    name = os.fspath(path)
    store = BlobStore(blobs_of(Path(path))) if resolve else None
    for first, offset, batch in read_lines(path, verify=verify, torn_ok=torn_ok, start=start):
        for seq, line in enumerate(batch, first):
            entry = entry_of(line, name, seq, offset)
            if store is not None and DOLLAR in line:
                entry = entry._replace(data=whole_data(entry, name, store))
            yield entry
            offset += len(line)  # noqa: PLW2901 - of the next line


def read_events(
    path: str | os.PathLike[str],
) -> Iterator[tuple[Recorded, str | None, int]]:
    """Yield event, call and seq of the entries of the log at `path`, up to a torn tail.

    For whoever reads nothing else of them: it takes two thirds of the time of `read_entries`.

    Raises:
        EventMalformed: the data does not fit the kind.
        LogError: any error of `read_entries`.
    """
    name, structure = os.fspath(path), _structure()
    store = BlobStore(blobs_of(Path(path)))
    for first, offset, batch in read_lines(path, torn_ok=True):
        for seq, line in enumerate(batch, first):
            try:
                row = loads(line)
                kind, data, meta, _ = _members(row)
                call = row.get("call")
                is_sound = (call is None or call.__class__ is str) and meta.__class__ is dict
                event = structure(kind, data) if is_sound and DOLLAR not in line else None
            except Exception:  # noqa: BLE001 - `entry_of` or `event` says what is wrong
                event = None
            if event is None:
                entry = entry_of(line, name, seq, offset)
                event = entry._replace(data=whole_data(entry, name, store)).event
            yield event, row.get("call"), seq
            offset += len(line)  # noqa: PLW2901 - of the next line


def read_lines(
    path: str | os.PathLike[str],
    *,
    verify: bool = True,
    torn_ok: bool = False,
    start: ChainEnd | None = None,
) -> Iterator[tuple[int, int, list[bytes]]]:
    """Yield seq, offset and bytes of the lines of the log at `path`, some at a time.

    Raises:
        LogError: any error of `read_entries`.
    """
    if (start is None or not start.seq) and (whole := proved(path)[1]):
        yield 0, 0, whole
        return
    with open_log(path) as file, reading(path):
        chain = Chain(file, os.fspath(path), verify=verify, start=start)
        yield from chain
        found = chain.scan()
    if wrong := found.damage or (None if torn_ok else found.torn):
        raise wrong.as_error()


def _sound(batch: list[bytes], place: ChainEnd, *, verify: bool) -> tuple[int, bytes]:
    """Return how many lines of `batch` follow from `place`, and the hash of the last of them."""
    seq, previous = place.seq, place.previous
    if head := _head(batch, seq, previous, place.path, verify=verify):
        return len(batch), head
    for at, line in enumerate(batch):
        if not (head := _head([line], seq + at, previous, place.path, verify=verify)):
            return at, previous
        previous = head
    return len(batch), previous


def _head(batch: list[bytes], seq: int, previous: bytes, path: str, *, verify: bool) -> bytes:
    """Return the hash of the last line if all of them follow; empty: look at each.

    Some lines are verified in one go and then parsed in one go, and all numbers are compared at
    once: each loop has the caches of the processor for itself, so that a scan takes half the time.
    """
    rest = batch
    if seq == 0:
        if not _is_first(batch[0], path):
            return b""
        seq, previous, rest = 1, batch[0][_OWN], batch[1:]
    own = [line[_OWN] for line in rest]
    if verify and rest:
        found = []
        for before, line in zip((previous, *own), rest, strict=False):
            hashed = _HASHED.copy()  # to join the parts first would cost more
            hashed.update(before)
            hashed.update(line[_BODY])
            found.append(hashed.hexdigest())
        ends = b"".join([line[_TRAILER] for line in rest])
        if ends != f',"hash":"{_BETWEEN.join(found)}"}}\n'.encode():
            return b""
    previous = batch[-1][_OWN]
    return previous if _are_numbered(rest, seq) else b""


def _are_numbered(batch: list[bytes], seq: int) -> bool:
    """Return whether the lines begin with their numbers, from `seq` on."""
    count = len(batch)
    numbers = b'{"seq":%d,' * count % tuple(range(seq, seq + count))
    size = len(numbers) // max(1, count)
    if size * count == len(numbers):
        return b"".join([line[:size] for line in batch]) == numbers
    return b"".join([line[: line.find(b",") + 1] for line in batch]) == numbers  # a digit more


def lines_of(path: str | os.PathLike[str]) -> Iterator[bytes]:
    """Return the raw lines of a log whose `scan` found it sealed and undamaged.

    Raises:
        LogMissing: the file does not exist, or cannot be read.
    """
    return itertools.chain.from_iterable(_batches_of(path))


def _batches_of(path: str | os.PathLike[str]) -> Iterator[list[bytes]]:
    if whole := proved(path)[1]:
        yield whole
        return
    with open_log(path) as file, reading(path):
        yield from _batches(file)


def last_line(path: str | os.PathLike[str]) -> bytes:
    """Return the last line that ends in a newline, unverified; the log is read from its end.

    Raises:
        LogDamaged: no newline is near the end, and the log does not verify up to there.
        LogMissing: the file does not exist, or cannot be read.
    """
    found = b""
    with open_log(path) as file, reading(path):
        size = os.fstat(file.fileno()).st_size
        while size > 0 and len(found) <= 2 * LINE_MAX:
            step = min(_BUFFER, size)
            size -= step
            file.seek(size)
            found = file.read(step) + found
            whole = found[: found.rfind(b"\n") + 1]
            start = whole.rfind(b"\n", 0, -1)
            if whole and (start >= 0 or size == 0):
                return whole[start + 1 :]
    found = b""
    for entry in read_entries(path, verify=False, torn_ok=True):  # a long torn tail, or a hole
        found = entry.line
    return found


def entry_of(line: bytes, path: str, seq: int, offset: int) -> Entry:
    """Return the entry of a verified line of the log at `path`.

    Raises:
        LogDamaged: it is not an entry, although its hash is valid.
    """
    try:
        row = loads(line)
        kind, data, meta, own = _members(row)
        call, cause = row.get("call"), row.get("cause")
    except (ValueError, KeyError, TypeError):
        kind = data = meta = call = None
    is_called = call is None or call.__class__ is str
    if not (is_called and kind.__class__ is str and data.__class__ is meta.__class__ is dict):
        place = ChainEnd(path, seq, offset, NO_HASH)
        expected = "an object of seq, kind, data, meta and hash"
        raise place.damage("no entry", expected, "other JSON").as_error()
    return _new(Entry, (seq, kind, call, cause, data, meta, own, line, offset))


def whole_data(entry: Entry, log: str | os.PathLike[str], store: BlobStore) -> dict[str, Any]:
    """Return the data of an entry of `log`, blobs read and wrapped objects unwrapped.

    Raises:
        LogDamaged: a blob is missing or has changed.
    """
    if not is_marked(entry.line):
        return entry.data
    try:
        whole: dict[str, Any] = resolved(entry.data, store.get)
    except BlobBroken as broken:
        place = ChainEnd(os.fspath(log), entry.seq, entry.offset, NO_HASH)
        raise place.damage(broken.what, broken.expected, broken.found).as_error() from None
    return whole


def nonsense(entry: Entry, log: str | os.PathLike[str], expected: str, found: str) -> LogDamaged:
    """Return the error for an entry of `log` with a valid hash but invalid data."""
    place = ChainEnd(os.fspath(log), entry.seq, entry.offset, NO_HASH)
    return place.damage("schema", f"{entry.kind}: {expected}", found).as_error()
