"""Logs of released formats are read, folded and re-executed by every later version (§15.2).

`fixtures/logs/<version>/` holds what that version recorded of `tests.support.kept_programs`.  No
file there is ever edited: whatever no longer passes is a break of the format, or of the kernel's
rules, and needs a version of its own.
"""

from pathlib import Path
from typing import Final

import pytest

import refold
from refold.replay.refold import refold_log
from tests.support.kept_programs import INPUTS, PROGRAMS, add, fetch

KEPT: Final = Path(__file__).parents[2] / "fixtures" / "logs"
LOGS: Final = sorted(path for path in KEPT.glob("*/*.jsonl") if path.stem in PROGRAMS)


def _name(log: Path) -> str:
    return f"{log.parent.name}-{log.stem}"


@pytest.mark.parametrize("log", LOGS, ids=_name)
def test_a_kept_log_is_whole(log: Path) -> None:
    """Case 90: bytes, schema, causes, children and blobs are as they were; so is the state."""
    report = refold.verify(log)

    assert report.intact, report
    assert report.complete, report
    assert refold_log(log).agrees is True


@pytest.mark.parametrize("log", LOGS, ids=_name)
def test_a_kept_log_is_reexecuted(log: Path) -> None:
    """Case 4: its program does the same now, under each supported version of Python."""
    report = refold.reexecute(log, PROGRAMS[log.stem], tools=[add, fetch])

    assert report.identical, report


def test_there_are_logs_of_this_version() -> None:
    """Each program once, with children, blobs and a failure among them."""
    here = KEPT / refold.__version__

    assert {log.stem for log in LOGS if log.parent == here} == set(PROGRAMS) == set(INPUTS)
    assert (here / "everything.2.jsonl").is_file()
    assert list((here / "everything.blobs").glob("??/*"))
