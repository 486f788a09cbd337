"""Clocks that can be handed to `record` in place of the real one."""

import datetime as dt

import attrs

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@attrs.frozen
class FixedClock:
    """A clock that stands still, so that two live runs see the same time."""

    at: dt.datetime = _EPOCH
    """An aware time."""

    def time_us(self) -> int:
        """Return microseconds since 1970-01-01T00:00Z."""
        return (self.at - _EPOCH) // dt.timedelta(microseconds=1)


def fixed_at(time_us: int) -> FixedClock:
    """Return a clock that stands at `time_us` microseconds since 1970-01-01T00:00Z."""
    return FixedClock(_EPOCH + dt.timedelta(microseconds=time_us))
