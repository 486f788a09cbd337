"""How a program that has left its record is answered (CONTRACT.md §12.4)."""

import asyncio
import contextlib
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import pytest

from refold.engine.errors import ToolError
from refold.engine.program.run import PlainRun, Run
from refold.engine.runners.recording import record
from refold.replay.explain.divergence import Divergence
from refold.replay.explain.run_on import STEPS_MAX
from refold.replay.reexecute.reexecute import reexecute
from refold.tools.contract.tool_types import tool
from tests.support.steps import Step, fetch, program_of, recorded, search

A: Step = ("tool", "search", {"q": "a"})
B: Step = ("tool", "fetch", {"q": "b"})


def differs_once(folder: Path, program: Any) -> None:
    """See that a program that is given something now differs in its first call alone."""

    async def now(run: Run, _input: Any) -> Any:
        return await program(run, given=True)

    found = only(recorded(folder / "a.jsonl", program=program).log, now)

    assert (found.category, found.later) == ("args_changed", ())


async def follows_results(run: Run, extra: Any) -> Any:
    if extra:
        await run.tool("search", q="extra")
    first = await run.tool("search", q="a")
    second = await run.tool("fetch", q=first)
    return [first, second]


async def follows_results_now(run: Run, _input: Any) -> Any:
    return await follows_results(run, extra=True)


def only(log: Path, program: Any, **options: Any) -> Divergence:
    """Return the one divergence."""
    (found,) = reexecute(log, program, **options).divergences
    return found


def test_what_was_asked_before_is_answered_as_it_was(tmp_path: Path) -> None:
    """So one call more leaves the rest as it is: no later difference, not even the output."""
    log = recorded(tmp_path / "a.jsonl", program=follows_results).log

    found = only(log, follows_results_now)

    assert (found.category, found.later) == ("extra_call", ())


@tool(effect="reads")
def broken(q: str) -> str:
    """Fail."""
    raise ValueError(q)


async def falls_back(run: Run, _input: Any, *, extra: bool) -> Any:
    if extra:
        await run.tool("search", q="extra")
    with contextlib.suppress(ToolError):
        return await run.tool("broken", q="a")
    return await run.tool("fetch", q="b")


def test_what_failed_fails_again(tmp_path: Path) -> None:
    tools = [broken, search, fetch]
    given = partial(falls_back, extra=False)
    log = recorded(tmp_path / "a.jsonl", program=given, tools=tools).log

    found = only(log, partial(falls_back, extra=True), tools=tools)

    assert (found.category, found.later) == ("extra_call", ())


async def follows_draws(run: Run, _input: Any, *, extra: bool) -> Any:
    if extra:
        await run.tool("search", q="extra")
    return await run.tool("fetch", q=str(run.environment("PATH"))[:5])


def test_what_was_drawn_is_drawn_again(tmp_path: Path) -> None:
    """From the record, not from the machine: what hangs on it stays as it was."""
    log = recorded(tmp_path / "a.jsonl", program=partial(follows_draws, extra=False)).log

    found = only(log, partial(follows_draws, extra=True))

    assert (found.category, found.later) == ("extra_call", ())


async def follows_the_clock(run: Run, _input: Any, *, extra: bool) -> Any:
    if extra:
        await run.tool("search", q="extra")
    return await run.tool("fetch", q=str(run.now()))


def test_the_time_is_what_it_was(tmp_path: Path) -> None:
    """As the record has it last: what is made of it stays as it was."""
    log = recorded(tmp_path / "a.jsonl", program=partial(follows_the_clock, extra=False)).log

    found = only(log, partial(follows_the_clock, extra=True))

    assert (found.category, found.later) == ("extra_call", ())


def test_it_is_answered_so_in_another_task_too(tmp_path: Path) -> None:
    """The same request, wherever it is made, has the result that it had."""

    async def in_a_task(run: Run, given: Any) -> Any:
        return await asyncio.create_task(follows_results(run, given))

    log = recorded(tmp_path / "a.jsonl", program=follows_results).log

    found = only(log, in_a_task)

    assert [found.category, *(one.category for one in found.later)] == ["reordered"] * 2


@attrs.frozen
class Point:
    x: int


@tool(effect="pure")
def point(x: int) -> Point:
    """Make one."""
    return Point(x)


@pytest.mark.parametrize("is_async", [True, False])
def test_a_typed_result_that_nobody_has_is_a_failure(tmp_path: Path, is_async: bool) -> None:  # noqa: FBT001 - a case
    """A program gets no value that its tool could not have given."""
    now = False

    async def program(run: Run, _input: Any) -> Any:
        return (await run.tool(point, x=1)).x if now else 0

    def plain(run: PlainRun, _input: Any) -> Any:
        return run.tool(point, x=1).x if now else 0

    chosen: Any = program if is_async else plain
    log = record(chosen, log=tmp_path / "a.jsonl", tools=[point]).log
    now = True

    found = only(log, chosen, tools=[point])

    assert (found.category, found.where.rpartition(" ")[2]) == ("extra_call", "point#1")
    assert "unrecorded" not in found.cause


def test_a_program_that_calls_for_ever_is_left(tmp_path: Path) -> None:
    """After so many steps; what it had not come to by then is not said to be missing."""

    async def tireless(run: Run, _input: object) -> None:
        while True:
            await run.tool("search", q="more")

    log = recorded(tmp_path / "a.jsonl", A, B, A).log

    found = only(log, tireless)

    assert found.category == "args_changed"
    assert "missing_call" not in {one.category for one in found.later}


def test_timers_fire_as_they_were_recorded(tmp_path: Path) -> None:
    """A time limit that was hit is hit again, though the program has left its record."""

    async def limited(run: Run, given: Any) -> Any:
        await run.tool("search", q="new" if given else "old")
        try:
            async with asyncio.timeout(0.002):
                await asyncio.Event().wait()
        except TimeoutError:
            return await run.tool("fetch", q="too late")

    differs_once(tmp_path, limited)


def test_sleeps_end_in_the_recorded_order(tmp_path: Path) -> None:
    """Of several that are over, the one that the record has first."""

    async def sleeps(run: Run, given: Any) -> Any:
        await run.tool("search", q="new" if given else "old")
        over: list[float] = []

        async def one(seconds: float) -> None:
            await run.sleep(seconds)
            over.append(seconds)

        await asyncio.gather(*map(one, (0.003, 0.001, 0.002)))
        return await run.tool("fetch", q=str(over))

    differs_once(tmp_path, sleeps)


def test_children_have_the_outcomes_that_they_had(tmp_path: Path) -> None:
    """Nothing is started while a name is looked for."""
    steps: list[Step] = [A, ("child", [B, ("return", 7)])]
    log = recorded(tmp_path / "a.jsonl", *steps).log

    found = only(log, program_of(B, *steps[1:]))

    assert found.category == "name_changed"
    assert found.later == ()


def test_what_a_program_without_end_does_in_its_clean_up_is_no_difference(tmp_path: Path) -> None:
    """It is stopped after so many steps, two a call: nobody knows what it would have done."""

    @tool(effect="reads")
    def look(n: int) -> int:
        """Look."""
        return n

    async def ends(run: Run, n: int) -> None:
        await run.tool(look, n=n)
        await run.tool(look, n=0)

    async def goes_on(run: Run, n: int) -> None:
        try:
            while True:
                await run.tool(look, n=n + 1)
        finally:
            await run.tool(look, n=0)

    log = record(ends, 1, log=tmp_path / "a.jsonl", tools=[look]).log
    found = only(log, goes_on, tools=[look])

    assert (found.category, found.later_count) == ("args_changed", STEPS_MAX // 2)
