"""Lists entries, the last ones, or those still to come: `refold show --events`.

Of a long log, only the end is read for the last entries. Rules: CONTRACT.md §14.10.
"""

import functools
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, Final

from refold.cli.arguments.logs import (
    OpenedLog,
    edited_in,
    first_entry,
    guarantee_of,
    print_guarantee,
)
from refold.cli.output import output
from refold.cli.output.entries import heading, kind_width, origin_of, print_entry
from refold.engine.encoding.canonical import loads
from refold.engine.log.damage import ChainEnd, judge, seq_of
from refold.engine.log.line import LINE_MAX, TRAILER, stored_hash, trailer
from refold.engine.log.reader import Entry, entry_of, open_log, read_entries, scan

_POLL_SECONDS: Final = 0.2
_STEP: Final = 64 * 1024
_END_MAX: Final = 64 * 1024 * 1024
"""Bytes of a log's end that are read for its last entries; for more, it is read from its first."""


def show_entries(log: OpenedLog, count: int | None, *, follow: bool) -> None:
    """Print the entries of a log, or the last `count`; with `follow`, also new ones to the end."""
    end = [] if count is None else _read_from_end(log.path, count)
    entries: Iterable[Entry] = end or read_entries(log.path, torn_ok=True)
    if count is not None or follow:  # read to its end at once: a writer may cut a torn tail off
        entries = deque(entries, maxlen=None if count is None else min(count, sys.maxsize))
    tell, last = _tell_entries(log, entries, verified=not end)
    if end:
        line = output.command("verify", log.given)
        output.hint(f"entries before {end[0].seq} were not verified; to verify them: {line}")
    if follow and last is not None and last.kind != "run.finished":
        _follow(log.path, last, tell)
    elif not end:
        _print_torn(log)


def _read_from_end(path: Path, count: int) -> list[Entry]:
    """Return the last entries, each verified against the one before it and no further back.

    None if a whole read shows more: for a short log, and one with a torn or damaged end.
    """
    with open_log(path) as file:
        start = end = file.seek(0, os.SEEK_END)
        block = b""
        while start and end - start < _END_MAX and block.count(b"\n") <= count + 1:
            size = min(start, max(_STEP, len(block)))
            start = file.seek(start - size)
            block = file.read(size) + block
    lines = BytesIO(block).readlines()[-count - 1 :]
    if not start or len(lines) <= count or len(lines) > block.count(b"\n"):
        return []
    before, *last = lines
    seq, offset = seq_of(last[0]), end - sum(map(len, last))
    found = []
    for at, line in enumerate(last):
        previous = stored_hash(before)
        is_next = previous and line.endswith(trailer(previous, line[:-TRAILER]))
        if seq is None or seq_of(line) != seq + at or not is_next:
            return []
        found.append(entry_of(line, str(path), seq + at, offset))
        before, offset = line, offset + len(line)
    return found


def _tell_entries(
    log: OpenedLog, entries: Iterable[Entry], *, verified: bool
) -> tuple[Callable[[Entry], None], Entry | None]:
    """Print entries, in lines or as one document; return what prints one more, and the last.

    `verified`: whether all entries before them were, too; a document records it if not.
    """
    guarantee: dict[str, Any] = {**guarantee_of(log.path)}
    width = kind_width(log.path)
    origin_us = origin_of(first_entry(log.path).meta)
    edited = edited_in(log.path)
    tell = functools.partial(print_entry, origin_us=origin_us, width=width, edited=edited)
    if output.is_json():
        rows = [loads(entry.line) for entry in entries]
        guarantee |= {} if verified else {"verified": False}
        output.document({"log": output.shown_path(log.given), "entries": rows, **guarantee})
        return tell, None
    print_guarantee(guarantee)
    heading(width)
    last = None
    for last in entries:
        tell(last)
    return tell, last


def _print_torn(log: OpenedLog) -> None:
    """Report on standard error the bytes after the last entry of a log."""
    if torn := scan(log.path).torn:
        place = f"{log.shown(torn.path)}:{torn.line} (byte {torn.byte})"
        output.hint(
            f"{place}: {torn.what}, {torn.found}: a crash cut it off, or it is still being written"
        )


def _follow(path: Path, last: Entry, tell: Callable[[Entry], None]) -> None:
    """Print entries as they are written, each verified; a log does not signal its growth."""
    end, head = last.offset + len(last.line), last.hash.encode()
    place = ChainEnd(str(path), last.seq + 1, end, head)
    with open_log(path) as file:
        while output.is_read():
            line = _whole_line(file, place)
            if line:
                entry = _verified(file, line, place)
                tell(entry)
                if entry.kind == "run.finished":
                    return
                end, head = place.offset + len(line), entry.hash.encode()
                place = ChainEnd(str(path), place.seq + 1, end, head)
            elif os.fstat(file.fileno()).st_nlink == 0:
                return  # removed: nobody writes it any more
            else:
                time.sleep(_POLL_SECONDS)


def _whole_line(file: BinaryIO, place: ChainEnd) -> bytes:
    """Return the line at `place`; empty while it is not whole, or was taken off as a torn tail.

    Raises:
        LogDamaged: the log ends before it, although it had entries.
    """
    size = os.fstat(file.fileno()).st_size
    if size < place.offset:
        found = f"{size} bytes: it was truncated in the meantime"
        raise place.damage("log cut short", f"{place.offset} bytes", found).as_error()
    file.seek(place.offset)
    line = file.readline(LINE_MAX + 1)
    return line if line.endswith(b"\n") or len(line) > LINE_MAX else b""


def _verified(file: BinaryIO, line: bytes, place: ChainEnd) -> Entry:
    is_next = line.startswith(b'{"seq":%d,' % place.seq)
    if not is_next or not line.endswith(trailer(place.previous, line[:-TRAILER])):
        raise judge(file, place).as_error()
    return entry_of(line, place.path, place.seq, place.offset)
