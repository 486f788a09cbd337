"""A run that crashed or stood still is re-executed out of harm's way (CONTRACT.md §12.3)."""

from pathlib import Path

import pytest

import refold

PROGRAMS = """
import os, refold

def crashes(run, text):
    run.annotate(text)
    os._exit(3)

def stands_still(run, text):
    run.annotate(text)
    while True:
        pass

def parent(run, name):
    child = refold.Delegation(
        program=f"{__file__}:{name}", input="hello", limits=refold.Limits(timeout_seconds=1)
    )
    return run.delegate(child).status
"""


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A file of programs that would take the process with them."""
    path = tmp_path / "programs.py"
    path.write_text(PROGRAMS)
    return path


@pytest.mark.parametrize(("name", "status"), [("crashes", "failed"), ("stands_still", "timed_out")])
def test_doing_so_again_after_the_last_line_matches(
    programs: Path, tmp_path: Path, name: str, status: str
) -> None:
    """The record of the child ends early, and so does its re-execution."""
    program, log = f"{programs}:parent", tmp_path / "a.jsonl"
    recording = refold.record(program, name, log=log, runner="subprocess")

    report = refold.reexecute(log, program)

    assert recording.output == status
    assert report.identical, report
    assert (report.children, report.ends_early) == (1, ("a.1.jsonl",))


def test_a_child_that_does_something_else_before_it_crashes_diverges(
    programs: Path, tmp_path: Path
) -> None:
    """Told at first sight, for it takes its process with it before the search for a name ends."""
    program, log = f"{programs}:parent", tmp_path / "a.jsonl"
    refold.record(program, "crashes", log=log, runner="subprocess")
    other = tmp_path / "other" / "programs.py"
    other.parent.mkdir()
    other.write_text(PROGRAMS.replace("run.annotate(text)", 'run.annotate(text + "!")', 1))

    report = refold.reexecute(log, f"{other}:parent")

    (divergence,) = report.divergences
    assert Path(divergence.log).name == "a.1.jsonl"
    assert (divergence.category, divergence.call, divergence.seq) == ("args_changed", "0#1", 1)
    assert [str(one) for one in divergence.diff] == ['/arguments/text: "hello" → "hello!"']
