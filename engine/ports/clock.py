"""Clocks that can be handed to `record` in place of the real one."""

import datetime as dt

import attrs

from refold.engine.errors import OptionRefused
from refold.engine.values import Value

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@attrs.frozen
class FixedClock(Value):
    """A clock that does not move, so that two live runs see the same time."""

    at: dt.datetime = _EPOCH
    """An aware time."""

    def __attrs_post_init__(self) -> None:
        """Refuse a text, and a time without a time zone."""
        at: object = self.at
        if not (isinstance(at, dt.datetime) and at.utcoffset() is not None):
            expected = "an aware time: datetime(2026, 1, 31, tzinfo=UTC)"
            raise OptionRefused("FixedClock", "at", expected, f"{self.at!r}")

    def time_us(self) -> int:
        """Return microseconds since 1970-01-01T00:00Z."""
        return (self.at - _EPOCH) // dt.timedelta(microseconds=1)


def fixed_at(time_us: int) -> FixedClock:
    """Return a clock fixed at `time_us` microseconds since 1970-01-01T00:00Z."""
    return FixedClock(_EPOCH + dt.timedelta(microseconds=time_us))
