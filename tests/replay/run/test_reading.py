"""What a tree is told of one log: how far it was read, how long, what stopped it (§13.9)."""

import shutil
from pathlib import Path
from typing import Any, Final

from hypothesis import example, given
from hypothesis import strategies as st

import refold
from refold.engine.events.events import RunStarted
from refold.engine.log.names import blobs_of
from refold.engine.log.reader import read_entries
from refold.replay.run.reading import Reading, Span
from tests.support.fixtures import LOGS

_FIRST: Final = next(iter(read_entries(LOGS / "plainly.jsonl")))


def _recorded(log: Path) -> Path:
    def program(run: refold.PlainRun, _input: Any) -> str:
        run.sleep(0.002)
        return "done"

    refold.record(program, "x" * 40_000, log=log)
    return log


def _walked(log: Path) -> Reading:
    walk = Reading(log)
    walk.read()
    return walk


def test_a_log_that_was_read_whole(tmp_path: Path) -> None:
    """Its entries, its head, and the time from the first to the last."""
    log = _recorded(tmp_path / "a.jsonl")

    walk, span = _walked(log), Span()

    for entry in read_entries(log):
        span.take(entry)
    report = refold.verify(log)
    assert (walk.entries, walk.head, walk.log_state) == (report.entries, report.head, "read")
    first, *_, last = (entry.meta["mono_us"] for entry in read_entries(log))
    assert span.duration_ms() == (last - first) // 1000 > 1


def test_what_stopped_the_reading_is_told(tmp_path: Path) -> None:
    """A torn tail is no damage."""
    log = _recorded(tmp_path / "a.jsonl")
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(lines[0] + lines[1][:20])
    torn = _walked(log)
    log.write_bytes(lines[0] + lines[1].replace(b"fired", b"mired"))
    damaged = _walked(log)

    assert (torn.log_state, torn.entries) == ("torn", 1)
    assert (damaged.log_state, damaged.entries) == ("damaged", 1)


def test_a_text_that_is_missing_is_told_in_its_place(tmp_path: Path) -> None:
    """The tree can be told without it."""
    log = _recorded(tmp_path / "a.jsonl")
    first = next(read_entries(log))
    whole = Reading(log).event(first)
    shutil.rmtree(blobs_of(log))
    without = Reading(log).event(first)

    assert isinstance(whole, RunStarted)
    assert isinstance(without, RunStarted)
    assert whole.input == "x" * 40_000
    assert without.input == "(blob missing: 40000 bytes)"


def test_a_run_took_the_time_from_its_first_entry_to_its_last(tmp_path: Path) -> None:
    """In whole milliseconds; one entry alone took none."""
    log = _recorded(tmp_path / "a.jsonl")
    first = next(read_entries(log))
    span = Span()
    times: list[int | None] = []

    for at in (1_000, 3_500, 9_999):
        span.take(first._replace(meta={"mono_us": at}))
        times.append(span.duration_ms())

    assert times == [None, 2, 8]


def test_the_time_between_a_crash_and_its_resume_is_not_counted(tmp_path: Path) -> None:
    """Nor is that of another machine's clock: what goes on there counts from its first entry."""
    first = next(read_entries(_recorded(tmp_path / "a.jsonl")))
    span = Span()

    for at, kind in (
        (7_000, ""),
        (9_500, ""),
        (1_000, "run.resumed"),
        (5_000, "run.resumed"),
        (8_900, ""),
    ):
        span.take(first._replace(meta={"mono_us": at}, kind=kind))

    assert span.duration_ms() == 6


@example([-(2**63), 1])
@given(st.lists(st.integers() | st.none() | st.text(), min_size=1))
def test_a_span_of_times_that_no_clock_has_fits_in_every_export(times: list[Any]) -> None:
    span = Span()
    for at in times:
        span.take(_FIRST._replace(meta={"mono_us": at}))

    assert abs(span.duration_ms() or 0) * 1_000_000 < 2**63
