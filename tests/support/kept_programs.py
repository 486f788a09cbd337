"""The programs of the logs under `fixtures/logs`, and what they are given."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from typing import Any

import refold
from refold.engine.models import ScriptedModel
from refold.engine.program.agent import agent
from refold.tools.agents.agent_files import AgentDef, agent_prompts
from refold.tools.contract.tool_types import tool
from refold.tools.delegation.dispatch_subagent import dispatch_subagent_tool

LONG = "a long text, kept beside the log. " * 2000


@tool(effect="pure")
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(effect="reads")
def fetch(name: str) -> str:
    """Fetch a text; some are long, one is not there."""
    if name == "missing":
        raise LookupError(name)
    return LONG if name == "long" else f"text of {name}"


async def reader(run: refold.Run, name: str) -> refold.Report:
    """Fetch one text, and hand back how long it is."""
    text: str = await run.tool("fetch", name=name)
    note = refold.Artifact(kind="note", name=name, value=f"{len(text)} characters")
    return refold.Report(summary=f"read {name}", output=len(text), artifacts=(note,))


async def everything(run: refold.Run, names: list[str]) -> dict[str, Any]:
    """Do each thing that a log can hold and a program of this version can do."""
    begun = run.now()
    sums = await asyncio.gather(*(run.tool("add", a=number, b=1) for number in range(3)))
    children = [
        await run.start(refold.Delegation(program=reader, input=name, brief=f"read {name}"))
        for name in names
    ]
    outcomes = await run.join(*children)
    try:
        await run.tool("fetch", name="missing")
    except refold.ToolError as error:
        run.annotate("missing", error.code)
    await run.sleep(0.001)
    talk: list[Any] = [{"role": "user", "content": "What have they read?"}]
    for _ in range(2):
        reply = await run.model(talk)
        talk += [reply.message, {"role": "user", "content": "And then?"}]
    drawn = run.random("colours").choice(["red", "green", "blue"])
    return {
        "year": begun.year,
        "sums": sums,
        "lengths": [outcome.output for outcome in outcomes],
        "said": talk[-2]["content"],
        "drawn": [drawn, str(run.uuid())],
    }


def plainly(run: refold.PlainRun, number: int) -> int:
    """Do little, without a loop."""
    total = number
    for each in range(3):
        total = run.tool("add", a=total, b=each)
    return total


async def asking(run: refold.Run, version: str) -> str:
    """Do what a person has to agree to, twice."""
    kept = [
        await run.ask(f"publish {version} {place}?", {"type": "boolean"})
        for place in ("here", "everywhere")
    ]
    return f"{version}: {kept}"


async def failing(run: refold.Run, _: Any) -> None:
    """Fail after a tool has failed."""
    await run.tool("fetch", name="missing")


async def aborting(run: refold.Run, padding: int) -> list[str]:
    """Give up on three tasks; futures before them change nothing of their order."""
    for _ in range(padding):
        asyncio.get_running_loop().create_future()
    given_up = []

    async def waits(name: str) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            run.annotate(name)
            given_up.append(name)
            raise

    async def fails() -> None:
        raise ValueError(await run.tool("fetch", name="short"))

    with contextlib.suppress(ExceptionGroup):
        async with asyncio.TaskGroup() as group:
            for name in "abc":
                group.create_task(waits(name))
            group.create_task(fails())
    return given_up


async def dropping(run: refold.Run, _: Any) -> list[str]:
    """Drop generators, of which the error of a call keeps none."""

    async def pages(many: int) -> AsyncIterator[int]:
        try:
            for page in range(many):
                yield page
        finally:
            run.annotate(f"closed {many}", await run.tool("add", a=many, b=0))

    async def reads() -> None:
        generator = pages(3)
        await anext(generator)
        await run.tool("fetch", name="missing")

    with contextlib.suppress(refold.ToolError):
        await reads()
    await run.sleep(0.001)
    run.annotate("goes on")
    ended, begun = pages(1), pages(2)
    cycle = [ended, begun]
    cycle.append(cycle)  # type: ignore[arg-type]  # it keeps both
    _ = [page async for page in ended]
    await anext(begun)
    return []


async def polling(run: refold.Run, _: Any) -> str:
    """Look again and again, beside a tool."""
    task = asyncio.create_task(run.tool("fetch", name="short"))
    while not task.done():  # noqa: ASYNC110 - what it is about
        await asyncio.sleep(0)
    return "done"


HELPER = AgentDef(
    id="helper", name="helper", description="Helps.", provider="openai", model="gpt-4o"
)
TEAM = [
    dispatch_subagent_tool(prompts=agent_prompts([HELPER])),
    *refold.subagents("subagent_dispatch", agents=[HELPER], caller="lead"),
]


async def delegating(run: refold.Run, task: str) -> str:
    """Hand work on, also to a child that cannot begin."""
    return (await agent(run, {"task": task})).summary


async def cancelling(run: refold.Run, _: Any) -> list[str]:
    """Call in tasks that have cancelled themselves."""
    done: list[str] = [await run.tool("fetch", name="short")]

    async def cancels(name: str) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        try:
            done.append(await run.tool("fetch", name=name))
        except asyncio.CancelledError:
            done.append(f"cancelled {name}")
            raise
        except refold.ToolError:
            done.append(f"failed {name}")

    for name in ("first", "missing"):
        await asyncio.gather(cancels(name), return_exceptions=True)
    return done


async def naps(run: refold.Run, milliseconds: int) -> str:
    """Sleep, within a limit that is not reached."""
    async with asyncio.timeout(60):
        await run.sleep(milliseconds / 1000)
    return f"slept {milliseconds}"


async def timing(run: refold.Run, _: Any) -> list[str]:
    """Wait in every way."""
    loop, order = asyncio.get_running_loop(), list[str]()
    never = loop.call_later(900, order.append, "never")
    loop.call_later(0.02, order.append, "long")
    time.sleep(0.015)  # noqa: ASYNC251 - work: the shorter one counts from the same instant
    loop.call_later(0.012, order.append, "short")
    at = loop.time() + 0.016
    loop.call_at(at, order.append, "at")

    async def late(name: str, seconds: float) -> None:
        await asyncio.sleep(seconds)
        order.append(await run.tool("fetch", name=name))

    async def limited(name: str, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await asyncio.Event().wait()
        except TimeoutError:
            run.annotate(name)

    async with asyncio.timeout(900):
        await asyncio.gather(late("b", 0.03), late("a", 0.024), limited("c", 0.036))
    task = asyncio.create_task(late("d", 60))
    await asyncio.wait([task], timeout=0.004)
    task.cancel()
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(asyncio.Event().wait(), 0.004)
    never.cancel()
    outcome = await run.delegate(refold.Delegation(program=naps, input=5, brief="sleep"))
    await asyncio.sleep(0.01)
    return [*order, outcome.output]  # type: ignore[list-item]  # it completes


def _calls(*calls: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    return {"tool_calls": [{"name": name, "arguments": given} for name, given in calls]}


_PROMPT = {"mode": "ad_hoc", "prompt_ns": "agents", "prompt_key": "helper", "instructions": "help"}
SCRIPT: dict[str, Any] = {
    "agent": [
        _calls(
            ("dispatch_subagent", _PROMPT),
            ("subagent_dispatch", {"agent_id": "helper", "task": "help"}),
        ),
        _calls(
            ("dispatch_subagent", _PROMPT),
            ("subagent_dispatch", {"agent_id": "nobody", "task": "help"}),
        ),
        "done",
    ],
    "agents/helper": [{"name": "add", "arguments": {"a": 1, "b": 2}}, "3"],
    "helper": ["helped"],
}
"""What the models say to `delegating`, which may start two children."""


PROGRAMS: dict[str, Any] = {
    "everything": everything,
    "plainly": plainly,
    "failing": failing,
    "answered": asking,
    "forked": plainly,
    "aborting": aborting,
    "dropping": dropping,
    "polling": polling,
    "delegating": delegating,
    "cancelling": cancelling,
    "timing": timing,
}
INPUTS: dict[str, Any] = {
    "everything": ["short", "long"],
    "plainly": 4,
    "failing": None,
    "answered": "1.0",
    "aborting": 4,
    "dropping": None,
    "polling": None,
    "delegating": "hand it on",
    "cancelling": None,
    "timing": None,
}
TOOLS: list[Any] = [add, fetch]
OFFERED: dict[str, list[Any]] = {"delegating": [*TOOLS, *TEAM]}
"""Other tools than `TOOLS`."""
MODELS: dict[str, ScriptedModel] = {
    "everything": ScriptedModel(["They have read two texts.", "Nothing more."]),
    "delegating": ScriptedModel(SCRIPT),
}
LIMITS: dict[str, refold.Limits] = {"delegating": refold.Limits(max_children=2)}
