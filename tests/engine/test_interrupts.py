"""Ctrl-C: the first asks the run to end, a second ends it (CONTRACT.md §9.4)."""

import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from refold.engine import interrupts
from refold.engine.log import read_entries
from refold.replay.reexecute import reexecute
from tests.support import interrupted


@pytest.mark.parametrize(
    "program",
    ["sleeps", "in_place", "on_a_worker", "awaits", "computes", "plainly", "plainly_sleeps"],
)
def test_the_first_ctrl_c_ends_the_run_as_cancelled(tmp_path: Path, program: str) -> None:
    """Wherever it strikes: the log is sealed, KeyboardInterrupt is raised, and replay agrees."""
    log = tmp_path / "a.jsonl"
    argv = [sys.executable, str(interrupted.__file__), program, str(log)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        child.send_signal(signal.SIGINT)
        _, errors = child.communicate(timeout=30)

    assert child.returncode == -signal.SIGINT
    assert "KeyboardInterrupt" in errors
    last = list(read_entries(log))[-1]
    assert (last.kind, last.data["status"]) == ("run.finished", "cancelled")
    report = reexecute(log, getattr(interrupted, program))
    assert report.identical, str(report)


def test_a_second_ctrl_c_is_not_withheld(tmp_path: Path) -> None:
    """A program that never yields is left with its log unsealed."""
    log = tmp_path / "a.jsonl"
    argv = [sys.executable, str(interrupted.__file__), "never_yields", str(log)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        child.send_signal(signal.SIGINT)
        assert child.stdout.readline() == "still here\n"
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=30)

    assert child.returncode == -signal.SIGINT
    assert [entry.kind for entry in read_entries(log)] == ["run.started"]


def test_the_handler_is_put_back() -> None:
    """What stood there before stands there after, whatever happened in between."""
    asked: list[int] = []

    def fails() -> None:
        with interrupts.obeyed(lambda: asked.append(1)):
            signal.raise_signal(signal.SIGINT)
            raise LookupError

    with pytest.raises(LookupError):
        fails()

    assert asked == [1]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_handler_of_the_callers_own_is_left_alone() -> None:
    """So are threads other than the main one, where no handler can be set."""
    seen: list[int] = []
    before = signal.signal(signal.SIGINT, lambda _number, _frame: seen.append(1))
    try:
        with interrupts.obeyed(seen.clear):
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
    assert seen == [1]

    def elsewhere() -> None:
        with interrupts.obeyed(seen.clear):
            seen.append(2)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert seen == [1, 2]
