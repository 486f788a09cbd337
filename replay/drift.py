"""Drift: what answers otherwise now than when it was recorded, call by call (CONTRACT.md §12.10).

The program runs again with some of its outcomes live (`replay.rerun`), and the two records are
compared scope by scope: the same, arguments changed, result changed, new, missing.  What follows
from an earlier result that changed is marked as consequent, so that what is left is the drift.
"""

import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal

import attrs

from refold.engine.canonical import Json
from refold.engine.codec import unstructure
from refold.engine.errors import LogError, OutcomeMissing
from refold.engine.events import ChildFinished
from refold.engine.log.names import child_path
from refold.engine.ports import Model, Program, Reference, SessionPort, Tool
from refold.engine.programs import check_not_importing
from refold.engine.recording import known_models
from refold.replay.align import Pair, align
from refold.replay.book import Asked, Book, label_of
from refold.replay.compare import Comparator, comparator, exact
from refold.replay.junit import JUnitCase, JUnitSuite
from refold.replay.pointer_diff import Difference, differences
from refold.replay.rerun import Again, Rerun, rerun
from refold.replay.sources import Sources

Verdict = Literal["same", "result_changed", "arguments_changed", "new", "missing"]

LIVE: Final = Sources(model="live", tools="live", children="live")
"""Everything live, but for tools that change the world."""


@attrs.frozen(kw_only=True)
class CallDrift:
    """What became of one call."""

    where: str
    """`survey > reader[2] > search#3 (q="x")`: names from the root run down."""
    call: str
    """Its call key now; of a missing one, the recorded key; empty for the end of the run."""
    kind: str
    """`tool`, `model`, `child`, `input` or `output`."""
    name: str
    verdict: Verdict
    consequent: bool = False
    """Whether it may follow from an earlier result that changed."""
    noise: bool = False
    """Whether the result differs between two live runs as well."""
    recorded: Json = None
    now: Json = None
    diff: tuple[Difference, ...] = ()

    @property
    def is_drift(self) -> bool:
        """Whether it is a difference of its own."""
        return self.verdict != "same" and not self.noise

    def as_json(self) -> dict[str, Json]:
        """Return the row as `refold drift --json` prints it."""
        return {
            "where": self.where,
            "call": self.call,
            "kind": self.kind,
            "name": self.name,
            "verdict": self.verdict,
            "consequent": self.consequent,
            "noise": self.noise,
            "recorded": self.recorded,
            "now": self.now,
            "diff": [one.as_json() for one in self.diff],
        }


@attrs.frozen(kw_only=True)
class DriftReport:
    """What differs between a record and a run with live outcomes."""

    log: Path
    into: Path | None
    """The log of the new run, where one was asked for."""
    calls: tuple[CallDrift, ...]
    missing: tuple[OutcomeMissing, ...]
    """What was asked, not recorded, and not allowed to run: the new run stops there."""
    sources: Sources

    @property
    def drifted(self) -> tuple[CallDrift, ...]:
        """What differs, noise left out, consequences included."""
        return tuple(row for row in self.calls if row.is_drift)

    @property
    def identical(self) -> bool:
        """Whether nothing drifted and nothing was missing."""
        return not self.drifted and not self.missing

    @property
    def counts(self) -> dict[str, int]:
        """How many calls there are of each verdict, and how many are consequent or noise."""
        found: dict[str, int] = dict.fromkeys(_VERDICTS, 0)
        for row in self.calls:
            found[row.verdict] += 1
        found["consequent"] = sum(row.consequent for row in self.calls)
        found["noise"] = sum(row.noise for row in self.calls)
        return found

    def as_json(self) -> dict[str, Json]:
        """Return the report as `refold drift --json` prints it."""
        return {
            "log": str(self.log),
            "into": str(self.into) if self.into else None,
            "identical": self.identical,
            "counts": dict(self.counts),
            "calls": [row.as_json() for row in self.calls],
            "missing": [
                {"call": one.call, "nearest": one.nearest, "why": one.why} for one in self.missing
            ],
            "sources": {
                "model": self.sources.model,
                "tools": self.sources.tools,
                "children": self.sources.children,
                "tool": dict(self.sources.tool),
            },
        }

    def junit(self) -> JUnitSuite:
        """Return the report for a CI service: one case a call."""
        cases = [
            JUnitCase(
                name=row.where,
                seconds=0.0,
                failure=(row.verdict, row_text(row)) if row.is_drift else None,
                skipped="noise: two live runs differ here as well" if row.noise else "",
            )
            for row in self.calls
        ]
        cases += [
            JUnitCase(name=one.call, seconds=0.0, error=("missing", str(one)))
            for one in self.missing
        ]
        return JUnitSuite(name=str(self.log), cases=cases)

    def __str__(self) -> str:
        counts = [(name.replace("_", " "), count) for name, count in self.counts.items() if count]
        head = ", ".join(f"{count} {name}" for name, count in counts)
        lines = [f"{'no drift' if self.identical else 'drift'}: {head or 'no call was made'}"]
        lines += [row_text(row) for row in self.calls if row.verdict != "same"]
        lines += [f"missing   {one}" for one in self.missing]
        return "\n".join(lines)


_VERDICTS: Final[tuple[Verdict, ...]] = (
    "same", "result_changed", "arguments_changed", "new", "missing",
)  # fmt: skip
_WORDS: Final[dict[str, str]] = {
    "result_changed": "another result",
    "arguments_changed": "asked otherwise",
    "new": "not recorded",
    "missing": "not asked any more",
}
_DIFFS_SHOWN: Final = 6


def row_text(row: CallDrift) -> str:
    """Return a call that differs, and where, as lines for people."""
    marks = ["consequent"] * row.consequent + ["noise"] * row.noise
    tail = f"  ({', '.join(marks)})" if marks else ""
    lines = [f"{row.verdict}: {_WORDS.get(row.verdict, 'the same')}  {row.where}{tail}"]
    lines += [f"  differs   {one}" for one in row.diff[:_DIFFS_SHOWN]]
    if len(row.diff) > _DIFFS_SHOWN:
        lines.append(f"            … and in {len(row.diff) - _DIFFS_SHOWN} more places")
    return "\n".join(lines)


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
        rows = list(_rows(path, first.log, rules))
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
        row.where for row in _rows(first.log, second.log, rules) if row.verdict == "result_changed"
    }


def _without_noise(rows: Iterable[CallDrift], noise: set[str]) -> Iterator[CallDrift]:
    for row in rows:
        is_noise = row.where in noise and row.verdict == "result_changed"
        yield attrs.evolve(row, noise=True) if is_noise else row


def _rows(old: Path, new: Path, rules: Mapping[str, Comparator]) -> Iterator[CallDrift]:
    one, other = Book(old, unfinished_ok=True), Book(new, unfinished_ok=True)
    yield from _Comparison(one, other, (one.started.program,), rules).rows()


class _Comparison:
    """Two records of one run."""

    def __init__(
        self, old: Book, new: Book, names: tuple[str, ...], rules: Mapping[str, Comparator]
    ) -> None:
        self._old = old
        self._new = new
        self._names = names
        self._rules = rules
        self._has_drifted = False

    def rows(self) -> Iterator[CallDrift]:
        """Yield what became of each call, in the order of the new run, missing ones in place."""
        for one, other in self._pairs():
            for row in self._of(one, other):
                yield row
                if row.is_drift and row.verdict == "result_changed":
                    self._has_drifted = True
        if self._new.end and self._old.end:
            yield self._output()

    def _pairs(self) -> list[tuple[Asked | None, Asked | None]]:
        """Pair the calls of both scope by scope, then order them as the new run made them."""
        old, new = _by_scope(self._old), _by_scope(self._new)
        found: list[tuple[int, int, Asked | None, Asked | None]] = []
        order = {call: at for at, call in enumerate(self._new.requests)}
        for scope in dict.fromkeys([*new, *old]):
            a, b = old.get(scope, []), new.get(scope, [])
            at = -1 if b else len(order)
            for left, right in _aligned(a, b):
                at = order[b[right].call] if right is not None else at
                one = a[left] if left is not None else None
                found.append((at, len(found), one, b[right] if right is not None else None))
        return [(one, other) for _, _, one, other in sorted(found, key=lambda pair: pair[:2])]

    def _of(self, one: Asked | None, other: Asked | None) -> Iterator[CallDrift]:
        asked = other or one
        if asked is None:
            return
        where = " > ".join([*self._names, label_of(asked.item)])
        row = CallDrift(
            where=where, call=asked.call, kind=asked.item.kind, name=asked.item.name, verdict="same"
        )
        if one is None or other is None:
            verdict: Verdict = "new" if one is None else "missing"
            yield attrs.evolve(row, verdict=verdict, consequent=self._has_drifted)
            return
        if one.identity != other.identity:
            found = differences(one.item.arguments, other.item.arguments)
            diff = tuple(each for each in found if each.pointer not in _WHERE_IT_STOOD)
            yield attrs.evolve(
                row,
                verdict="arguments_changed",
                consequent=self._has_drifted,
                recorded=one.item.as_json(),
                now=other.item.as_json(),
                diff=diff,
            )
            return
        below = list(self._below(one, other))
        yield from below
        yield self._compared(row, one, other, below)

    def _compared(
        self, row: CallDrift, one: Asked, other: Asked, below: Sequence[CallDrift]
    ) -> CallDrift:
        recorded, now = self._result(self._old, one), self._result(self._new, other)
        rule = self._rules.get(row.name) or self._rules.get(row.kind) or self._rules.get("*", exact)
        if recorded == now or _counts_as_same(recorded, now, rule):
            return row
        return attrs.evolve(
            row,
            verdict="result_changed",
            consequent=any(one.is_drift for one in below),
            recorded=recorded,
            now=now,
            diff=differences(recorded, now),
        )

    def _below(self, one: Asked, other: Asked) -> Iterator[CallDrift]:
        """Yield the rows of a child that ran in both."""
        if one.item.kind != "child":
            return
        old, new = _child_log(self._old, one.call), _child_log(self._new, other.call)
        if not (old.exists() and new.exists()):
            return
        name = f"{one.item.name}[{_number(self._old, one.call)}]"
        try:
            books = Book(old, unfinished_ok=True), Book(new, unfinished_ok=True)
        except LogError:
            return
        yield from _Comparison(*books, (*self._names, name), self._rules).rows()

    @staticmethod
    def _result(book: Book, asked: Asked) -> Json:
        answer = book.answers.get(asked.call)
        if answer is None:
            return None
        event: Any = answer.event
        data: dict[str, Any] = unstructure(event)
        if isinstance(event, ChildFinished):
            outcome = data["outcome"]
            return {name: value for name, value in outcome.items() if name not in _MEASURED}
        return {name: value for name, value in data.items() if name != "usage"}

    def _output(self) -> CallDrift:
        row = CallDrift(
            where=" > ".join([*self._names, "output"]),
            call="",
            kind="output",
            name="",
            verdict="same",
        )
        if self._old.end == self._new.end:
            return row
        return attrs.evolve(
            row,
            verdict="result_changed",
            consequent=self._has_drifted,
            recorded=self._old.end,
            now=self._new.end,
            diff=differences(self._old.end, self._new.end),
        )


_WHERE_IT_STOOD: Final = ("/predecessor", "/base")
"""How much of a conversation the log had already: it follows from what was asked before."""
_MEASURED: Final = ("duration_ms", "child", "usage")


def _counts_as_same(recorded: Json, now: Json, rule: Comparator) -> bool:
    """Return whether two outcomes are equal by a rule, which judges what they gave alone."""
    if not isinstance(recorded, Mapping) or not isinstance(now, Mapping):
        return False
    if recorded.get("status") != now.get("status"):
        return False
    given = ("result", "message", "output", "summary", "artifacts", "answer", "error")
    return all(rule(recorded.get(name), now.get(name)) for name in given)


def _by_scope(book: Book) -> dict[str, list[Asked]]:
    found: dict[str, list[Asked]] = {}
    for asked in book.requests.values():
        found.setdefault(asked.item.scope, []).append(asked)
    return found


def _aligned(a: Sequence[Asked], b: Sequence[Asked]) -> list[Pair]:
    """Pair the calls of one scope; of two that could be the changed one, that of the same key."""
    pairs = list(align([_key(one) for one in a], [_key(one) for one in b]).pairs)
    alone = {
        a[left].call: at
        for at, (left, right) in enumerate(pairs)
        if right is None and left is not None
    }
    for at, (left, right) in enumerate(pairs):
        if left is None or right is None or a[left].identity == b[right].identity:
            continue
        other = alone.pop(b[right].call, None)
        if other is not None and a[pairs[other][0] or 0].name == b[right].name:
            pairs[at], pairs[other] = (pairs[other][0], right), (left, None)
    return pairs


def _key(asked: Asked) -> tuple[str, str, bytes]:
    return asked.item.kind, asked.item.name, asked.identity.encode()


def _number(book: Book, call: str) -> int:
    children = [one.call for one in book.requests.values() if one.item.kind == "child"]
    return children.index(call) + 1


def _child_log(book: Book, call: str) -> Path:
    return child_path(book.log, _number(book, call))
