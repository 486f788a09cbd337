"""Logs are re-executed in processes of their own: none spoils another's answer, none is left."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import attrs
import psutil
import pytest

import refold
from refold.engine.ports.ports import Reference
from refold.replay.bulk.bulk import replay_logs
from refold.replay.bulk.processes import Schedule
from refold.replay.bulk.report import LogResult
from tests.support import bulk_programs as programs

ROOT = Path(__file__).parents[3]
NOTHING: dict[str, Any] = {"programs": {}, "tools": [], "volatile": []}


def _logs(folder: Path, program: Any, inputs: list[Any]) -> list[Path]:
    return [
        refold.record(program, given, log=folder / f"{number}-log.jsonl").log
        for number, given in enumerate(inputs)
    ]


def _is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.long
def test_a_program_that_ends_its_process_is_one_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others are re-executed to their ends."""
    logs = _logs(tmp_path, programs.leaving, ["stay", "go", "stay"])
    monkeypatch.setenv("BULK_LEAVES", "go")

    report = refold.reexecute(logs, programs.leaving, jobs=2)

    assert [log.result for log in report.logs] == ["identical", "diverged", "identical"]
    assert report.logs[1].category == "environment"
    assert "exit code 7" in report.logs[1].message


@pytest.mark.long
def test_a_log_that_takes_too_long_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """§14.13: it is one row, nothing of it is left, and the others come to their ends."""
    logs = _logs(tmp_path, programs.standing, ["go", "stand", "go"])
    monkeypatch.setenv("BULK_STANDS", f"stand:{tmp_path / 'pid'}")

    report = refold.reexecute(logs, programs.standing, jobs=1, timeout_seconds=2)

    assert [log.result for log in report.logs] == ["identical", "timed out", "identical"]
    assert "more than 2 s" in report.logs[1].message
    assert report.logs[1].seconds >= 2
    assert not _is_alive(int((tmp_path / "pid").read_text()))


@pytest.mark.long
def test_failing_fast_stops_there_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two that stand still at once, the first is one that took too long."""
    logs = _logs(tmp_path, programs.standing, ["stand", "stand", "go"])
    monkeypatch.setenv("BULK_STANDS", f"stand:{tmp_path / 'pid'}")

    report = refold.reexecute(logs, programs.standing, jobs=2, timeout_seconds=1, fail_fast=True)

    assert sorted(log.result for log in report.logs) == ["not run", "not run", "timed out"]


@pytest.mark.long
def test_each_verdict_is_told_as_it_is_known(tmp_path: Path) -> None:
    """Whatever became of it, wherever they are re-executed, and the same that is reported."""
    logs = [*_logs(tmp_path, programs.doubling, [1]), tmp_path / "broken.jsonl"]
    logs[1].write_text("no log")
    apart: list[LogResult] = []
    here: list[LogResult] = []

    execute = Reference("refold.api", "replayer", NOTHING)
    report = replay_logs(logs, execute, Schedule(jobs=1), on_verdict=apart.append)
    replay_logs(
        logs,
        lambda log: LogResult(log=str(log), result="identical"),
        Schedule(),
        on_verdict=here.append,
    )

    assert tuple(apart) == report.logs
    assert [row.log for row in here] == [str(log) for log in logs]


@pytest.mark.long
@pytest.mark.parametrize("at", [5, 0, 11])
@pytest.mark.parametrize(
    ("kind", "jobs", "how"), [("killing_all", 2, "SIGKILL"), ("leaving", 1, "exit code 7")]
)
def test_a_log_that_ends_its_process_is_named(
    kind: str, jobs: int, how: str, at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The helper with it, or one that has many logs; the rest as if nothing had been."""
    program = getattr(programs, kind)
    logs = _logs(tmp_path, program, ["go" if n == at else "stay" for n in range(12)])
    for variable in ("BULK_KILLS", "BULK_LEAVES"):
        monkeypatch.setenv(variable, "go")

    report = refold.reexecute(logs, program, jobs=jobs)

    expected = ["identical"] * 12
    expected[at] = "diverged"
    assert [log.result for log in report.logs] == expected
    assert [log.log for log in report.logs] == [str(log) for log in logs]
    assert how in report.logs[at].message


@pytest.mark.long
def test_what_one_replay_leaves_behind_no_other_sees(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each begins in the state in which the program was imported."""
    monkeypatch.setattr(programs, "_counted", [0])
    refold.record(programs.counting, None, log=tmp_path / "a.jsonl")

    for number in range(12):  # so many that several are re-executed in one process
        shutil.copy(tmp_path / "a.jsonl", tmp_path / f"copy-{number}-log.jsonl")

    report = refold.reexecute([tmp_path], programs.counting, jobs=1)

    assert report.identical, report


@pytest.mark.parametrize("left", ["module", pytest.param("environment", marks=pytest.mark.long)])
def test_no_log_is_identical_for_what_another_left_behind(
    left: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every second one was recorded where the one before had left its mark."""
    monkeypatch.delenv("BULK_MARK", raising=False)
    first, second = _logs(tmp_path, programs.marking, [left, left])
    monkeypatch.delenv("BULK_MARK", raising=False)
    logs = []
    for number in range(6):
        for log in (first, second):
            logs.append(tmp_path / f"{number}-{log.name}")
            shutil.copy(log, logs[-1])
    programs.unmark()

    report = refold.reexecute(logs, programs.marking, jobs=1)

    assert [log.result for log in report.logs] == ["identical", "diverged"] * 6


@pytest.mark.long
def test_no_log_is_blamed_for_what_another_left_in_a_library(tmp_path: Path) -> None:
    """That is not imported anew; who differs is judged again, as the first of a process."""
    (log,) = _logs(tmp_path, programs.marking, ["library"])
    programs.unmark()
    logs = [shutil.copy(log, tmp_path / f"copy-{number}-log.jsonl") for number in range(12)]

    assert refold.reexecute(logs, programs.marking, jobs=1).identical


@pytest.mark.long
def test_of_many_logs_in_one_process_the_one_that_stands_still_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = _logs(tmp_path, programs.standing, [*["go"] * 4, "stand", *["go"] * 4])
    monkeypatch.setenv("BULK_STANDS", f"stand:{tmp_path / 'pid'}")

    report = refold.reexecute(logs, programs.standing, jobs=1, timeout_seconds=1)

    results = [log.result for log in report.logs]
    assert results == [*["identical"] * 4, "timed out", *["identical"] * 4]


@pytest.mark.long
def test_the_report_is_the_same_however_many_logs_a_process_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Damaged ones and those that differ among them."""
    logs = _logs(tmp_path, programs.leaving, ["stay", "go", "stay", "stay"])
    logs[2].write_text("no log")
    monkeypatch.setenv("BULK_LEAVES", "go")

    several, *alone = (
        refold.reexecute(some, programs.leaving, jobs=1).logs
        for some in (logs, *([log] for log in logs))
    )

    assert {row.result for row in several} == {"identical", "diverged", "damaged"}
    assert [attrs.evolve(row, seconds=0) for row in several] == [
        attrs.evolve(row, seconds=0) for (row,) in alone
    ]


@pytest.mark.long
def test_failing_fast_starts_no_log_behind_the_first_that_differs(tmp_path: Path) -> None:
    logs = _logs(tmp_path, programs.doubling, list(range(12)))
    logs[3].write_text("no log")

    report = refold.reexecute(
        logs, programs.doubling, tools=[programs.double], jobs=1, fail_fast=True
    )

    results = [log.result for log in report.logs]
    assert results == [*["identical"] * 3, "damaged", *["not run"] * 8]


def test_what_programs_print_is_kept_apart(tmp_path: Path) -> None:
    """Case 104: it is handed back beside the rows, and each program's once."""
    logs = _logs(tmp_path, programs.printing, [None, None])

    report = refold.reexecute(logs, programs.printing, jobs=2)

    assert report.identical, report
    assert report.printed.count("to the output") == 2
    assert report.printed.count("to the errors") == 2


@pytest.mark.long
def test_an_interrupt_ends_all_of_it(tmp_path: Path) -> None:
    """130, no table, and nothing of it alive: neither the helper nor what it forked."""
    began = tmp_path / "began"
    os.mkfifo(began)
    (log,) = _logs(tmp_path, programs.waiting, [str(began)])
    command = [sys.executable, "-m", "refold", "replay", str(tmp_path), str(log)]
    command += ["--program", "tests.support.bulk_programs:waiting", "--limit", "jobs=2"]
    running = subprocess.Popen(
        command,
        cwd=ROOT,
        env=os.environ | {"BULK_WAITS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    fork = int(began.read_text())  # a pipe: returns when the fork has written and closed

    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=60)

    assert running.returncode == 130, err
    assert out == ""
    assert "Traceback" not in err
    assert not _is_alive(fork)


@pytest.mark.long
def test_programs_that_cannot_be_imported_elsewhere_are_replayed_here(tmp_path: Path) -> None:
    """A script that needs its arguments: in this process, as `reexecute` would."""
    script = tmp_path / "script.py"
    script.write_text(
        "import os, sys\n"
        "assert os.environ.get('BULK_HERE') == str(os.getpid())\n"
        "import refold\n"
        "def main(run: refold.PlainRun, given: int) -> int:\n    return given + 1\n"
        "if __name__ == '__main__':\n"
        "    log = refold.record(main, 1, log=sys.argv[1]).log\n"
        "    print(refold.reexecute([log], main).logs[0].result)\n"
    )
    words = "import os, sys, runpy; os.environ['BULK_HERE'] = str(os.getpid());"
    words += "sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
    command = [sys.executable, "-c", words, str(script), str(tmp_path / "a.jsonl")]

    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)

    assert said.stdout == "identical\n"
