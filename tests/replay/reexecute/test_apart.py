"""A run that crashed or stood still is re-executed out of harm's way (CONTRACT.md §12.3)."""

import contextlib
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import refold
from tests.support.loops import some
from tests.support.unfinished import lines_of

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
    seconds = 1 if name == "stands_still" else 60
    child = refold.Delegation(
        program=f"{__file__}:{name}", input="hello", limits=refold.Limits(timeout_seconds=seconds)
    )
    return run.delegate(child).status
"""


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A file of programs that would take the process with them."""
    path = tmp_path / "programs.py"
    path.write_text(PROGRAMS)
    return path


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("crashes", "failed"),
        pytest.param("stands_still", "timed_out", marks=pytest.mark.long),
    ],
)
def test_doing_so_again_after_the_last_line_matches(
    programs: Path, tmp_path: Path, name: str, status: str
) -> None:
    """The record of the child ends early, and so does its re-execution."""
    program, log = f"{programs}:parent", tmp_path / "a.jsonl"
    recording = refold.record(program, name, log=log, runner="subprocess")

    report = refold.reexecute(log, program)

    assert recording.output == status
    assert report.identical, report
    # A machine may be so busy that the time of a child is over before it begins.
    begun = ("a.1.jsonl",) if name == "crashes" or (tmp_path / "a.1.jsonl").exists() else ()
    assert (report.children, report.ends_early) == (len(begun), begun)
    logs = [log, *(tmp_path / each for each in begun)]
    assert report.entries == sum(len(lines_of(each)) for each in logs)


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


@pytest.mark.long
def test_a_child_that_crashes_before_its_record_does_diverges(
    programs: Path, tmp_path: Path
) -> None:
    program, log = f"{programs}:parent", tmp_path / "a.jsonl"
    refold.record(program, "crashes", log=log, runner="subprocess")
    programs.write_text(PROGRAMS.replace("run.annotate(text)", "pass", 1))

    (divergence,) = refold.reexecute(log, program).divergences

    assert (divergence.category, Path(divergence.log).name) == ("environment", "a.1.jsonl")
    assert divergence.now["kind"] == "process"
    assert "before the end of the recording" in divergence.cause


def test_what_cannot_be_imported_elsewhere_is_re_executed_here(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A script that needs its arguments, say; its unfinished record matches all the same."""
    programs.write_text(f"import sys\nWORD = sys.argv[1]\n{PROGRAMS}\ndef notes(run, _):\n"
                        "    run.annotate(WORD)\n")  # fmt: skip
    monkeypatch.setattr("sys.argv", ["it", "word"])
    recording = refold.record(f"{programs}:notes", log=tmp_path / "a.jsonl")
    recording.log.write_bytes(b"".join(lines_of(recording.log)[:-1]))

    report = refold.reexecute(recording.log, f"{programs}:notes")

    assert report.identical, report
    assert report.ends_early == ("a.jsonl",)


def test_a_shipped_program_that_misbehaves_never_runs_in_this_process(tmp_path: Path) -> None:
    """However its record ends: here with the whole flood that a child of it is stopped in."""
    with contextlib.redirect_stdout(io.StringIO()) as flood:
        log = refold.record("floods", log=tmp_path / "a.jsonl").log

    with contextlib.redirect_stdout(io.StringIO()) as printed:
        report = refold.reexecute(log)

    assert (len(flood.getvalue()) > 1 << 20, printed.getvalue()) == (True, "")
    assert report.identical, report


@refold.tool(effect="reads")
def fetch(url: str, ts: str) -> str:
    """Return the address."""
    return url + ts[:0]


def program_at(ts: str) -> Callable[[refold.PlainRun, Any], str]:
    """Return a program that another process cannot import."""

    def fetching(run: refold.PlainRun, _input: Any) -> str:
        found: str = run.tool(fetch, url="u", ts=ts)
        return found

    return fetching


@pytest.mark.parametrize("is_local", some(1, [True, False]))
def test_what_is_volatile_is_passed_over_and_listed(tmp_path: Path, *, is_local: bool) -> None:
    """§12.7: in an unfinished record as in any other, in this process or in one of its own."""
    path = tmp_path / "dated.py"
    texts = [
        f"def fetching(run, _input):\n    return run.tool('fetch', url='u', ts={ts!r})\n"
        for ts in ("monday", "friday")
    ]
    then, now = map(program_at, ("monday", "friday")) if is_local else (f"{path}:fetching",) * 2
    path.write_text(texts[0])
    recording = refold.record(then, log=tmp_path / "a.jsonl", tools=[fetch])
    recording.log.write_bytes(b"".join(lines_of(recording.log)[:-1]))
    path.write_text(texts[1])

    plain = refold.reexecute(recording.log, now, tools=[fetch])
    excused = refold.reexecute(
        recording.log, now, tools=[fetch], volatile=["tool:fetch/arguments/ts"]
    )

    assert [one.category for one in plain.divergences] == ["args_changed"]
    assert excused.identical, str(excused)
    assert excused.ends_early == ("a.jsonl",)
    assert excused.ignored_count == 1
    (ignored,) = excused.ignored
    assert (ignored.pointer, ignored.recorded, ignored.now) == ("/arguments/ts", "monday", "friday")


@pytest.mark.long
@pytest.mark.parametrize("is_found", [True, False], ids=["in a process", "on a thread"])
def test_children_are_waited_for_however_long_they_take(tmp_path: Path, *, is_found: bool) -> None:
    """The record of their parent ends early, and only its own program is let go after a second."""
    module = tmp_path / "slow.py"
    module.write_text(SLOW)
    log = tmp_path / "a.jsonl"
    refold.record(f"{module}:lead", 1, log=log)
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:-1]))
    module.write_text(SLOW.replace("output = 1", "output = 2; time.sleep(1.5)"))
    program: Any = f"{module}:lead"
    if not is_found:
        found: dict[str, Any] = {"__file__": str(module), "__name__": "gone"}
        exec(module.read_text(), found)
        program = found["lead"]

    report = refold.reexecute(log, program)

    assert [one.category for one in report.divergences] == ["output_changed"]


SLOW = """
import time, refold

def child(run, n):
    output = 1
    return output

def lead(run, n):
    return run.delegate(refold.Delegation(program=child, input=n)).output
"""
