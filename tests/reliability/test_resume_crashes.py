"""Runs are killed with SIGKILL in processes of their own, and resumed (CONTRACT.md §4.7).

The oracle: a call that has its result in a log is never executed again; what was begun and has
none was in doubt, and nothing else runs twice; the output is that of a run that nobody killed.
"""

import functools
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import psutil
import pytest

import refold
from refold.replay import open_ends
from tests.support import crash_programs
from tests.support.crash_programs import PROGRAMS, pay, step
from tests.support.loops import some
from tests.support.unfinished import executed_in, lines_of

ROOT = Path(__file__).parents[2]
WAIT_SECONDS = 60.0


class Run:
    """One log with its ledger, and the processes that write them."""

    def __init__(self, folder: Path, program: str, runner: str = "subprocess") -> None:
        folder.mkdir()
        self.log = folder / "a.jsonl"
        self.ledger = folder / "a.ledger"
        self.ledger.touch()
        self.program, self.runner = program, runner
        self.die_at()

    def die_at(self, *calls: str) -> None:
        """Have these calls kill their process."""
        self.ledger.with_suffix(".die").write_text(" ".join(calls))

    def start(self, verb: str) -> "subprocess.Popen[bytes]":
        """Start recording or resuming."""
        module = [sys.executable, "-m", crash_programs.__name__]
        return subprocess.Popen(
            [*module, verb, self.program, str(self.log), self.runner],
            cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def finish(self, verb: str) -> dict[str, Any]:
        """Record or resume to the end."""
        process = self.start(verb)
        said, errors = process.communicate(timeout=WAIT_SECONDS)
        assert process.returncode == 0, errors.decode()
        found: dict[str, Any] = json.loads(said)
        return found

    def dies(self, verb: str) -> bool:
        """Record or resume until a call kills the process; return whether one did."""
        process = self.start(verb)
        process.communicate(timeout=WAIT_SECONDS)
        return process.returncode == -signal.SIGKILL

    def kill_when(self, verb: str, lines: int) -> None:
        """Start, and kill the process once the ledger has so many lines more."""
        before = len(self.ledger.read_bytes().splitlines())
        process = self.start(verb)
        until = time.monotonic() + WAIT_SECONDS
        while process.poll() is None and time.monotonic() < until:
            if len(self.ledger.read_bytes().splitlines()) >= before + lines:
                _kill_and_await_orphans(process.pid)
                break
            os.sched_yield()
        process.communicate(timeout=WAIT_SECONDS)

    def done(self) -> Counter[tuple[str, int]]:
        """Return the calls that have a result in a log."""
        calls = executed_in(self.log) if self.log.exists() and lines_of(self.log) else []
        return Counter((tool, json.loads(arguments)["n"]) for tool, arguments in calls)

    def begun(self) -> Counter[tuple[str, int]]:
        """Return the calls that were begun, by the ledger."""
        rows = [line.split() for line in self.ledger.read_text().splitlines()]
        return Counter((kind, int(n)) for kind, n, what in rows if what == "begins")


def _kill_and_await_orphans(pid: int) -> None:
    """Kill a process and wait until its children, which are not killed, have left."""
    os.kill(pid, signal.SIGSTOP)  # so that it starts no more of them
    orphans = psutil.Process(pid).children(recursive=True)
    os.kill(pid, signal.SIGKILL)
    _, left = psutil.wait_procs(orphans, timeout=60)
    assert not left


@functools.cache
def _expected(program: str) -> Any:
    """Return the output of a run that nobody kills."""
    with tempfile.TemporaryDirectory() as folder:
        run = Run(Path(folder) / "unharmed", program)
        given: Any = {"log": run.log, "tools": [step, pay], "seed": 1}
        return refold.record(PROGRAMS[program], str(run.ledger), **given).output


def _check(run: Run, output: Any) -> None:
    """The log is whole, and the program does what it says."""
    report = refold.verify(run.log)
    assert (report.intact, report.complete) == (True, True)
    replayed = refold.reexecute(run.log, PROGRAMS[run.program], tools=[step, pay])
    assert replayed.identical, str(replayed)
    assert json.loads(lines_of(run.log)[-1])["data"]["output"] == output


@pytest.mark.long
@pytest.mark.parametrize(
    ("program", "call"),
    some(1, [("one", "step0"), ("one", "step2"), ("one", "pay1"), ("plain_one", "pay1")]),
)
def test_a_run_killed_inside_a_tool_ends_as_if_it_had_not_been(
    program: str, call: str, tmp_path: Path
) -> None:
    """Case 55: what had ended is not done again; the call in doubt runs once more, and no other."""
    output = _expected(program)
    run = Run(tmp_path / "killed", program)
    run.die_at(call)
    assert run.dies("record")
    done, begun = run.done(), run.begun()
    run.die_at()

    again = run.finish("resume")

    assert again == {"status": "completed", "output": output}
    in_doubt = begun - done
    assert sum(in_doubt.values()) == 1
    assert run.begun() == Counter(dict.fromkeys(run.begun(), 1)) + in_doubt
    _check(run, output)


@pytest.mark.long
@pytest.mark.parametrize("kills", [2, 20])
def test_many_kills_while_it_resumes(kills: int, tmp_path: Path) -> None:
    """Case 56: killed in the same call again and again, it ends all the same."""
    output = _expected("one")
    run = Run(tmp_path / "killed", "one")
    run.die_at("step1")
    assert run.dies("record")
    for _ in range(kills):
        assert run.dies("resume")
    run.die_at()

    again = run.finish("resume")

    assert again["output"] == output
    assert run.begun()["step", 0] == 1
    assert run.begun()["step", 1] == kills + 2
    _check(run, output)


def _killed_with_children(program: str, tmp_path: Path, lines: int, output: Any) -> bool:
    """Kill a run with children in processes of their own; resume it, if it had not ended."""
    run = Run(tmp_path / f"killed{lines}", program)
    run.kill_when("record", lines)
    if b"run.finished" in lines_of(run.log)[-1]:
        return False  # it was faster
    done, begun = run.done(), run.begun()
    doubts = {(doubt.tool, doubt.arguments["n"]) for doubt in open_ends(run.log).doubts}

    again = run.finish("resume")

    assert again["output"] == output
    in_doubt = begun - done
    assert {call for call in in_doubt if call[0] == "pay"} <= doubts
    twice = run.begun() - Counter(dict.fromkeys(run.begun(), 1))
    assert not twice - in_doubt, "a call that had its result was executed again"
    _check(run, output)
    return True


@pytest.mark.long
def test_a_run_with_ten_children_killed_in_the_middle(tmp_path: Path) -> None:
    """Cases 55, 67: with real processes and a real kill."""
    output = _expected("ten")

    assert _killed_with_children("ten", tmp_path, 40, output)


@pytest.mark.long
def test_a_run_whose_children_have_children_killed_at_many_moments(tmp_path: Path) -> None:
    """§7.3: a child whose parent was killed ends its own, and writes down no end of them."""
    output = _expected("nested")

    for lines in (4, 9, 14, 20):
        _killed_with_children("nested", tmp_path, lines, output)


@pytest.mark.long
@pytest.mark.parametrize("program", ["ten", "plain_ten"])
def test_a_run_with_ten_children_killed_at_many_moments(program: str, tmp_path: Path) -> None:
    """Case 55: the same, anywhere."""
    output = _expected(program)
    source = random.Random(55)

    for lines in sorted(source.sample(range(1, 86), 40)):
        _killed_with_children(program, tmp_path, lines, output)
