"""Records a run with some outcomes supplied, from a record or by stubs.

The rules are CONTRACT.md §12.10.

It extends `engine.recording.recorder`. Supplied effects are not executed. Live outcomes are
delivered at their recorded places, if they have one, so a run without drift has the same lines as
the record. The `Supply` decides which outcomes are supplied, and their source;
`replay.partial.sources` has one.
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
        self._parked: dict[str, Arrival] = {}
        """Arrivals before their turn, by call."""
        self._held_us: int | None = None
        """Since when children wait for tokens until another, of the record, has asked."""
        super().__init__(request, host, **options)

    # -- the kernel's side ----------------------------------------------------------------

    def emit(self, event: Event, call: str | None) -> None:
        """Append a line of the program, and keep its request."""
        if call is not None and isinstance(event, ToolCalled):
            self._supply.refuse(call, event, self._kernel.tools.get(event.tool))
        super().emit(event, call)
        if call is not None and isinstance(event, REQUESTS):
            self._events[call] = event

    def look(self) -> ClockRead:
        """Append and return the time that is supplied, or the time."""
        found = self._supply.look()
        if found is None:
            return super().look()
        read = ClockRead(found[0], max(found[1], self._seen_us()))
        self._timers.reach(read.virtual_us)
        self.emit(read, None)
        return read

    def _seen_us(self) -> int:
        """Return the virtual time that the program saw last: it never goes back."""
        return microseconds(self._kernel.loop.glance())

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
        return self._supply.fired(timer.key, timer.length_us, timer.nth)

    straight = World.straight  # nothing goes so: everything has its turn

    def _may_wait(self) -> bool:
        """Start every effect at once: its turn may be next."""
        return False

    def _runs_in_place(self, effect: Effect) -> bool:  # noqa: ARG002 - as above
        return False

    def _receive(self, arrival: Arrival | CancelRun | SharedChange | TokensAsked) -> bool:
        """Keep what completes an effect until its turn."""
        if not isinstance(arrival, Arrival) or isinstance(arrival.event, _HAS_NO_TURN):
            return self._take_arrival(arrival)
        self._parked[arrival.call] = arrival
        return False

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
        patience = super()._patience()
        if self._held_us is not None:
            left = (self._held_us + _SLACK_US - self._timers.now_us()) / 1_000_000
            if left > 0:
                return left if patience is None else min(left, max(patience, _LOOK_SECONDS))
        return None if patience is None else max(patience, _LOOK_SECONDS)

    def _next_askers(self, waiting: list[str]) -> list[str]:
        """Return the child that the record gave tokens first; all if that is far too slow."""
        placed = [
            (place, call)
            for call in self._unfinished()
            if (place := self._supply.granted(call, self._reserved(call))) is not None
        ]
        first = min(placed)[1] if placed and waiting else None
        if first is None or first in waiting:
            self._held_us = None
            return waiting if first is None else [first]
        now = self._timers.now_us()
        self._held_us = now if self._held_us is None else self._held_us
        return [] if now < self._held_us + _SLACK_US else waiting

    def _first(self) -> str | None:
        """Return the open effect that the record delivers first; `None` if it delivers none."""
        kernel = self._kernel
        joined = [call for call in kernel.children if kernel.wants_child(call)]
        placed = {key: self._supply.when(key) for key in [*kernel.open, *joined]}
        placed.update((key, self._place(timer)) for key, timer in kernel.loop.timers.items())
        places = [
            (place, key)
            for key, place in placed.items()
            if place is not None and self._may_arrive(key)
        ]
        return min(places)[1] if places else None

    def _may_arrive(self, key: str) -> bool:
        """Whether an open effect can still end here: a question that nobody answers cannot."""
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
        if isinstance(effect, (GiveUp, RunChild)):
            super()._start(effect)  # a child is asked for below, with its whole request
            return
        found = self._supply.outcome(effect.call, self._events.get(effect.call), effect)
        if found is None:
            super()._start(effect)
        else:
            self._arrivals.put(Arrival(effect.call, found))

    def _run_child(self, effect: RunChild, request: ChildRequest) -> None:
        found = self._supply.outcome(effect.call, self._events.get(effect.call), effect)
        if found is None:
            below = self._supply.below(effect)
            super()._run_child(effect, attrs.evolve(request, supply=below))
        else:
            outcome = self._supply.child(request, found)
            self._kernel.children[effect.call].read(outcome)  # else the caller's edit is refused
            self._arrivals.put(Arrival(effect.call, outcome))
