"""The runs of a folder, as they look from outside: what `refold ls` and `refold view` list.

Only the first and the last line of a log are read, and neither is verified: what a log looks like
from outside is said fast, whether it holds is `refold verify`'s to say.  Rules: CONTRACT.md §14.10.
"""

import contextlib
import datetime as dt
import os
from pathlib import Path
from typing import Any, BinaryIO, Final

import attrs
import click

from refold.cli.arguments.logs import opened_log
from refold.cli.output import output
from refold.cli.output.trees import run_name
from refold.engine.encoding.canonical import loads
from refold.engine.errors import LogMissing, LogNameRefused, RefoldError
from refold.engine.events.outcome import Usage
from refold.engine.log.line import LINE_MAX
from refold.engine.log.names import (
    BLOBS_SUFFIX,
    PACKED_SUFFIX,
    SUFFIX,
    Folder,
    check_root,
    root_of,
    tree,
)
from refold.engine.log.reader import open_log, read_entries
from refold.replay.index.run_end import refused_in

_CHUNK: Final = 64 * 1024
_NO_LOG: Final = (
    RefoldError, click.UsageError, OSError, ValueError, KeyError, TypeError, AttributeError,
)  # fmt: skip
"""What reading a file raises that is no log, whatever its name says."""


def listed_runs(folder: Path) -> list["Listed"]:
    """Return the root runs of a folder, the newest last; a file that is no log says so.

    Raises:
        OSError: the folder cannot be listed.
    """
    beside = Folder(folder)
    return sorted(
        (listed(path, beside) for path in folder.iterdir() if _is_root(path)),
        key=lambda each: (each.wall_us, each.row["log"]),
    )


def orphans(folder: Path) -> list[Path]:
    """Return the roots' logs that are not there, although something of their runs is."""
    names = {path.name for path in folder.iterdir()}
    roots = set()
    for name in names:
        path = folder / name
        if path.suffix == SUFFIX and not name.startswith("."):
            with contextlib.suppress(LogNameRefused):
                roots.add(root_of(path))
        elif path.suffix == BLOBS_SUFFIX:
            roots.add(path.with_suffix(SUFFIX))
    return sorted(root for root in roots if root.name not in names)


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
class Listed:
    """One root run: its row in the document, and what people get besides."""

    row: dict[str, Any]
    path: Path
    who: str = ""
    wall_us: int = 0
    nonce: str = ""
    origin: str = ""
    """The nonce of the log that it was forked from; empty for none."""


def listed(path: Path, beside: Folder) -> Listed:
    """Return what is known of one root run; a file that is none says so as its status."""
    row: dict[str, Any] = {
        "log": output.shown_path(path),
        "started": None,
        "program": "",
        "status": "unreadable",
        "entries": 0,
        "runs": 0,
        "duration_ms": None,
        "models": [],
        "usage": None,
        "failed_children": None,
        "refused": None,
        "bytes": 0,
    }
    try:
        with opened_log(path) as opened:
            is_plain = opened.path == path
            logs = beside.tree(path) if is_plain else tree(opened.path)
            row["runs"] = len(logs)
            files = logs if is_plain else [path]
            row["bytes"] = sum(file.stat().st_size for file in files)
            return _with_ends(row, opened.path, path)
    except _NO_LOG:
        return Listed(row=row, path=path)


def _with_ends(row: dict[str, Any], path: Path, named: Path) -> Listed:
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
        "models": list(last["data"].get("models") or ()) if is_sealed else [],
        "usage": attrs.asdict(Usage(**usage)) if (usage := last["data"].get("usage")) else None,
        "failed_children": int(last["meta"].get("failed_children", 0)) if is_sealed else None,
        "refused": sum(refused_in(last["meta"]).values()) if is_sealed else None,
    }
    if first["data"].get("guarantee"):
        ends["guarantee"] = str(first["data"]["guarantee"])
    origin = first["data"].get("origin") or {}
    if origin:
        ends["forked"] = {name: origin[name] for name in ("head", "at", "edits")}
    return Listed(
        row=row | ends,
        path=named,
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
    for entry in read_entries(path, verify=False, torn_ok=True):  # a long torn tail, or a hole
        found = entry.line
    if not found.endswith(b"\n"):
        raise LogMissing(str(path), "no whole line")
    return found
