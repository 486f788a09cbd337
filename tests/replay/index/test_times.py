"""Times of logs of several machines, on the clock of the root's first entry (§14.16)."""

from refold.engine.log.reader import Entry, read_entries
from refold.replay.index.times import LogTimes, origin_of
from tests.support.fixtures import LOGS

_FIRST: Entry = next(iter(read_entries(LOGS / "plainly.jsonl")))


def _at(wall_us: int, mono_us: int, kind: str = "run.started") -> Entry:
    return _FIRST._replace(kind=kind, meta={"wall_us": wall_us, "mono_us": mono_us})


def test_a_log_of_another_machine_is_placed_by_the_wall_clock() -> None:
    """And within a log, a wall clock that was set changes nothing."""
    origin = origin_of(_at(5_000_000, 100))
    here, there = LogTimes(origin), LogTimes(origin)

    assert [here.at(_at(5_000_000, 100)), here.at(_at(1, 300, "clock.read"))] == [0, 200]
    assert there.at(_at(9_000_000, 70)) == 4_000_000
    assert there.at(_FIRST._replace(meta={})) == 4_000_000


def test_two_readings_of_one_clock_differ_a_little() -> None:
    times = LogTimes(origin_of(_at(5_000_000, 100)))

    assert times.at(_at(5_000_350, 400)) == 300
