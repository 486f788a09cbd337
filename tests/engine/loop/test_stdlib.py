"""Functions of asyncio that need help on the kernel's loop, and are untouched on any other."""

import asyncio
import concurrent.futures
import io
import sys
import threading
from pathlib import Path
from typing import Any

import attrs
import pytest

from refold.engine.errors import OutsideLoop
from refold.engine.loop import stdlib
from refold.engine.ports.ports import Delegation
from refold.engine.program.run import PlainRun, Run
from refold.engine.runners.recording import record
from refold.tools.contract.tool_types import tool
from tests.engine.loop.test_loop import Bench, order_of
from tests.support.loops import for_each


@pytest.fixture(autouse=True)
def _installed() -> None:
    stdlib.install()


def test_installing_twice_changes_nothing() -> None:
    """A wrapper is never wrapped."""
    before = (asyncio.as_completed, asyncio.wait_for, asyncio.run)
    stdlib.install()

    assert (asyncio.as_completed, asyncio.wait_for, asyncio.run) == before


async def _number(number: int) -> int:
    await asyncio.sleep(0)
    return number


def test_as_completed_over_coroutines_keeps_their_order() -> None:
    """Case 49: asyncio puts them into a set first: in the order of memory addresses."""

    async def program() -> list[Any]:
        coroutines = [_number(number) for number in range(40)]
        return [await one for one in asyncio.as_completed(coroutines)]

    assert order_of(program) == list(range(40))
    assert sorted(asyncio.run(program())) == list(range(40))


def test_all_tasks_are_in_the_order_of_their_creation() -> None:
    """A supervisor that cancels all others does so in one order, whatever other loops have had."""
    bench = Bench()

    async def waits() -> None:
        await bench.loop.create_future()

    async def program() -> list[list[str]]:
        made = []
        for gap in range(30):
            _ = [bench.loop.create_future() for _ in range(gap)]  # takes numbers
            made.append(asyncio.create_task(waits()))
        me = asyncio.current_task()
        others = asyncio.all_tasks() - {me}
        others.discard(made.pop(7))
        return [[task.get_name() for task in tasks] for tasks in (made, others)]

    made, others = bench.start(program()).result()

    assert made == others


def test_all_tasks_of_another_loop_are_what_they_were() -> None:
    """On any other loop the function is asyncio's own."""

    async def program() -> bool:
        return asyncio.all_tasks() == {asyncio.current_task()}

    assert asyncio.run(program())


def test_as_completed_takes_no_single_awaitable() -> None:
    """It says so as asyncio does."""

    async def program() -> list[Any]:
        with pytest.raises(TypeError):
            next(iter(asyncio.as_completed(asyncio.get_running_loop().create_future())))
        return []

    assert order_of(program) == []


def test_as_completed_gives_a_repeated_task_once() -> None:
    """As asyncio's set does."""

    async def program() -> list[Any]:
        task = asyncio.ensure_future(_number(1))
        return [await one for one in asyncio.as_completed([task, task])]

    assert order_of(program) == [1]


def test_as_completed_imported_before_refold_is_refused() -> None:
    """It bypasses the wrapper, so its tasks would have random scopes: refused, with the place."""
    bare = next(cell.cell_contents for cell in asyncio.as_completed.__closure__ or ())

    async def program() -> list[Any]:
        coroutines = [_number(1), _number(2)]
        try:
            return [await one for one in bare(coroutines)]
        finally:
            for coroutine in coroutines:
                coroutine.close()

    with pytest.raises(OutsideLoop, match=f"{__file__}:.*as_completed"):
        order_of(program)


@pytest.mark.parametrize("seconds", [None, 0.5])
def test_wait_for_takes_no_scope(seconds: float | None) -> None:
    """In every version of Python a coroutine waited for stays in its own task."""

    async def program() -> list[Any]:
        first = await asyncio.wait_for(_number(1), seconds)
        task = asyncio.create_task(_number(2))
        return [first, task.get_name(), await task]

    assert order_of(program) == [1, "0/1", 2]


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="there it takes no task by itself")
def test_wait_for_on_another_loop_is_what_it_was() -> None:
    """A task of its own for what it waits for."""

    async def program() -> bool:
        async def task_of_it() -> Any:
            return asyncio.current_task()

        return await asyncio.wait_for(task_of_it(), 60) is not asyncio.current_task()

    assert asyncio.run(program())


def test_wait_for_gives_up_in_time() -> None:
    """TimeoutError; at once for a timeout of zero, unless it is there already."""

    async def program() -> list[Any]:
        seen: list[Any] = []
        for seconds in (0.1, 0, -1):
            try:
                await asyncio.wait_for(asyncio.sleep(1), seconds)
            except TimeoutError:
                seen.append(seconds)
        done = asyncio.ensure_future(_number(1))
        await done
        return [*seen, await asyncio.wait_for(done, 0)]

    assert order_of(program) == [0.1, 0, -1, 1]


def test_gathered_futures_hash_alike() -> None:
    """What `gather` returns may stand in a set, too: numbered when it is first hashed."""

    async def program() -> list[Any]:
        groups = [asyncio.gather(_number(number)) for number in range(20)]
        shuffled = groups[10:] + groups[:10]
        order = [shuffled.index(group) for group in set(shuffled)]
        for group in groups:
            await group
        return order

    assert order_of(program) == list(range(20))


@for_each("calls", [[_number], (call for call in [_number]), {1: _number}])
def test_gather_names_the_star_that_its_calls_lack(calls: Any) -> None:
    """Python says of a list that it is unhashable, and of a generator that it is a bad yield."""

    async def program() -> list[str]:
        with pytest.raises(TypeError, match=r"asyncio.gather\(\*calls\); found a") as error:
            asyncio.gather(calls)
        return [str(error.value)]

    assert order_of(program)


def test_asyncio_run_is_refused_on_our_loop_alone() -> None:
    """Elsewhere it runs; within a program the refusal names the place and the remedy."""
    bench = Bench()

    async def program() -> None:
        asyncio.run(_number(1))

    task = bench.start(program())

    assert isinstance(task.exception(), OutsideLoop)
    assert f"{__file__}:" in str(task.exception())
    assert asyncio.run(_number(3)) == 3
    assert asyncio.run(_number(4), debug=False) == 4


def test_a_future_of_a_thread_is_refused_where_it_is_wrapped() -> None:
    """With the place; in the thread that ends it no refusal could name one.  Elsewhere it works."""
    ended: concurrent.futures.Future[int] = concurrent.futures.Future()
    ended.set_result(7)
    bench = Bench()

    async def program() -> int:
        return await asyncio.wrap_future(ended)

    task = bench.start(program())

    assert isinstance(task.exception(), OutsideLoop)
    assert f"{__file__}:" in str(task.exception())
    assert asyncio.run(program()) == 7


def test_a_future_of_asyncios_own_is_wrapped_as_ever() -> None:
    """It is returned as it is."""
    bench = Bench()

    async def program() -> int:
        return await asyncio.wrap_future(asyncio.ensure_future(_number(7)))

    task = bench.start(program())

    assert task.result() == asyncio.run(program()) == 7


def test_what_has_no_time_does_not_begin() -> None:
    """`wait_for` with 0 s, on this loop as on any other."""
    bench, begun = Bench(), []

    async def work() -> None:
        begun.append(work)

    async def program() -> str:
        try:
            await asyncio.wait_for(work(), 0)
        except TimeoutError:
            return "late"
        return "done"

    task = bench.start(program())

    assert task.result() == asyncio.run(program()) == "late"
    assert begun == []


def test_wrappers_are_documented_as_what_they_wrap() -> None:
    """`help(asyncio.as_completed)` still helps."""
    assert asyncio.as_completed.__doc__
    assert asyncio.run.__doc__
    assert sys.modules["asyncio.tasks"].as_completed is asyncio.as_completed


def test_what_is_wrapped_has_its_words_and_its_hash() -> None:
    """`help` shows them; and on any other loop a future of `gather` has the hash of any object."""
    assert "Future" in str(asyncio.wrap_future.__doc__)
    assert "thread" in str(threading.Thread.start.__doc__)

    async def elsewhere() -> bool:
        future = asyncio.gather(_number(1), _number(2))
        await future
        return hash(future) == object.__hash__(future)

    assert asyncio.run(elsewhere())


async def reads_the_terminal(_run: Run, _input: Any) -> str:
    return input("name? ")  # noqa: ASYNC250 - the fault itself


def reads_it_plainly(_run: PlainRun, _input: Any) -> str:
    return input("name? ")


async def lets_a_child_read_it(run: Run, name: str) -> Any:
    return (await run.delegate(Delegation(program=globals()[name]))).error


def lets_a_tool_read_it_plainly(run: PlainRun, _input: Any) -> str:
    return run.tool(reading)


async def lets_a_tool_read_it(run: Run, _input: Any) -> str:
    return str(await run.tool(reading))


async def debugs(_run: Run, _input: Any) -> str:
    found: dict[str, Any] = {"__name__": "pdb"}
    exec("said = input()", found)
    return str(found["said"])


@tool(effect="reads")
def reading() -> str:
    """Read a line."""
    return input()


def test_a_program_is_refused_a_terminal_at_its_own_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not a tool of it, nor whoever debugs it, nor who reads one outside of runs."""
    monkeypatch.setattr("sys.stdin", io.StringIO("ann\nbob\ncyd\ndora\n"))

    by_tool = record(lets_a_tool_read_it, log=tmp_path / "b.jsonl")
    debugged = record(debugs, log=tmp_path / "c.jsonl")
    by_plain = record(lets_a_tool_read_it_plainly, log=tmp_path / "d.jsonl")

    assert (by_tool.output, debugged.output, by_plain.output) == ("ann", "bob", "cyd")
    assert input() == "dora"
    for program, call in ((reads_the_terminal, "await run.ask"), (reads_it_plainly, "run.ask")):
        name = program.__name__
        refused = record(program, log=tmp_path / f"{name}.jsonl")
        outer = record(lets_a_child_read_it, name, log=tmp_path / f"{name}s.jsonl")
        line = program.__code__.co_firstlineno + 1
        assert refused.error is not None
        assert refused.error.code == "outside_loop"
        assert refused.error.message.startswith(f"{__file__}:{line}: input() would leave")
        assert f"Use `{call}(question)`" in refused.error.message
        assert outer.output == attrs.asdict(refused.error)


class _Connection(threading.Thread):
    __module__ = "aiosqlite.core"


async def connects(_run: Run, _input: Any) -> None:
    _Connection().start()


def test_the_thread_of_aiosqlite_is_refused_where_it_starts(tmp_path: Path) -> None:
    """Its answer would be refused in the thread, and the program would wait for ever."""
    error = record(connects, log=tmp_path / "a.jsonl").error

    line = connects.__code__.co_firstlineno + 1
    assert error is not None
    assert error.message.startswith(f"{__file__}:{line}: the thread of aiosqlite would leave")
