"""A program that holds up its loop for long is told the line (CONTRACT.md §9.10)."""

import asyncio
import bdb
import gc
import inspect
import sys
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import refold
from refold.engine.recording import blocked
from refold.engine.recording.blocked import held_at, own_line
from refold.engine.recording.workers import Lookout


def here(what: Callable[[], Any], seen: list[tuple[str, int] | None]) -> Any:
    """Say in `seen` what a watcher would have named at this moment, and go on."""
    seen.append(held_at(sys._getframe()))
    return what()


def test_it_is_the_programs_own_line_and_never_a_tools(tmp_path: Path) -> None:
    """Not in a tool that runs in the kernel's own thread, nor in a plain program."""
    seen: list[tuple[str, int] | None] = []

    @refold.tool(effect="reads")
    def look() -> int:
        """Look."""
        return int(here(lambda: 1, seen))

    async def program(run: refold.Run, _input: None) -> int:
        here(int, seen)
        list(map(lambda _: here(int, seen), "x"))  # noqa: C417 - a function between
        return await run.tool(look)

    def plain(run: refold.PlainRun, _input: None) -> int:
        here(int, seen)
        return run.tool(look)

    refold.record(program, log=tmp_path / "a.jsonl")
    refold.record(plain, log=tmp_path / "b.jsonl")

    helper = (__file__, inspect.getsourcelines(here)[1] + 2)
    assert seen == [helper, helper, None, None, None]


def test_who_blocks_is_warned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a warning of Python's and of the recording; a replay is not watched.

    So is who blocks later, when the watcher of the runs before has left.
    """
    monkeypatch.setattr(blocked, "_watch", Lookout("watch of this test", 0.01))

    async def program(run: refold.Run, waits: int) -> None:
        until = time.monotonic() + 60
        heard = run._kernel.unheard
        while waits and not heard and time.monotonic() < until:
            time.sleep(0.001)  # noqa: ASYNC251 - the fault itself

    line = inspect.getsourcelines(program)[1]
    with pytest.warns(RuntimeWarning, match="blocked its event loop") as warned:
        recording = refold.record(program, 1, log=tmp_path / "a.jsonl")

    assert warned[0].filename == __file__
    assert warned[0].lineno in (line + 3, line + 4)
    assert recording.warnings[0].startswith(f"{__file__}:{warned[0].lineno}: the program blocked")
    for each in threading.enumerate():
        if each.name == "watch of this test":
            each.join(60)
    with pytest.warns(RuntimeWarning, match="blocked its event loop"):
        refold.record(program, 1, log=tmp_path / "later.jsonl")
    other = refold.record(program, 0, log=tmp_path / "b.jsonl")
    monkeypatch.setattr(blocked, "watched", None)
    assert refold.reexecute(other, program).identical


def test_one_thread_watches_all_runs_and_keeps_none(tmp_path: Path) -> None:
    """Children in this process included; a run that has ended is let go."""
    seen: list[set[int | None]] = []

    gone = threading.Event()

    def ended() -> "weakref.ref[Any]":
        async def program(run: refold.Run, levels: int) -> None:
            found = [each for each in threading.enumerate() if each.name == "refold-watch"]
            seen.append({each.ident for each in found})
            if levels:
                await run.delegate(refold.Delegation(program=program, input=levels - 1))

        assert refold.record(program, 1, log=tmp_path / "a.jsonl").ok
        return weakref.ref(program, lambda _: gone.set())

    left = ended()
    ends = time.monotonic() + 60
    while not gone.wait(0.01) and time.monotonic() < ends:  # a thread may hold it until it sleeps
        gc.collect()

    assert len(seen) == 2
    assert seen[1] <= seen[0]
    assert left() is None


def test_two_looks_at_one_call_tell_once(tmp_path: Path) -> None:
    """Between which it asked for nothing, and let nobody on; a third look tells nothing more."""

    async def program(run: refold.Run, _input: None) -> int:
        look = looker(run)
        look()
        look()
        look()
        return len(run._kernel.unheard)

    with pytest.warns(RuntimeWarning, match="blocked its event loop"):
        assert refold.record(program, log=tmp_path / "a.jsonl").output == 1


@pytest.mark.parametrize("timeout_seconds", [None, 0.01])
def test_a_plain_program_that_continues_after_its_time_is_named_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], timeout_seconds: float | None
) -> None:
    """It blocks nobody, so that without a limit nothing is wrong."""

    def program(run: refold.PlainRun, _input: None) -> None:
        look = looker(run)
        for _ in range(6):
            look()

    limits = refold.Limits(timeout_seconds=timeout_seconds)
    refold.record(program, log=tmp_path / "a.jsonl", limits=limits)

    said = capsys.readouterr().err.splitlines()
    assert len(said) == (timeout_seconds is not None)
    for line in said:
        assert line.startswith(f"refold: {__file__}:")
        assert "the program has not ended within its 0.01 s" in line


def test_the_line_of_a_plain_program_is_its_own_and_no_debuggers() -> None:
    """A library that it calls has no part in it; a person may take time."""
    found: list[tuple[str, int] | None] = []
    names = {"look": lambda: found.append(own_line(sys._getframe(1)))}
    exec(compile("look()", inspect.__file__, "exec"), names)
    exec(compile("look()", bdb.__file__, "exec"), names)
    assert found == [(__file__, sys._getframe().f_lineno - 2), None]


def test_a_program_that_goes_on_is_told_nothing(tmp_path: Path) -> None:
    """However long it takes, and however little it waits: it asks, or lets others on.

    Nor one that a person looked at in between, with a debugger.
    """

    @refold.tool(effect="reads")
    def nothing() -> None:
        """Do nothing."""

    async def program(run: refold.Run, _input: None) -> None:
        look = looker(run)
        look()
        await run.tool(nothing)
        look()
        await asyncio.sleep(0)
        look()
        exec(compile("look()", "/lib/bdb.py", "exec"), {"look": look})
        look()

    assert refold.record(program, log=tmp_path / "a.jsonl").warnings == ()


def looker(run: refold.Run | refold.PlainRun) -> Callable[[], None]:
    """Return what looks once at the run's loop, from another thread."""
    watched = blocked._Watched(run._kernel)

    def look() -> None:
        begun = threading.Event()

        def when_begun() -> None:
            begun.wait()
            watched.check()

        thread = threading.Thread(target=when_begun)
        thread.start()  # by way of Refold's own, which is no line of the program's
        [each() for each in (begun.set, thread.join)]  # on one line: either may be seen

    return look


def test_a_program_that_never_goes_on_is_named_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its warning would come at an end that it has not: after five looks, one line, and no more."""

    async def program(run: refold.Run, _input: None) -> None:
        look = looker(run)
        for _ in range(4 + blocked.STUCK_LOOKS):
            look()

    with pytest.warns(RuntimeWarning, match="blocked its event loop"):
        refold.record(program, log=tmp_path / "a.jsonl")

    (said,) = capsys.readouterr().err.splitlines()
    assert said.startswith(f"refold: {__file__}:")
    assert ": the program has blocked its event loop for 10 s" in said
