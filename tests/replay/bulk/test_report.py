"""A report of many logs: counted, raised, written as JSON and as JUnit (CONTRACT.md §14.13)."""

import attrs
import pytest

from refold.engine.errors import Diverged, UsageError
from refold.replay.bulk.report import BAD, BulkReport, LogResult, died, not_run, timed_out
from tests.support.loops import for_each

FINE = LogResult(log="a.jsonl", result="identical", program="p", entries=7)
REFUSED = LogResult(log="b.jsonl", result="refused", message="a tool has to be passed")
DIED = died("c.jsonl", "exit code 3")
LATER = not_run("d.jsonl")
SLOW = timed_out("e.jsonl", 2.5)


def report_of(*logs: LogResult) -> BulkReport:
    return BulkReport(logs=logs, seconds=1.5, jobs=2)


def test_what_was_not_looked_at_is_not_identical_and_not_bad() -> None:
    """It is known of no log that was never run that it differs, nor that it does not."""
    report = report_of(FINE, REFUSED, DIED, LATER)

    assert [row.result in BAD for row in report.logs] == [False, True, True, False]
    assert report.counts == {"identical": 1, "diverged": 1, "refused": 1, "not run": 1}
    assert report_of(FINE).identical
    assert not report_of(FINE, LATER).identical


def test_the_first_log_that_is_not_identical_is_raised() -> None:
    """As a divergence where it has one, else as a call that was wrong."""
    report_of(FINE).check()
    with pytest.raises(UsageError, match="refused: a tool"):
        report_of(FINE, REFUSED, DIED).check()
    with pytest.raises(Diverged) as caught:
        report_of(DIED, REFUSED).check()

    assert caught.value.divergence == DIED.divergences[0]


def test_what_took_too_long_is_bad_and_a_failure() -> None:
    """The record came to its end, and the program did not."""
    report = report_of(FINE, SLOW)

    assert SLOW.result in BAD
    assert report.counts == {"identical": 1, "timed out": 1}
    assert [case.failure is not None for case in report.suite().cases] == [False, True]
    with pytest.raises(UsageError, match=r"timed out: .* took more than 2\.5 s"):
        report.check()


@for_each("row", [FINE, REFUSED, DIED, LATER, SLOW])
def test_a_row_crosses_a_process_as_it_is(row: LogResult) -> None:
    """What `as_json` gave is the same row again."""
    assert LogResult.from_json(row.as_json()) == row


def test_what_was_not_compared_keeps_a_report_from_reading_as_an_all_clear() -> None:
    """Each log that leaves something out says what, however many are identical."""
    row = attrs.evolve(FINE, not_compared=("the length of 2 timers", "what comes after the end"))

    assert LogResult.from_json(row.as_json()) == row
    assert str(report_of(row)).endswith(
        "not compared: the length of 2 timers, what comes after the end"
    )


def test_each_log_is_one_case_of_junit() -> None:
    """A failure where it differs, an error where it could not be looked at, or skipped."""
    cases = report_of(FINE, REFUSED, DIED, LATER).suite().cases

    found = [(bool(case.failure), bool(case.error), bool(case.skipped)) for case in cases]
    assert found == [
        (False, False, False),
        (False, True, False),
        (True, False, False),
        (False, False, True),
    ]
