"""Times of logs of several machines, on the clock of the root's first entry (§14.16)."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from refold.engine.log.reader import Entry, read_entries
from refold.replay.index.times import LogTimes, origin_of
from tests.support.fixtures import LOGS

_FIRST: Entry = next(iter(read_entries(LOGS / "plainly.jsonl")))
_TIMES: st.SearchStrategy[Any] = (
    st.integers() | st.floats() | st.text() | st.none() | st.booleans() | st.just([])
)


def _at(wall_us: Any, mono_us: Any, kind: str = "run.started") -> Entry:
    return _FIRST._replace(kind=kind, meta={"wall_us": wall_us, "mono_us": mono_us})


def test_a_log_of_another_machine_is_placed_by_the_wall_clock() -> None:
    """And within a log, a wall clock that was set changes nothing."""
    origin = origin_of(_at(5_000_000, 100))
    here, there = LogTimes(origin), LogTimes(origin)

    assert [here.at(_at(5_000_000, 100)), here.at(_at(1, 300, "clock.read"))] == [0, 200]
    assert there.at(_at(9_000_000, 70)) == 4_000_000
    assert there.at(_FIRST._replace(meta={})) == 4_000_000


@given(st.lists(st.tuples(_TIMES, _TIMES), min_size=1))
def test_times_of_any_type_and_size_fit_in_every_export(given_times: list[tuple[Any, Any]]) -> None:
    """A hash proves no sense: in nanoseconds since 1970, each fits in 64 bits."""
    entries = [_at(wall, mono) for wall, mono in given_times]
    origin = origin_of(entries[0])
    times = LogTimes(origin)

    assert all(abs(origin[0] + times.at(entry)) * 1000 < 2**63 * 2 for entry in entries)


def test_two_readings_of_one_clock_differ_a_little() -> None:
    times = LogTimes(origin_of(_at(5_000_000, 100)))

    assert times.at(_at(5_000_350, 400)) == 300
