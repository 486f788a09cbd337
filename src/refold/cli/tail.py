"""`refold tail`: the last entries of a log, and with `--follow` those still to come."""

import os
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import click

from refold.cli import output
from refold.cli.entries import heading, origin_of, print_entry
from refold.cli.errors import FINE
from refold.cli.logs import LOG, first_entry, json_option, opened_log
from refold.cli.pages import page
from refold.engine.canonical import loads
from refold.engine.errors import LogDamaged
from refold.engine.log import Entry, read_entries
from refold.engine.log.reader import open_log

_POLL_SECONDS: Final = 0.2


_PAGE: Final = """
Examples:
  refold tail runs/audit.jsonl
  refold tail -n 50 runs/audit.jsonl
  refold tail -f runs/audit.jsonl
"""


@click.command("tail", epilog=page(_PAGE))
@click.argument("log", type=LOG)
@click.option(
    "-n", "count", type=click.IntRange(min=1), default=10, show_default=True, metavar="N",
    help="How many entries.",
)  # fmt: skip
@click.option(
    "-f", "--follow", is_flag=True, help="Go on as entries are written, until the run has finished."
)
@json_option
def command(*, log: Path, count: int, follow: bool, as_json: bool) -> int:
    """Show the last entries of a log, one line each.

    With --follow, go on until the run has finished; Ctrl-C ends it before.
    """
    if follow and as_json:
        raise click.UsageError("--follow never ends in one document: leave --json out")
    with opened_log(log) as opened:
        origin_us = origin_of(first_entry(opened.path).meta)
        last = _last(opened.path, count)
        if as_json:
            output.document({"log": output.shown_path(log), "entries": [_plain(e) for e in last]})
            return FINE
        heading()
        for entry in last:
            print_entry(entry, origin_us)
        if follow and last and last[-1].kind != "run.finished":
            _follow(opened.path, last[-1], origin_us)
    return FINE


def _last(path: Path, count: int) -> list[Entry]:
    """Return the last entries that verify."""
    return list(deque(read_entries(path, torn_ok=True), maxlen=count))


def _plain(entry: Entry) -> dict[str, Any]:
    document: dict[str, Any] = loads(entry.line)
    return document


def _follow(path: Path, last: Entry, origin_us: int) -> None:
    offset, seq = last.offset + len(last.line), last.seq
    for line in _lines_from(path, offset):
        seq += 1
        entry = _parsed(path, line, offset, seq)
        offset += len(line)
        print_entry(entry, origin_us)
        if entry.kind == "run.finished":
            return


def _lines_from(path: Path, offset: int) -> Iterator[bytes]:
    """Yield whole lines as they are written; polls, for a log says nothing when it grows."""
    with open_log(path) as file:
        file.seek(offset)
        pending = b""
        while True:
            found = file.readline()
            if not found:
                if os.fstat(file.fileno()).st_nlink == 0:
                    return  # removed: nobody writes it any more
                time.sleep(_POLL_SECONDS)
                continue
            pending += found
            if pending.endswith(b"\n"):
                yield pending
                pending = b""


def _parsed(path: Path, line: bytes, offset: int, seq: int) -> Entry:
    try:
        row = loads(line)
        assert row["seq"] == seq
        data, meta = row["data"], row["meta"]
        return Entry(
            seq,
            row["kind"],
            row.get("call"),
            row.get("cause"),
            data,
            meta,
            row["hash"],
            line,
            offset,
        )
    except (ValueError, KeyError, TypeError, AssertionError):
        shown = f"{line[:60]!r}"
        raise LogDamaged(str(path), seq + 1, offset, f"entry {seq}", shown, "no entry") from None
