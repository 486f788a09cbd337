"""A program of fourteen entries with a bit of everything, and tools whose results can be turned."""

import asyncio
from typing import Any

from refold.engine.models import ScriptedModel
from refold.engine.ports.delegation import Delegation
from refold.engine.program.run import Run
from refold.tools.contract.tool_types import tool

factor = {"value": 1}
"""What `get` multiplies by: a test turns it, as a service would change."""


@tool(effect="reads")
def get(key: str) -> int:
    """Return a number for a key."""
    return factor["value"] * len(key)


@tool(effect="changes")
def put(value: int) -> int:
    """Keep a number."""
    kept.append(value)
    return value


kept: list[int] = []
TOOLS: list[Any] = [get, put]


async def reader(run: Run, key: str) -> Any:
    """Read one key."""
    return await run.tool("get", key=key)


async def parent(run: Run, key: str) -> Any:
    """Have a child read a key, after a call of its own."""
    own = await run.tool("get", key=key)
    outcome = await run.delegate(Delegation(program=reader, input=key * 2))
    return [own, outcome.output]


async def report(run: Run, _: Any) -> list[Any]:
    """Two calls at once, a model, a look at the clock, a pause, a child, a change of the world."""
    one, two = await asyncio.gather(run.tool("get", key="a"), run.tool("get", key="bb"))
    reply = await run.model([{"role": "user", "content": f"the sum is {one + two}"}])
    run.now()
    await run.sleep(0.001)
    child = await run.delegate(Delegation(program=parent, input="ccc"))
    done = await run.tool("put", value=one + two)
    return [one, two, reply.message["content"], child.output, done]


def model(text: str = "three") -> ScriptedModel:
    """Return a model that says the same whatever it is asked."""
    return ScriptedModel([text] * 20)
