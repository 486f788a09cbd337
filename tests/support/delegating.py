"""Recordings of programs that follow a plan: what trees, diffs and snapshots are tested on.

A plan is a list of steps; each step is a tuple that begins with a word of `_follow`.  Programs of
two different plans have the same name and the same input, so that only what they do differs.
"""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from refold.engine.errors import RunEnded
from refold.engine.events.limits import Limits
from refold.engine.events.outcome import Report
from refold.engine.models.scripted import ScriptedModel
from refold.engine.ports.ports import Delegation
from refold.engine.program.run import Run
from refold.engine.runners.recorded import Recording
from refold.engine.runners.recording import record
from refold.tools.contract.tool_types import tool

Step = tuple[Any, ...]
Plan = Sequence[Step]


@tool(effect="reads")
def search(query: str) -> str:
    """Find something."""
    if query == "nothing":
        raise LookupError(f"no such thing: {query}")
    return f"found {query}"


@tool(effect="reads")
def read(path: str, lines: int | None = None) -> str:
    """Read something."""
    return f"{lines or 'all'} of {path}"


Program = Callable[[Run, Any], Any]


def planned(plan: Plan) -> Program:
    """Return a program named `lead` that follows `plan`."""

    async def lead(run: Run, _input: Any) -> Any:
        return await _follow(run, plan)

    return _named(lead, "lead")


def child(name: str, plan: Plan, **options: Any) -> Step:
    """Return the step that delegates to a child that follows `plan`."""
    return ("child", name, plan, options)


def recorded(log: Path, plan: Plan, **options: Any) -> Recording:
    """Record a program that follows `plan`, under one seed."""
    asked: dict[str, Any] = {
        "seed": 1,
        "limits": Limits(max_depth=3),
        "tools": [read, search],
    } | options
    model = ScriptedModel(["Hm.", "So.", "Well."])
    return record(planned(plan), None, log=log, model=model, **asked)


def _named(program: Program, name: str) -> Program:
    program.__name__ = program.__qualname__ = name
    return program


async def _follow(run: Run, plan: Plan) -> Any:
    last: Any = None
    for step in plan:
        last = await _step(run, step)
    return last


async def _step(run: Run, step: Step) -> Any:
    match step:
        case ("search", query):
            return await run.tool(search, query=query)
        case ("try", query):
            return await _tried(run, query)
        case ("read", path, *lines):
            return await run.tool(read, path=path, **({"lines": lines[0]} if lines else {}))
        case ("ask", text):
            return (await run.model([{"role": "user", "content": text}])).message["content"]
        case ("note", text):
            return run.annotate(text)
        case ("both", *plans):
            return await asyncio.gather(*(_follow(run, plan) for plan in plans))
        case ("child", name, plan, options):
            return (await run.delegate(_delegation(name, plan, options))).status
        case ("sleep", seconds):
            return await run.sleep(seconds)
        case ("return", value):
            return value
        case ("report", summary, artifacts):
            return Report(summary=summary, artifacts=artifacts)
        case ("give up", reason):
            raise RunEnded(reason, f"gave up at /tmp/some/where/{reason}")
        case _:
            raise AssertionError(step)


async def _tried(run: Run, query: str) -> str:
    try:
        return str(await run.tool(search, query=query))
    except Exception as error:  # noqa: BLE001 - whatever it is, the plan goes on
        return type(error).__name__


def _delegation(name: str, plan: Plan, options: dict[str, Any]) -> Delegation:
    async def program(run: Run, _input: Any) -> Any:
        return await _follow(run, plan)

    return Delegation(program=_named(program, name), **options)
