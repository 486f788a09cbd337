"""One program on the kernel: refusals, dead ends, endings, and what is no use of `run` (§9)."""

import asyncio
import contextlib
import inspect
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from refold.engine.errors import NotCanonical, ToolError, ToolUnknown, UsageError
from refold.engine.events.limits import Limits
from refold.engine.kernel import kernel
from refold.engine.kernel.pending import Child
from refold.engine.log.reader import read_entries
from refold.engine.loop import loop
from refold.engine.ports.ports import Delegation
from refold.engine.program.run import PlainRun, Run
from refold.engine.recording import recorder
from refold.engine.runners.recorded import Recording
from refold.engine.runners.recording import record
from refold.replay.reexecute.reexecute import reexecute
from tests.support.loops import for_each
from tests.support.steps import fetch, search

TOOLS = [search, fetch]


def ran(tmp_path: Path, program: Any, **options: Any) -> Recording:
    """Record a program, and make sure that its log re-executes."""
    recording = record(program, log=tmp_path / "a.jsonl", tools=TOOLS, seed=1, **options)
    report = reexecute(recording.log, program, tools=TOOLS)
    assert report.identical, str(report)
    return recording


def kinds(recording: Recording) -> list[str]:
    return [entry.kind for entry in read_entries(recording.log)][1:]


def line_of(function: Any, text: str = "# here") -> int:
    lines, first = inspect.getsourcelines(function)
    return first + next(at for at, line in enumerate(lines) if text in line)


# --- what would leave the loop -----------------------------------------------------------------


async def _nothing() -> None:
    """Do nothing."""


def _elsewhere(call: Callable[[], Any]) -> Any:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call).result()


WAYS_OUT: dict[str, Callable[[asyncio.AbstractEventLoop], Any]] = {
    "run_in_executor": lambda loop: loop.run_in_executor(None, print),
    "to_thread": lambda _loop: asyncio.to_thread(print),
    "open_connection": lambda _loop: asyncio.open_connection("127.0.0.1", 9),
    "start_server": lambda _loop: asyncio.start_server(lambda _r, _w: None, "127.0.0.1", 0),
    "create_subprocess_exec": lambda _loop: asyncio.create_subprocess_exec("true"),
    "create_subprocess_shell": lambda _loop: asyncio.create_subprocess_shell("true"),
    "getaddrinfo": lambda loop: loop.getaddrinfo("localhost", 80),
    "sock_recv": lambda loop: loop.sock_recv(None, 1),  # type: ignore[arg-type]  # refused before
    "add_reader": lambda loop: loop.add_reader(0, print),
    "add_signal_handler": lambda loop: loop.add_signal_handler(signal.SIGUSR1, print),
    "call_soon_threadsafe": lambda loop: _elsewhere(lambda: loop.call_soon_threadsafe(print)),
    "run_forever": lambda loop: loop.run_forever(),
    "run_until_complete": lambda loop: loop.run_until_complete(_nothing),  # type: ignore[arg-type]  # refused before
    "stop": lambda loop: loop.stop(),
    "close": lambda loop: loop.close(),
    "set_default_executor": lambda loop: loop.set_default_executor(None),  # type: ignore[arg-type]  # refused before
    "asyncio.run": lambda _loop: asyncio.run(_nothing()),
}


@for_each("way", WAYS_OUT)
def test_a_way_out_is_refused_with_its_place_and_the_remedy(tmp_path: Path, way: str) -> None:
    """Sockets, threads, processes, signals, other loops: file, line, and `make it a tool`."""

    async def program(_run: Run, _input: Any) -> Any:
        result = WAYS_OUT[way](asyncio.get_running_loop())
        return await result if inspect.isawaitable(result) else result

    recording = ran(tmp_path, program)

    assert recording.status == "failed"
    assert recording.error is not None
    assert recording.error.code == "outside_loop"
    assert recording.error.message.startswith(f"{__file__}:")
    assert "Make it a tool (@refold.tool)" in recording.error.message


def test_a_refusal_names_the_line_of_the_program(tmp_path: Path) -> None:
    """Not a line of asyncio, and not one of Refold."""

    async def program(_run: Run, _input: Any) -> Any:
        await asyncio.to_thread(print)  # here

    recording = ran(tmp_path, program)

    assert recording.error is not None
    here = f"{__file__}:{line_of(program)}: asyncio.to_thread would leave"
    assert recording.error.message.startswith(here)


@for_each("way", ["to_thread", "asyncio.run", "add_reader"])
def test_a_refusal_cannot_be_swallowed(tmp_path: Path, way: str) -> None:
    """Whatever the program makes of it, and whatever it returns then, the run has failed."""

    async def program(run: Run, _input: Any) -> Any:
        try:
            result = WAYS_OUT[way](asyncio.get_running_loop())
            if inspect.isawaitable(result):
                await result
        except BaseException:  # noqa: BLE001 - as careless as frameworks are
            pass
        return await run.tool(search, q="a")

    recording = ran(tmp_path, program)

    assert recording.error is not None
    assert (recording.status, recording.error.code) == ("failed", "outside_loop")


def test_an_own_task_factory_is_refused_and_the_eager_one_is_not(tmp_path: Path) -> None:
    """Scopes are allocated by our tasks; asyncio's eager factory is an option of theirs."""

    async def own(_run: Run, _input: Any) -> Any:
        asyncio.get_running_loop().set_task_factory(
            lambda loop, coro: asyncio.Task(coro, loop=loop)
        )

    async def eager(run: Run, _input: Any) -> Any:
        factory = getattr(asyncio, "eager_task_factory", None)
        asyncio.get_running_loop().set_task_factory(factory)
        task = asyncio.create_task(run.tool(search, q="a"))
        return [task.get_name(), await task]

    (tmp_path / "own").mkdir()
    refused = ran(tmp_path / "own", own)
    assert refused.error is not None
    assert refused.error.code == "outside_loop"
    assert ran(tmp_path, eager).output == ["0/1", "found a"]


# --- dead ends ---------------------------------------------------------------------------------


def test_a_dead_end_names_the_tasks_and_where_each_waits(tmp_path: Path) -> None:
    """Nothing ready, in flight or timed: not a hang, but an error that says who waits for what."""

    async def waits(event: asyncio.Event) -> None:
        await event.wait()  # here

    async def program(run: Run, _input: Any) -> Any:
        await run.tool(search, q="a")
        await asyncio.gather(waits(asyncio.Event()), waits(asyncio.Event()))  # there

    recording = ran(tmp_path, program)

    assert recording.error is not None
    assert (recording.status, recording.error.code) == ("failed", "stuck")
    name = Path(__file__).name
    assert f"0 waits at {name}:{line_of(program, '# there')} in program" in recording.error.message
    for scope in ("0/1", "0/2"):
        place = f"{scope} waits at {name}:{line_of(waits)} in waits"
        assert place in recording.error.message


def test_a_task_that_swallows_its_cancelling_is_a_dead_end(tmp_path: Path) -> None:
    """What a program leaves behind is cancelled; one that waits on for ever does not hang us."""

    async def stays() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.Event().wait()

    async def program(_run: Run, _input: Any) -> Any:
        task = asyncio.create_task(stays())
        await asyncio.sleep(0)
        return task.get_name()

    recording = ran(tmp_path, program)

    assert recording.error is not None
    assert recording.error.code == "stuck"


async def _sleeps_long(run: Run, _input: Any) -> None:
    await run.sleep(60)


async def _joins(run: Run) -> None:
    await run.delegate(Delegation(program=_sleeps_long))


WAITS: dict[str, Callable[[Run], Any]] = {
    "run.sleep": lambda run: run.sleep(60),
    "asyncio.sleep": lambda _run: asyncio.sleep(0.001),
    "tool": lambda run: run.tool(search, q="a"),
    "child": _joins,
}


@pytest.mark.parametrize("raises", [False, True])
@pytest.mark.parametrize("waits", WAITS.values(), ids=WAITS)
def test_tasks_that_ignore_their_cancelling_are_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, waits: Callable[[Run], Any], raises: bool
) -> None:
    """The run ends, names the line, and keeps what the program raised; so does its replay."""
    monkeypatch.setattr(recorder, "ENDS_SECONDS", 0.01)

    async def retries(run: Run) -> None:
        while True:
            with contextlib.suppress(asyncio.CancelledError):
                await waits(run)  # here

    async def program(run: Run, _input: Any) -> Any:
        task = asyncio.create_task(retries(run))
        await run.sleep(0.001)
        if raises:
            raise ValueError("its own")
        return task.get_name()

    recording = ran(tmp_path, program)

    assert recording.error is not None
    assert (recording.status, recording.error.code) == ("failed", "unending")
    assert f"0/1 waits at {Path(__file__).name}:" in recording.error.message
    assert recording.error.message.endswith("ValueError: its own") is raises


@pytest.mark.parametrize("is_main", [False, True])
def test_a_stopped_program_that_ignores_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_main: bool
) -> None:
    """In a warning: the run has timed out. What a replay compares stays as it was."""
    monkeypatch.setattr(recorder, "_GRACE_US", 1000)

    async def retries(run: Run) -> None:
        while True:
            with contextlib.suppress(asyncio.CancelledError):
                await run.sleep(60)  # here

    async def program(run: Run, _input: Any) -> Any:
        if is_main:
            await retries(run)
        task = asyncio.create_task(retries(run))
        await asyncio.sleep(60)
        return task.get_name()

    with pytest.warns(RuntimeWarning, match="did not end when it was cancelled") as warned:
        recording = ran(tmp_path, program, limits=Limits(timeout_seconds=0.01))

    assert recording.status == "timed_out"
    assert len(warned) == len(recording.warnings) == 1
    place = f"waits at {Path(__file__).name}:{line_of(retries)} in retries"
    assert place in recording.warnings[0]


_DEAF = """
import asyncio, sys
import refold
from refold.engine.recording import recorder

recorder.ENDS_SECONDS = recorder.GRACE_SECONDS = 0.01

async def program(run, _input):
    async def retries():
        while True:
            try:
                await run.sleep(60)
            except BaseException:
                pass
    task = asyncio.create_task(retries())
    await run.sleep(0.001)

print(refold.record(program, log=sys.argv[1]).error.code)
"""


@pytest.mark.long
def test_a_process_ends_though_a_task_catches_everything(tmp_path: Path) -> None:
    """Python would close its coroutine at the exit, and not return from that."""
    command = [sys.executable, "-c", _DEAF, str(tmp_path / "a.jsonl")]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert ended.stdout == "unending\n"


async def spins(run: Run, _input: Any) -> Any:
    await run.tool(search, q="a")
    try:
        while True:  # noqa: ASYNC110 - the very mistake
            await asyncio.sleep(0)  # here
    finally:
        run.annotate("cleaned up")


async def spins_for_good(_run: Run, _input: Any) -> Any:
    async def never_ends() -> None:
        while True:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0)

    task = asyncio.create_task(never_ends())
    return task.get_name()


@pytest.mark.parametrize("most", [10_000, pytest.param(1_000_000, marks=pytest.mark.long)])
@pytest.mark.parametrize("program", [spins, spins_for_good])
def test_a_program_that_never_waits_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: Any, most: int
) -> None:
    """By a number of callbacks, and not by a clock: replay ends it in the same place (§9.4)."""
    assert loop.CALLBACKS_MAX == 1_000_000
    for module in (loop, kernel):  # a tool that ran at once begins a step
        monkeypatch.setattr(module, "CALLBACKS_MAX", most)  # seconds of work, as it is
    recording = ran(tmp_path, program)

    assert recording.error is not None
    assert (recording.status, recording.error.code) == ("failed", "spinning")
    if program is spins:
        place = f"0 waits at {Path(__file__).name}:{line_of(program, '# here')} in spins"
        assert place in recording.error.message
        assert "cleaned up" in recording.log.read_text()


@pytest.mark.long
def test_what_ended_a_program_first_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here it spun; its time is over while it cleans up."""
    monkeypatch.setattr(loop, "CALLBACKS_MAX", 10_000)

    async def program(run: Run, _input: Any) -> Any:
        try:
            while True:  # noqa: ASYNC110 - the very mistake
                await asyncio.sleep(0)
        finally:
            await run.sleep(60)

    recording = ran(tmp_path, program, limits=Limits(timeout_seconds=0.05))

    assert recording.error is not None
    assert recording.error.code == "spinning"
    assert kinds(recording) == ["limit.hit", "run.finished"]


def test_what_was_left_behind_hears_of_no_child(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that was given up does not go on, though a child of it ends after that (§9.4)."""
    monkeypatch.setattr(loop, "CALLBACKS_MAX", 10_000)

    async def waits(run: Run, _input: Any) -> None:
        await run.sleep(60)

    async def program(run: Run, _input: Any) -> Any:
        child = await run.start(Delegation(program=waits))

        async def joins() -> None:
            with contextlib.suppress(asyncio.CancelledError):
                await run.join(child)
            await run.join(child)
            run.annotate("joined")

        task = asyncio.create_task(joins())
        await asyncio.sleep(0)
        return [task.get_name(), *[await spins_for_good(run, None) for _ in range(99)]]

    recording = ran(tmp_path, program)

    assert recording.error is not None
    assert recording.error.code == "spinning"
    assert kinds(recording) == ["child.started", "child.finished", "run.finished"]


# --- who may use run ---------------------------------------------------------------------------


def uses_of(run: Any) -> list[Callable[[], Any]]:
    child = Child("0#1", 1, "")
    return [
        lambda: run.random("known"),
        lambda: run.join(child),
        lambda: run.join_first(child),
        lambda: run.cancel(child),
        lambda: run.secret("KEY"),
        lambda: run.patched("marker"),
        lambda: run.tool("search", q="a"),
        run.uuid,
        run.now,
        lambda: run.random("new"),
        lambda: run.annotate("x"),
    ]


def refused(use: Callable[[], Any], why: str) -> bool:
    try:
        result = use()
        if inspect.iscoroutine(result):
            result.send(None)
    except UsageError as error:
        return f"outside its program: {why}" in str(error)
    return False


def in_other_thread(run: Any) -> list[bool]:
    found: list[bool] = []
    why = "from another thread"
    thread = threading.Thread(target=lambda: found.extend(refused(u, why) for u in uses_of(run)))
    thread.start()
    thread.join()
    return found


def test_run_is_refused_in_another_thread(tmp_path: Path) -> None:
    """Case 44: a thread of the program's own has no place in the order of things.

    Nor has that of a plain program, though it is not on the loop.
    """

    async def program(run: Run, _input: Any) -> Any:
        return plain(run, None)

    def plain(run: Any, _input: Any) -> Any:
        run.random("known")
        return in_other_thread(run)

    programs: list[Any] = [program, plain]
    for each in programs:
        (tmp_path / each.__name__).mkdir()
        recording = ran(tmp_path / each.__name__, each)

        assert recording.output == [True] * 11
        assert kinds(recording) == ["value.drawn", "run.finished"]


def test_run_is_refused_after_the_end(tmp_path: Path) -> None:
    """A sealed log takes nothing more; a kept `run` says so."""
    kept: list[Any] = []

    async def program(run: Run, _input: Any) -> None:
        run.random("known")
        kept.append(run)

    def plain(run: PlainRun, _input: Any) -> None:
        run.random("known")
        kept.append(run)

    record(program, log=tmp_path / "a.jsonl", tools=TOOLS)
    record(plain, log=tmp_path / "b.jsonl", tools=TOOLS)

    ended = [refused(use, "the run has ended") for run in kept for use in uses_of(run)]
    assert ended == [True] * 22
    for run in kept:
        with pytest.raises(UsageError) as told:
            run.uuid()
        assert len(told.traceback) == 2, "this line, and the refusal"


def test_run_is_refused_to_the_program_of_a_child(tmp_path: Path) -> None:
    """A child that uses its parent's is told of its own; a replay says the same."""

    async def program(run: Run, is_plain: Any) -> Any:
        async def child(_own: Run, _input: Any) -> bool:
            return refused(run.uuid, "by the program of another run")

        def plain(_own: PlainRun, _input: Any) -> bool:
            return refused(run.uuid, "by the program of another run")

        return (await run.delegate(Delegation(program=plain if is_plain else child))).result()

    for is_plain in (False, True):
        log = tmp_path / f"{is_plain}.jsonl"
        assert record(program, is_plain, log=log).output is True
        assert reexecute(log, program).identical


# --- how a program ends ------------------------------------------------------------------------


class Odd(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def raises(error: BaseException) -> Any:
    async def program(_run: Run, _input: Any) -> Any:
        raise error

    return program


def plainly_raises(error: BaseException) -> Any:
    def program(_run: PlainRun, _input: Any) -> Any:
        raise error

    return program


@pytest.mark.parametrize("make", [raises, plainly_raises])
@pytest.mark.parametrize(
    ("error", "message"),
    [
        (KeyError("gone"), "KeyError: 'gone'"),
        (SystemExit(3), "SystemExit: 3"),
        (GeneratorExit("x"), "GeneratorExit: x"),
        (ValueError("\ud800"), r"ValueError: \ud800"),
        (Odd(), "Odd: (its text cannot be shown)"),
    ],
    ids=["exception", "exit", "generator exit", "lone surrogate", "no text"],
)
def test_what_a_program_raises_is_data(
    tmp_path: Path, make: Any, error: BaseException, message: str
) -> None:
    """A failed run is sealed like any other, even one that tried to end the process."""
    recording = ran(tmp_path, make(error))

    assert recording.error is not None
    assert (recording.status, recording.error.code) == ("failed", "raised")
    assert recording.error.message == message


def test_a_very_long_error_is_cut(tmp_path: Path) -> None:
    """4,000 characters tell enough."""
    recording = ran(tmp_path, raises(ValueError("x" * 100_000)))

    assert recording.error is not None
    assert len(recording.error.message) < 4_100


@for_each("value", [float("nan"), 2**64, {1: 2}, b"bytes", object(), "\udc00"])
def test_an_output_that_no_log_can_hold(tmp_path: Path, value: Any) -> None:
    """The run has failed with code `output`; the message says what stands where."""

    async def program(_run: Run, _input: Any) -> Any:
        return {"deep": [value]}

    recording = ran(tmp_path, program)

    assert recording.error is not None
    assert (recording.status, recording.error.code) == ("failed", "output")
    assert "/deep/0" in recording.error.message


def test_a_program_may_cancel_itself(tmp_path: Path) -> None:
    """It ends as cancelled."""
    assert ran(tmp_path, raises(asyncio.CancelledError())).status == "cancelled"


def test_what_still_runs_at_the_end_is_cancelled_in_order(tmp_path: Path) -> None:
    """Creation order; the clean-up may call tools, and is waited for."""

    async def tidy(run: Run, name: str) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await run.tool(search, q=name)

    async def program(run: Run, _input: Any) -> Any:
        tasks = [asyncio.create_task(tidy(run, name)) for name in "cab"]
        await asyncio.sleep(0)
        return len(tasks)

    recording = ran(tmp_path, program)

    assert recording.output == 3
    calls = [
        e.data["arguments"]["q"] for e in read_entries(recording.log) if e.kind == "tool.called"
    ]
    assert calls == ["c", "a", "b"]


def test_generators_left_open_are_closed_at_the_end(tmp_path: Path) -> None:
    """Their `finally` runs on the kernel, whoever holds them."""
    held: list[Any] = []

    async def numbers(run: Run) -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            await run.tool(search, q="closed")

    async def program(run: Run, _input: Any) -> Any:
        held.append(numbers(run))
        return await anext(held[-1])

    assert "tool.returned" in kinds(ran(tmp_path, program))


def test_an_abandoned_call_is_cancelled(tmp_path: Path) -> None:
    """A tool call in flight at the end is given up, and the log says so."""

    async def program(run: Run, _input: Any) -> Any:
        task = asyncio.create_task(run.tool(search, q="a"))
        await asyncio.sleep(0)
        return task.done()

    recording = ran(tmp_path, program)

    assert kinds(recording)[:2] == ["tool.called", "effect.cancelled"]


# --- what cannot be asked ----------------------------------------------------------------------


@for_each(
    "value, pointer",
    [
        (float("nan"), "/q"),
        ([1, float("inf")], "/q/1"),
        ({"a": [{"b": 2**70}]}, "/q/a/0/b"),
        ({1: 2}, "/q"),
        (b"x", "/q"),
        ("\ud800", "/q"),
        ({"a": object()}, "/q/a"),
    ],
)
def test_what_no_log_can_hold_is_refused_before_it_is_asked(
    tmp_path: Path, value: Any, pointer: str
) -> None:
    """Case 87: the JSON pointer of the place; nothing is written, and no ordinal is used up."""
    seen: list[str] = []

    async def program(run: Run, _input: Any) -> Any:
        try:
            await run.tool("search", q=value)
        except NotCanonical as error:
            seen.append(error.pointer)
        return await run.tool("search", q="fine")

    recording = ran(tmp_path, program)

    assert seen == [pointer, pointer]  # recorded, and re-executed
    called = [entry.call for entry in read_entries(recording.log) if entry.kind == "tool.called"]
    assert called == ["0#1"]


def test_a_too_long_line_is_refused_and_takes_no_ordinal(tmp_path: Path) -> None:
    """A line holds 1 MiB; a list of 60,000 long numbers is no argument."""

    async def program(run: Run, _input: Any) -> Any:
        try:
            run.annotate("big", [10**17] * 60_000)
        except NotCanonical:
            return await run.tool("search", q="fine")

    recording = ran(tmp_path, program)

    called = [entry.call for entry in read_entries(recording.log) if entry.kind == "tool.called"]
    assert called == ["0#1"]


def test_an_output_too_long_for_a_line(tmp_path: Path) -> None:
    """The run has failed with code `output`, and is sealed."""

    async def program(_run: Run, _input: Any) -> Any:
        return [10**17] * 60_000

    recording = ran(tmp_path, program)

    assert recording.error is not None
    assert (recording.status, recording.error.code) == ("failed", "output")


def test_what_is_no_tool(tmp_path: Path) -> None:
    """An unknown name lists the known ones; a plain function says how to become a tool."""

    async def program(run: Run, _input: Any) -> Any:
        with pytest.raises(ToolUnknown, match="fetch, search"):
            await run.tool("serach", q="a")
        with pytest.raises(UsageError, match=r"@refold\.tool"):
            await run.tool(os.getcwd)  # type: ignore[call-overload]  # that is the point
        with pytest.raises(ToolError, match="q") as caught:
            await run.tool("search", wrong=1)
        return caught.value.code

    assert ran(tmp_path, program).output == "arguments"


def test_arguments_and_results_are_copies(tmp_path: Path) -> None:
    """Changing what was passed, or what came back, changes neither the log nor a second read."""
    given = {"list": [1]}

    async def program(run: Run, value: Any) -> Any:
        value["list"].append(2)
        run.annotate("before", value)
        value["list"].append(3)
        return value

    recording = record(program, given, log=tmp_path / "a.jsonl")

    assert given == {"list": [1]}
    entries = list(read_entries(recording.log))
    assert entries[0].data["input"] == {"list": [1]}
    assert entries[1].data["data"] == {"list": [1, 2]}
    assert recording.output == {"list": [1, 2, 3]}


def test_a_deep_program_is_no_trouble(tmp_path: Path) -> None:
    """Case 43: coroutines within coroutines, and a thousand tasks."""

    async def down(run: Run, levels: int) -> Any:
        return await (down(run, levels - 1) if levels else run.tool(search, q="a"))

    async def program(run: Run, _input: Any) -> Any:
        deep = await down(run, 100)
        return [deep, len(await asyncio.gather(*(run.tool(search, q="b") for _ in range(1000))))]

    assert ran(tmp_path, program, durability="fast").output == ["found a", 1000]


@pytest.mark.skipif(sys.version_info < (3, 12), reason="the test's own frame is deeper there")
def test_too_deep_recursion_is_a_failure_like_any(tmp_path: Path) -> None:
    """RecursionError is raised in the program, and recorded."""

    async def program(_run: Run, _input: Any) -> Any:
        def down() -> Any:
            return down()

        return down()

    recording = ran(tmp_path, program)

    assert recording.error is not None
    assert recording.error.message.startswith("RecursionError")
