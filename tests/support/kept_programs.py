"""The programs of the logs under `fixtures/logs`: never edited, for they have to do the same."""

import asyncio
import contextlib
import dataclasses
import datetime as dt
import io
import sys
import threading
import time
from collections.abc import AsyncIterator
from typing import Any

import refold
from refold.engine.models import ScriptedModel
from refold.engine.program.agent import agent
from refold.tools.agents.agent_files import AgentDef
from refold.tools.agents.agent_prompts import agent_prompts
from refold.tools.agents.profiles import SpawnProfile, SpawnSettings
from refold.tools.contract.tool_types import DelegationTool, tool
from refold.tools.delegation.dispatch_subagent import dispatch_subagent_tool
from refold.tools.delegation.shared import delegate_all
from refold.tools.delegation.spawn import spawn_tools
from refold.tools.delegation.subagent import subagent_tool
from refold.tools.delegation.subagent_dispatch import dispatch_tool

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


async def failing(run: refold.Run, _: Any) -> None:
    """Fail after a tool has failed."""
    await run.tool("fetch", name="missing")


async def aborting(run: refold.Run, padding: int) -> list[str]:
    """Give up on three tasks; before the flag `scope_hashes`, futures shifted their order."""
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
    """Drop generators; before the flag `no_collector`, the error of a call kept one of them."""

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
    """Look again and again, beside a tool; before the flag `passes`, it ended as `spinning`."""
    task = asyncio.create_task(run.tool("fetch", name="short"))
    while not task.done():  # noqa: ASYNC110 - what it is about
        await asyncio.sleep(0)
    return "done"


async def tagged(run: refold.Run, hidden: str) -> Any:
    """Say tag characters everywhere; the log of 0.1.0 has them as they are, later ones escaped."""
    fetched = await run.tool("fetch", name=hidden)
    run.annotate(hidden, {hidden: fetched})
    reply = await run.model([{"role": "user", "content": hidden}])
    return {"fetched": fetched, hidden: reply.message}


HELPER = AgentDef(
    id="helper", name="helper", description="Helps.", provider="openai", model="gpt-4o"
)
TEAM = [dispatch_subagent_tool(prompts=agent_prompts([HELPER])), dispatch_tool("lead", [HELPER])]


async def delegating(run: refold.Run, task: str) -> str:
    """Hand work on.

    Before the flag `tools_tell`, a model got the whole result of `dispatch_subagent`; a child that
    could not begin was an error, and one whose model the run had not got its caller's.
    """
    return (await agent(run, {"task": task})).summary


async def _waits(run: refold.Run, _arguments: Any) -> None:
    await run.sleep(60)


HAND_OVER = DelegationTool(name="hand_over", description="", parameters={}, handler=_waits)


def stopping(run: refold.PlainRun, _: Any) -> str:
    """Be stopped by a time limit; before the flag `stops_tools`, too late to clean up."""
    try:
        return str(run.tool(HAND_OVER))
    finally:
        run.annotate("stopped")
        run.tool("add", a=1, b=2)


async def listing(run: refold.Run, _: Any) -> list[str]:
    """Ask for many things in one list; before the flag `yields`, the world had no turn between."""
    outcomes = await delegate_all(run, [refold.Delegation(program="agent")] * 20)
    said = await agent(run, {"task": "add"})
    return [*(outcome.status for outcome in outcomes), said.summary]


async def cancelling(run: refold.Run, _: Any) -> list[str]:
    """Call in tasks that have cancelled themselves; before `exact_fast_path`, the call was made."""
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
    """Wait in every way; before the flag `due_order`, timers of a step counted each from its own.

    Of the log of that name, `forked` is a fork: its recorded sleeps fired at once.
    """
    loop, order = asyncio.get_running_loop(), list[str]()
    never = loop.call_later(900, order.append, "never")
    loop.call_later(0.02, order.append, "long")
    time.sleep(0.015)  # noqa: ASYNC251 - work: in the old log, the shorter one counts from behind it
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


_TASKS = ("done", "empty", "blank", "turns", "failed")


def _handed(end: str) -> list[tuple[str, dict[str, Any]]]:
    """Return a call of each of the five tools on a task that ends so."""
    task = " " if end == "blank" else f"Add numbers. end={end}"
    return [
        ("subagent", {"task": task, "max_iterations": 2}),
        ("subagent_dispatch", {"agent_id": "helper", "task": task}),
        ("dispatch_subagent", _PROMPT | {"instructions": task}),
        ("dispatch_subagents", {"tasks": [{"objective": task}]}),
        ("spawn", {"task": task}),
        ("spawn_await", {"job_ids": "*"}),
        ("spawn", {"task": task, "timeout": 5}),
    ]


async def handing(run: refold.Run, _: Any) -> list[Any]:
    """Call the five tools for each end; before the flag `tool_words`, each had words of its own.

    The run may start 20 children: the last calls are refused.
    """
    told: list[Any] = []
    for end in (*_TASKS, "done"):
        for name, arguments in _handed(end):
            try:
                found = await run.tool(name, **arguments)
            except refold.ToolError as error:
                found = [error.code, error.error_type, error.message]
            told.append([name, end, found])
    reply = await run.model([{"role": "user", "content": str(told)}], agent="lead")
    return [*told, reply.message["content"]]


async def budgeting(run: refold.Run, _: Any) -> list[str]:
    """Spend what there is in children; before the flag `spares_caller`, the run itself then ended.

    Its limit is 200 tokens, of which each of its own requests takes 10.
    """
    talk: list[Any] = [{"role": "user", "content": "end=done"}]
    await run.model(talk, agent="lead")
    spent = {"agent": {"name": "helper"}, "task": "Add numbers. end=tokens"}
    outcomes = [
        await run.delegate(refold.Delegation(program="agent", input=spent)) for _ in range(2)
    ]
    told = [f"{one.status}: {one.error.message if one.error else ''}" for one in outcomes]
    try:
        await run.model([*talk, {"role": "user", "content": str(told)}], agent="lead")
    except refold.LimitReached as error:
        told.append(str(error))
    return told


async def lacking(run: refold.Run, _: Any) -> list[Any]:
    """Start children that lack something; before the flag `checks_needs`, only a model was told."""

    async def mine(_run: refold.Run, _given: Any) -> str:
        return "no other process imports this"

    nowhere = subagent_tool(program=mine, runner="subprocess")
    profile = SpawnProfile(system_prompt_file="GONE.md", tools=("add",))
    spawn, wait = spawn_tools(SpawnSettings(enabled=True, profiles={"clerk": profile}))
    result = await run.tool(nowhere, task="Do it.")
    await run.tool(spawn, task="Add numbers.", profile="clerk")
    return [result["error"], await run.tool(wait, job_ids="*")]


class _Worker(threading.Thread):
    """The thread of a library that answers the loop from there."""

    __module__ = "aiosqlite.core"


async def prompting(run: refold.Run, _: Any) -> list[str]:
    """Read the terminal, and start a thread; before the flag `refuses_input`, both could be."""
    before, sys.stdin = sys.stdin, io.StringIO("yes\n")
    try:
        said = input()  # noqa: ASYNC250 - the fault itself
    except refold.RefoldError as error:
        said = type(error).__name__
    finally:
        sys.stdin = before
    try:
        _Worker().start()
    except refold.RefoldError as error:
        return [said, type(error).__name__]
    return [said, await run.tool("fetch", name="a")]


async def _asking(run: refold.Run, topic: str) -> str:
    reply = await run.model([{"role": "user", "content": topic}])
    return str(reply.message["content"])


async def naming(run: refold.Run, topic: str) -> Any:
    """Start an agent; before the flag `names_agent`, its requests did not name it."""
    clerk = refold.Delegation(program=_asking, input=topic, agent="clerk")
    return (await run.delegate(clerk)).output


@dataclasses.dataclass
class Parcel:
    """An annotated input and output."""

    name: str
    due: dt.date


async def _stamping(_run: refold.Run, parcel: Parcel) -> Parcel:
    return parcel


async def carrying(run: refold.Run, parcel: Parcel) -> list[str]:
    """Name what comes in and back; before the flag `reads_types`, both were plain JSON values."""
    outcome = await run.delegate(refold.Delegation(program=_stamping, input=parcel))
    return [type(parcel).__name__, type(outcome.output).__name__]


HANDED: list[Any] = []
"""The child that `meddling` started last, for another of its children."""


async def sitting(run: refold.Run, _: Any) -> None:
    """Wait until the parent cancels."""
    await run.sleep(600)


async def taking(run: refold.Run, _: Any) -> Any:
    """Join a child of the run above, which has ended."""
    return [outcome.status for outcome in await run.join(HANDED[-1])]


async def meddling(run: refold.Run, _: Any) -> list[str]:
    """Cancel a child, and let another join a third one's handle.

    Before `effect.cancelled` had `by`, the first said "from outside"; before the flag
    `own_children`, the join returned the outcome.
    """
    sat = await run.start(refold.Delegation(program=sitting))
    run.cancel(sat)
    read = await run.start(refold.Delegation(program=reader, input="short"))
    outcomes = await run.join(sat, read)
    HANDED.append(read)
    took = await run.delegate(refold.Delegation(program=taking))
    return [each.error.message if each.error else each.status for each in (*outcomes, took)]


PROGRAMS: dict[str, Any] = {
    "everything": everything,
    "plainly": plainly,
    "failing": failing,
    "aborting": aborting,
    "dropping": dropping,
    "polling": polling,
    "tagged": tagged,
    "delegating": delegating,
    "stopping": stopping,
    "listing": listing,
    "cancelling": cancelling,
    "timing": timing,
    "forked": timing,
    "handing": handing,
    "budgeting": budgeting,
    "lacking": lacking,
    "prompting": prompting,
    "naming": naming,
    "carrying": carrying,
    "meddling": meddling,
}
INPUTS: dict[str, Any] = {
    "everything": ["short", "long"],
    "plainly": 4,
    "failing": None,
    "aborting": 4,
    "dropping": None,
    "polling": None,
    "tagged": "a\U000e0041\U000e007fb",
    "delegating": "hand it on",
    "stopping": None,
    "listing": None,
    "cancelling": None,
    "timing": None,
    "forked": None,
    "handing": None,
    "budgeting": None,
    "lacking": None,
    "prompting": None,
    "naming": "tides",
    "carrying": {"name": "tea", "due": "2026-01-01"},
    "meddling": None,
}
MODEL = ScriptedModel(["They have read two texts.", "Nothing more."])
