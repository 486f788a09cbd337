"""Programs to be broken off anywhere: each does its work with tools that keep a ledger.

Every call of a tool has arguments of its own, so that a ledger says what was executed twice.
`PROGRAMS` lists them with what `record` and `resume` need beside the tools.
"""

import asyncio
import os
from pathlib import Path
from typing import Any

from refold import Delegation, Limits, PlainRun, Run, tool
from refold.engine.errors import ToolError
from refold.engine.models.scripted import ScriptedModel
from refold.engine.ports.ports import Reference
from refold.tools import DelegationTool

executed: list[tuple[str, Any]] = []
"""What the tools did, in this process."""


def _did(name: str, what: Any) -> None:
    executed.append((name, what))
    if ledger := os.environ.get("REFOLD_TEST_LEDGER"):
        with Path(ledger).open("a") as file:
            file.write(f"{name} {what}\n")


@tool(effect="idempotent")
def step(n: int) -> int:
    """Do one step."""
    _did("step", n)
    return n * 2


@tool(effect="pure")
def fails(n: int) -> int:
    """Fail."""
    _did("fails", n)
    raise ToolError("fails", f"no {n}", "refused")


@tool(effect="reads")
async def look(n: int) -> str:
    """Look at something, on the host's loop."""
    _did("look", n)
    await asyncio.sleep(0)
    return "x" * n


@tool(effect="reads")
async def hangs(n: int) -> str:
    """Never return."""
    _did("hangs", n)
    await asyncio.Event().wait()
    return ""


@tool(effect="changes")
def pay(n: int) -> int:
    """Pay."""
    _did("pay", n)
    return n


async def sequential(run: Run, n: int) -> Any:
    """One call after the other, and one failure."""
    done: list[int | str] = [await run.tool(step, n=each) for each in range(n)]
    try:
        await run.tool(fails, n=1)
    except ToolError as error:
        done.append(error.code)
    run.annotate("half", {"done": len(done)})
    return [*done, await run.tool(pay, n=7)]


def plain(run: PlainRun, n: int) -> Any:
    """The same without await."""
    done = [run.tool(step, n=each) for each in range(n)]
    run.sleep(0.001)
    return [*done, run.uuid(), run.now().isoformat(), run.tool(pay, n=7)]


async def gathered(run: Run, n: int) -> Any:
    """Branches of several calls each, at once."""

    async def branch(number: int) -> list[int]:
        first = await run.tool(step, n=10 * number)
        return [first, await run.tool(step, n=first + 1000), len(await run.tool(look, n=number))]

    return await asyncio.gather(*(branch(each) for each in range(1, n + 1)))


async def drawn(run: Run, n: int) -> Any:
    """What is drawn stays drawn."""
    first = [run.uuid(), run.random("dice").random(), run.now().isoformat()]
    await run.tool(step, n=n)
    return [*first, run.uuid(), run.random("dice").random(), run.random().random(),
            run.now().isoformat()]  # fmt: skip


async def timed(run: Run, n: int) -> Any:
    """Timers, a timeout that hits, and an effect that is cancelled by it."""
    await run.sleep(0.001)
    try:
        async with asyncio.timeout(0.002):
            await run.tool(hangs, n=n)
    except TimeoutError:
        pass
    slow = asyncio.create_task(run.sleep(60))
    await run.tool(step, n=n)
    slow.cancel()
    return await asyncio.gather(run.sleep(0.001), run.tool(step, n=n + 1))


async def leaf(run: Run, n: int) -> int:
    """A child's program."""
    one: int = await run.tool(step, n=100 + n)
    two: int = await run.tool(step, n=200 + n)
    return one + two


async def middle(run: Run, n: int) -> list[Any]:
    """A child with a child."""
    mine = await run.tool(step, n=300 + n)
    child = await run.delegate(Delegation(program=leaf, input=n))
    return [mine, child.output, await run.tool(step, n=400 + n)]


async def parents(run: Run, n: int) -> Any:
    """Children at once, and one with a child of its own, which another may not have."""
    children = [await run.start(Delegation(program=leaf, input=each)) for each in range(n)]
    outcomes = await run.join(*children)
    deep = await run.delegate(Delegation(program=middle, input=50))
    flat = await run.delegate(Delegation(program=middle, input=70, limits=Limits(max_depth=1)))
    return [*(each.output for each in outcomes), deep.output, flat.output]


async def _hand_over(run: Run, arguments: dict[str, Any]) -> Any:
    before = await run.tool(step, n=500 + arguments["n"])
    outcome = await run.delegate(Delegation(program=leaf, input=arguments["n"]))
    return {"before": before, "child": outcome.output}


hand_over = DelegationTool(
    name="hand_over",
    description="Hand a number over.",
    parameters={"type": "object", "properties": {"n": {"type": "integer"}}},
    handler=_hand_over,
    reference=Reference(__name__, "hand_over"),
)


async def delegating(run: Run, n: int) -> Any:
    """A delegation tool, twice at once."""
    return await asyncio.gather(
        run.tool("hand_over", n=n), run.tool("hand_over", n=n + 1), run.tool(step, n=1)
    )


async def asking_models(run: Run, n: int) -> Any:
    """A conversation."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "0"}]
    for each in range(n):
        reply = await run.model(messages)
        messages += [reply.message, {"role": "user", "content": str(each + 1)}]
        await run.tool(step, n=each)
    return [message["content"] for message in messages]


def talker() -> ScriptedModel:
    """A model with three replies."""
    return ScriptedModel(["one", "two", "three"])


async def changed(run: Run, n: int) -> Any:
    """A change marker before, between and after calls."""
    one = run.patched("one")
    first = await run.tool(step, n=n)
    return [one, first, run.patched("two"), await run.tool(step, n=n + 1), run.patched("one")]


async def asking(run: Run, n: int) -> Any:
    """Two questions at once beside work, and one alone."""

    async def works() -> int:
        one: int = await run.tool(step, n=n)
        two: int = await run.tool(step, n=n + 1)
        return one + two

    both = await asyncio.gather(run.ask("A?", {"type": "integer"}), run.ask("B?"), works())
    return [*both, await run.tool(step, n=1000 + both[0]), await run.ask("C?")]


def asking_plain(run: PlainRun, n: int) -> Any:
    """The same without await: one after the other."""
    return [run.ask("A?", {"type": "integer"}), run.tool(step, n=n), run.ask("B?")]


async def asker(run: Run, n: int) -> Any:
    """A child that asks."""
    before = await run.tool(step, n=600 + n)
    return [before, await run.ask(f"child {n}?"), await run.tool(step, n=700 + n)]


async def asker_above(run: Run, n: int) -> Any:
    """A child whose child asks."""
    return (await run.delegate(Delegation(program=asker, input=n))).output


async def asking_below(run: Run, n: int) -> Any:
    """Children that ask, one of them deeper, while another works."""
    children = [
        await run.start(Delegation(program=asker, input=n)),
        await run.start(Delegation(program=asker_above, input=n + 1)),
        await run.start(Delegation(program=leaf, input=n)),
    ]
    return [outcome.output for outcome in await run.join(*children)]


PROGRAMS: dict[str, tuple[Any, Any]] = {
    "sequential": (sequential, 4),
    "plain": (plain, 3),
    "gathered": (gathered, 3),
    "drawn": (drawn, 3),
    "timed": (timed, 3),
    "parents": (parents, 2),
    "delegating": (delegating, 1),
    "asking_models": (asking_models, 3),
    "changed": (changed, 3),
}
"""By name: program and input."""

TOOLS = (step, fails, look, hangs, pay, hand_over)
