"""What a re-execution says when it is not the program that changed, or when the program breaks."""

from pathlib import Path

import pytest

import refold
from refold.engine.errors import ProgramRefused


async def child(run: refold.Run, number: int) -> int:
    run.annotate("here")
    return number


async def parent(run: refold.Run, _: None) -> list[int]:
    return [
        (await run.delegate(refold.Delegation(program=child, input=number))).output
        for number in (1, 2)
    ]


async def breaks(_run: refold.Run, _: None) -> None:
    raise ZeroDivisionError("on purpose")


async def takes_no_input(_run: refold.Run) -> None:
    """Is no program."""


def test_a_childs_log_that_is_gone_is_no_identical_replay(tmp_path: Path) -> None:
    """Its parent's log names its head: what it did cannot be compared (CONTRACT.md §12.2)."""
    log = refold.record(parent, None, log=tmp_path / "a.jsonl").log
    (tmp_path / "a.2.jsonl").unlink()

    (divergence,) = refold.reexecute(log, parent).divergences

    assert (divergence.category, divergence.where) == ("log_damaged", "parent > child[2]")
    assert "a.2.jsonl" in str(divergence)


def test_a_program_that_raises_now_is_shown_with_its_line(tmp_path: Path) -> None:
    """The end of the run, and the place in the program, stand in the divergence."""
    log = refold.record(parent, None, log=tmp_path / "a.jsonl").log

    (divergence,) = refold.reexecute(log, breaks).divergences

    assert divergence.file == __file__
    assert "failed: ZeroDivisionError: on purpose" in str(divergence)


def test_another_program_than_the_recorded_one_is_named_as_the_cause(tmp_path: Path) -> None:
    log = refold.record(parent, None, log=tmp_path / "a.jsonl").log

    (divergence,) = refold.reexecute(log, breaks).divergences

    assert divergence.fingerprints["program"] == ("parent", "breaks")
    assert "recorded from 'parent'" in divergence.cause


def test_a_recording_names_the_line_that_raised(tmp_path: Path) -> None:
    """Beside the log's own data, so that an edit elsewhere changes no digest."""
    recording = refold.record(breaks, None, log=tmp_path / "a.jsonl")

    file, _, line = recording.where.rpartition(":")
    assert file == __file__
    assert "raise ZeroDivisionError" in Path(file).read_text().splitlines()[int(line) - 1]


def test_a_program_without_an_input_is_refused_before_a_log_is_made(tmp_path: Path) -> None:
    with pytest.raises(ProgramRefused, match=r"takes_no_input\(run, input\)"):
        refold.record(takes_no_input, None, log=tmp_path / "a.jsonl")

    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("before", "after", "cause"),
    [
        ("a" * 64, "b" * 64, "outside run decides"),
        ("a" * 32, "b" * 32, "uuid"),
        ({"q": 1}, {"query": 1}, "outside run decides"),
        (["a", "b"], ["b", "a"], "order of a set"),
    ],
)
def test_a_likely_cause_is_not_guessed_from_looks_alone(
    before: object, after: object, cause: str
) -> None:
    """A digest is no uuid, and a renamed member is no shuffled set."""
    from refold.replay.divergence import likely_cause  # noqa: PLC0415 - of this test alone
    from refold.replay.pointer_diff import differences  # noqa: PLC0415 - the same

    assert cause in likely_cause("args_changed", differences(before, after), {})
