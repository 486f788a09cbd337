"""Drift: results that differ now from the recorded ones, call by call (CONTRACT.md §12.10).

The program runs again with some of its outcomes live (`replay.partial.rerun`), and the two records
are compared scope by scope: same, arguments changed, result changed, new, missing. Differences that
follow from an earlier changed result are marked as consequent; the rest is the drift. Values that
either record's rules declare volatile (CONTRACT.md §12.7) are ignored and listed. A comparator
decides whether two results count as equal; the default is exact.
"""

import contextlib
import math
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs

from refold.engine.encoding.canonical import Json
from refold.engine.errors import LogError, LogMissing, OutcomeMissing, UsageError
from refold.engine.events.codec import unstructure
from refold.engine.events.events import ChildFinished
from refold.engine.log.names import tree
from refold.engine.recording.bookends import declared_volatile
from refold.engine.secrets.vault import checked_volatile
from refold.replay.difference.align import Pair, align
from refold.replay.difference.excuses import (
    IGNORED_MAX,
    KIND_ASKED,
    Excuses,
    Ignored,
    unmatched,
    without_volatile,
)
from refold.replay.difference.pointer_diff import differences, same
from refold.replay.difference.volatile import without_places
from refold.replay.index.by_call import AskedCall, Book, label_of
from refold.replay.partial.drift_report import CallDrift, DriftReport, DriftVerdict
from refold.replay.partial.rerun import Again, rerun
from refold.replay.partial.sources import Sources

Comparator = Callable[[Json, Json], bool]
"""(recorded, now) → whether they count as the same."""


def exact(recorded: Json, now: Json) -> bool:
    """Return whether two JSON values are equal, in any order of members."""
    return same(recorded, now)


def text(recorded: Json, now: Json) -> bool:
    """Return whether they are equal but for case and white space in texts."""
    return same(_plain(recorded), _plain(now))


def subset(recorded: Json, now: Json) -> bool:
    """Return whether all that was recorded is there now; more members and items may be."""
    match recorded, now:
        case Mapping(), Mapping():
            return all(key in now and subset(value, now[key]) for key, value in recorded.items())
        case list(), list():
            left = list(now)
            return all(_take_match(item, left) for item in recorded)
        case _:
            return same(recorded, now)


def numbers(tolerance: float) -> Comparator:
    """Return a comparator that lets numbers differ, by `tolerance` of the larger or absolutely."""

    def close(recorded: Json, now: Json) -> bool:
        match recorded, now:
            case bool(), _:
                return recorded is now
            case int() | float(), int() | float() if not isinstance(now, bool):
                return math.isclose(recorded, now, rel_tol=tolerance, abs_tol=tolerance)
            case Mapping(), Mapping():
                return recorded.keys() == now.keys() and all(
                    close(value, now[key]) for key, value in recorded.items()
                )
            case list(), list():
                return len(recorded) == len(now) and all(map(close, recorded, now))
            case _:
                return same(recorded, now)

    return close


_NAMED: Final[dict[str, Comparator]] = {"exact": exact, "text": text, "subset": subset}


def comparator(which: Comparator | str) -> Comparator:
    """Return a comparator by its name (`exact`, `text`, `subset`, `numbers:0.01`), or itself.

    Raises:
        UsageError: no comparator has this name.
    """
    if not isinstance(which, str):
        return which
    if which in _NAMED:
        return _NAMED[which]
    name, _, number = which.partition(":")
    if name == "numbers":
        with contextlib.suppress(ValueError):
            return numbers(float(number))
    raise UsageError(f"unknown rule {which!r}: expected exact, text, subset or numbers:0.01")


def _plain(value: Json) -> Any:
    match value:
        case str():
            return " ".join(value.casefold().split())
        case list():
            return [_plain(item) for item in value]
        case Mapping():
            return {key: _plain(item) for key, item in value.items()}
        case _:
            return value


def _take_match(item: Json, left: list[Json]) -> bool:
    for at, other in enumerate(left):
        if subset(item, other):
            del left[at]
            return True
    return False


COMPARED_KINDS: Final = ("tool", "model", "child", "input", "*")
"""Names that a comparator may have, in addition to single tools, models and children."""


class Records:
    """Two records of one run, compared; the rows are made as they are asked for."""

    def __init__(
        self,
        old: Book,
        new: Book,
        rules: Mapping[str, Comparator],
        volatile: Sequence[str],
        names: tuple[str, ...] = (),
        *,
        cancelled: bool = False,
    ) -> None:
        self._old, self._new = old, new
        self._names = names or (old.started.program,)
        self._rules, self._volatile = rules, volatile
        self._cancelled = cancelled
        """Whether both were cancelled by the run above, each at the point that it had reached."""
        declared = (*new.rules.get("volatile", ()), *volatile)
        self._excuses = Excuses(str(old.log), old.rules, declared)
        self._has_drifted = False
        self._was_cut = False
        self.requests: list[AskedCall] = []
        """The requests of the new run and of children that ran in both, as rows are made."""
        self.ignored: list[Ignored] = self._excuses.ignored
        """What differs and may, children's included; complete when all rows were made."""
        self._below_count = 0

    @property
    def ignored_count(self) -> int:
        """How many values these are in all."""
        return self._excuses.count + self._below_count

    def rows(self) -> Iterator[CallDrift]:
        """Yield what became of each call, in the order of the new run, missing ones in place."""
        self.requests += self._new.requests.values()
        for one, other in self._pairs():
            for row in self._of(one, other):
                yield row
                if row.is_drift and row.verdict == "result_changed":
                    self._has_drifted = True
                self._was_cut = self._was_cut or (self._cancelled and row.noise)
        if self._new.end and self._old.end:
            yield self._output()

    def _pairs(self) -> list[tuple[AskedCall | None, AskedCall | None]]:
        """Pair the calls of both scope by scope, then order them as the new run made them."""
        old, new = _by_scope(self._old), _by_scope(self._new)
        found: list[tuple[int, int, AskedCall | None, AskedCall | None]] = []
        order = {call: at for at, call in enumerate(self._new.requests)}
        for scope in dict.fromkeys([*new, *old]):
            a, b = old.get(scope, []), new.get(scope, [])
            at = -1 if b else len(order)
            for left, right in _aligned(a, b, self._excuses.paths):
                at = order[b[right].call] if right is not None else at
                one = a[left] if left is not None else None
                found.append((at, len(found), one, b[right] if right is not None else None))
        return [(one, other) for _, _, one, other in sorted(found, key=lambda pair: pair[:2])]

    def _of(self, one: AskedCall | None, other: AskedCall | None) -> Iterator[CallDrift]:
        asked: Any = other or one
        where = " > ".join([*self._names, label_of(asked.item)])
        row = CallDrift(
            where=where, call=asked.call, kind=asked.item.kind, name=asked.item.name, verdict="same"
        )
        if one is None or other is None:
            verdict: DriftVerdict = "new" if one is None else "missing"
            yield self._drifted(row, verdict, noise=self._cancelled)
        elif not self._asks_the_same(one, other):
            found = differences(one.item.arguments, other.item.arguments)
            diff = tuple(each for each in found if each.pointer not in _WHERE_IT_STOOD)
            sides = {"recorded": one.item.as_json(), "now": other.item.as_json(), "diff": diff}
            yield self._drifted(row, "arguments_changed", noise=self._was_cut, **sides)
        else:
            below = list(self._below(one, other))
            yield from below
            yield self._compared(row, one, other, below)

    def _drifted(self, row: CallDrift, verdict: DriftVerdict, **told: Any) -> CallDrift:
        """Return the row of a call that differs; it may follow from what drifted before."""
        if verdict == "result_changed":
            told["diff"] = differences(told["recorded"], told["now"])
        return attrs.evolve(row, verdict=verdict, **{"consequent": self._has_drifted} | told)

    def _asks_the_same(self, one: AskedCall, other: AskedCall) -> bool:
        if one.identity == other.identity:
            return True
        kind, pair = KIND_ASKED[one.item.kind], (one.comparable, other.comparable)
        return self._excuses.excused(kind, one.call, one.item.seq, pair)

    def _compared(
        self, row: CallDrift, one: AskedCall, other: AskedCall, below: Sequence[CallDrift]
    ) -> CallDrift:
        recorded, now = self._result(self._old, one), self._result(self._new, other)
        if below and below[-1].kind == "output" and below[-1].verdict == "same":
            recorded, now = _without_end(recorded), _without_end(now)
        rule = self._rules.get(row.name) or self._rules.get(row.kind) or self._rules.get("*", exact)
        if recorded == now or self._is_excused(one, recorded, now, rule):
            return row
        is_below, noise = any(each.is_drift for each in below), self._is_cut(one, other)
        told = {"recorded": recorded, "now": now, "consequent": is_below, "noise": noise}
        return self._drifted(row, "result_changed", **told)

    def _is_cut(self, one: AskedCall, other: AskedCall) -> bool:
        """Return whether the results can differ because a run was cancelled at another point."""
        asked = (self._old, one.call), (self._new, other.call)
        return all(call in book.cancelled_children for book, call in asked) or (
            self._cancelled and not all(call in book.answers for book, call in asked)
        )

    def _is_excused(self, one: AskedCall, recorded: Json, now: Json, rule: Comparator) -> bool:
        """Return whether two outcomes of a call count as the same, volatile places aside."""
        excuses, what, place = self._excuses, ":".join(one.name), (one.call, one.item.seq)
        pair: tuple[Json, Json] = recorded, now
        if one.item.kind == "child":
            pair = {"outcome": recorded}, {"outcome": now}
        if excuses.passes(what, *place, pair):
            return True
        if rule is exact:
            return False
        old, new = (without_volatile(what, each, excuses.paths) for each in pair)
        if one.item.kind == "child":
            old, new = old["outcome"], new["outcome"]
        if not _counts_as_same(old, new, rule):
            return False
        excuses.note(what, *place, pair)
        return True

    def _below(self, one: AskedCall, other: AskedCall) -> Iterator[CallDrift]:
        """Yield the rows of a child that ran in both."""
        if one.item.kind != "child":
            return
        old, new = self._old.child_log(one.call), self._new.child_log(other.call)
        if old is None or new is None:
            return
        name = f"{one.item.name}[{self._old.child_number(one.call)}]"
        try:
            books = Book(old, unfinished_ok=True), Book(new, unfinished_ok=True)
        except (LogError, LogMissing):  # one that is not there was never begun, or is gone
            return
        names, cancelled = (*self._names, name), self._is_cut(one, other)
        below = Records(*books, self._rules, self._volatile, names, cancelled=cancelled)
        yield from below.rows()
        self.requests += below.requests
        self.ignored += below.ignored
        self._below_count += below.ignored_count

    @staticmethod
    def _result(book: Book, asked: AskedCall) -> Json:
        answer = book.answers.get(asked.call)
        if answer is None:
            return None
        event: Any = answer.event
        data: dict[str, Any] = unstructure(event)
        if isinstance(event, ChildFinished):
            outcome = data["outcome"]
            data = {name: value for name, value in outcome.items() if name not in _MEASURED}
        return without_places({name: value for name, value in data.items() if name != "usage"})

    def _output(self) -> CallDrift:
        where = " > ".join([*self._names, "output"])
        row = CallDrift(where=where, call="", kind="output", name="", verdict="same")
        ends = without_places(self._old.whole_end), without_places(self._new.whole_end)
        if ends[0] == ends[1] or self._excuses.passes("run", "", self._old.entries, ends):
            return row
        told = {"recorded": ends[0], "now": ends[1], "noise": self._cancelled}
        return self._drifted(row, "result_changed", **told)


_WHERE_IT_STOOD: Final = ("/predecessor", "/base")
"""The part of a conversation that the log already had, which follows from earlier requests."""
_MEASURED: Final = ("duration_ms", "child", "usage")


def _without_end(outcome: Json) -> Json:
    """Return a child's outcome without what follows from its own end, which was compared there."""
    if not isinstance(outcome, dict):
        return outcome
    return {name: value for name, value in outcome.items() if name not in _HANDED_BACK}


_HANDED_BACK: Final = frozenset({"output", "summary", "artifacts", "error"})


def _counts_as_same(recorded: Json, now: Json, rule: Comparator) -> bool:
    """Return whether two outcomes are equal by a rule, which compares only their results."""
    if not isinstance(recorded, Mapping) or not isinstance(now, Mapping):
        return False
    if recorded.get("status") != now.get("status"):
        return False
    given = ("result", "message", "output", "summary", "artifacts", "answer", "error")
    return all(rule(recorded.get(name), now.get(name)) for name in given)


def _by_scope(book: Book) -> dict[str, list[AskedCall]]:
    found: dict[str, list[AskedCall]] = {}
    for asked in book.requests.values():
        found.setdefault(asked.item.scope, []).append(asked)
    return found


def _aligned(a: Sequence[AskedCall], b: Sequence[AskedCall], volatile: Sequence[str]) -> list[Pair]:
    """Pair the calls of one scope; of two possible partners, the one with the same key."""
    old, new = ([_key(one, volatile) for one in calls] for calls in (a, b))
    pairs = list(align(old, new).pairs)
    alone = {
        a[left].call: at
        for at, (left, right) in enumerate(pairs)
        if right is None and left is not None
    }
    for at, (left, right) in enumerate(pairs):
        if left is None or right is None or old[left] == new[right]:
            continue
        other = alone.pop(b[right].call, None)
        if other is not None and a[pairs[other][0] or 0].name == b[right].name:
            first, last = sorted((at, other))  # what is gone now stands after what changed
            pairs[first], pairs[last] = (pairs[other][0], right), (left, None)
    return pairs


def _key(asked: AskedCall, volatile: Sequence[str]) -> tuple[str, str, bytes]:
    return *asked.name, asked.identity_without(volatile).encode()


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
        found = Records(book, new, rules, paths)
        rows, noise = list(found.rows()), set[str]()
        if twice:
            second = Records(new, made(Path(folder) / "twice.jsonl"), rules, paths)
            noise = {row.where for row in second.rows() if row.verdict == "result_changed"}
    rows = [
        attrs.evolve(
            row,
            noise=row.noise or (row.verdict == "result_changed" and row.where in noise),
            # If a run stopped, what it did not come to is no drift of its own.
            consequent=row.consequent or (bool(missing) and row.verdict == "missing"),
        )
        for row in rows
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
                f"compare {name!r}: the run has no tool, model or child of this name; "
                f"expected one of {', '.join([*sorted(names), *COMPARED_KINDS])}"
            )
