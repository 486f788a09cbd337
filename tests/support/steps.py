"""Small programs made of steps, so that a test can change one step between record and replay.

A program is a list of steps, run one after the other; each is a tuple whose first member says what
it does:

    ("tool", name, arguments)   ("model", text)        ("child", [steps])
    ("sleep", seconds)          ("note", text)         ("uuid",)   ("now",)
    ("both", [steps], [steps])  in parallel branches   ("start", [steps])  a task, not awaited
    ("await",)                  the first such task    ("return", value)   ("raise", text)

The program returns what `return` says, or the results of its steps.  The tools are asynchronous:
which of two calls in parallel branches ends first is the same in every recording.
"""

import asyncio
from pathlib import Path
from typing import Any

from refold.engine.models.scripted import ScriptedModel
from refold.engine.ports.ports import Delegation, Program
from refold.engine.program.run import Run
from refold.engine.runners.recorded import Recording
from refold.engine.runners.recording import record
from refold.tools.contract.tool_types import tool

Step = tuple[Any, ...]


@tool(effect="reads")
async def search(q: str) -> str:
    """Find something."""
    return f"found {q}"


@tool(effect="reads")
async def fetch(q: str) -> str:
    """Get something."""
    return f"got {q}"


def program_of(*steps: Step) -> Program:
    """Return the program that takes `steps`."""

    async def stepwise(run: Run, _input: Any) -> Any:
        return await walk(run, steps)

    return stepwise


async def walk(run: Run, steps: Any) -> Any:
    """Take steps, and return their results, or what a `return` among them says."""
    tasks: list[asyncio.Task[Any]] = []
    results = []
    for step in steps:
        match step:
            case ("return", value):
                return value
            case ("start", inner):
                tasks.append(asyncio.create_task(walk(run, inner)))
            case ("await",):
                results.append(await tasks.pop(0))
            case _:
                results.append(await take(run, *step))
    return results


async def take(run: Run, what: str, *rest: Any) -> Any:
    """Take one step."""
    match what, rest:
        case "tool", (name, arguments):
            return await run.tool(name, **arguments)
        case "model", (text,):
            return (await run.model([{"role": "user", "content": text}])).message["content"]
        case "child", (steps,):
            outcome = await run.delegate(Delegation(program=program_of(*steps), brief="go"))
            return outcome.output
        case "sleep", (seconds,):
            return await asyncio.sleep(seconds)
        case "both", branches:
            return await asyncio.gather(*(walk(run, branch) for branch in branches))
        case "raise", (text,):
            raise ValueError(text)
        case _:
            return _value(run, what, *rest)


def _value(run: Run, what: str, *rest: Any) -> Any:
    match what:
        case "note":
            return run.annotate(rest[0])
        case "uuid":
            return run.uuid()
        case "now":
            return run.now().isoformat()
        case _:
            raise AssertionError(what)


def recorded(log: Path, *steps: Step, program: Program | None = None, **options: Any) -> Recording:
    """Record the program of `steps`, or `program`, with both tools and a scripted model."""
    given: dict[str, Any] = {"seed": 1, "durability": "fast", "tools": [search, fetch]} | options
    model = ScriptedModel(["one", "two", "three"])
    return record(program or program_of(*steps), None, log=log, model=model, **given)
