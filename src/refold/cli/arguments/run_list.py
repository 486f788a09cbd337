"""The runs of a folder, as they look from outside: what `refold ls` and `refold view` list.

Only the first and the last line of a log are read, and neither is verified: a list must be fast,
and `refold verify` checks a log. A log without an end that nobody writes is read to see whether the
run waits for a person. Rules: CONTRACT.md §14.10.
"""

import contextlib
import datetime as dt
import functools
import re
import shlex
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import attrs
import click

from refold.cli.arguments.logs import opened_log
from refold.cli.output import output
from refold.cli.output.entries import compact, error_text
from refold.cli.output.listed import ListedRun
from refold.cli.output.trees import run_name
from refold.engine.encoding.canonical import loads
from refold.engine.errors import RefoldError
from refold.engine.events.data_digest import tree_digest_in
from refold.engine.events.outcome import Priced, Usage
from refold.engine.log.blobs import BlobBroken, BlobStore, resolved
from refold.engine.log.line import LINE_MAX
from refold.engine.log.names import (
    Folder,
    blobs_of,
    each_once,
    is_runs,
    missing_roots,
    tree,
    without_children,
)
from refold.engine.log.reader import last_line, open_log
from refold.replay.index.run_end import refused_in
from refold.replay.index.standing import question_of, stood

_NO_LOG: Final = (
    RefoldError, click.UsageError, OSError, ValueError, KeyError, TypeError, AttributeError,
)  # fmt: skip
"""Exceptions of reading a file that is not a log, in spite of its name."""

_AGE: Final = re.compile(r"([0-9]{1,6})([smhd])")
_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_SHOWN: Final = 80
"""Characters of an input."""


def listed_runs(folder: Path, *, is_whole: bool = False) -> list[ListedRun]:
    """Return the root runs of a folder, the newest last; a file that is not a log has that status.

    With `is_whole`, large texts that are stored beside a log are read.

    Raises:
        OSError: the folder cannot be listed.
    """
    next(folder.iterdir(), None)  # what is not there is no folder without runs
    return runs_of([folder], is_whole=is_whole)


def runs_of(places: Iterable[Path], *, is_whole: bool = False) -> list[ListedRun]:
    """Return the root runs of folders and those of single logs, the newest last, each once.

    A link to one of them is left out.

    Raises:
        OSError: a folder cannot be listed.
    """
    found, single = list[Path](), list[Path]()
    for place in places:
        if place.is_dir():
            found += (path for path in place.iterdir() if is_runs(path) and path.is_file())
        else:
            single.append(place)
    beside = functools.cache(Folder)
    once = each_once([*found, *without_children(single)])
    runs = (listed(path, beside(path.parent), is_whole=is_whole) for path in once)
    return sorted(runs, key=lambda each: (each.wall_us, each.log))


def moment(_context: click.Context, _option: click.Parameter, given: str | None) -> float | None:
    """Return an age or a point in time as seconds since 1970, UTC."""
    if given is None:
        return None
    age = _AGE.fullmatch(given)
    if age:
        return time.time() - int(age[1]) * _UNITS[age[2]]
    try:
        return dt.datetime.fromisoformat(given).replace(tzinfo=dt.UTC).timestamp()
    except ValueError:
        raise click.BadParameter(
            f"{given!r}: expected 30m, 12h, 7d, or 2026-01-31, in UTC"
        ) from None


def orphans(folder: Path) -> list[Path]:
    """Return the roots' logs that are not there, although something of their runs is."""
    return [folder / name for name in missing_roots(each.name for each in folder.iterdir())]


def listed(path: Path, beside: Folder, *, is_whole: bool = False) -> ListedRun:
    """Return the data of one root run; a file that is not a log has that status."""
    run = ListedRun(log=output.shown_path(path), path=path)
    try:
        with opened_log(path) as opened:
            is_plain = opened.path == path
            logs = beside.tree(path) if is_plain else tree(opened.path)
            size = sum(file.stat().st_size for file in (logs if is_plain else [path]))
            run = attrs.evolve(run, runs=len(logs), bytes=size)
            return _with_ends(run, opened.path, is_whole=is_whole)
    except _NO_LOG:
        return run


def _with_ends(run: ListedRun, path: Path, *, is_whole: bool) -> ListedRun:
    """Return a run with the data of the first and the last whole line of its log."""
    with open_log(path) as file:
        first = loads(file.readline(LINE_MAX + 1))
        last = loads(last_line(path))
    data, began_us = first["data"], first["meta"]["wall_us"]
    ended = last["data"] if last["kind"] == "run.finished" else {}
    given = data.get("input")
    is_watched = isinstance(given, dict) and "command" in given and "guarantee" in data
    texts = (given, ended.get("output"), ended.get("error"))
    if is_whole:
        with contextlib.suppress(BlobBroken):
            texts = tuple(resolved(each, BlobStore(blobs_of(path)).get) for each in texts)
    began = dt.datetime.fromtimestamp(began_us // 1_000_000, dt.UTC)
    shown = compact(shlex.join(given["command"]) if is_watched else given, _SHOWN)
    task = given.get("task") if isinstance(given, dict) else None
    about = shown if given is not None else ""
    who = run_name(str(data["program"]), given)
    origin = data.get("origin") or {}
    run = attrs.evolve(
        run,
        started=began.strftime("%Y-%m-%dT%H:%M:%SZ"),
        program=str(data["program"]),
        entries=int(last["seq"]) + 1,
        guarantee=str(data.get("guarantee") or ""),
        forked={name: origin[name] for name in ("head", "at", "edits") if origin},
        who=who,
        title=shown
        if is_watched
        else f"{who}  {compact(task, _SHOWN) if task else about}".rstrip(),
        input=shown,
        labels={str(name): str(value) for name, value in (data.get("labels") or {}).items()},
        error=error_text(ended.get("error")).strip(),
        texts=texts,
        wall_us=int(began_us),
        nonce=str(data.get("nonce", "")),
        origin=str(origin.get("nonce", "")),
    )
    if not ended:
        status, words = stood(path, question_of(path))
        return attrs.evolve(run, status=status, standing=words)
    usage: dict[str, Any] = {
        name: str(value) if name == "prices" else int(value)
        for name, value in (ended.get("usage") or {}).items()
    }
    return attrs.evolve(
        run,
        status=str(ended["status"]),
        duration_ms=max(0, (last["meta"]["wall_us"] - began_us) // 1000),
        models=tuple(map(str, ended.get("models") or ())),
        usage=Usage(**usage) if usage else None,
        priced=_priced_in(last["meta"]),
        failed_children=int(last["meta"].get("failed_children", 0)),
        refused=sum(refused_in(last["meta"]).values()),
        tree_digest=tree_digest_in(ended) or None,
    )


def _priced_in(meta: Mapping[str, Any]) -> Priced | None:
    """Return the last entry's note of a watched command about an unknown cost."""
    found = {name: int(meta.get(f"priced_{name}", 0)) for name in ("usd_micros", "unpriced")}
    return Priced(**found) if found["unpriced"] else None
