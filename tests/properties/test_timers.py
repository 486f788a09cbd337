"""Laws of timers in a re-execution, over random programs and edits (CONTRACT.md §12.2).

A timer that never fires, put in anywhere, is no difference; a timer that fired and could not fire
any more, or not in that order, always is.
"""

from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from refold import reexecute
from refold.replay.reexecute.report import ReplayReport
from tests.support.timed_programs import Author, Step, get, program_of, recorded

QUICK: Final = 20
NEUTRAL: Final = 500
EDITS: Final = 6_000
UNSEEN_MAX: Final = 0.05
"""Of the timers put in: those that fire where no recorded timer fires after them."""


def _replayed(log: Path, steps: list[Step]) -> ReplayReport:
    return reexecute(log, program_of(steps), tools=[get])


def _check_neutral(folder: Path, seed: int) -> int:
    """Check one neutral edit; return how many timers fired beside it."""
    author = Author(seed)
    steps = author.steps()
    edited = author.with_neutral(steps)
    before = recorded(steps, folder / f"{seed}.jsonl")
    after = recorded(edited, folder / f"{seed}-edited.jsonl")
    assert before.without_timers == after.without_timers, seed

    for log, now in ((before.log, edited), (after.log, steps), (before.log, steps)):
        report = _replayed(log, now)
        assert report.identical, (seed, log.name, steps, edited, str(report))
    return len(before.fired)


def _check_edit(folder: Path, seed: int) -> str:
    """Check one edit of a timer that fired, or one more; return what became of it."""
    author = Author(seed)
    steps = author.steps()
    before = recorded(steps, folder / f"{seed}.jsonl")
    found = author.edit(steps, before.fired)
    if found is None:
        return "none fired"
    what, edited = found
    after = recorded(edited, folder / f"{seed}-edited.jsonl")
    report = _replayed(before.log, edited)
    if before.lines == after.lines:
        assert report.identical, (seed, what, steps, edited, str(report))
        return "nothing changed"
    if report.identical:
        assert what == "added", (seed, what, steps, edited)
        assert any("the length of" in each for each in report.not_compared)
        return "unseen"
    return what


def _check_edits(folder: Path, seeds: range) -> None:
    became = Counter(_check_edit(folder, seed) for seed in seeds)
    assert {"longer", "shorter", "swapped", "wrong limit", "added"} <= became.keys()
    assert became["unseen"] <= UNSEEN_MAX * became["added"] + 1, became


def test_a_timer_that_never_fires_is_no_difference(tmp_path: Path) -> None:
    """A limit of 900 s or a cancelled timer, put in at a random place or taken out again."""
    assert sum(_check_neutral(tmp_path, seed) for seed in range(QUICK)) > QUICK


def test_a_timer_that_fired_and_was_edited_is_a_difference(tmp_path: Path) -> None:
    """It is longer or shorter, or changed places with another; or one more fires before it."""
    _check_edits(tmp_path, range(QUICK))


@pytest.mark.long
def test_neither_is_any_of_hundreds(tmp_path: Path) -> None:
    assert sum(_check_neutral(tmp_path, seed) for seed in range(QUICK, NEUTRAL)) > NEUTRAL


@pytest.mark.long
def test_so_is_each_of_thousands(tmp_path: Path) -> None:
    _check_edits(tmp_path, range(QUICK, EDITS))
