"""What a program does on the kernel's loop, it does on asyncio's (CONTRACT.md §9.11).

And where it does not, on purpose, it does the same on every version of Python.
"""

import asyncio
import contextlib
import contextvars
import gc
import sys
import warnings
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

import refold
from refold.engine.log.reader import read_entries
from refold.engine.ports.ports import Delegation
from refold.engine.program.run import PlainRun, Run
from refold.tools.contract.tool_types import DelegationTool, tool
from tests.support.loops import for_each

TENANT: contextvars.ContextVar[str] = contextvars.ContextVar("tenant", default="unset")


def recorded(folder: Path, program: Any, **options: Any) -> refold.Recording:
    """Record a program; its log re-executes."""
    recording = refold.record(program, None, log=folder / "a.jsonl", **options)
    refold.reexecute(recording.log, program, tools=options.get("tools", ())).check()
    return recording


# --- as asyncio does ---------------------------------------------------------------------------


async def an_empty_context() -> Any:
    """It is a context, though an empty one is false: nothing of the caller's is in it."""
    TENANT.set("mine")
    loop, seen = asyncio.get_running_loop(), []

    async def job() -> str:
        return TENANT.get()

    def call() -> None:
        seen.append(TENANT.get())

    loop.call_soon(call, context=contextvars.Context())
    loop.call_later(0.001, call, context=contextvars.Context())
    seen.append(await asyncio.create_task(job(), context=contextvars.Context()))
    await asyncio.sleep(0.005)
    return seen


async def a_callback_of_any_name() -> Any:
    """`task_wakeup` is what asyncio's own is called; it is given what others are."""
    future, seen = asyncio.get_running_loop().create_future(), []

    def task_wakeup(done: asyncio.Future[int]) -> None:
        seen.append(done.result())

    future.add_done_callback(task_wakeup)
    future.set_result(42)
    await asyncio.sleep(0)
    return seen


async def timers_have_an_order() -> Any:
    """Handles of timers compare by when they are due."""
    loop = asyncio.get_running_loop()
    timers = [loop.call_later(delay, print) for delay in (2, 1, 3)]
    timers.append(loop.call_at(loop.time() + 1.5, print))
    order = [timers.index(timer) for timer in sorted(timers)]
    for timer in timers:
        timer.cancel()
    return [order, timers[1] < timers[0], timers[0] >= timers[1], len(set(timers))]


async def a_handler_is_told() -> Any:
    """Of callbacks, tasks and futures that fail, in asyncio's words."""
    loop, seen = asyncio.get_running_loop(), []

    def handle(_loop: Any, context: dict[str, Any]) -> None:
        message = context["message"].partition(" at ")[0]
        seen.append([message.rstrip("()"), type(context["exception"]).__name__])

    async def fails() -> None:
        raise ValueError

    def raises() -> None:
        raise LookupError

    loop.set_exception_handler(handle)
    loop.call_soon(raises)
    task = asyncio.create_task(fails())
    await asyncio.sleep(0.001)
    del task
    future = loop.create_future()
    future.set_exception(OSError())
    del future
    return seen


async def a_handler_that_fails() -> Any:
    """It ends nothing, and the next is told."""
    loop, seen = asyncio.get_running_loop(), []

    def handle(_loop: Any, context: dict[str, Any]) -> None:
        seen.append(type(context["exception"]).__name__)
        raise ZeroDivisionError

    def raises() -> None:
        raise LookupError

    loop.set_exception_handler(handle)
    loop.call_soon(raises)
    loop.call_soon(raises)
    await asyncio.sleep(0)
    return seen


class _Waits:
    """Waits as a C extension may: it does not look at what the future holds."""

    def __init__(self, future: Any) -> None:
        self._future = future

    def __await__(self) -> Any:
        self._future._asyncio_future_blocking = True  # the protocol of tasks
        yield self._future


async def a_failure_is_raised_where_it_is_waited_for() -> Any:
    """By the task that waits, whatever the awaitable does on its way."""
    loop, seen = asyncio.get_running_loop(), []
    for is_failed in (False, True):
        future = loop.create_future()
        if is_failed:
            loop.call_soon(future.set_exception, ValueError())
        else:
            loop.call_soon(future.set_result, None)
        try:
            await _Waits(future)
        except ValueError:
            seen.append("raised")
        else:
            seen.append("went on")
    return seen


ALIKE = [
    an_empty_context,
    a_callback_of_any_name,
    timers_have_an_order,
    a_handler_is_told,
    a_handler_that_fails,
    a_failure_is_raised_where_it_is_waited_for,
]


@pytest.mark.parametrize("body", ALIKE, ids=lambda body: body.__name__)
def test_it_is_as_on_asyncios_own_loop(
    tmp_path: Path, body: Callable[[], Coroutine[Any, Any, Any]]
) -> None:
    async def program(_run: Run, _input: Any) -> Any:
        return await body()

    assert recorded(tmp_path, program).output == asyncio.run(body())


async def _leave(_run: Any = None, _arguments: Any = None, /) -> None:
    sys.exit(3)


LEAVING = DelegationTool(name="leaves", description="", parameters={}, handler=_leave)


# --- leaving -----------------------------------------------------------------------------------


@for_each("how", ["task", "callback", "handler", "delegation", "twice"])
def test_whoever_leaves_ends_the_run(tmp_path: Path, how: str) -> None:
    """`sys.exit` in a task ends the program, not the task alone; the program cleans up."""

    async def program(run: Run, _input: Any) -> str:
        loop = asyncio.get_running_loop()
        try:
            if how in ("task", "twice"):
                asyncio.create_task(_leave())  # noqa: RUF006 - it leaves
            elif how == "callback":
                loop.call_soon(sys.exit, 3)
            elif how == "handler":
                loop.set_exception_handler(lambda _loop, _context: sys.exit(3))
                loop.call_soon(lambda: 1 / 0)
            else:
                await run.tool(LEAVING)
            await asyncio.sleep(0.01)
        finally:
            if how == "twice":
                asyncio.create_task(_leave())  # noqa: RUF006 - the same
                await asyncio.sleep(0)
            run.annotate("cleaned up")
        return "went on"

    recording = recorded(tmp_path, program, tools=[LEAVING])

    assert recording.status == "failed"
    assert recording.error is not None
    assert recording.error.message == "SystemExit: 3"
    assert recording.entries > 2


def test_a_plain_program_is_left_as_well(tmp_path: Path) -> None:
    """By its delegation tool, which is code of its own."""

    def program(run: PlainRun, _input: Any) -> None:
        run.tool(LEAVING)

    recording = recorded(tmp_path, program, tools=[LEAVING])

    assert recording.error is not None
    assert recording.error.message == "SystemExit: 3"


# --- what nobody awaits ------------------------------------------------------------------------


async def _fails(text: str) -> None:
    raise ValueError(text)


async def _fails_when_cancelled() -> None:
    try:
        await asyncio.sleep(60)
    finally:
        raise ValueError("cleaning up")


def test_an_exception_that_nobody_awaits_is_a_warning(tmp_path: Path) -> None:
    """With its place: of tasks that are gone, that are held, and of callbacks."""

    async def program(_run: Run, _input: Any) -> str:
        gone = asyncio.create_task(_fails("gone"))
        held = asyncio.create_task(_fails("held"))
        asyncio.create_task(_fails_when_cancelled())  # noqa: RUF006 - left behind
        asyncio.get_running_loop().call_soon(int, "one")
        await asyncio.sleep(0.001)
        del gone
        asked = asyncio.create_task(_fails("asked"))
        await asyncio.wait([asked])
        return f"{held.done()} {asked.exception()}"

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        recording = recorded(tmp_path, program)

    said = [text.rpartition("test_like_asyncio.py:")[2] for text in recording.warnings]
    assert [text.partition(": ")[2] for text in said[1:]] == [
        "Task exception was never retrieved: ValueError: gone",
        "Task exception was never retrieved: ValueError: held",
        "Task exception was never retrieved: ValueError: cleaning up",
    ]
    assert (
        said[0]
        == "Exception in callback int: ValueError: invalid literal for int() with base 10: 'one'"
    )
    assert recording.ok
    assert len(told) == 4


def test_it_fails_nobody_where_warnings_are_errors(tmp_path: Path) -> None:
    """As they are here: asyncio would only log it.  Nor does it in a child."""

    async def child(_run: Run, _input: Any) -> None:
        asyncio.create_task(_fails("in a child"))  # noqa: RUF006 - nobody awaits it
        await asyncio.sleep(0)

    async def program(run: Run, _input: Any) -> str:
        asyncio.create_task(_fails("in the root"))  # noqa: RUF006 - nobody awaits it
        return (await run.delegate(Delegation(program=child))).status

    recording = recorded(tmp_path, program)

    assert recording.output == "completed"
    assert len(recording.warnings) == 1


def test_of_very_many_a_hundred_are_told(tmp_path: Path) -> None:
    """And that there were more."""

    async def program(_run: Run, _input: Any) -> None:
        for number in range(105):
            asyncio.create_task(_fails(str(number)))  # noqa: RUF006 - nobody awaits it
        await asyncio.sleep(0.001)

    told = recorded(tmp_path, program).warnings

    assert len(told) == 101
    assert told[-1] == "more exceptions that nobody awaited are not listed"


def test_a_handler_is_not_called_by_the_collector(tmp_path: Path) -> None:
    """That comes when it likes; what it finds is told by `Recording.warnings` alone."""

    async def program(run: Run, _input: Any) -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _loop, context: run.annotate(context["message"]))
        cycle: list[Any] = [asyncio.create_task(_fails("in a cycle"))]
        cycle.append(cycle)
        await asyncio.sleep(0.001)
        del cycle
        gc.collect()

    recording = recorded(tmp_path, program)

    assert [text.rpartition(": ")[2] for text in recording.warnings] == ["in a cycle"]
    assert recording.entries == 3  # no note


# --- looking again and again -------------------------------------------------------------------


@tool(effect="reads")
def look_up(name: str) -> str:
    """Look a name up."""
    return name


@tool(effect="reads")
async def look_up_slowly(name: str) -> str:
    """Look a name up, elsewhere."""
    await asyncio.sleep(0.001)
    return name


async def _child(run: Run, _input: Any) -> str:
    return await run.tool(look_up, name="in a child")


POLLED: dict[str, Callable[[Run], Any]] = {
    "tool": lambda run: run.tool(look_up, name="x"),
    "asynchronous": lambda run: run.tool(look_up_slowly, name="x"),
    "timer": lambda run: run.sleep(0.001),
    "child": lambda run: run.delegate(Delegation(program=_child)),
    "several": lambda run: asyncio.gather(*(run.tool(look_up, name=name) for name in "abc")),
}

ROUNDS: dict[str, Callable[[], Any]] = {
    "sleep": lambda: asyncio.sleep(0),
    "task": lambda: asyncio.create_task(asyncio.sleep(0)),
    "wait_for": lambda: asyncio.wait_for(asyncio.sleep(0), 60),
}


@pytest.mark.parametrize("polled", POLLED)
@pytest.mark.parametrize("each", ROUNDS)
def test_a_program_may_look_again_and_again(tmp_path: Path, polled: str, each: str) -> None:
    """What it looks for comes, at the same round in every replay: it counts them."""

    async def program(run: Run, _input: Any) -> int:
        task = asyncio.ensure_future(POLLED[polled](run))
        rounds = 0
        while not task.done():
            await ROUNDS[each]()
            rounds += 1
        await task
        return rounds

    assert 100 < recorded(tmp_path, program).output < 10_000


def test_those_who_look_together_see_it_in_their_order(tmp_path: Path) -> None:
    """A line from the world comes between two passes, never within one."""

    async def program(run: Run, _input: Any) -> list[int]:
        task = asyncio.create_task(run.tool(look_up, name="x"))
        seen = []

        async def look(number: int) -> None:
            while not task.done():  # noqa: ASYNC110 - what it is about
                await asyncio.sleep(0)
            seen.append(number)

        await asyncio.gather(*map(look, range(5)))
        return seen

    assert recorded(tmp_path, program).output == [0, 1, 2, 3, 4]


def test_who_asks_for_something_in_between_is_not_interrupted(tmp_path: Path) -> None:
    """Only passes without a request count: what is asked in one step stays in one."""

    async def program(run: Run, _input: Any) -> None:
        task = asyncio.create_task(run.tool(look_up, name="x"))
        for _ in range(5):
            for _ in range(400):
                await asyncio.sleep(0)
            run.annotate("here")
        await task

    kinds = [entry.kind for entry in read_entries(recorded(tmp_path, program).log)]

    assert kinds[1:-1] == ["tool.called", *["note.added"] * 5, "tool.returned"]


def test_who_looks_for_an_answer_is_suspended(tmp_path: Path) -> None:
    """Where people alone can make it go on; and it goes on with the answer."""

    async def program(run: Run, _input: Any) -> Any:
        task = asyncio.create_task(run.ask("Well?"))
        while not task.done():  # noqa: ASYNC110 - what it is about
            await asyncio.sleep(0)
        return task.result()

    waiting = refold.record(program, None, log=tmp_path / "a.jsonl")
    (question,) = waiting.questions
    ended = refold.resume(waiting.log, program, answers={question.key: "yes"})

    assert (waiting.status, ended.output) == ("suspended", "yes")
    refold.reexecute(ended.log, program).check()


@pytest.mark.long
def test_a_program_that_leaves_and_then_spins_comes_to_an_end(tmp_path: Path) -> None:
    """Both end a step; the one is not taken for the other."""

    async def program(_run: Run, _input: Any) -> None:
        asyncio.create_task(_spins())  # noqa: RUF006 - it never ends
        await asyncio.sleep(0)
        sys.exit(3)

    recording = recorded(tmp_path, program)

    assert recording.error is not None
    assert recording.error.code == "spinning"


async def _spins() -> None:
    while True:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(0)


@pytest.mark.parametrize("which", ["run_sync", "open_file", "Path"])
def test_a_thread_of_anyio_is_refused_where_the_program_asks_for_it(
    tmp_path: Path, which: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """And not in the thread, whose error would be a traceback beside a program that waits."""
    anyio = pytest.importorskip("anyio")
    ran: list[int] = []

    async def program(_run: Run, _input: Any) -> None:
        if which == "run_sync":
            await anyio.to_thread.run_sync(ran.append, 1)
        elif which == "open_file":
            await anyio.open_file(__file__)
        else:
            await anyio.Path(__file__).exists()

    recording = recorded(tmp_path, program)

    assert recording.error is not None
    assert recording.error.code == "outside_loop"
    assert recording.error.message.startswith(f"{__file__}:")
    assert "Make it a tool" in recording.error.message
    assert not ran
    assert capfd.readouterr().err == f"refold: {recording}\n"


# --- not as asyncio does, on purpose -----------------------------------------------------------


def test_wait_for_has_no_task_of_its_own(tmp_path: Path) -> None:
    """As from Python 3.12 on: what is awaited runs in the task and the context of its caller."""

    async def job() -> bool:
        TENANT.set("set inside")
        return asyncio.current_task() is caller[0]

    caller: list[Any] = []

    async def program(_run: Run, _input: Any) -> Any:
        caller.append(asyncio.current_task())
        return [await asyncio.wait_for(job(), 5), TENANT.get()]

    assert refold.record(program, None, log=tmp_path / "a.jsonl").output == [True, "set inside"]


def test_timers_that_are_due_at_once_fire_one_at_a_time(tmp_path: Path) -> None:
    """The program runs on in between: the outer of two equal time limits is enough."""

    async def program(_run: Run, _input: Any) -> Any:
        try:
            async with asyncio.timeout(0.01) as outer, asyncio.timeout(0.01) as inner:
                await asyncio.sleep(9)
        except TimeoutError:
            return [outer.expired(), inner.expired()]

    assert recorded(tmp_path, program).output == [True, False]
