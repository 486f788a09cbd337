"""Ctrl-C: the first asks the run to end, a second ends it (CONTRACT.md §9.4)."""

import asyncio
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from refold.engine.log.reader import read_entries
from refold.engine.program.run import PlainRun, Run
from refold.engine.recording import interrupts
from refold.engine.runners.recording import record
from refold.replay.reexecute.reexecute import reexecute
from tests.support import interrupted
from tests.support.loops import for_each, some


def interrupted_by_ctrl_c(log: Path, program: str, *more: str) -> str:
    """Run a program until it is ready, interrupt it, and return what it says then."""
    argv = [sys.executable, str(interrupted.__file__), program, str(log), *more]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        child.send_signal(signal.SIGINT)
        _, errors = child.communicate(timeout=50)

    # Python ends itself by the signal, or with 130 where it is another thread's and not there yet.
    assert child.returncode in (-signal.SIGINT, *([128 + signal.SIGINT] if more else []))
    return errors


@pytest.mark.parametrize(
    "program",
    some(
        2,
        [
            "sleeps",
            "in_place",
            "on_a_worker",
            "awaits",
            "awaits_a_blocked_loop",
            "awaits_a_deaf_one",
            "computes",
            "plainly",
            "plainly_sleeps",
        ],
    ),
)
def test_the_first_ctrl_c_ends_the_run_as_cancelled(tmp_path: Path, program: str) -> None:
    """Wherever it strikes: the log is sealed, KeyboardInterrupt is raised, and replay agrees."""
    log = tmp_path / "a.jsonl"

    assert "KeyboardInterrupt" in interrupted_by_ctrl_c(log, program)
    last = list(read_entries(log))[-1]
    assert (last.kind, last.data["status"]) == ("run.finished", "cancelled")
    report = reexecute(log, getattr(interrupted, program))
    assert report.identical, str(report)


@pytest.mark.long
@pytest.mark.parametrize("program", ["sleeps", "on_a_worker", "awaits", "plainly_sleeps"])
def test_ctrl_c_is_obeyed_though_it_ends_no_wait(tmp_path: Path, program: str) -> None:
    """It may come right before a wait begins: none of ours is so long that this could be felt."""
    log = tmp_path / "a.jsonl"

    interrupted_by_ctrl_c(log, program, "elsewhere")

    assert list(read_entries(log))[-1].data["status"] == "cancelled"


@pytest.mark.long
def test_the_first_ctrl_c_when_the_program_has_ended(tmp_path: Path) -> None:
    """What it left still comes to its end; then the log is sealed, and says nothing of it."""
    log = tmp_path / "a.jsonl"

    interrupted_by_ctrl_c(log, "has_ended")

    last = list(read_entries(log))[-1]
    assert (last.kind, last.data["status"]) == ("run.finished", "completed")
    report = reexecute(log, interrupted.has_ended)
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
        child.communicate(timeout=60)

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


async def raises(_run: Run, _input: Any) -> None:
    """Be interrupted by itself."""
    raise KeyboardInterrupt


async def raises_in_a_task(run: Run, _input: Any) -> None:
    """Be interrupted by a task of its own, and clean up."""

    async def inner() -> None:
        raise KeyboardInterrupt

    task = asyncio.create_task(inner())
    try:
        await asyncio.Event().wait()
    finally:
        run.annotate(f"cleaned up, {task.done()}")


async def raises_while_it_ends(_run: Run, _input: Any) -> int:
    """Leave a task that is interrupted while it is cancelled."""

    async def inner() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise KeyboardInterrupt from None

    task = asyncio.create_task(inner())
    await asyncio.sleep(0)
    return int(task.done())


def plainly_raises(_run: PlainRun, _input: Any) -> None:
    """Be interrupted by itself, in a plain program."""
    raise KeyboardInterrupt


@for_each("program", [raises, raises_in_a_task, raises_while_it_ends, plainly_raises])
def test_a_program_that_raises_keyboard_interrupt_fails(tmp_path: Path, program: Any) -> None:
    """Its log is sealed and replays; then the interrupt is passed on (CONTRACT.md §9.6)."""
    log = tmp_path / "a.jsonl"

    with pytest.raises(KeyboardInterrupt):
        record(program, log=log)

    last = list(read_entries(log))[-1]
    assert (last.kind, last.data["status"], last.data["error"]["code"]) == (
        "run.finished",
        "failed",
        "raised",
    )
    assert reexecute(log, program).identical


def test_ctrl_c_in_a_replay_is_no_divergence(tmp_path: Path) -> None:
    """An interrupt that the record does not have ends the replay, and is passed on."""
    is_replay: list[bool] = []

    async def program(run: Run, _input: Any) -> None:
        run.annotate("begun")
        if is_replay:
            signal.raise_signal(signal.SIGINT)

    log = record(program, log=tmp_path / "a.jsonl").log
    is_replay.append(True)

    with pytest.raises(KeyboardInterrupt):
        reexecute(log, program)
