"""Small programs whose concurrent work may end in any order; what they make of that differs.

Each takes a list of names and fetches them at once with the tool `fetch`.
"""

import asyncio
from pathlib import Path
from typing import Any

from refold.engine.program.run import Run
from refold.engine.runners.recorded import Recording
from refold.engine.runners.recording import record
from refold.replay.what_if.rehearsal import Stage
from refold.tools.contract.tool_types import tool

NAMES = ["a", "b", "c"]


@tool(effect="reads")
async def fetch(name: str) -> str:
    """Get something, after however long that takes."""
    await asyncio.sleep(0)
    return f"page {name}"


async def gathered(run: Run, names: list[str]) -> Any:
    """Does not care who is first."""
    return await asyncio.gather(*(run.tool("fetch", name=name) for name in names))


async def raced(run: Run, names: list[str]) -> Any:
    """Returns who was first, and everything."""
    order: list[str] = []

    async def one(name: str) -> str:
        page: str = await run.tool("fetch", name=name)
        order.append(name)
        return page

    pages = await asyncio.gather(*(one(name) for name in names))
    return {"first": order[0], "pages": pages}


async def followed(run: Run, names: list[str]) -> Any:
    """Asks on with what came first: another order asks for something else."""
    for each in asyncio.as_completed([run.tool("fetch", name=name) for name in names]):
        return await run.tool("fetch", name=await each)
    return None


async def timed(run: Run, names: list[str]) -> Any:
    """Waits for an hour at most."""
    try:
        async with asyncio.timeout(3600):
            return await run.tool("fetch", name=names[0])
    except TimeoutError:
        return "late"


def recorded(log: Path, program: Any, names: Any = None, **options: Any) -> Recording:
    """Record a program with the tool `fetch`."""
    given: dict[str, Any] = {"tools": [fetch], "seed": 1, "durability": "fast"} | options
    return record(program, NAMES if names is None else names, log=log, **given)


def stage_of(log: Path, program: Any) -> Stage:
    """Return where a recorded run is rehearsed."""
    return Stage(log, program)
