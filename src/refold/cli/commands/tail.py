"""`refold tail`: the last entries of a log, and with `--follow` those still to come."""

import functools
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, Final

import click

from refold.cli.arguments.logs import (
    OpenedLog,
    edited_in,
    first_entry,
    guarantee_of,
    json_option,
    opened_log,
    say_guarantee,
)
from refold.cli.arguments.run_names import RUN
from refold.cli.output import output
from refold.cli.output.entries import heading, kind_width, origin_of, print_entry
from refold.cli.output.exit_codes import FINE
from refold.cli.output.pages import page
from refold.engine.encoding.canonical import loads
from refold.engine.log.damage import ChainEnd, judge, seq_of
from refold.engine.log.line import LINE_MAX, TRAILER, stored_hash, trailer
from refold.engine.log.reader import Entry, entry_of, open_log, read_entries, scan

_POLL_SECONDS: Final = 0.2
_STEP: Final = 64 * 1024
_END_MAX: Final = 64 * 1024 * 1024
"""Bytes of a log's end that are read for its last entries; for more, it is read from its first."""


_PAGE: Final = """
Examples:
  refold tail runs/audit.jsonl
  refold tail -n 50 runs/audit.jsonl
  refold tail -f runs/audit.jsonl
  refold tail --verify runs/audit.jsonl    reads the whole log
"""


@click.command("tail", epilog=page(_PAGE))
@click.argument("log", type=RUN)
@click.option(
    "-n", "count", type=click.IntRange(min=1), default=10, show_default=True, metavar="N",
    help="Number of entries.",
)  # fmt: skip
@click.option("-f", "--follow", is_flag=True, help="Print new entries until the run ends.")
@click.option("--verify", "is_verified", is_flag=True, help="Verify the whole log first.")
@json_option
def command(*, log: Path, count: int, follow: bool, is_verified: bool) -> int:
    """Show the last entries of a log, one line each.

    Only the end of a long log is read.  Each entry is checked against the one before it, but
    earlier entries are not verified.  --follow continues until the run ends or you press Ctrl-C.
    """
    if follow and output.is_json():
        raise click.UsageError("--follow does not work with --json")
    with opened_log(log) as opened:
        last = [] if is_verified else _read_from_end(opened.path, count)
        is_checked = not last
        if is_checked:
            entries = read_entries(opened.path, torn_ok=True)
            last = [*deque(entries, maxlen=min(count, sys.maxsize))]
        tell = tell_entries(opened, last, verified=is_checked)
        if not is_checked:
            output.hint(
                f"entries before {last[0].seq} were not verified; to verify them, add --verify"
            )
        if follow and last and last[-1].kind != "run.finished":
            _follow(opened.path, last[-1], tell)
        elif is_checked:
            say_what_is_torn(opened)
    return FINE


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


def tell_entries(
    log: OpenedLog, entries: Iterable[Entry], *, verified: bool = True
) -> Callable[[Entry], None]:
    """Print entries, in lines or as one document; return what prints one more line.

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
        return tell
    say_guarantee(guarantee)
    heading(width)
    for entry in entries:
        tell(entry)
    return tell


def say_what_is_torn(log: OpenedLog) -> None:
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
        while output.is_heard():
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
