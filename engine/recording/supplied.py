"""Records a run with some outcomes supplied, from a record or by stubs.

The rules are CONTRACT.md §12.10.

It extends `engine.recording.recorder`. Supplied effects are not executed. Live outcomes are
delivered at their recorded places, if they have one, so a run without drift has the same lines as
the record. The request's `supply` decides which outcomes are supplied, and their source:
`replay.partial.sources.BookSupply`.
"""

from collections.abc import Callable
from typing import Any, Final

import attrs

from refold.engine.encoding.canonical import Json
from refold.engine.errors import Unanswered
from refold.engine.events.events import ClockRead, Event, ToolCalled, ValueDrawn
from refold.engine.events.outcome import Outcome
from refold.engine.kernel.world import REQUESTS, World
from refold.engine.loop.loop import Timer, microseconds
from refold.engine.ports.effects import Effect, GiveUp, RunChild
from refold.engine.ports.ports import ChildRequest, SessionPort, Stopped, Suspended
from refold.engine.recording.driver import Arrival, CancelRun, SharedChange, TokensAsked
from refold.engine.recording.host import Host
from refold.engine.recording.ledger import Handed
from refold.engine.recording.recorder import Recorder
from refold.engine.recording.run_request import RunRequest

_SLACK_US: Final = 1_000_000
"""By how much a live outcome may be later than a timer that it came before in the record."""
_LOOK_SECONDS: Final = 0.005
_CANCELLED: Final = "cancellation"
_TOKENS: Final = "tokens"
_HAS_NO_TURN: Final = (Outcome, Suspended, Stopped, Unanswered)
"""Arrivals that complete nothing: nothing behind them may wait for their turn."""


def recorder_for(request: RunRequest, host: Host) -> Recorder:
    """Return what records `request` from its beginning."""
    return Supplied(request, host) if request.supply is not None else Recorder(request, host)


class Supplied(Recorder):
    """A recorder that asks its request's supply first."""

    def __init__(self, request: RunRequest, host: Host, **options: Any) -> None:
        if request.supply is None:
            raise TypeError("a supplied recorder needs a supply")
        self._supply = request.supply
        self._events: dict[str, Event] = {}
        self._parked: dict[str, Arrival | CancelRun] = {}
        """Arrivals before their turn, by call."""
        self._held: dict[str, int] = {}
        """Since when something waits for what came before it in the record."""
        self._spared: set[str] = set()
        """Children that are given up, and that ended by themselves in the record."""
        super().__init__(request, host, **options)

    # -- the kernel's side ----------------------------------------------------------------

    def emit(self, event: Event, call: str | None) -> None:
        """Append a line of the program, and keep its request."""
        if call is not None and isinstance(event, ToolCalled):
            self._supply.refuse(call, event, self._kernel.tools.get(event.tool))
        super().emit(event, call)
        if call is not None and isinstance(event, REQUESTS):
            self._events[call] = event

    def read_clock(self) -> ClockRead:
        """Append and return the time that is supplied, or the time."""
        found = self._supply.read_clock()
        if found is None:
            return super().read_clock()
        read = ClockRead(found[0], max(found[1], self._seen_us()))
        self._timers.reach(read.virtual_us)
        self.emit(read, None)
        return read

    def _seen_us(self) -> int:
        """Return the virtual time that the program saw last: it never goes back."""
        return microseconds(self._kernel.loop.peek_clock())

    def draw(self, source: str, name: str, call: str, produce: Callable[[], Json]) -> Json:
        """Append and return the value that is supplied, or draw it."""
        found = self._supply.draw(source, name, call)
        if found is None:
            return super().draw(source, name, call, produce)
        value = found[0]
        if source == "tokens" and isinstance(value, int) and value:  # the run above writes it, too
            value = self._more_tokens(value)
        self.emit(ValueDrawn(source, name, value), call)  # type: ignore[arg-type]  # a closed set
        return value

    def seed(self, session: SessionPort) -> None:
        """Start the session as the record has it, and append that."""
        found = self._supply.snapshot()
        if found is not None:
            session.restore(found)
        super().seed(session)

    def arm(self, timer: Timer) -> None:
        """Set a timer, unless the record has its firing."""
        if self._place(timer) is None:
            super().arm(timer)

    def _place(self, timer: Timer) -> int | None:
        """Return when the record has a timer, by scope, length and number among those."""
        found: int | None = self._supply.fired(timer.key, timer.length_us, timer.nth)
        return found

    straight = World.straight  # nothing goes so: everything has its turn

    def _may_wait(self) -> bool:
        """Start every effect at once: its turn may be next."""
        return False

    def _runs_in_place(self, effect: Effect) -> bool:  # noqa: ARG002 - as above
        return False

    def _receive(self, arrival: Arrival | CancelRun | SharedChange | TokensAsked) -> bool:
        """Keep what completes an effect until its turn, and what ends the run."""
        if isinstance(arrival, CancelRun) and self._is_to_be_cancelled():
            self._parked[_CANCELLED] = arrival
            self._held.pop(_CANCELLED, None)
            return False
        if not isinstance(arrival, Arrival) or isinstance(arrival.event, _HAS_NO_TURN):
            return self._take_arrival(arrival)
        self._parked[arrival.call] = arrival
        return False

    def _is_to_be_cancelled(self) -> bool:
        """Whether the run above ended this one in the record, and has not yet done so here."""
        is_child = self.request.identity.parent is not None
        return is_child and self._stop_us is None and self._supply.when(_CANCELLED) is not None

    def take_over(self, handed: Handed) -> None:
        """Go on where the record ends; timers that have a place in the order wait for it."""
        self._events.update(handed.asked)
        timers = [one for one in handed.timers if self._place(one[1]) is None]
        super().take_over(attrs.evolve(handed, timers=timers))

    def _finish_child(self, call: str, outcome: Outcome) -> None:
        super()._finish_child(call, self._supply.ended(call, outcome))

    # -- turns ----------------------------------------------------------------------------

    def _take_turn(self) -> bool:
        """Take the open effect that the record delivers first, if it has arrived."""
        for call in [call for call in self._spared if not self._waits(call)]:
            self._spared.remove(call)
            super()._start(GiveUp(call))
        if _CANCELLED in self._parked and not self._waits(_CANCELLED):
            return self._take_arrival(self._parked.pop(_CANCELLED))
        first = self._first()
        if first is None:
            return self._take_any()
        timer = self._kernel.loop.timers.get(first)
        if timer is not None:
            at_us = max(timer.due_us, self._seen_us())
            self._timers.reach(at_us)
            self._fire(timer, at_us)
            return True
        if first in self._outcomes:
            self._finish_child(first, self._outcomes.pop(first))
            return True
        if first in self._parked:
            return self._take_arrival(self._parked.pop(first))
        return self._take_overdue()

    def _take_overdue(self) -> bool:
        """Take a timer that the record did not fire, if a live effect is far too slow.

        A small delay compared to the record is not a reason to time out.
        """
        now, due = self._timers.now_us(), self._timers.next_us()
        is_over = self._deadline_us is not None and now >= self._deadline_us
        if is_over or (due is not None and due + _SLACK_US <= now):
            return self._take_due()
        return False

    def _patience(self) -> float | None:
        """Return how long to wait for an arrival; a timer that is held back is looked at again."""
        patience, now = super()._patience(), self._timers.now_us()
        left = [since + _SLACK_US - now for since in self._held.values()]
        held = min((us / 1_000_000 for us in left if us > 0), default=None)
        if held is not None and (patience is None or held < patience):
            return held
        return None if patience is None else max(patience, _LOOK_SECONDS)

    def _waits(self, what: str) -> bool:
        """Whether it still waits for its place in the record: for a second in all."""
        now = self._timers.now_us()
        return now < self._held.setdefault(what, now) + _SLACK_US

    def _next_askers(self, waiting: list[str]) -> list[str]:
        """Return the child that the record gave tokens next; all if that is far too slow."""
        if not waiting or not self._grants():
            return waiting
        first = self._first()
        return [
            call
            for call in waiting
            if first == (name := f"{_TOKENS} {call} {self._reserved(call)}")
            or not self._waits(f"{name} asked")
        ]

    def _grants(self) -> dict[str, int]:
        """Return the recorded places of what children may be given next."""
        has = {call: self._reserved(call) for call in self._unfinished()}
        placed = {
            f"{_TOKENS} {call} {has[call]}": self._supply.granted(call, has[call]) for call in has
        }
        return {name: place for name, place in placed.items() if place is not None}

    def _first(self) -> str | None:
        """Return what the record delivers first; `None` if it delivers nothing that can come."""
        kernel, supply = self._kernel, self._supply
        joined = [call for call in kernel.children if kernel.wants_child(call)]
        placed = {key: supply.when(key) for key in [*kernel.open, *joined]}
        placed.update((key, self._place(timer)) for key, timer in kernel.loop.timers.items())
        if self._is_to_be_cancelled():
            placed[_CANCELLED] = supply.when(_CANCELLED)
        placed.update(self._grants())
        places = sorted((place, key) for key, place in placed.items() if place is not None)
        return next((key for _, key in places if self._may_arrive(key)), None)

    def _may_arrive(self, key: str) -> bool:
        """Whether it can still come here: a question that nobody answers cannot."""
        if key == _CANCELLED or key.startswith(_TOKENS):
            return key in self._parked or self._waits(key)
        pending = self._kernel.open.get(key)
        if pending is None or pending.kind != "input":
            return key not in self._paused
        on_its_way = key in self._parked or not self._arrivals.empty()
        return on_its_way or key in self._driver.flights

    def _take_any(self) -> bool:
        while self._parked:
            call = next(iter(self._parked))
            if self._take_arrival(self._parked.pop(call)):
                return True
        return self._take_due() or self._take_child()

    # -- starting -------------------------------------------------------------------------

    def _start(self, effect: Effect) -> None:
        if isinstance(effect, GiveUp) and self._outlasts(effect.call):
            self._spared.add(effect.call)
            return
        if isinstance(effect, (GiveUp, RunChild)):
            super()._start(effect)  # a child is asked for below, with its whole request
            return
        found = self._supply.outcome(effect.call, self._events.get(effect.call), effect)
        if found is None:
            super()._start(effect)
        else:
            self._arrivals.put(Arrival(effect.call, found))

    def _outlasts(self, call: str) -> bool:
        """Whether a child that is given up may still end by itself, as it did in the record."""
        ends = (self._supply.when(_CANCELLED), self._supply.when("timeout"))
        is_new = self._stop_us is not None and ends == (None, None)
        return not is_new and call not in self._paused and self._supply.outlasts(call)

    def _run_child(self, effect: RunChild, request: ChildRequest) -> None:
        found = self._supply.outcome(effect.call, self._events.get(effect.call), effect)
        if found is None:
            below = self._supply.below(effect)
            super()._run_child(effect, attrs.evolve(request, supply=below))
        else:
            outcome = self._supply.child(request, found)
            self._kernel.children[effect.call].read(outcome)  # else the caller's edit is refused
            self._arrivals.put(Arrival(effect.call, outcome))
