"""`refold ls`: the recorded runs of a folder.

Only the first and the last line of a log are read, and neither is verified: what a log looks like
from outside is said fast, whether it holds is `refold verify`'s to say.
"""

import datetime as dt
import os
from pathlib import Path
from typing import Any, BinaryIO, Final

import click

from refold.cli import output, words
from refold.cli.errors import FINE
from refold.cli.logs import LOG, json_option, opened_log
from refold.cli.pages import page
from refold.engine.canonical import loads
from refold.engine.errors import LogMissing, LogNameRefused, RefoldError
from refold.engine.log.line import LINE_MAX
from refold.engine.log.names import PACKED_SUFFIX, SUFFIX, check_root, tree
from refold.engine.log.reader import open_log

_CHUNK: Final = 64 * 1024


_PAGE: Final = """
Examples:
  refold ls
  refold ls /var/log/agents --json
"""


@click.command("ls", epilog=page(_PAGE))
@click.argument("folder", metavar="[DIR]", type=LOG, default=Path("runs"))
@json_option
def command(*, folder: Path, as_json: bool) -> int:
    """List the root runs recorded in DIR (by default runs/), the newest last.

    `open` is a run without an end: still going on, or crashed.
    """
    if not folder.is_dir():
        raise LogMissing(str(folder), "no such folder; `refold demo` records a first run in runs/")
    with output.progress(f"reading {folder}"):
        rows = sorted(
            (_row(path) for path in folder.iterdir() if _is_root(path)),
            key=lambda row: (row["started"] or "", row["log"]),
        )
    if as_json:
        output.document({"folder": output.shown_path(folder), "runs": rows})
    elif rows:
        for row in rows:
            _print_row(row)
    else:
        output.line(f"no runs in {folder}; `refold demo` records a first one")
    return FINE


def _is_root(path: Path) -> bool:
    if path.name.startswith(".") or not path.is_file():
        return False
    if path.suffix == PACKED_SUFFIX:
        return True
    try:
        check_root(path)
    except LogNameRefused:
        return False
    return path.suffix == SUFFIX


def _row(path: Path) -> dict[str, Any]:
    """Return what is known of one root run; a file that is none says so as its status."""
    row: dict[str, Any] = {
        "log": output.shown_path(path),
        "started": None,
        "program": "",
        "status": "unreadable",
        "entries": 0,
        "runs": 0,
        "duration_ms": None,
        "bytes": 0,
    }
    try:
        with opened_log(path) as opened:
            logs = tree(opened.path)
            row["runs"] = len(logs)
            row["bytes"] = sum(log.stat().st_size for log in logs)
            row |= _ends(opened.path)
    except (RefoldError, OSError, ValueError, KeyError, TypeError, AttributeError):
        pass  # no log, whatever its name says
    return row


def _ends(path: Path) -> dict[str, Any]:
    """Return what the first and the last whole line of a log say."""
    with open_log(path) as file:
        first = loads(file.readline(LINE_MAX + 1))
        last = loads(_last_line(file, path))
    began_us = first["meta"]["wall_us"]
    is_sealed = last["kind"] == "run.finished"
    took_us = last["meta"]["wall_us"] - began_us
    return {
        "started": dt.datetime.fromtimestamp(began_us // 1_000_000, dt.UTC).strftime(
            "%Y-%m-%dT%H:%M:%SZ"
        ),
        "program": str(first["data"]["program"]),
        "status": str(last["data"]["status"]) if is_sealed else "open",
        "entries": int(last["seq"]) + 1,
        "duration_ms": max(0, took_us // 1000) if is_sealed else None,
    }


def _last_line(file: BinaryIO, path: Path) -> bytes:
    """Return the last line that ends in a newline, reading from the end."""
    size = os.fstat(file.fileno()).st_size
    found = b""
    while size > 0 and len(found) <= 2 * LINE_MAX:
        step = min(_CHUNK, size)
        size -= step
        file.seek(size)
        found = file.read(step) + found
        whole = found[: found.rfind(b"\n") + 1]
        start = whole.rfind(b"\n", 0, -1)
        if whole and (start >= 0 or size == 0):
            return whole[start + 1 :]
    raise LogMissing(str(path), "no whole line")


def _print_row(row: dict[str, Any]) -> None:
    """Print what a run was, and below it its log, whole, so that it can be copied."""
    started = (row["started"] or "(no time)").replace("T", " ").removesuffix("Z")
    took = "" if row["duration_ms"] is None else f" · {words.seconds(row['duration_ms'])}"
    status = row["status"]
    output.line(
        (f"{started}  ", "dim"),
        (status, output.status_style(status)),
        (f" {row['program'] or '?'}", "bold"),
        f"  {words.counted(row['entries'], 'entry', 'entries')}",
        f" · {words.counted(max(0, row['runs'] - 1), 'child', 'children')}",
        took,
        cut=True,
    )
    output.line(f"  {row['log']}", (f"  {words.size(row['bytes'])}", "dim"))
