"""Damage of a log: its kind and place.

`judge` examines the first place at which a chain breaks and classifies it: a tail torn by a crash,
or a kind of damage. It runs only after a fast check has failed, so it may read twice. Rules:
CONTRACT.md §4.5 (torn tails), §5 (damage). Nothing here changes a file.
"""

import errno
import os
import re
import sys
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from typing import BinaryIO, Final

import attrs
import orjson

from refold.engine.encoding.canonical import Json
from refold.engine.errors import LogDamaged, LogUnsupported
from refold.engine.log.line import (
    FIRST,
    FORMAT,
    LINE_MAX,
    TRAILER,
    hash_of,
    header_hash,
    stored_hash,
    trailer,
)
from refold.engine.values import Value

TORN_TAIL: Final = "torn tail"

_SECTOR: Final = 512
_CHUNK: Final = 1024 * 1024  # a multiple of the sector
_SEQ: Final = re.compile(rb'\{"seq":(0|[1-9][0-9]{0,18}),')
_SHOWN: Final = 60
_NEWEST: Final = 10_000  # more is a number that no version will reach
_TWO: Final = b'"}{"seq":'


@attrs.frozen
class Damage(Value):
    """One damaged place of a log."""

    path: str
    line: int
    """1-based; the number of entries plus one where something is missing at the end."""
    byte: int
    """Offset of the line's first byte in the file."""
    expected: str
    found: str
    what: str
    """In a few words: `hash`, `line deleted`, `torn tail`, `blob missing`, …"""

    def as_error(self) -> LogDamaged:
        """Return the equivalent exception."""
        return LogDamaged(self.path, self.line, self.byte, self.expected, self.found, self.what)

    def as_json(self) -> dict[str, Json]:
        """Return it as plain data: path, line, byte, expected, found, what."""
        return attrs.asdict(self)


@attrs.frozen
class ChainEnd(Value):
    """Up to where a chain holds."""

    path: str
    seq: int
    """Of the entry that should follow."""
    offset: int
    """The expected offset of that entry."""
    previous: bytes
    """Hash of the entry before it; empty at the beginning."""

    def damage(self, what: str, expected: str, found: str) -> Damage:
        """Return the damage of the line that begins here."""
        return Damage(self.path, self.seq + 1, self.offset, expected, found, what)


def lines(file: BinaryIO) -> Iterator[bytes]:
    """Yield the lines of `file`; one that is too long comes in pieces, so memory stays bounded."""
    return iter(partial(file.readline, LINE_MAX + 1), b"")


def _lines_and_holes(file: BinaryIO) -> Iterator[bytes]:
    """Yield the lines of `file`; for a hole, which is not part of a line, only its beginning."""
    for line in lines(file):
        yield line
        if len(line) > LINE_MAX and (data := after_hole(file.fileno(), at := file.tell())) > at:
            file.seek(min(data, file.seek(0, os.SEEK_END)))


def judge(file: BinaryIO, place: ChainEnd) -> Damage:
    """Return the damage at `place`, at which the chain of `file` breaks.

    Raises:
        LogUnsupported: the first line verifies but has a newer format.
    """
    first = _line_at(file, place.offset)
    if not first:
        return place.damage(TORN_TAIL, "run.started", "an empty file")
    if place.seq == 0 and not _may_begin_a_log(first):
        return place.damage("not a log", shown(FIRST), shown(first[: len(FIRST)]))
    if seq_of(first) == place.seq and first.endswith(trailer(place.previous, first[:-TRAILER])):
        return place.damage(TORN_TAIL, "an entry", "one that was written in the meantime")
    wrong = _torn(file, place) or place.damage(*_cause(file, place, first))
    is_stable = wrong.what == TORN_TAIL or first == _line_at(file, place.offset)
    return wrong if is_stable else judge(file, place)  # a resume cuts a torn tail off


def _line_at(file: BinaryIO, offset: int) -> bytes:
    file.seek(0, os.SEEK_END)  # drops what was buffered before another process wrote
    file.seek(offset)
    return next(lines(file), b"")


def without_lines(log: str) -> LogDamaged:
    """Return the error of a log without a complete line, where a run's first line is needed."""
    return LogDamaged(log, 1, 0, "run.started", "no complete line", TORN_TAIL)


def shown(raw: bytes, most: int = _SHOWN) -> str:
    """Return a few bytes as text that is safe to print."""
    return f"{raw[:most]!r}"[1:] + ("…" if len(raw) > most else "")


def _may_begin_a_log(first: bytes) -> bool:
    begun = first.rstrip(b"\0")  # a file may have its length before its bytes
    return first.startswith(FIRST) or FIRST.startswith(begun) or not first[:_SECTOR].strip(b"\0")


# --- torn or damaged -------------------------------------------------------------------------


def _torn(file: BinaryIO, place: ChainEnd) -> Damage | None:
    """Return the report of a torn tail, if the rest is one (§4.5)."""
    end = file.seek(0, os.SEEK_END)
    newline, zeroed, at = False, False, place.offset
    while at < end:  # of holes, which are zeros, only where they end
        data = min(after_hole(file.fileno(), at), end)
        zeroed = zeroed or data - at >= 2 * _SECTOR
        file.seek(data)
        chunk = file.read(_CHUNK - data % _CHUNK)
        newline = newline or b"\n" in chunk
        zeroed = zeroed or _has_zeroed_sector(chunk, data)
        at = data + len(chunk)
    size = end - place.offset
    if not newline:
        return place.damage(TORN_TAIL, "a newline at the end", f"{size} bytes without one")
    if zeroed and not _anything_verifies(file, place.offset):
        return place.damage(TORN_TAIL, "an entry", f"{size} bytes with a zeroed sector")
    return None


def after_hole(descriptor: int, at: int) -> int:
    """Return the offset of the next bytes outside a hole; `sys.maxsize` if there are no more.

    A sparse file may have terabytes in holes. If holes cannot be detected, the result is `at`.
    """
    here = os.lseek(descriptor, 0, os.SEEK_CUR)
    try:
        return os.lseek(descriptor, at, os.SEEK_DATA)
    except AttributeError:  # of Windows, which has no such question
        return at
    except OSError as error:
        return sys.maxsize if error.errno == errno.ENXIO else at
    finally:
        os.lseek(descriptor, here, os.SEEK_SET)  # where the reader of the file believes to be


def _has_zeroed_sector(chunk: bytes, at: int) -> bool:
    if b"\0" not in chunk:
        return False
    cuts = [0, *range(_SECTOR - at % _SECTOR, len(chunk), _SECTOR), len(chunk)]
    return any(not chunk[start:end].strip(b"\0") for start, end in pairwise(cuts))


def _anything_verifies(file: BinaryIO, offset: int) -> bool:
    """Return whether some line after the first follows from the hash that the one before stores."""
    file.seek(offset)
    before: bytes | None = None
    for line in _lines_and_holes(file):
        if before and line.endswith(trailer(before, line[:-TRAILER])):
            return True
        before = stored_hash(line)
    return False


# --- which damage ----------------------------------------------------------------------------


def _cause(file: BinaryIO, place: ChainEnd, line: bytes) -> tuple[str, str, str]:
    """Return (what, expected, found) for the line at `place`."""
    if len(line) > LINE_MAX:
        return "line too long", f"at most {LINE_MAX} bytes", "more"
    if b"\0" in line:
        at = place.offset + line.index(b"\0")
        return "NUL bytes", "text", f"{line.count(0)} from byte {at} on"
    if _TWO in line:
        return "two entries on one line", "a newline between them", shown(_TWO)
    stored = stored_hash(line)
    if stored is None:
        return (
            "no entry",
            'a line that ends in ,"hash":"<64 hex>"}',
            shown(line[-TRAILER:], TRAILER),
        )
    if place.seq == 0:
        _refuse_newer(place.path, line, stored)
    return _unchained(file, place, line, stored.decode())


def _unchained(file: BinaryIO, place: ChainEnd, line: bytes, stored: str) -> tuple[str, str, str]:
    seq = seq_of(line)
    if seq is None:
        return "no entry", f'{{"seq":{place.seq},', shown(line[:24])
    if seq != place.seq:
        return _misplaced(file, place, line, seq)
    return "hash", hash_of(place.previous, line[:-TRAILER]), stored


def seq_of(line: bytes) -> int | None:
    """Return the number in a line; `None` without one."""
    match = _SEQ.match(line)
    return None if match is None else int(match[1])


def _refuse_newer(path: str, line: bytes, stored: bytes) -> None:
    """Raise LogUnsupported if the line is the first of a newer format, whose domain differs."""
    version = format_of(line)
    newer = type(version) is int and FORMAT < version < _NEWEST
    if newer and header_hash(version, line[:-TRAILER]).encode() == stored:
        raise LogUnsupported(path, f"log format {FORMAT}", f"format {version}, a newer one")


def format_of(line: bytes) -> Json:
    """Return the format version that a first line states; `None` where it states none."""
    try:
        return orjson.loads(line)["data"]["versions"].get("format")
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
        return None


def _misplaced(file: BinaryIO, place: ChainEnd, line: bytes, seq: int) -> tuple[str, str, str]:
    expected, found = f"seq {place.seq}", f"seq {seq}"
    as_it_is = line[:-TRAILER]
    as_it_was = b'{"seq":%d%b' % (place.seq, as_it_is[as_it_is.index(b",") :])
    if any(line.endswith(trailer(place.previous, body)) for body in (as_it_is, as_it_was)):
        return "seq", expected, found
    copied = _copied(file, place, line)
    if copied is not None:
        return "line duplicated", expected, f"{found}, a copy of line {copied}"
    if seq < place.seq:
        return "line out of place", expected, found
    if _comes_later(file, place):
        return "lines swapped", expected, found
    gone = f"seq {place.seq}" if seq == place.seq + 1 else f"seq {place.seq} to {seq - 1}"
    return "line deleted", gone, found


def _copied(file: BinaryIO, place: ChainEnd, line: bytes) -> int | None:
    """Return the number, from 1, of an equal line elsewhere in the file, before or after it."""
    file.seek(0)
    here = place.seq + 1
    for number, other in enumerate(_lines_and_holes(file), 1):
        if other == line and number != here:
            return number
    return None


def _comes_later(file: BinaryIO, place: ChainEnd) -> bool:
    file.seek(place.offset)
    head = b'{"seq":%d,' % place.seq
    return any(line.startswith(head) for line in _lines_and_holes(file))
