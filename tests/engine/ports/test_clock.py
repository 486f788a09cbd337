"""A clock that is handed to `record` stands still (CONTRACT.md §6.2)."""

import datetime as dt
from typing import Any

import pytest

from refold.engine.errors import OptionRefused
from refold.engine.ports.clock import FixedClock, fixed_at


def test_a_fixed_clock_stands_where_it_was_put() -> None:
    """In whole microseconds, whatever the zone of the time that was given."""
    zone = dt.timezone(dt.timedelta(hours=2))
    at = dt.datetime(2020, 1, 2, 3, 4, 5, 678_901, tzinfo=zone)

    clock = FixedClock(at)

    assert clock.time_us() == clock.time_us() == 1_577_927_045_678_901


def test_a_clock_can_be_made_again_from_what_it_shows() -> None:
    """So that a subprocess child has the same."""
    for time_us in (0, -1, 1_700_000_000_000_001):
        assert fixed_at(time_us).time_us() == time_us


@pytest.mark.parametrize("at", ["2020-01-01", dt.datetime(2020, 1, 1)])  # noqa: DTZ001 - that is the point
def test_a_text_and_a_time_of_no_zone_are_refused(at: Any) -> None:
    """Where the clock is made, not where a run first looks."""
    with pytest.raises(OptionRefused, match=r"FixedClock\(at=…\): expected an aware time: .*2020"):
        FixedClock(at)
