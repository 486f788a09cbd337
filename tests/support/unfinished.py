"""Unfinished records: what a log and those of its children held when so many lines were written."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson

from refold.engine.log.names import SUFFIX, blobs_of, child_path, tree

Keep = Callable[[Path, int], int]
"""A child's log that was not joined, and its lines → how many of them are kept."""


def lines_of(log: Path) -> list[bytes]:
    """Return the whole lines of a log, newlines included; a torn one is left out."""
    return [line for line in log.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]


def rows_of(log: Path) -> list[dict[str, Any]]:
    """Return the entries of a log as plain data."""
    return [orjson.loads(line) for line in lines_of(log)]


def cut(log: Path, to: Path, entries: int, keep: Keep = lambda _, lines: lines) -> Path:
    """Copy the first `entries` lines of `log` to `to`, with the logs that children had by then.

    Joined children are copied whole; of the others, started by then, `keep` says how much.
    """
    lines = lines_of(log)[:entries]
    to.write_bytes(b"".join(lines))
    if blobs_of(log).exists():
        shutil.copytree(blobs_of(log), blobs_of(to), dirs_exist_ok=True)
    started: dict[str, int] = {}
    joined: set[str] = set()
    for row in map(orjson.loads, lines):
        if row["kind"] == "child.started":
            started[row["call"]] = row["data"]["number"]
        elif row["kind"] == "child.finished":
            joined.add(row["call"])
    for call, number in started.items():
        child = child_path(log, number)
        if not child.exists():
            continue
        total = len(lines_of(child))
        kept = total if call in joined else keep(child, total)
        if kept:
            cut(child, child_path(to, number), kept, keep)
    return to


def cut_at(log: Path, to: Path, moment: float, torn: int = 0) -> Path:
    """Copy the whole tree below `log` to `to` as it was at a moment, from 0 to 1 of its time.

    So many bytes of the tree's next line follow, as of one that was being written.
    """
    lines = [(_time_of(line), path, line) for path in tree(log) for line in lines_of(path)]
    lines.sort(key=lambda each: each[0])
    kept = round(moment * (len(lines) - 1)) + 1
    cut_off = [(path, line[:torn]) for _, path, line in lines[kept : kept + 1]]
    for path, line in [*((path, line) for _, path, line in lines[:kept]), *cut_off]:
        name = to.name.removesuffix(SUFFIX) + path.name.removeprefix(log.name[: -len(SUFFIX)])
        with to.with_name(name).open("ab") as file:
            file.write(line)
    if blobs_of(log).exists():
        shutil.copytree(blobs_of(log), blobs_of(to), dirs_exist_ok=True)
    return to


def _time_of(line: bytes) -> int:
    found: int = orjson.loads(line)["meta"]["mono_us"]
    return found


def executed_in(log: Path) -> list[tuple[str, bytes]]:
    """Return (tool, arguments) of every leaf tool call below `log` that has its result."""
    asked: dict[str, tuple[str, bytes]] = {}
    done: list[tuple[str, bytes]] = []
    for row in rows_of(log):
        match row["kind"]:
            case "tool.called" if not row["data"].get("delegates"):
                arguments = orjson.dumps(row["data"]["arguments"], option=orjson.OPT_SORT_KEYS)
                asked[row["call"]] = (row["data"]["tool"], arguments)
            case "tool.returned" if row["call"] in asked:
                done.append(asked[row["call"]])
            case "child.started" if child_path(log, row["data"]["number"]).exists():
                done += executed_in(child_path(log, row["data"]["number"]))
    return done
