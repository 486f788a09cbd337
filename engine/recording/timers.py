"""The time of a run that is recorded: its clocks, its timers, and what is due.

A shell file: it reads the monotonic clock.  Deadlines and timers go by monotonic time; what the
program sees is virtual time, which a given clock may replace.  What becomes of a timer that is due
is `engine.recording.recorder`'s.  Rules: CONTRACT.md §9.3.
"""

import heapq
import time
from collections.abc import Iterable
from typing import Final

from refold.engine.events.events import ClockRead
from refold.engine.loop.loop import Timer, microseconds
from refold.engine.ports.effects import CallTool
from refold.engine.ports.ports import Clock

_KEPT: Final = 64
"""So few armed and cancelled timers are not worth sorting out."""


class Timers:
    """What a run waits for by the clock; all times in microseconds since the run began."""

    def __init__(self, clock: Clock | None) -> None:
        self._clock = clock
        self._began_ns = time.monotonic_ns()
        self._clock_began = clock.time_us() if clock else 0
        self._armed: list[tuple[int, int, str, Timer | CallTool]] = []

    def go_on(self, active_us: int, virtual_us: int, armed: Iterable[tuple[int, Timer]]) -> None:
        """Go on from where the record ends; `armed` has what is left of each timer."""
        self._began_ns = time.monotonic_ns() - active_us * 1000
        if self._clock is not None:
            self._clock_began = self._clock.time_us() - virtual_us
        for left_us, timer in armed:
            entry = (active_us + left_us, timer.number, timer.key, timer)
            heapq.heappush(self._armed, entry)

    # -- clocks ---------------------------------------------------------------------------

    def now_us(self) -> int:
        """Return monotonic time: for deadlines and timers."""
        return (time.monotonic_ns() - self._began_ns) // 1000

    def virtual_us(self) -> int:
        """Return virtual time: the given clock's, where there is one."""
        clock = self._clock
        return clock.time_us() - self._clock_began if clock else self.now_us()

    def read(self) -> ClockRead:
        """Return what a look at the clock shows."""
        virtual, clock = self.virtual_us(), self._clock
        return ClockRead(clock.time_us() if clock else time.time_ns() // 1000, virtual)

    # -- timers ---------------------------------------------------------------------------

    def arm(self, timer: Timer, live: int) -> None:
        """Set a timer of the program, which has `live` of them that are not cancelled."""
        delay_us = timer.delay_us if timer.at_us is None else timer.at_us - self.virtual_us()
        due = self.now_us() + max(0, delay_us)
        heapq.heappush(self._armed, (due, timer.number, timer.key, timer))
        if len(self._armed) > max(_KEPT, 4 * live):
            # A program may arm and disarm one around every call.
            self._armed = [entry for entry in self._armed if not _is_cancelled(entry[3])]
            heapq.heapify(self._armed)

    def watch(self, effect: CallTool) -> None:
        """Set the deadline of a tool that has one."""
        if effect.tool.timeout_seconds is not None:
            due = self.now_us() + microseconds(effect.tool.timeout_seconds)
            heapq.heappush(self._armed, (due, 0, effect.call, effect))

    def take(self, now: int) -> Timer | CallTool | None:
        """Return what is due, first of all that is, and forget it; `None`: nothing is."""
        while self._armed and (self._armed[0][0] <= now or _is_cancelled(self._armed[0][3])):
            timer = heapq.heappop(self._armed)[3]
            if not _is_cancelled(timer):
                return timer
        return None

    def next_us(self) -> int | None:
        """Return when the next is due; `None`: none is armed.  It may have been cancelled."""
        return self._armed[0][0] if self._armed else None


def _is_cancelled(timer: Timer | CallTool) -> bool:
    return isinstance(timer, Timer) and timer.is_cancelled
