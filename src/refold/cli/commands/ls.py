"""`refold ls`: the recorded runs of a folder.

Only the first and the last line of a log are read, and neither is verified: what a log looks like
from outside is said fast, whether it holds is `refold verify`'s to say.
"""

import datetime as dt
import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final

import attrs
import click

from refold.cli.arguments.logs import LOG, json_option, opened_log
from refold.cli.output import output, words
from refold.cli.output.exit_codes import FINE
from refold.cli.output.pages import page
from refold.cli.output.trees import run_name
from refold.engine.encoding.canonical import loads
from refold.engine.errors import LogMissing, LogNameRefused, RefoldError
from refold.engine.log.line import LINE_MAX
from refold.engine.log.names import PACKED_SUFFIX, SUFFIX, Folder, check_root, tree
from refold.engine.log.reader import open_log

_CHUNK: Final = 64 * 1024
_NO_LOG: Final = (
    RefoldError, click.UsageError, OSError, ValueError, KeyError, TypeError, AttributeError,
)  # fmt: skip
"""What reading a file raises that is no log, whatever its name says."""


_PAGE: Final = """
Examples:
  refold ls
  refold ls /var/log/agents --json
  refold ls --tree                forks below the runs that they left
"""


@click.command("ls", epilog=page(_PAGE))
@click.argument("folder", metavar="[DIR]", type=LOG, default=Path("runs"))
@click.option("--tree", "is_tree", is_flag=True, help="Show forks below what they left.")
@json_option
def command(*, folder: Path, is_tree: bool, as_json: bool) -> int:
    """List the root runs recorded in DIR (by default runs/), the newest last.

    `open` is a run without an end: still going on, suspended, or crashed.
    """
    if folder.is_file():
        shown = output.shown_path(folder)
        raise click.UsageError(f"{shown} is a log: refold show {shlex.quote(shown)}")
    if not folder.is_dir():
        shown = output.shown_path(folder)
        raise click.UsageError(f"{shown}: no such folder; `refold demo` records a first run")
    with output.progress(f"reading {folder}"):
        beside = Folder(folder)
        found = sorted(
            (_listed(path, beside) for path in folder.iterdir() if _is_root(path)),
            key=lambda each: (each.wall_us, each.row["log"]),
        )
    if as_json:
        rows = [each.row for each in found]
        output.document({"folder": output.shown_path(folder), "runs": rows})
    elif found:
        for depth, each in _lineage(found) if is_tree else ((0, each) for each in found):
            _print(each, depth)
    else:
        output.line(f"no runs in {folder}; `refold demo` records a first one")
    return FINE


def _lineage(found: list["_Listed"]) -> Iterator[tuple[int, "_Listed"]]:
    """Yield runs with how often they were forked, each below the run that it left."""
    known = {each.nonce for each in found if each.nonce}
    below: dict[str, list[_Listed]] = {}
    for each in found:
        below.setdefault(each.origin if each.origin in known else "", []).append(each)
    waiting = [(0, each) for each in reversed(below.get("", []))]
    while waiting:
        depth, each = waiting.pop()
        yield depth, each
        if each.nonce:
            waiting += [(depth + 1, fork) for fork in reversed(below.pop(each.nonce, []))]


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


@attrs.frozen(kw_only=True)
class _Listed:
    """One root run: its row in the document, and what people get besides."""

    row: dict[str, Any]
    who: str = ""
    wall_us: int = 0
    nonce: str = ""
    origin: str = ""
    """The nonce of the log that it was forked from; empty for none."""


def _listed(path: Path, beside: Folder) -> _Listed:
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
            is_plain = opened.path == path
            logs = beside.tree(path) if is_plain else tree(opened.path)
            row["runs"] = len(logs)
            files = logs if is_plain else [path]
            row["bytes"] = sum(file.stat().st_size for file in files)
            return _with_ends(row, opened.path)
    except _NO_LOG:
        return _Listed(row=row)


def _with_ends(row: dict[str, Any], path: Path) -> _Listed:
    """Return what the first and the last whole line of a log say."""
    with open_log(path) as file:
        first = loads(file.readline(LINE_MAX + 1))
        last = loads(_last_line(file, path))
    began_us = first["meta"]["wall_us"]
    is_sealed = last["kind"] == "run.finished"
    took_us = last["meta"]["wall_us"] - began_us
    program, given = str(first["data"]["program"]), first["data"].get("input")
    ends = {
        "started": dt.datetime.fromtimestamp(began_us // 1_000_000, dt.UTC).strftime(
            "%Y-%m-%dT%H:%M:%SZ"
        ),
        "program": program,
        "status": str(last["data"]["status"]) if is_sealed else "open",
        "entries": int(last["seq"]) + 1,
        "duration_ms": max(0, took_us // 1000) if is_sealed else None,
    }
    if first["data"].get("guarantee"):
        ends["guarantee"] = str(first["data"]["guarantee"])
    origin = first["data"].get("origin") or {}
    if origin:
        ends["forked"] = {name: origin[name] for name in ("head", "at", "edits")}
    return _Listed(
        row=row | ends,
        who=run_name(program, given),
        wall_us=int(began_us),
        nonce=str(first["data"].get("nonce", "")),
        origin=str(origin.get("nonce", "")),
    )


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


def _print(found: _Listed, depth: int = 0) -> None:
    """Print what a run was, and below it its log, whole, so that it can be copied."""
    row, margin = found.row, "   " * depth
    branch = margin[3:] + "└─ " if depth else ""
    forked = row.get("forked")
    started = (row["started"] or "(no time)").replace("T", " ").removesuffix("Z")
    took = "" if row["duration_ms"] is None else f" · {words.seconds(row['duration_ms'])}"
    status = row["status"]
    output.line(
        branch,
        (f"{started}  ", "dim"),
        (status, output.status_style(status)),
        (f" {found.who or '?'}", "bold"),
        f"  forked at entry {forked['at']} ·" if forked else " ",
        f" {words.counted(row['entries'], 'entry', 'entries')}",
        (" · matched", "yellow")
        if "guarantee" in row
        else f" · {words.counted(max(0, row['runs'] - 1), 'run')} below",
        took,
        cut=True,
    )
    output.line(f"{margin}  {row['log']}", (f"  {words.size(row['bytes'])}", "dim"))
