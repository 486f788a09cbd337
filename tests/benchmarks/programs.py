"""The programs and tools that the benchmarks record; importable, for a subprocess to find them."""

import asyncio
from typing import Any

from refold import Delegation, PlainRun, Run, tool


@tool(effect="reads")
def find(query: str, limit: int) -> list[str]:
    """Return something short at once."""
    return [query] * limit


@tool(effect="reads")
async def fetch(query: str, limit: int) -> list[str]:
    """Return the same after one turn of the loop."""
    await asyncio.sleep(0)
    return [query] * limit


async def asynchronous(run: Run, calls: int) -> int:
    """Call a synchronous tool again and again."""
    for _ in range(calls):
        await run.tool(find, query="needle", limit=2)
    return calls


def plain(run: PlainRun, calls: int) -> int:
    """Do the same without `await`."""
    for _ in range(calls):
        run.tool(find, query="needle", limit=2)
    return calls


async def awaiting(run: Run, calls: int) -> int:
    """Call an asynchronous tool again and again."""
    for _ in range(calls):
        await run.tool(fetch, query="needle", limit=2)
    return calls


async def branching(run: Run, branches: int) -> int:
    """Call an asynchronous tool from many tasks at once."""
    results = await asyncio.gather(
        *[run.tool(fetch, query="needle", limit=2) for _ in range(branches)]
    )
    return len(results)


async def crowded(run: Run, branches: int) -> int:
    """Call a synchronous tool ten times in each of many branches."""
    await asyncio.gather(*[asynchronous(run, 10) for _ in range(branches)])
    return branches


async def crowded_async(run: Run, branches: int) -> int:
    """Call an asynchronous tool ten times in each of many branches."""
    await asyncio.gather(*[awaiting(run, 10) for _ in range(branches)])
    return branches


async def delegating(run: Run, children: int) -> int:
    """Run children one after the other, each in a process of its own."""
    for _ in range(children):
        outcome = await run.delegate(Delegation(program=idle, runner="subprocess"))
        if outcome.status != "completed":
            raise RuntimeError(str(outcome.error))
    return children


def idle(_run: PlainRun, _argument: None) -> None:
    """End at once: what is left is the price of a child."""


@tool(effect="reads")
def page(at: int) -> str:
    """Return about 600 bytes."""
    return f"page {at:09d} " * 40


def reading(run: PlainRun, pages: int) -> int:
    """Fill a log with pages."""
    for at in range(pages):
        run.tool(page, at=at)
    return pages


def talking(run: PlainRun, turns: int) -> int:
    """Ask a model again and again, each time with all that was said before."""
    messages: list[dict[str, Any]] = []
    for turn in range(turns):
        messages.append({"role": "user", "content": f"question {turn}"})
        messages.append(run.model(messages).message)
    return len(messages)


def starting(run: PlainRun, children: int) -> int:
    """Run children one after the other, in this process."""
    for _ in range(children):
        run.delegate(Delegation(program=idle))
    return children


@tool(effect="reads")
def load(size: int) -> str:
    """Return a text of so many bytes."""
    return "x" * size


def carrying(run: PlainRun, size: int) -> int:
    """Get one large result."""
    return len(run.tool(load, size=size))
