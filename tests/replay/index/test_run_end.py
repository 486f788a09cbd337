"""How a run ended has one form, whether it was recorded or run again (CONTRACT.md §12.2)."""

from pathlib import Path

import pytest

import refold
from refold.engine.events.events import RunFinished
from refold.engine.events.outcome import Report
from refold.engine.kernel.verdict import Verdict
from refold.engine.log.reader import read_entries
from refold.replay.index.run_end import end_of, end_of_verdict, raised_at
from tests.support.loops import for_each


def test_what_is_not_there_is_left_out() -> None:
    """No nulls, no digests and no counts."""
    finished = RunFinished("completed", "returned", {"n": 1}, None, [], None, None)

    found = end_of(finished)

    assert found == {"status": "completed", "reason": "returned", "output": {"n": 1}}


@pytest.mark.parametrize("report", [None, Report(summary="said")])
def test_a_program_run_again_ends_as_a_log_has_it(tmp_path: Path, report: Report | None) -> None:
    """The end of a verdict is that of the `run.finished` that it would be written as."""

    def program(_run: refold.PlainRun, _input: object) -> object:
        return report if report is not None else {"n": [1, 2]}

    recording = refold.record(program, log=tmp_path / "a.jsonl")
    *_, last = read_entries(recording.log)
    assert isinstance(last.event, RunFinished)

    found = end_of_verdict(
        Verdict(recording.status, recording.reason, recording.output, None, report=report)
    )

    assert found == end_of(last.event)


@for_each(
    "meta, told", [({"error_file": "a.py", "error_line": 3}, "a.py:3"), ({}, ""),
                       ({"error_file": "a.py"}, ""), ({"error_line": 3}, "")]
)  # fmt: skip
def test_a_place_is_a_file_and_a_line(meta: dict[str, str | int], told: str) -> None:
    """One without the other is none."""
    assert raised_at(meta) == told
