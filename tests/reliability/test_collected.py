"""When the collector comes by, and where objects lie in memory, changes no run (CONTRACT.md §9.4).

A tool is executed when a run is recorded and not when it is replayed: one that collects garbage
makes that difference as large as it can be.
"""

import asyncio
import gc
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import refold
from refold.engine.log.reader import read_entries
from refold.engine.program.run import PlainRun, Run
from tests.support.loops import for_each


@refold.tool(effect="pure")
def collect(x: int) -> int:
    """Collect garbage."""
    gc.collect()
    return x


@refold.tool(effect="pure")
def fail(x: int) -> int:
    """Fail."""
    raise ValueError(x)


@pytest.fixture(autouse=True)
def _no_other_collections() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


def notes_of(log: Path) -> list[str]:
    return [entry.data["text"] for entry in read_entries(log) if entry.kind == "note.added"]


class Reader:
    """Keeps the generator that keeps it."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.iterator = self.pages()

    async def pages(self) -> AsyncIterator[int]:
        try:
            for page in range(3):
                yield await self.run.tool("collect", x=page)
        finally:
            self.run.annotate("closed", await self.run.tool("collect", x=-1))


def test_a_generator_in_a_cycle_is_closed_at_the_end(tmp_path: Path) -> None:
    """In the order of its start, collected or not: a replay finds it closed at the same place."""

    async def program(run: Run, _: Any) -> None:
        for number in range(2):
            reader = Reader(run)
            await anext(reader.iterator)
            del reader
            await run.tool("collect", x=number)
        run.annotate("returns")

    log = refold.record(program, None, log=tmp_path / "a.jsonl", tools=[collect]).log

    assert notes_of(log) == ["returns", "closed", "closed"]
    refold.reexecute(log, program).check()


@for_each("how", ["raise", "tool", "gather", "wait_for", "model"])
def test_a_generator_is_closed_when_the_function_that_has_it_fails(
    tmp_path: Path, how: str
) -> None:
    """The error of a call keeps nothing of the program: it leads into no cycle of the engine's."""

    async def program(run: Run, _: Any) -> None:
        async def pages() -> AsyncIterator[int]:
            try:
                yield 1
            finally:
                run.annotate("closed")

        ways: dict[str, Callable[[], Any]] = {
            "tool": lambda: run.tool(fail, x=1),
            "gather": lambda: asyncio.gather(run.tool(fail, x=1), run.tool(fail, x=2)),
            "wait_for": lambda: asyncio.wait_for(run.tool(fail, x=1), 5),
            "model": lambda: run.model([]),
        }

        async def reads() -> None:
            generator = pages()
            await anext(generator)
            if how == "raise":
                raise ValueError
            await ways[how]()

        with pytest.raises((ValueError, refold.ToolError, refold.ModelError)):
            await reads()
        # The call beside it in `gather` holds the error until it ends, too.
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.gather(*rest, return_exceptions=True)
        rest.clear()
        await asyncio.sleep(0.001)
        run.annotate("goes on")

    log = refold.record(program, None, log=tmp_path / "a.jsonl").log

    assert notes_of(log) == ["closed", "goes on"]
    refold.reexecute(log, program).check()


@pytest.mark.parametrize("is_timed", [False, True])
def test_a_plain_generator_is_closed_when_the_function_that_has_it_fails(
    tmp_path: Path, *, is_timed: bool
) -> None:
    """The same of a plain program, in whichever thread its tool ran."""

    def program(run: PlainRun, _: Any) -> None:
        def pages() -> Iterator[int]:
            try:
                yield 1
            finally:
                run.annotate("closed")

        def reads() -> None:
            for _page in pages():
                run.tool(fail, x=1)

        with pytest.raises(refold.ToolError):
            reads()
        run.annotate("goes on")

    limits = refold.Limits(timeout_seconds=60) if is_timed else None  # then on a worker
    log = refold.record(program, None, log=tmp_path / "a.jsonl", limits=limits).log

    assert notes_of(log) == ["closed", "goes on"]
    refold.reexecute(log, program).check()


class Client:
    """Closes itself on the loop that runs, as clients of OpenAI and Anthropic do."""

    def __init__(self, closed: list[bool], loop: asyncio.AbstractEventLoop | None) -> None:
        self.closed = closed
        self.loop = loop
        self.me = self

    async def aclose(self) -> None:
        """Take note."""
        self.closed.append(True)

    def __del__(self) -> None:
        try:
            (self.loop or asyncio.get_running_loop()).create_task(self.aclose())
        except RuntimeError:
            self.closed.append(False)


@pytest.mark.parametrize("keeps", [False, True])
def test_a_finaliser_makes_no_task_among_those_of_the_program(
    *, keeps: bool, tmp_path: Path
) -> None:
    """It finds no running loop: the tasks after it have the names that they have without it."""
    closed: list[bool] = []

    async def program(run: Run, _: None) -> str:
        if not closed:  # the collector comes by when it is recorded, and not when it is replayed
            Client(closed, asyncio.get_running_loop() if keeps else None)
            gc.collect()
        assert asyncio.get_running_loop() is asyncio.current_task().get_loop()  # type: ignore[union-attr]  # there is one

        async def named() -> str:
            return run.uuid()

        return await asyncio.create_task(named())

    recording = refold.record(program, log=tmp_path / "run.jsonl")

    assert recording.status == "completed", recording.error
    assert closed == [False]
    assert refold.reexecute(recording, program).identical
