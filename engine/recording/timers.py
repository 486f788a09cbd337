"""The time of a recorded run: its clocks, its timers, and due events.

This module reads the monotonic clock. Deadlines and timers use monotonic time; the program sees
virtual time, which a given clock may replace. `engine.recording.recorder` handles due timers.
Rules: CONTRACT.md §9.3.
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
    """The pending times of a run, in microseconds since the run began."""

    def __init__(self, clock: Clock | None) -> None:
        self._clock = clock
        self._began_ns = time.monotonic_ns()
        self._clock_began = clock.time_us() if clock else 0
        self._ahead_us = 0
        """By how much virtual time is ahead of monotonic time: recorded sleeps take none."""
        self._step, self._instant_us = -1, 0
        self._armed: list[tuple[int, int, str, Timer | CallTool]] = []

    def go_on(self, active_us: int, virtual_us: int, armed: Iterable[tuple[int, Timer]]) -> None:
        """Continue from the end of the record; `armed` has the rest of each timer."""
        self._began_ns = time.monotonic_ns() - active_us * 1000
        if self._clock is not None:
            self._clock_began = self._clock.time_us() - virtual_us
        self._ahead_us = max(0, virtual_us - active_us)  # a fork is younger than its beginning
        for left_us, timer in armed:
            entry = (active_us + left_us, timer.number, timer.key, timer)
            heapq.heappush(self._armed, entry)

    # -- clocks ---------------------------------------------------------------------------

    def now_us(self) -> int:
        """Return monotonic time: for deadlines and timers."""
        return (time.monotonic_ns() - self._began_ns) // 1000

    def virtual_us(self, now: int | None = None) -> int:
        """Return virtual time at `now`: the given clock's, if there is one."""
        clock = self._clock
        if clock is not None:
            return clock.time_us() - self._clock_began
        return (self.now_us() if now is None else now) + self._ahead_us

    def read(self, step: int) -> ClockRead:
        """Return the clock reading of a step."""
        virtual, clock = self.virtual_us(self._instant(step)), self._clock
        return ClockRead(clock.time_us() if clock else time.time_ns() // 1000, virtual)

    def reach(self, virtual_us: int) -> None:
        """Let virtual time be that much at least."""
        self._ahead_us += max(0, virtual_us - self.virtual_us())

    def _instant(self, step: int) -> int:
        """Return the one moment from which a step counts: of its first look or timer."""
        if step != self._step:
            self.begin(step, self.now_us())
        return self._instant_us

    def begin(self, step: int, now: int) -> None:
        """Let a step count from `now`, when the timer fired that began it."""
        self._step, self._instant_us = step, now

    # -- timers ---------------------------------------------------------------------------

    def arm(self, timer: Timer, live: int, step: int) -> None:
        """Set a timer of the program, which has `live` of them that are not cancelled."""
        now = self._instant(step)
        delay_us = timer.delay_us if timer.at_us is None else timer.at_us - self.virtual_us(now)
        due = now + max(0, delay_us)
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
        """Remove and return the earliest due timer or deadline; `None` if none is due."""
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
