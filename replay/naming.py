"""What the first difference is called: runs the program on, executes nothing, aligns the rest.

A line that differs does not say whether a call was inserted, dropped, swapped or changed.  So the
program is let run on: what it asks for is answered from the record, by likeness within its scope,
until it ends or waits for ever.  Then what was asked is aligned with what was recorded, scope by
scope, and the first difference gets its name (CONTRACT.md §12.4).  The verdict and the place are
settled before this begins; here only a word for them is found.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

import attrs

from refold.engine.canonical import Json, encode, loads
from refold.engine.codec import kind_of, structure, unstructure
from refold.engine.events import (
    ChildFinished,
    ClockRead,
    Event,
    InputGiven,
    ModelAnswered,
    ToolReturned,
    ValueDrawn,
)
from refold.engine.kernel import Kernel
from refold.engine.log import Entry
from refold.engine.loop import Timer
from refold.engine.outcome import Outcome
from refold.replay.cursor import Cursor
from refold.replay.items import Item, is_asked, item_of, scope_of
from refold.replay.pointer_diff import same

STEPS_MAX: Final = 2_000
"""Requests after which the program is not let run on any further."""


@attrs.frozen(kw_only=True)
class Mismatch:
    """The first line that differs, as it was found."""

    event_kind: str
    """What the program emitted; empty where it waited, or had ended."""
    call: str | None
    now: Json
    """The data emitted; of an ended program, its verdict."""
    recorded: Entry | None
    recorded_data: Json
    last: tuple[Entry, ...]
    file: str
    line: int
    has_ended: bool
    """Whether the program had returned by then."""

    def is_other_end(self) -> bool:
        """Return whether the same delegation tool ended otherwise: no request differs."""
        entry = self.recorded
        return (
            entry is not None
            and entry.kind == self.event_kind == "tool.returned"
            and entry.call == self.call
        )


@attrs.frozen
class Step:
    """One step of an alignment: `same`, `changed`, `added` or `dropped`."""

    op: str
    recorded: Item | None
    now: Item | None


class Explorer:
    """Answers a program that has left its record, as well as can be."""

    def __init__(self, cursor: Cursor, kernel: Kernel) -> None:
        self.asked_items: list[Item] = []
        self.recorded_items: list[Item] = []
        self._answers: dict[str, tuple[int, Event]] = {}
        """By recorded call key: seq and event of what completed it."""
        self._served: dict[str, Item] = {}
        self._unused: dict[str, list[Item]] = defaultdict(list)
        self._open_before = set(kernel.open) | set(kernel.children)
        self._clock = ClockRead(0, 0)
        self._steps = 0
        self._deliveries = 0
        self._waited: set[str] = set()
        """Recorded call keys that were asked for only after something had been delivered."""
        for entry in cursor.rest():
            self._recorded(entry, cursor)

    def _recorded(self, entry: Entry, cursor: Cursor) -> None:
        if entry.kind == "clock.read":
            self._clock = ClockRead(entry.data["time_us"], entry.data["virtual_us"])
        data = cursor.data(entry)
        item = item_of(entry.kind, entry.call, data, entry.seq)
        if item is not None:
            self.recorded_items.append(item)
            self._unused[item.scope].append(item)
        elif entry.call and entry.kind in _COMPLETIONS:
            event = structure(entry.kind, data)
            self._answers.setdefault(entry.call, (entry.seq, event))  # type: ignore[arg-type]  # its kind says so

    def asked(self, event: Event, call: str | None) -> None:
        """Take note of what the program asks for, and choose what will answer it."""
        kind = kind_of(event)
        if not is_asked(kind):
            return
        item = item_of(kind, call, loads(encode(unstructure(event))))
        if item is None:
            return
        self._note(item)
        match = self._match(item)
        if match is not None:
            self._served[item.call] = match
            if self._deliveries:
                self._waited.add(match.call)

    def waited_before(self, call: str) -> bool:
        """Return whether the program had to be given something before it asked for this."""
        return call in self._waited

    def draw(self, source: str, name: str, call: str) -> Json:
        """Return the value that the record has for a draw of that name in this scope."""
        item = Item("value", source, {"source": source, "name": name}, call)
        for other in self._unused[item.scope]:
            if other.kind == "value" and other.arguments.get("name") == name:
                self.asked(ValueDrawn(source, name, other.arguments.get("value")), call)  # type: ignore[arg-type]  # a closed set
                return other.arguments.get("value")
        self._note(item)
        return None

    def look(self) -> ClockRead:
        """Return the last time that the record has."""
        self._note(Item("clock", "", None, ""))
        return self._clock

    def _note(self, item: Item) -> None:
        self._steps += 1
        self.asked_items.append(item)

    def _match(self, item: Item) -> Item | None:
        """Return the recorded request whose outcome fits best; used up only if it is the same."""
        unused = self._unused[item.scope]
        for other in unused:
            if is_same(item, other):
                unused.remove(other)
                return other
        alike = [other for other in unused if other.kind == item.kind]
        named = [other for other in alike if other.name == item.name]
        return next(iter(named or alike), None)

    def advance(self, kernel: Kernel) -> bool:
        """Deliver the outcome that the record has earliest; False where none is left to give."""
        if self._steps > STEPS_MAX:
            return False
        self._steps += 1
        candidates = [(self._when(call), call) for call in kernel.open]
        candidates += [
            (self._when(call), call) for call in kernel.children if kernel.wants_child(call)
        ]
        if candidates:
            _, call = min(candidates)
            self._deliveries += 1
            kernel.deliver(self._outcome(call, kernel), call)
            return True
        return self._fire(kernel)

    def _when(self, call: str) -> int:
        return self._answers.get(self._recorded_call(call), (_NEVER, None))[0]

    def _recorded_call(self, call: str) -> str:
        match = self._served.get(call)
        if match is not None:
            return match.call
        return call if call in self._open_before else ""

    def _outcome(self, call: str, kernel: Kernel) -> Event:
        found = self._answers.get(self._recorded_call(call))
        if call in kernel.children:
            if found is not None and isinstance(found[1], ChildFinished):
                return found[1]
            return ChildFinished(Outcome(status="completed"))
        kind = kernel.open[call].kind
        if found is not None and kind_of(found[1]) == _COMPLETED_BY[kind]:
            return found[1]
        if kind == "model":
            return ModelAnswered("ok", {"role": "assistant", "content": ""})
        return ToolReturned("ok") if kind == "tool" else InputGiven(None)

    def _fire(self, kernel: Kernel) -> bool:
        """Fire the timer that is due first; the recorded ones count as they were recorded."""
        timers: list[Timer] = sorted(
            kernel.loop.timers.values(), key=lambda timer: (timer.delay_us, timer.number)
        )
        if not timers:
            return False
        timer = timers[0]
        self._note(Item("timer", "", None, timer.key))
        self._deliveries += 1
        kernel.loop.fire(timer.key)
        return True


_NEVER: Final = 1 << 62
_COMPLETIONS: Final = frozenset(
    {"tool.returned", "model.answered", "child.finished", "input.given"}
)
_COMPLETED_BY: Final = {
    "tool": "tool.returned",
    "model": "model.answered",
    "input": "input.given",
}


def is_same(one: Item, other: Item) -> bool:
    """Return whether two items ask for the same, whatever their ordinals."""
    return (
        one.kind == other.kind and one.name == other.name and same(one.arguments, other.arguments)
    )


def category(mismatch: Mismatch, explorer: Explorer) -> tuple[str, Step | None]:
    """Return the name of the first difference, and the step of the alignment that shows it."""
    name, step = _of_scopes(mismatch, explorer)
    looked = _of_looks(mismatch, explorer)
    if looked is None:
        return name, step
    if step is not None and _stands_at(step, mismatch) and step.op == _OPPOSITE[looked.op]:
        return "kind_changed", Step(
            "changed", step.recorded or looked.recorded, step.now or looked.now
        )
    if looked.op == "added":
        return "extra_call", looked
    return ("unconsumed" if mismatch.has_ended else "missing_call"), looked


def _of_scopes(mismatch: Mismatch, explorer: Explorer) -> tuple[str, Step | None]:
    """Return the first difference of what has a call key; else the scopes are only interleaved."""
    for scope in _scopes(mismatch, explorer):
        steps = aligned(
            [item for item in explorer.recorded_items if item.call and item.scope == scope],
            [item for item in explorer.asked_items if item.call and item.scope == scope],
        )
        for at, step in enumerate(steps):
            if step.op != "same":
                return _name(step, steps[at:], has_ended=mismatch.has_ended), step
    recorded = mismatch.recorded.call if mismatch.recorded is not None else None
    if not mismatch.event_kind or explorer.waited_before(recorded or ""):
        return "unrecorded_await", None
    return "reordered", None


def _scopes(mismatch: Mismatch, explorer: Explorer) -> Iterable[str]:
    """Return scopes, those of the two lines that differ first, then in the order of the record."""
    recorded = mismatch.recorded.call if mismatch.recorded is not None else None
    items = [*explorer.recorded_items, *explorer.asked_items]
    named = [scope_of(call) for call in (mismatch.call, recorded) if call]
    return dict.fromkeys([*named, *(item.scope for item in items)])


_OPPOSITE: Final = {"added": "dropped", "dropped": "added"}


def _of_looks(mismatch: Mismatch, explorer: Explorer) -> Step | None:
    """Return the look at the clock that is one too many, or missing, where the lines differ.

    Looks have no call key, and one is like the other: only their number can be compared.
    """
    recorded = [item for item in explorer.recorded_items if item.kind == "clock"]
    now = [item for item in explorer.asked_items if item.kind == "clock"]
    if mismatch.event_kind == "clock.read" and len(now) > len(recorded):
        return Step("added", None, now[0])
    entry = mismatch.recorded
    if entry is not None and entry.kind == "clock.read" and len(now) < len(recorded):
        return Step("dropped", recorded[0], None)
    return None


def _stands_at(step: Step, mismatch: Mismatch) -> bool:
    """Return whether a step is about one of the two lines that differ."""
    recorded = mismatch.recorded.call if mismatch.recorded is not None else None
    return any(
        item is not None and item.call in (recorded, mismatch.call)
        for item in (step.recorded, step.now)
    )


def _name(step: Step, rest: Sequence[Step], *, has_ended: bool) -> str:
    now, recorded = step.now, step.recorded
    if step.op == "changed" and now is not None and recorded is not None:
        if _is_swapped(now, recorded, rest):
            return "reordered"
        if now.kind != recorded.kind:
            return "kind_changed"
        return "name_changed" if now.name != recorded.name else "args_changed"
    if step.op == "added":
        later = [other.recorded for other in rest if other.op in ("dropped", "changed")]
        return "reordered" if _has(later, now) else "extra_call"
    later = [other.now for other in rest if other.op in ("added", "changed")]
    if _has(later, recorded):
        return "reordered"
    return "unconsumed" if has_ended else "missing_call"


def _is_swapped(now: Item, recorded: Item, rest: Sequence[Step]) -> bool:
    return _has([step.recorded for step in rest], now) and _has(
        [step.now for step in rest], recorded
    )


def _has(items: Iterable[Item | None], wanted: Item | None) -> bool:
    return wanted is not None and any(item is not None and is_same(item, wanted) for item in items)


_WINDOW: Final = 200
"""Requests of one scope that are aligned; the first difference is at their beginning."""


def aligned(recorded: Sequence[Item], now: Sequence[Item]) -> list[Step]:
    """Return the cheapest way from what was recorded to what is asked now, step by step."""
    recorded, now = recorded[:_WINDOW], now[:_WINDOW]
    rows, columns = len(recorded), len(now)
    cost = [[0.0] * (columns + 1) for _ in range(rows + 1)]
    for row in range(rows, -1, -1):
        for column in range(columns, -1, -1):
            cost[row][column] = _cheapest(recorded, now, row, column, cost)[0]
    steps, row, column = [], 0, 0
    while row < rows or column < columns:
        _, op = _cheapest(recorded, now, row, column, cost)
        old = recorded[row] if op != "added" else None
        new = now[column] if op != "dropped" else None
        steps.append(Step(op, old, new))
        row += op != "added"
        column += op != "dropped"
    return steps


def _cheapest(
    recorded: Sequence[Item], now: Sequence[Item], row: int, column: int, cost: list[list[float]]
) -> tuple[float, str]:
    rows, columns = len(recorded), len(now)
    if row == rows and column == columns:
        return 0.0, "same"
    choices = []
    if row < rows and column < columns:
        price = _price(recorded[row], now[column])
        choices.append((price + cost[row + 1][column + 1], "changed" if price else "same"))
    if row < rows:
        choices.append((1.0 + cost[row + 1][column], "dropped"))
    if column < columns:
        choices.append((1.0 + cost[row][column + 1], "added"))
    return min(choices, key=lambda choice: choice[0])


def _price(recorded: Item, now: Item) -> float:
    """Return what it costs to say that one became the other; 2 would be: dropped and added."""
    if recorded.kind != now.kind:
        return 1.8
    if recorded.name != now.name:
        return 1.6
    return 0.0 if same(recorded.arguments, now.arguments) else 1.0
