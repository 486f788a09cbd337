"""Drift: what answers otherwise now than when it was recorded, call by call (CONTRACT.md §12.10).

The program runs again with some of its outcomes live (`replay.rerun`), and the two records are
compared scope by scope: the same, arguments changed, result changed, new, missing.  What follows
from an earlier result that changed is marked as consequent, so that what is left is the drift.
"""

import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs

from refold.engine.ports import Model, Program, Reference, SessionPort, Tool
from refold.engine.programs import check_not_importing
from refold.engine.recording import known_models
from refold.replay.book import Book
from refold.replay.compare import Comparator, comparator
from refold.replay.drift_report import CallDrift, DriftReport
from refold.replay.drift_rows import compared_rows
from refold.replay.rerun import Again, Rerun, rerun
from refold.replay.sources import Sources

LIVE: Final = Sources(model="live", tools="live", children="live")
"""Everything live, but for tools that change the world."""


def drift(
    log: str | os.PathLike[str],
    program: Program | Reference | str | None = None,
    *,
    sources: Sources = LIVE,
    tools: Sequence[Tool] = (),
    model: Model | None = None,
    models: Mapping[str, Model] | None = None,
    session: SessionPort | None = None,
    compare: Mapping[str, Comparator | str] | None = None,
    twice: bool = False,
    into: str | os.PathLike[str] | None = None,
) -> DriftReport:
    """Run the program of `log` again with live outcomes, and say per call what differs.

    Args:
        log: Of a sealed root run.
        program: As it is now; not needed for those that Refold ships.
        sources: What is live, recorded or a stub; by default everything is live but tools that
            change the world.
        tools: Those that are to run live.
        model: The default model, where it is asked live.
        models: More, by name.
        session: A fresh one with the same reducers, where the run had one.
        compare: When results count as the same, by the name of a tool, `model` or `child`, or `*`
            for all: `exact` (the default), `text`, `subset`, `numbers:0.01`, or a function.
        twice: Run twice; what differs between the two is noise.
        into: Where the new run is to be recorded; by default nothing of it is kept.

    Raises:
        LogExists: `into` exists.
        LogUnsealed: the record has no end.
        LogError: the record is damaged, or there is none.
        ToolNeeded: a tool that is to run live was not passed.
        UsageError: nor was a model; or a comparator has no such name.
    """
    check_not_importing()
    path = Path(log)
    book = Book(path)
    known = {tool.name: tool for tool in tools}
    models = known_models(model, models)
    again = Again(program=program, tools=known, models=models, session=session, sources=sources)
    rules = {name: comparator(which) for name, which in (compare or {}).items()}
    with tempfile.TemporaryDirectory(prefix="refold-drift-") as folder:
        new = Path(into) if into is not None else Path(folder) / "once.jsonl"
        first = rerun(book, again, new)
        rows = list(compared_rows(path, first.log, rules))
        missing = first.missing
        if twice:
            second = rerun(Book(path), again, Path(folder) / "twice.jsonl")
            missing += second.missing
            rows = list(_without_noise(rows, _noise(first, second, rules)))
    if missing:  # the run stopped there: what it did not come to is no drift of its own
        rows = [
            attrs.evolve(row, consequent=row.consequent or row.verdict == "missing") for row in rows
        ]
    return DriftReport(
        log=path,
        into=Path(into) if into is not None else None,
        calls=tuple(rows),
        missing=tuple({str(one): one for one in missing}.values()),
        sources=sources,
    )


def _noise(first: Rerun, second: Rerun, rules: Mapping[str, Comparator]) -> set[str]:
    """Return where results differ between two runs with the same sources."""
    return {
        row.where
        for row in compared_rows(first.log, second.log, rules)
        if row.verdict == "result_changed"
    }


def _without_noise(rows: Iterable[CallDrift], noise: set[str]) -> Iterator[CallDrift]:
    for row in rows:
        is_noise = row.where in noise and row.verdict == "result_changed"
        yield attrs.evolve(row, noise=True) if is_noise else row
