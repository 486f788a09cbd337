"""Continues a program that has left its record, so that the difference can be named.

Its requests are answered from the record by similarity: the same request in its scope, the same in
a different scope, else the nearest of its kind. Nothing is executed. The verdict and the place of
the first difference are already decided. `replay.explain.naming` names it from the data gathered
here, and `replay.explain.scopes` aligns it (CONTRACT.md §12.4).
"""

import asyncio
import functools
import itertools
from collections import defaultdict
from collections.abc import Callable
from typing import Any, Final

import attrs

from refold.engine.encoding.canonical import Json, encode, loads
from refold.engine.events import events
from refold.engine.events.codec import kind_of, structure, unstructure
from refold.engine.events.events import scope_of
from refold.engine.events.outcome import Outcome
from refold.engine.kernel.kernel import Kernel
from refold.engine.kernel.pending import Pending
from refold.engine.kernel.world import World
from refold.engine.log.reader import Entry
from refold.engine.loop.loop import Task
from refold.engine.ports.effects import AskModel
from refold.engine.ports.ports import ModelRequest
from refold.replay.difference.excuses import Excuses
from refold.replay.index.asked_items import Item, item_of, timer_of
from refold.replay.index.by_call import blank
from refold.replay.index.cursor import Cursor

STEPS_MAX: Final = 5_000
"""Requests and answers after which the program is not let run on any further."""
_NEAR: Final = 200
"""Recorded requests of a scope among which one of the same kind is looked for."""


@attrs.frozen(kw_only=True)
class Mismatch:
    """The first line that differs, as it was found."""

    event_kind: str
    """The event that the program emitted; empty if it waited or had ended."""
    call: str | None
    now: Json
    """The data emitted; of an ended program, its verdict."""
    recorded: Entry
    recorded_data: Json
    last: tuple[Entry, ...]
    """The lines that matched before it."""
    place: tuple[str, int] | None
    """The program's file and line, if known."""
    has_ended: bool
    """Whether the program had returned by then."""
    early: str = ""
    """The key of a timer that is due before the recorded one."""

    def is_other_end(self) -> bool:
        """Return whether the same delegation tool ended otherwise: no request differs."""
        entry = self.recorded
        return entry.kind == self.event_kind == "tool.returned" and entry.call == self.call


class Explorer(World):
    """The world of a program that has left its record: it is answered as well as can be."""

    def __init__(self, first: Mismatch, cursor: Cursor, kernel: Kernel, excuses: Excuses) -> None:
        super().__init__(kernel.world.fold)
        self.first = first
        self._cursor = cursor
        self._kernel = kernel
        self._excuses = excuses
        self.asked_items: list[Item] = []
        self.recorded_items: list[Item] = []
        self.finish: Entry | None = None
        """The recorded end of the run, if it has one."""
        self.is_cut = False
        """Whether the program was left before it had come to an end of its own."""
        live = (task.scope for task in kernel.loop.unfinished if isinstance(task, Task))
        self.scopes_before = frozenset(scope.path for scope in live)
        """Scopes of tasks that existed when the program left its record."""
        self.is_guessing = False
        """Whether the program got any answer other than the recorded one for the same request."""
        self.requests: dict[str, ModelRequest] = {}
        """The model requests made since, whole, by call."""
        self._answers: dict[str, tuple[int, events.Event]] = {}
        """By recorded call key: seq and event of what completed it."""
        self._firings: dict[tuple[str, int | None], list[int]] = defaultdict(list)
        """Seqs of recorded timers, by scope and length."""
        self._served: dict[str, Item] = {}
        self._unused: dict[str, dict[Item, None]] = defaultdict(dict)
        self._same: dict[tuple[str, str, bytes], list[Item]] = defaultdict(list)
        self._first_named: dict[tuple[str, str], Item] = {}
        self._other_name: set[str] = set()
        """Calls that are answered with what came of a call of another name."""
        self._unplaced: set[str] = set()
        """Those answered with what came of another call elsewhere, and those that only have the
        place of one that was cancelled: they are answered at once."""
        self._first_unused = 0
        self._open_before = set(kernel.open) | set(kernel.children)
        self._clock = events.ClockRead(0, 0)
        self._steps = 0
        self.first_given = 1 << 62
        """How much had been asked when the program was first given something."""
        self._given_up: set[str] = set()
        for entry in cursor.rest():
            self._recorded(entry, cursor)
        self.sleeping = _sleeping(kernel)
        """By scope, the timer that its task slept on then."""
        self.due_before = self._due()
        """Of the timers that were armed then and that the record fires: their seqs, by key."""
        self.replaced = self._replaced(first)
        """The timer in the place where the record fires one with a different length."""
        self._extra_sleep = first.early or self.replaced or self._sleep_before(first.recorded)
        """The timer of a sleep that the record does not have; see `_sleep_before`."""
        self.early = self._item_of(first.early) if first.early else None
        """The timer that is due before the one that the record fires."""

    def _recorded(self, entry: Entry, cursor: Cursor) -> None:
        data = cursor.data(entry)
        match entry.kind:
            case "clock.read":
                self._clock = events.ClockRead(data["time_us"], data["virtual_us"])
            case "run.finished":
                self.finish = entry
            case "timer.fired":
                kind = scope_of(entry.call or ""), data.get("length_us")
                self._firings[kind].append(entry.seq)
            case "effect.cancelled":
                self._given_up.add(entry.call or "")
        item = item_of(entry.kind, entry.call, data, entry.seq)
        if item is not None:
            self.recorded_items.append(item)
            self._unused[item.scope][item] = None
            self._same[item.key].append(item)
            self._first_named.setdefault((item.kind, item.name), item)
        if entry.call and entry.kind in events.COMPLETES:
            event = structure(entry.kind, data)
            self._answers.setdefault(entry.call, (entry.seq, event))  # type: ignore[arg-type]  # its kind says so

    def _replaced(self, first: Mismatch) -> str:
        """Return the first timer of a scope that replaces the one that the record fires there.

        If it is an extra sleep before the recorded one, the later requests show it.
        """
        entry = first.recorded
        if entry.kind != "timer.fired" or first.event_kind:
            return ""
        timers = self._kernel.loop.timers.values()
        here = (timer for timer in timers if timer.scope == scope_of(entry.call or ""))
        free = [timer.key for timer in here if timer.key not in self.due_before]
        return entry.call if entry.call in free else next(iter(free), "")

    def _sleep_before(self, entry: Entry) -> str:
        """Return the timer that the task sleeps on at the place of a recorded request.

        A timer that the record never fired is an extra sleep. So is one in a place where the
        recorded task waits: if a timer of the task fires while the request is open, it belongs to a
        time limit, because no task sleeps while it waits.
        """
        if not entry.call or entry.kind in events.FROM_WORLD:
            return ""
        scope = scope_of(entry.call)
        above = [key for one, key in self.sleeping.items() if f"{scope}/".startswith(f"{one}/")]
        key = max(above, key=len, default="")
        if not key or key not in self.due_before or self.is_limit(key):
            return key
        timers = (one for one in self.recorded_items if one.kind == "timer")
        fired = min((one.seq for one in timers if one.scope == scope), default=-1)
        answered = self._answers.get(entry.call)
        is_before = fired < 0 or (answered and answered[0] < fired)
        if entry.kind not in events.REQUEST_KINDS or is_before:
            return ""
        is_awaited = entry.kind != "child.started" or entry.call in self._given_up
        return self.sleeping.get(scope, "") if is_awaited else ""

    def is_limit(self, key: str) -> bool:
        """Return whether a recorded timer fired while its task waited for something: no sleep."""
        fired, scope = self.due_before.get(key, -1), scope_of(key)
        for item in self.recorded_items:
            if item.seq >= fired:
                return False
            if item.scope == scope and item.kind in _COMPLETED_BY:
                answered = self._answers.get(item.call)
                if answered is None or answered[0] > fired:
                    return True
        return False

    # -- what the program asks ------------------------------------------------------------

    def emit(self, event: events.Event, call: str | None) -> None:
        """Note the program's request, and choose its answer."""
        self._asked(event, call)
        self.fold.apply(event, call)

    def _asked(self, event: events.Event, call: str | None) -> None:
        item = item_of(kind_of(event), call, loads(encode(unstructure(event))))
        if item is None or self.is_cut:
            return
        self._note(item)
        match = self._match(item)
        self.is_guessing |= not item.is_mark and (match is None or match.key != item.key)
        if match is not None:
            self._served[item.call] = match
            if match.name != item.name:
                self._other_name.add(item.call)
            is_unlike = match.name != item.name and match.key[2] != item.key[2]
            is_new = match.call != item.call or (is_unlike and match.call in self._given_up)
            if match.key != item.key and is_new:
                self._unplaced.add(item.call)

    def draw(self, source: str, name: str, call: str, produce: Callable[[], Json]) -> Json:  # noqa: ARG002 - the port's
        """Return the value that the record has for a draw of that name in this scope."""
        item = Item("value", source, {"source": source, "name": name}, call)
        for other in self._unused[item.scope]:
            if other.kind == "value" and other.arguments.get("name") == name:
                self._asked(events.ValueDrawn(source, name, other.arguments.get("value")), call)  # type: ignore[arg-type]  # a closed set
                return other.arguments.get("value")
        self._note(item)
        self.is_guessing = True
        return None

    def read_clock(self) -> events.ClockRead:
        """Return the last time that the record has."""
        self._note(Item("clock", "", None, ""))
        return self._clock

    def patched(self, marker: str) -> bool:
        """Return whether the record has the marker."""
        return marker in self._cursor.markers

    def secret_named(self, name: str) -> None:  # noqa: ARG002 - the record has no value
        """Expect markers in the record, as before."""
        self._excuses.expect_markers()

    @functools.cached_property
    def cut_off(self) -> frozenset[Item]:
        """The timers that may be recorded ones, of a run that was stopped while they ran.

        A log has no line of a timer that did not fire, so each is the last request of its scope.
        """
        if not self._is_stopped():
            return frozenset()
        last = {item.scope: item for item in self.asked_items if item.call}
        fired = {item.key for item in self.recorded_items if item.kind == "timer"}
        return frozenset(
            item for item in last.values() if item.kind == "timer" and item.key not in fired
        )

    def _is_stopped(self) -> bool:
        """Return whether the recorded run did not come to an end of its own."""
        status = self.finish.data.get("status") if self.finish is not None else "cancelled"
        return status in ("timed_out", "cancelled")

    @property
    def emitted(self) -> Item | None:
        """The program's request at the point where it left its record; `None` if it waited."""
        return self.asked_items[0] if self.first.event_kind and self.asked_items else None

    def _note(self, item: Item) -> None:
        self._steps += 1
        self.asked_items.append(item)

    def _match(self, item: Item) -> Item | None:
        """Return the recorded request whose outcome fits best; used up only if it is the same."""
        same = self._same.get(item.key, ())
        unused = [other for other in same if other in self._unused[other.scope]]
        here = [other for other in unused if other.scope == item.scope]
        found = next(iter(here or unused), None)
        if found is not None:
            del self._unused[found.scope][found]
            return found
        if same:
            return same[0]
        alike = [
            other
            for other in itertools.islice(self._unused[item.scope], _NEAR)
            if other.kind == item.kind
        ]
        of_name = [other for other in alike if other.name == item.name]
        of_name.sort(key=lambda other: other.call != item.call)  # its own key before the earliest
        elsewhere = self._first_named.get((item.kind, item.name))
        return next(iter(of_name), elsewhere or next(iter(alike), None))

    # -- what it is answered --------------------------------------------------------------

    def advance(self) -> bool:
        """Deliver the earliest recorded outcome; False if none is left."""
        kernel = self._kernel
        for effect in kernel.wanted:
            if isinstance(effect, AskModel):
                self.requests[effect.call] = effect.request
        kernel.wanted.clear()
        if self._steps > STEPS_MAX:
            self.is_cut = True
            return False
        self._steps += 1
        self.first_given = min(self.first_given, len(self.asked_items))
        calls = [*kernel.open, *(call for call in kernel.children if kernel.wants_child(call))]
        known = [(seq, call) for call in calls if (seq := self._when(call)) is not None]
        timers = kernel.loop.timers
        if self._extra_sleep in timers:
            self._fire(self._extra_sleep)
            return True
        due = [(seq, key) for key, seq in self._due().items()]
        unknown = [call for call in calls if self._when(call) is None]
        unknown.sort(key=self._was_given_up)  # these wait for what made the record give up on them
        is_left = not known and not due and all(map(self._was_given_up, unknown))
        if unknown and is_left and self._is_stopped():  # the recorded run waited there, too
            self.is_cut = True
            return False
        may_come = unknown and not (due and self._was_given_up(unknown[0]))
        first = min([*known, *due], default=(1 << 62, ""))
        is_next = self._next_asked() < first[0] or first in due
        if may_come and (not known or is_next):
            kernel.deliver(self._outcome(unknown[0]), unknown[0])
        elif due and (not known or min(due) < min(known)):
            self._fire(min(due)[1])
        elif known:
            call = min(known)[1]
            kernel.deliver(self._outcome(call), call)
        elif timers:
            self._fire(min(timers.values(), key=lambda one: (one.delay_us, one.number)).key)
        else:
            return False
        return True

    def _due(self) -> dict[str, int]:
        """Return the seqs at which the record has the timers that are armed, by their keys."""
        left = {kind: iter(seqs) for kind, seqs in self._firings.items()}
        timers = self._kernel.loop.timers.values()
        found = ((one.key, left.get((one.scope, one.length_us))) for one in timers)
        return {key: seq for key, seqs in found if seqs and (seq := next(seqs, None)) is not None}

    def _when(self, call: str) -> int | None:
        """Return the seq of what answered the call in the record; `None` where nothing did."""
        if call in self._unplaced:
            return None
        found = self._answers.get(self._recorded_call(call))
        return found[0] if found is not None else None

    def _next_asked(self) -> int:
        """Return the seq of the first recorded request that nobody has made yet."""
        items = self.recorded_items
        while self._first_unused < len(items):
            item = items[self._first_unused]
            if not item.is_mark and item in self._unused[item.scope]:
                return item.seq
            self._first_unused += 1
        return 1 << 62

    def _was_given_up(self, call: str) -> bool:
        """Return whether the record cancelled the request."""
        return call not in self._unplaced and self._recorded_call(call) in self._given_up

    def _recorded_call(self, call: str) -> str:
        match = self._served.get(call)
        if match is not None:
            return match.call
        return call if call in self._open_before else ""

    def _outcome(self, call: str) -> events.Event:
        found = self._answers.get(self._recorded_call(call))
        if call in self._kernel.children:
            if found is not None and isinstance(found[1], events.ChildFinished):
                return found[1]
            return events.ChildFinished(Outcome(status="completed"))
        pending = self._kernel.open[call]
        event = found[1] if found is not None else None
        if event is None or kind_of(event) != _COMPLETED_BY[pending.kind]:
            return _made_up(pending)
        # That another tool failed says nothing of this one, and would lead the program elsewhere.
        has_failed = getattr(event, "status", "ok") != "ok"
        return _made_up(pending) if has_failed and call in self._other_name else event

    def _fire(self, key: str) -> None:
        seq = self._due().get(key)
        if seq is not None:
            timer = self._kernel.loop.timers[key]
            self._firings[timer.scope, timer.length_us].remove(seq)
        self._note(self.early if self.early and key == self.early.call else self._item_of(key))
        self._kernel.loop.fire(key)

    def _item_of(self, key: str) -> Item:
        return timer_of(self._kernel.loop.timers[key])


_COMPLETED_BY: Final = {
    kind.partition(".")[0]: kind for kind in events.COMPLETES if kind != "child.finished"
}
"""By awaited kind, without children, which are started at once and joined."""


def _made_up(pending: Pending) -> events.Event:
    """Return an outcome with as little data as possible, whose effects are consequences."""
    if pending.tool is not None and pending.tool.typed:
        return events.ToolReturned("error", error={"code": "unrecorded", "message": "", "type": ""})
    return blank(pending.kind)


def _sleeping(kernel: Kernel) -> dict[str, str]:
    """Return the last timer of each scope whose task is in `asyncio.sleep`, but not of nothing."""
    root = kernel.loop.root
    found = {root.path: f"{root.path}@{root.timers}"} if kernel.main is None else {}  # a plain one
    for task in kernel.loop.unfinished:
        inner: Any = task.get_coro()
        while (waits := getattr(inner, "cr_await", None)) is not None and hasattr(waits, "cr_code"):
            inner = waits
        is_sleep = getattr(inner, "cr_code", None) is asyncio.sleep.__code__
        if isinstance(task, Task) and is_sleep and not hasattr(inner.cr_await, "gi_code"):
            found[task.scope.path] = f"{task.scope.path}@{task.scope.timers}"
    return {scope: key for scope, key in found.items() if key in kernel.loop.timers}
