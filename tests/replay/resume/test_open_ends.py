"""How an unfinished record stands, read from the log alone (CONTRACT.md §4.7)."""

from pathlib import Path

import pytest

import refold
from refold.engine.errors import LogDamaged
from refold.replay.resume.open_ends import Standing, open_ends
from tests.support import resumable
from tests.support.resumable import TOOLS
from tests.support.unfinished import cut, rows_of


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    """The log of a run that ended."""
    recording = refold.record(
        resumable.sequential, 2, log=tmp_path / "whole.jsonl", tools=TOOLS, seed=1
    )
    return recording.log


def test_requests_without_an_outcome_are_open(whole: Path, tmp_path: Path) -> None:
    """By call, with the entry that asks."""
    standing = Standing(cut(whole, tmp_path / "a.jsonl", 4))

    assert standing.requests == {"0#2": 3}
    assert (standing.step, standing.head) == (2, rows_of(whole)[3]["hash"])


def test_only_what_changes_the_world_is_in_doubt(whole: Path, tmp_path: Path) -> None:
    """The rest is started again; of a delegation tool, what it starts is looked at."""
    rows = rows_of(whole)
    pays = next(at for at, row in enumerate(rows) if row["data"].get("tool") == "pay")
    steps = open_ends(cut(whole, tmp_path / "a.jsonl", 4))
    paying = open_ends(cut(whole, tmp_path / "b.jsonl", pays + 1))

    assert (steps.doubts, steps.unfinished) == ((), ("0#2",))
    assert [str(doubt) for doubt in paying.doubts] == ["0#5  pay(n=7)"]
    assert paying.unfinished == ("0#5",)


def test_the_digest_so_far_is_that_of_the_lines(whole: Path) -> None:
    """§6.2: adding the rest gives that of the run."""
    standing = Standing(whole)

    assert rows_of(whole)[-1]["data"]["entries"] == len(rows_of(whole))
    assert standing.digest.hexdigest() != "0" * 64


def test_active_time_leaves_pauses_out(whole: Path, tmp_path: Path) -> None:
    """From `run.resumed` on, it goes on from where it stood."""
    log = cut(whole, tmp_path / "a.jsonl", 4)
    before = Standing(log).active_us
    refold.resume(log, resumable.sequential, tools=TOOLS)
    rows = rows_of(log)
    resumed = next(row for row in rows if row["kind"] == "run.resumed")
    standing = Standing(log)

    at_resume = standing.active_at(resumed["seq"] + 1)
    assert at_resume == before
    last = rows[-1]["meta"]["mono_us"] - resumed["meta"]["mono_us"]
    assert standing.active_us == before + last


def test_open_ends_of_children_have_keys_from_the_root_down(tmp_path: Path) -> None:
    """Whatever their depth, sorted."""
    asked = refold.record(resumable.asking_below, 1, log=tmp_path / "a.jsonl", tools=TOOLS)

    ends = open_ends(asked.log)

    assert [question.key for question in ends.questions] == ["0#1 > 0#2", "0#2 > 0#1 > 0#2"]
    assert ends.questions == asked.questions
    assert "0#2 > 0#1" in ends.unfinished
    assert open_ends(asked) == ends


def test_a_damaged_log_is_refused(whole: Path, tmp_path: Path) -> None:
    """§4.5."""
    log = cut(whole, tmp_path / "a.jsonl", 4)
    log.write_bytes(log.read_bytes().replace(b"step", b"stop", 1))

    with pytest.raises(LogDamaged):
        open_ends(log)
