"""A program of fourteen entries with a bit of everything, and tools whose results can be turned.

And random trees of runs, made of steps, whose outcomes follow from what is asked.
"""

import asyncio
from typing import Any

from refold.engine.events.outcome import Outcome
from refold.engine.models import FunctionModel, ScriptedModel
from refold.engine.ports.ports import Delegation, ModelRequest, Reference
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


# --- random trees of runs: what a step does follows from a number that those before it made -----

Step = dict[str, Any]
world: dict[str, int] = {"recorded": 1, "live": 2}
"""What the world multiplies by, when a tree is recorded and when it is live in a fork."""


def looked_up(value: int, by: int) -> int:
    """Return what the world says of a number, as a tool and as a model."""
    return (value * 7 + 3 * by) % 50


@tool(effect="reads")
def look_up(n: int) -> int:
    """Say a number of a number."""
    return looked_up(n, factor["value"])


@tool(effect="changes")
def store(n: int) -> int:
    """Say a number of a number, and change the world."""
    return looked_up(n, factor["value"]) + 1


def told(request: ModelRequest) -> str:
    """Answer with a number of the last number."""
    return str(looked_up(int(request.parameters["seed"]), factor["value"]))


TREE_TOOLS: list[Any] = [look_up, store]
TREE_MODEL: Any = FunctionModel(told, reference=Reference(__name__, "tree_model", {}))
VARIABLE = "REFOLD_TEST_FORKED"


def tree_model() -> FunctionModel:
    """Return the model of trees, for a process."""
    model: FunctionModel = TREE_MODEL
    return model


children: dict[str, Any] = {}
"""The `program` of children, `grow` if none is here: of one that no other process can import, what
is unfinished is looked at in this process."""


async def grow(run: Run, given: dict[str, Any]) -> int:
    """Take the steps of a tree, each with the number that those before it made."""
    return await _steps(run, given["steps"], given["n"])


async def _steps(run: Run, steps: list[Step], n: int) -> int:
    for step in steps:
        n = (n + await _step(run, step, n)) % 100
    return n


async def _step(run: Run, step: Step, n: int) -> int:
    match step:
        case {"tool": name}:
            found: int = await run.tool(name, n=n)
            return found
        case {"model": _}:
            reply = await run.model([{"role": "user", "content": "?"}], seed=n)
            return int(reply.message["content"])
        case {"draw": name}:
            return int(run.environment(name) or 0)
        case {"ask": question}:
            return int(await run.ask(question))
        case {"child": steps}:
            return _worth(await run.delegate(_growing(steps, n)))
        case {"several": steps, "most": most}:
            return sum([await _step(run, {"child": steps}, n + i) for i in range(n % most)])
        case {"children": both}:
            started = [await run.start(_growing(steps, n)) for steps in both]
            return sum(map(_worth, await run.join(*started)))
        case {"tasks": both}:
            return sum(await asyncio.gather(*(_steps(run, steps, n) for steps in both)))
        case {"either": both}:
            return await _steps(run, both[n % 2], n)
        case _:
            run.now()
            await run.sleep(0.001)
            return run.random("s").randrange(5) + int(run.uuid()[0], 16)


def _growing(steps: list[Step], n: int) -> Delegation:
    return Delegation(program=children.get("program", grow), input={"steps": steps, "n": n})


def _worth(outcome: Outcome) -> int:
    return outcome.output if outcome.status == "completed" and outcome.output is not None else 50
