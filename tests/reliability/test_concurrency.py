"""Concurrent programs: whatever ends first, a replay is the same run (CONTRACT.md §9.2, §12.1)."""

import asyncio
import random
import threading
from pathlib import Path
from typing import Any

from refold import PlainRun, Recording, Run, record, reexecute, tool
from refold.engine.log.reader import read_entries
from tests.support.loops import for_each

ROUNDS = 25


@tool(effect="reads")
async def slow(name: str, ms: float) -> str:
    """Answer after a time."""
    await asyncio.sleep(ms / 1000)
    return f"{name} after all"


def delays(seed: int, number: int) -> list[float]:
    """Return latencies in another order for each seed."""
    found = [float(each) for each in range(number)]
    random.Random(seed).shuffle(found)
    return found


def replayed(tmp_path: Path, program: Any, given: Any = None, **options: Any) -> Recording:
    """Record, and make sure that the log re-executes."""
    recording = record(program, given, log=tmp_path / "a.jsonl", durability="fast", **options)
    report = reexecute(recording.log, program)
    assert report.identical, str(report)
    return recording


def keys_of(recording: Recording) -> dict[str, str]:
    """Return the call key of each call, by the first argument."""
    entries = read_entries(recording.log)
    return {
        entry.data["arguments"]["name"]: entry.call or ""
        for entry in entries
        if entry.kind == "tool.called"
    }


@for_each("seed", range(ROUNDS))
def test_gathered_calls(tmp_path: Path, seed: int) -> None:
    """Case 29: they keep their keys and the order of their results, whatever ends first."""

    async def program(run: Run, waits: list[float]) -> Any:
        calls = (run.tool(slow, name=str(n), ms=ms) for n, ms in enumerate(waits))
        return await asyncio.gather(*calls)

    recording = replayed(tmp_path, program, delays(seed, 4))

    assert recording.output == [f"{n} after all" for n in range(4)]
    assert keys_of(recording) == {str(n): f"0/{n + 1}#1" for n in range(4)}


@for_each("seed", range(ROUNDS))
def test_gathered_branches_of_several_steps(tmp_path: Path, seed: int) -> None:
    """Case 30: each keeps its results, whatever ends first."""

    async def branch(run: Run, name: str, waits: list[float]) -> list[str]:
        return [await run.tool(slow, name=f"{name}{step}", ms=ms) for step, ms in enumerate(waits)]

    async def program(run: Run, waits: list[float]) -> Any:
        return await asyncio.gather(
            branch(run, "a", waits[:2]), branch(run, "b", waits[2:4]), branch(run, "c", waits[4:])
        )

    recording = replayed(tmp_path, program, delays(seed, 6))

    assert recording.output == [
        [f"{name}{step} after all" for step in range(2)] for name in ("a", "b", "c")
    ]


@for_each("seed", range(5))
def test_a_gather_within_a_gather(tmp_path: Path, seed: int) -> None:
    """Case 31: results come back in the shape in which they were asked."""

    async def inner(run: Run, name: str, waits: list[float]) -> Any:
        return await asyncio.gather(
            *(run.tool(slow, name=f"{name}{n}", ms=ms) for n, ms in enumerate(waits))
        )

    async def program(run: Run, waits: list[float]) -> Any:
        return await asyncio.gather(inner(run, "a", waits[:3]), inner(run, "b", waits[3:]))

    recording = replayed(tmp_path, program, delays(seed, 6))

    assert recording.output == [[f"{name}{n} after all" for n in range(3)] for name in "ab"]
    assert keys_of(recording)["b2"] == "0/2/3#1"


@for_each("seed", range(ROUNDS))
def test_a_cancellation_and_an_outcome_in_one_step(tmp_path: Path, seed: int) -> None:
    """Case 38: who was first is what the log says, and replays so."""

    async def program(run: Run, waits: list[float]) -> Any:
        one = asyncio.create_task(run.tool(slow, name="one", ms=waits[0]))
        two = asyncio.create_task(run.tool(slow, name="two", ms=waits[0]))
        await run.tool(slow, name="three", ms=waits[0])
        one.cancel()
        results = await asyncio.gather(one, two, return_exceptions=True)
        return [str(each) for each in results]

    assert replayed(tmp_path, program, delays(seed, 3)).ok


@for_each("when", ["before it starts", "before it is sent", "while it runs"])
def test_a_cancelled_call(tmp_path: Path, when: str) -> None:
    """Case 39: cancelling before a call starts, in the step that asks for it, and while it runs."""
    gate = threading.Event()

    @tool(effect="reads")
    def held() -> str:
        gate.wait(60)
        return "late"

    @tool(effect="reads")
    async def open_gate() -> None:
        gate.set()

    async def program(run: Run, _input: Any) -> Any:
        task = asyncio.create_task(run.tool(held))
        if when == "before it is sent":
            await asyncio.sleep(0)
        if when == "while it runs":
            await asyncio.sleep(0.01)
        task.cancel()
        ended = await asyncio.gather(task, return_exceptions=True)
        await run.tool(open_gate)
        return type(ended[0]).__name__

    recording = replayed(tmp_path, program)

    kinds = [entry.kind for entry in read_entries(recording.log)]
    assert recording.output == "CancelledError"
    assert kinds.count("effect.cancelled") == (when != "before it starts")


def test_shielded_work_goes_on(tmp_path: Path) -> None:
    """Case 40: its waiter is cancelled, and the call is not; a cancellation may be taken back."""

    async def program(run: Run, _input: Any) -> Any:
        inner = asyncio.create_task(run.tool(slow, name="inner", ms=5))
        waiter = asyncio.ensure_future(asyncio.shield(inner))
        await asyncio.sleep(0)
        waiter.cancel()
        ended = await asyncio.gather(waiter, return_exceptions=True)

        async def stays() -> str:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                task = asyncio.current_task()
                assert task is not None
                task.uncancel()
            return str(await run.tool(slow, name="stays", ms=1))

        task = asyncio.create_task(stays())
        await asyncio.sleep(0)
        task.cancel()
        return [type(ended[0]).__name__, await inner, await task]

    recording = replayed(tmp_path, program)

    assert recording.output == ["CancelledError", "inner after all", "stays after all"]


@for_each("how", ["never", "twice", "reversed", "all reversed", "by another"])
def test_how_often_and_in_which_order_a_call_is_awaited(tmp_path: Path, how: str) -> None:
    """Case 41: never, twice, in the other order, by a task that did not ask for it."""

    async def program(run: Run, _input: Any) -> Any:
        calls = [
            asyncio.create_task(run.tool(slow, name=name, ms=ms))
            for name, ms in (("a", 4), ("b", 2), ("c", 0))
        ]
        match how:
            case "never":
                return await run.tool(slow, name="last", ms=0)
            case "twice":
                return [await calls[0], await calls[0]]
            case "reversed":
                return [await calls[1], await calls[0]]
            case "all reversed":
                return [await call for call in reversed(calls)]
            case _:

                async def other() -> str:
                    return str(await calls[0])

                return await asyncio.create_task(other())

    assert replayed(tmp_path, program).ok


def test_a_plain_program_has_one_order(tmp_path: Path) -> None:
    """Case 29, in a plain program: one call after the other."""

    def program(run: PlainRun, _input: Any) -> Any:
        return [run.tool(slow, name=name, ms=0) for name in "abc"]

    assert keys_of(replayed(tmp_path, program)) == {"a": "0#1", "b": "0#2", "c": "0#3"}
