"""Finds the program's timer for a recorded firing (CONTRACT.md §12.2).

A log has only the timers that fired. The number of other timers that a program arms changes with
every edit, so the number in a call key is not enough. A recorded firing belongs to the first timer
of its scope with the recorded length. If virtual time determines when timers are due, no timer may
fire before an earlier one.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping
from heapq import heappop, heappush
from typing import Final

import attrs

from refold.engine.events.events import TimerFired, scope_of
from refold.engine.loop.loop import Timer

_KEPT: Final = 64
"""So few disarmed timers are not worth sorting out."""
_LATE_US: Final = 100_000
"""The accepted lateness of a timer: a busy machine is not an edit."""


@attrs.frozen(eq=False)
class _Arming:
    timer: Timer
    step: int
    """The seq of the line that began the step in which it was armed."""
    virtual_us: int
    """Virtual time as the record showed it last: the earliest at which it can have been."""
    mono_us: int
    """When the line before was written."""

    def due_us(self, armed_us: int) -> int:
        """Return when it is due in virtual time if it was armed then."""
        timer = self.timer
        return armed_us + timer.delay_us if timer.at_us is None else max(armed_us, timer.at_us)


class ArmedTimers:
    """The timers of one program that is re-executed."""

    def __init__(self, timers: Mapping[str, Timer], *, in_order: bool) -> None:
        """Take the armed timers, as the loop stores them.

        `in_order`: virtual time determines when they are due.
        """
        self._timers = timers
        self.in_order = in_order
        self.overdue: dict[str, Timer] = {}
        """By key: those that did not fire, and would have, as the times of the lines show."""
        self._by_key: dict[str, _Arming] = {}
        self._same: dict[tuple[str, int | None], list[_Arming]] = defaultdict(list)
        self._by_virtual: list[tuple[int, int, _Arming]] = []
        self._by_mono: list[tuple[int, int, _Arming]] = []
        self._steps: list[int] = []
        self._times: list[int] = []
        """Virtual time at each of these steps."""

    def saw(self, step: int, virtual_us: int) -> None:
        """Take note of the virtual time of a step, by a look at the clock or a timer."""
        self._steps.append(step)
        self._times.append(virtual_us)

    def arm(self, timer: Timer, step: int, mono_us: int) -> None:
        """Take a timer that the program arms now."""
        self._keep(_Arming(timer, step, self._times[-1] if self._times else 0, mono_us))
        if len(self._by_key) > max(_KEPT, 4 * len(self._timers)):
            live = [one for one in self._by_key.values() if self._is_armed(one)]
            self._by_key.clear()
            self._same.clear()
            self._by_virtual, self._by_mono = [], []
            for arming in live:
                self._keep(arming)

    def _keep(self, arming: _Arming) -> None:
        timer = arming.timer
        self._by_key[timer.key] = arming
        self._same[timer.scope, timer.length_us].append(arming)
        if timer.at_us is None:
            heappush(self._by_mono, (arming.mono_us + timer.delay_us, timer.number, arming))
        if self.in_order:
            due = arming.due_us(arming.virtual_us)
            heappush(self._by_virtual, (due, timer.number, arming))

    def _is_armed(self, arming: _Arming) -> bool:
        return self._timers.get(arming.timer.key) is arming.timer

    def pass_by(self, mono_us: int) -> None:
        """Take note of the timers that would have fired before a line of that time."""
        heap = self._by_mono
        while heap and (heap[0][0] + _LATE_US < mono_us or not self._is_armed(heap[0][2])):
            arming = heappop(heap)[2]
            if self._is_armed(arming):
                self.overdue[arming.timer.key] = arming.timer

    def of(self, call: str, fired: TimerFired) -> Timer | None:
        """Return the timer of a recorded firing; `None`: no such timer is armed."""
        timer = self._by_length(call, fired)
        if timer is not None:
            self.overdue.pop(timer.key, None)
        return timer

    def _by_length(self, call: str, fired: TimerFired) -> Timer | None:
        same = self._same.get((scope_of(call), fired.length_us), [])
        while same and not self._is_armed(same[0]):
            del same[0]
        is_plain = fired.length_us is None
        if self.in_order and not is_plain:
            return same[0].timer if same else None
        found = [one for one in same if self._is_armed(one)]
        if self.in_order:  # of plain times, the record's says which it can be
            found = [one for one in found if one.due_us(one.virtual_us) <= fired.virtual_us]
            found.sort(key=lambda one: (one.due_us(one.virtual_us), one.timer.number))
        own = (one for one in found if one.timer.nth == fired.nth)
        return first.timer if (first := next(own, next(iter(found), None))) else None

    def before(self, timer: Timer, fired_us: int) -> Timer | None:
        """Return a timer that must be due before the one that fired at `fired_us`, if any is."""
        heap = self._by_virtual
        while heap and not self._is_armed(heap[0][2]):
            heappop(heap)
        if not self.in_order or not heap or heap[0][2].timer is timer:
            return None
        shown = self._by_key[timer.key]
        due = (shown.due_us(self._earliest(shown)), timer.number)
        others = (each[2] for each in heap if each[2] is not shown and self._is_armed(each[2]))
        return next(
            (one.timer for one in others if self._is_before(one, shown, due, fired_us)), None
        )

    def _is_before(self, one: _Arming, other: _Arming, due: tuple[int, int], fired_us: int) -> bool:
        """Return whether a timer is due before another, whenever both were armed."""
        timer, shown = one.timer, other.timer
        are_delays = timer.at_us is None and shown.at_us is None
        is_shorter = (timer.delay_us, timer.number) < (shown.delay_us, shown.number)
        if one.step <= other.step and are_delays and is_shorter:
            return True
        return (one.due_us(self._latest(one, fired_us)), timer.number) < due

    def _earliest(self, arming: _Arming) -> int:
        at = bisect_left(self._steps, arming.step)
        is_known = at < len(self._steps) and self._steps[at] == arming.step
        return self._times[at] if is_known else arming.virtual_us

    def _latest(self, arming: _Arming, now: int) -> int:
        at = bisect_left(self._steps, arming.step)
        return self._times[at] if at < len(self._steps) else now
