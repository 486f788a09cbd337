"""Random program trees: JSON in, so that any process of any version can run the same one again.

A tree is a nested list `[kind, …]`; `tree_program` interprets it.  Latencies are part of the tools'
behaviour and not of the tree: they differ from run to run, as in the world.
"""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from typing import Any

from refold.engine.errors import ToolError
from refold.engine.ports.ports import Delegation
from refold.engine.program.run import Run
from refold.tools.contract import tool_types

Node = list[Any]
programs: dict[str, Any] = {}
"""The `child` of trees, `tree_program` if none is here: of one that no other process can import,
what is unfinished is looked at in this process."""


class Latency:
    """How long tools take: drawn anew in each run, from 0 to `most` seconds."""

    def __init__(self, seed: int, most: float = 0.002) -> None:
        self._random = random.Random(seed)
        self._most = most

    def next(self) -> float:
        return self._random.random() * self._most if self._random.random() < 0.8 else 0.0


latencies: list[Latency] = [Latency(0)]
"""The one that tools have now; a process of a child has its own."""


@tool_types.tool(effect="pure")
def twice(x: int) -> int:
    """Take no time."""
    return 2 * x


@tool_types.tool(effect="reads")
async def work(x: int, name: str = "") -> dict[str, int]:
    """Take a while."""
    await asyncio.sleep(latencies[0].next())
    return {name or "value": x + 1}


@tool_types.tool(effect="reads")
async def fails(x: int) -> int:
    """Take a while, and fail."""
    await asyncio.sleep(latencies[0].next())
    raise ValueError(f"no {x}")


def tools_with(latency: Latency) -> list[Any]:
    """Return the tools that trees call: one synchronous, one asynchronous, one that fails."""
    latencies[0] = latency
    return [twice, work, fails]


KINDS = (
    "twice",
    "work",
    "fails",
    "sequence",
    "gather",
    "group",
    "failing_group",
    "as_completed",
    "first",
    "timeout",
    "wait_for",
    "sleep",
    "queue",
    "lock",
    "shield",
    "race",
    "generator",
    "values",
    "event",
    "set",
    "child",
)


def random_tree(seed: int, *, size: int = 12, children: bool = False) -> Node:
    """Return a tree of about `size` nodes."""
    rng = random.Random(seed)
    budget = [size]
    kinds = KINDS if children else KINDS[:-1]

    def node(depth: int) -> Node:
        budget[0] -= 1
        leaf = budget[0] <= 0 or depth > 4
        kind = rng.choice(("twice", "work", "work", "fails", "sleep", "values") if leaf else kinds)
        number = rng.randrange(10)
        if kind in ("twice", "work", "fails", "sleep", "values"):
            return [kind, number]
        return [kind, number, [node(depth + 1) for _ in range(rng.randint(1, 3))]]

    return ["gather", 0, [node(0) for _ in range(2)]]


async def tree_program(run: Run, node: Node) -> Any:
    """Run a tree and return what came of it."""
    kind, number, *rest = node
    inner: list[Node] = rest[0] if rest else []
    match kind:
        case "twice":
            return await run.tool("twice", x=number)
        case "work":
            return await run.tool("work", x=number, name=f"n{number}")
        case "fails":
            try:
                return await run.tool("fails", x=number)
            except ToolError as error:
                return error.message
        case "sleep":
            await asyncio.sleep(number / 10_000)
            return None
        case "values":
            drawn = run.random("s").random()
            return [run.uuid(), drawn, run.now().isoformat()]
        case "child":
            program = programs.get("child", tree_program)
            outcome = await run.delegate(Delegation(program=program, input=inner[0]))
            return [outcome.status, outcome.output]
        case "sequence":
            return [await tree_program(run, one) for one in inner]
        case _:
            return await _concurrent(run, kind, number, inner)


async def _concurrent(run: Run, kind: str, number: int, inner: list[Node]) -> Any:
    match kind:
        case "gather":
            return await asyncio.gather(*(tree_program(run, one) for one in inner))
        case "group":
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(tree_program(run, one)) for one in inner]
            return [task.result() for task in tasks]
        case "failing_group":
            return await _failing_group(run, number, inner)
        case "as_completed":
            return await _as_completed(run, inner)
        case "first":
            return await _first(run, inner)
        case "timeout" | "wait_for":
            return await _in_time(run, kind, number, inner)
        case "shield":
            return await _shield(run, number, inner)
        case "race":
            return await _race(run, inner)
        case _:
            return await _synchronised(run, kind, number, inner)


async def _synchronised(run: Run, kind: str, number: int, inner: list[Node]) -> Any:
    match kind:
        case "queue":
            return await _queue(run, inner)
        case "lock":
            lock = asyncio.Lock()

            async def locked(one: Node) -> Any:
                async with lock:
                    return await tree_program(run, one)

            return await asyncio.gather(*(locked(one) for one in inner))
        case "generator":
            async for value in _generated(run, inner):
                return value  # left early: its clean-up calls a tool
            return None
        case "event":
            event = asyncio.Event()

            async def waits() -> Any:
                await event.wait()
                return await run.tool("twice", x=number)

            task = asyncio.ensure_future(waits())
            result = await tree_program(run, inner[0])
            event.set()
            return [result, await task]
        case "set":
            tasks = {asyncio.ensure_future(tree_program(run, one)) for one in inner}
            return [await task for task in tasks]
        case _:
            raise AssertionError(kind)


async def _in_time(run: Run, kind: str, number: int, inner: list[Node]) -> Any:
    try:
        if kind == "wait_for":
            return await asyncio.wait_for(tree_program(run, inner[0]), number / 5_000)
        async with asyncio.timeout(number / 5_000):
            return await tree_program(run, inner[0])
    except TimeoutError:
        return "late" if kind == "wait_for" else await run.tool("twice", x=-1)


async def _failing_group(run: Run, number: int, inner: list[Node]) -> Any:
    async def tidy(one: Node) -> Any:
        try:
            return await tree_program(run, one)
        finally:
            await run.tool("twice", x=100)

    async def fail() -> None:
        await run.tool("work", x=number)
        raise RuntimeError("on purpose")

    try:
        async with asyncio.TaskGroup() as group:
            for one in inner:
                group.create_task(tidy(one))
            group.create_task(fail())
    except* RuntimeError as errors:
        failed = len(errors.exceptions)
    return f"{failed} failed"


async def _as_completed(run: Run, inner: list[Node]) -> Any:
    results = []
    for future in asyncio.as_completed([tree_program(run, one) for one in inner]):
        result = await future
        results.append(result)
        if len(results) == 1:  # a decision by the winner
            await run.tool("twice", x=len(str(result)))
    return results


async def _first(run: Run, inner: list[Node]) -> Any:
    tasks = [asyncio.create_task(tree_program(run, one)) for one in inner]
    done, rest = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in rest:
        task.cancel()
    await asyncio.gather(*rest, return_exceptions=True)
    return [len(done), [tasks.index(task) for task in done]]


async def _shield(run: Run, number: int, inner: list[Node]) -> Any:
    task = asyncio.ensure_future(tree_program(run, inner[0]))
    try:
        async with asyncio.timeout(number / 10_000):
            return await asyncio.shield(task)
    except TimeoutError:
        return ["shielded", await task]


async def _race(run: Run, inner: list[Node]) -> Any:
    async def cleaned(one: Node) -> Any:
        try:
            return await tree_program(run, one)
        except asyncio.CancelledError:
            with contextlib.suppress(asyncio.CancelledError):
                await run.tool("work", x=99)
            raise

    tasks = [asyncio.ensure_future(cleaned(one)) for one in inner]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    return [type(result).__name__ for result in results]


async def _queue(run: Run, inner: list[Node]) -> Any:
    queue: asyncio.Queue[Any] = asyncio.Queue(1)

    async def produce() -> None:
        for one in inner:
            await queue.put(await tree_program(run, one))
        await queue.put(None)

    producer = asyncio.ensure_future(produce())
    taken = []
    for _ in range(len(inner) + 1):
        taken.append(await queue.get())
        await run.tool("twice", x=len(taken))
    await producer
    return taken


async def _generated(run: Run, inner: list[Node]) -> AsyncIterator[Any]:
    try:
        for one in inner:
            yield await tree_program(run, one)
    finally:
        await run.tool("twice", x=7)
