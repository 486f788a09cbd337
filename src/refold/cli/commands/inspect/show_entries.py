"""Lists entries, the last ones, or those still to come: `refold show --events`.

Of a long log, only the end is read for the last entries. Rules: CONTRACT.md §14.10.
"""

import functools
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

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
from refold.engine.log.damage import ChainEnd, seq_of
from refold.engine.log.reader import Entry, last_line, read_entries, scan
from refold.replay.index.kept_folds import entries_at

_POLL_SECONDS: Final = 0.2
_LEAST: Final = 256 * 1024
"""Bytes of a log from which on only its end is read for its last entries."""


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
    size = path.stat().st_size if path.is_file() else 0
    last = seq_of(last_line(path)) if size >= _LEAST else None
    if last is None or 2 * count > last:
        return []
    found = [*entries_at(path, range(last + 1 - count, last + 1), size)]
    ends = [each.offset + len(each.line) for each in found[-1:]]
    return found if len(found) == count and ends == [size] else []


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
    """Print entries as they are written, each verified; a log does not signal its growth.

    Raises:
        LogDamaged: one does not verify, or the log ends before one that it had.
    """
    file = path.stat().st_ino
    while last.kind != "run.finished" and output.is_read():
        found = path.stat() if path.exists() else None
        if found is None or found.st_ino != file:
            return  # removed: nobody writes it any more
        start = ChainEnd(str(path), last.seq + 1, last.offset + len(last.line), last.hash.encode())
        if found.st_size < start.offset:
            size = f"{found.st_size} bytes: it was truncated in the meantime"
            raise start.damage("log cut short", f"{start.offset} bytes", size).as_error()
        new: Entry | None = None
        for new in read_entries(path, torn_ok=True, start=start):
            tell(new)
        if new is None:
            time.sleep(_POLL_SECONDS)
        else:
            last = new
