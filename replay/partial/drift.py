"""Drift: results that differ now from the recorded ones, call by call (CONTRACT.md §12.10).

The program runs again with some of its outcomes live (`replay.partial.rerun`), and the two records
are compared scope by scope: same, arguments changed, result changed, new, missing. Differences that
follow from an earlier changed result are marked as consequent; the rest is the drift. Volatile
differences (CONTRACT.md §12.7) are ignored and listed.
"""

import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import attrs

from refold.engine.errors import OutcomeMissing, UsageError
from refold.engine.log.names import tree
from refold.engine.recording.bookends import declared_volatile
from refold.engine.secrets.vault import checked_volatile
from refold.replay.difference.comparators import Comparator, comparator
from refold.replay.difference.excuses import IGNORED_MAX, unmatched
from refold.replay.index.by_call import AskedCall, Book
from refold.replay.partial.drift_report import DriftReport
from refold.replay.partial.drift_rows import COMPARED_KINDS, comparison
from refold.replay.partial.rerun import Again, rerun
from refold.replay.partial.sources import Sources

LIVE: Final = Sources(model="live", tools="live", children="live")
"""Everything live, but for tools that change the world."""


def drifted(
    path: Path,
    again: Again,
    *,
    compare: Mapping[str, Comparator | str],
    twice: bool,
    into: Path | None,
) -> DriftReport:
    """Run a recorded program again with live outcomes, and report the differences per call.

    Values that are volatile to `again` or to its tools are not compared. Other arguments are as in
    `refold.drift`.

    Raises:
        LogExists: `into` exists.
        LogUnsealed: the record has no end.
        LogError: the record is damaged or missing.
        ToolNeeded: a tool that must run live was not passed.
        UsageError: a model was not passed; a comparator's name is unknown, or names nothing in the
            record; a volatile path is invalid.
    """
    book = Book(path)
    given = checked_volatile(again.volatile)
    paths = (*given, *declared_volatile(again.tools.values()))
    again = attrs.evolve(again, volatile=paths)
    rules = {name: comparator(which) for name, which in compare.items()}
    if rules:
        _check_compared(path, rules, again.tools)
    with tempfile.TemporaryDirectory(prefix="refold-drift-") as folder:
        missing = list[OutcomeMissing]()

        def made(log: Path) -> Book:
            missing.extend(rerun(book, again, log)[1].missing)
            return Book(log, unfinished_ok=True)

        new = made(into or Path(folder) / "new.jsonl")
        found = comparison(book, new, rules, paths)
        rows, noise = list(found.rows()), set[str]()
        if twice:
            second = comparison(new, made(Path(folder) / "twice.jsonl"), rules, paths)
            noise = {row.where for row in second.rows() if row.verdict == "result_changed"}
    rows = [
        attrs.evolve(row, noise=row.noise or row.where in noise)
        if row.verdict == "result_changed"
        else row
        for row in rows
    ]
    if missing:  # the run stopped there: what it did not come to is no drift of its own
        rows = [
            attrs.evolve(row, consequent=row.consequent or row.verdict == "missing") for row in rows
        ]
    used = {one.rule for one in found.ignored}
    return DriftReport(
        log=path,
        into=into,
        calls=tuple(rows),
        missing=tuple({str(one): one for one in missing}.values()),
        sources=again.sources,
        ignored=tuple(found.ignored[:IGNORED_MAX]),
        ignored_count=found.ignored_count,
        served=tuple(_served(found.requests, again.sources)),
        unmatched=tuple(unmatched(path, [each for each in given if each not in used]).values()),
    )


def _served(requests: Iterable[AskedCall], sources: Sources) -> Iterator[str]:
    """Yield the requests that were not live, by kind and name, with their number."""
    counts = Counter(
        f"{asked.item.kind} {asked.item.name}".strip()
        for asked in requests
        if not asked.delegates and not sources.lets_run(*asked.name, asked.data.get("effect"))
    )
    yield from (f"{name} ({count})" for name, count in sorted(counts.items()))


def _check_compared(log: Path, rules: Iterable[str], tools: Iterable[str]) -> None:
    """Refuse a comparator for a name that the record lacks: it would have no effect.

    Raises:
        UsageError: the name is not a tool, model or child; lists the existing names.
    """
    names = {*tools}
    for path in filter(Path.exists, tree(log)):
        book = Book(path, unfinished_ok=True)
        names |= {offer["name"] for offer in book.started.tools}
        names |= {asked.item.name for asked in book.requests.values()} - {""}
    for name in rules:
        if name not in names and name not in COMPARED_KINDS:
            raise UsageError(
                f"compare {name!r}: the log does not contain such a tool, model or child; "
                f"it contains {', '.join(sorted(names)) or 'none'}, and the general names "
                f"are {', '.join(COMPARED_KINDS)}"
            )
