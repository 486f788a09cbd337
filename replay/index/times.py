"""Times of the entries of a run's logs, on one clock: microseconds since the root's first entry.

A log's times count from its first line by the clock that never jumps; logs, and parts of one that
continued in another process, are placed by the wall clock. Rules: CONTRACT.md §14.16.
"""

from typing import Any, Final, TypeGuard

from refold.engine.log.reader import Entry

_CLOCKS_APART_US: Final = 1_000_000
"""Wall clocks that were set between two logs differ by more; two readings of one by less."""

_TIME_MAX_US: Final = 2**53
"""In the year 2255: a sum of two, in nanoseconds, still fits in 64 bits."""


class LogTimes:
    """Times of the entries of one log, in microseconds since the root's first entry."""

    def __init__(self, origin_us: tuple[int, int]) -> None:
        """Begin a log; the root's first entry was written at `origin_us`, by wall and offset."""
        self._origin_us = origin_us
        self._offset_us = 0
        self._last_us = 0

    def at(self, entry: Entry) -> int:
        """Return the time of an entry; for one without, the time of the last."""
        wall, mono = entry.meta.get("wall_us"), entry.meta.get("mono_us")
        if not (is_time(wall) and is_time(mono)):
            return self._last_us
        if entry.kind in ("run.started", "run.resumed"):  # maybe another machine, another clock
            offset_us = wall - mono
            is_same = abs(offset_us - self._origin_us[1]) < _CLOCKS_APART_US
            self._offset_us = (self._origin_us[1] if is_same else offset_us) - self._origin_us[0]
        self._last_us = mono + self._offset_us
        return self._last_us

    def ended(self, entry: Entry) -> int | None:
        """Return the end time of the child that an entry delivers; `None` if unknown."""
        ended = entry.meta.get("ended_us")
        return ended + self._offset_us if is_time(ended) else None


def origin_of(first: Entry) -> tuple[int, int]:
    """Return when a log began by the wall clock, and how far that is ahead of the other."""
    given = (first.meta.get(name) for name in ("wall_us", "mono_us"))
    wall, mono = (value if is_time(value) else 0 for value in given)
    return wall, wall - mono


def is_time(value: Any) -> TypeGuard[int]:
    """Return whether a value of any log is a time that every export can hold."""
    return type(value) is int and 0 <= value < _TIME_MAX_US
