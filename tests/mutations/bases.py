"""Programs that the mutation suite edits: one for each way of asking and of waiting.

Only the functions below are edited, each base by itself: `BASES` says which functions belong to it.
Tools end at once, and in the order in which they were started, so that a program recorded twice
gives the same lines; timers stand where nothing competes with them.
"""

import asyncio
from typing import Any, Final

import attrs

from refold import Delegation, PlainRun, Run, ToolError, tool
from tests.support.steps import fetch, search


@tool(effect="pure")
async def count(q: str) -> int:
    """Return the number of characters."""
    return len(q)


@tool(effect="pure")
async def flaky(n: int) -> int:
    """Fail until asked with a 2 or more."""
    if n < 2:
        raise LookupError(f"not yet: {n}")
    return n


@tool(effect="reads")
async def lasting(q: str, ms: int) -> str:
    """Find something, after as many milliseconds of simulated time."""
    return f"{q} in {ms} ms"


@tool(effect="reads")
async def breaks(q: str) -> str:
    """Fail."""
    raise LookupError(q)


LEAVES: Final = (search, fetch, count, flaky, lasting, breaks)


@attrs.frozen
class Note:
    """What programs with a session keep there."""

    text: str


# --- sequential ------------------------------------------------------------------------------


async def sequential(run: Run, given: str) -> Any:
    first = await run.tool("search", q="alpha")
    run.annotate("between")
    second = await run.tool("fetch", q=given)
    if len(second) > 3:
        await run.tool("search", q="long")
    else:
        await run.tool("search", q="short")
    await run.tool("fetch", q=f"{first} and more")
    total = 0
    for number in range(3):
        total = total + await run.tool("count", q="x" * number)
    return {"first": first, "second": second, "total": total}


# --- gathering -------------------------------------------------------------------------------


async def gathering(run: Run, given: str) -> Any:
    names = await asyncio.gather(
        look_up(run, "one"), look_up(run, given), run.tool("fetch", q="three")
    )
    await run.tool("search", q=" ".join(names))
    sizes = await asyncio.gather(run.tool("count", q="aa"), run.tool("count", q="bbb"))
    return [names, sizes]


async def look_up(run: Run, name: str) -> str:
    found = await run.tool("search", q=name)
    await run.tool("fetch", q=f"of {name}")
    return str(found).upper()


# --- grouped ---------------------------------------------------------------------------------


async def grouped(run: Run, given: list[str]) -> Any:
    results = {}

    async def work(name: str) -> None:
        results[name] = await run.tool("search", q=name)
        run.annotate(f"did {name}")

    async with asyncio.TaskGroup() as group:
        for name in given:
            group.create_task(work(name))
        await run.tool("fetch", q="meanwhile")
    await run.tool("fetch", q="after")
    return results


# --- racing ----------------------------------------------------------------------------------


async def racing(run: Run, given: list[str]) -> Any:
    order = []
    tasks = [asyncio.create_task(run.tool("search", q=name)) for name in given]
    for next_one in asyncio.as_completed(tasks):
        order.append(await next_one)  # noqa: PERF401 - to be edited, statement by statement
    winner = order[0]
    await run.tool("fetch", q=winner)
    done, rest = await asyncio.wait(
        [asyncio.create_task(slow(run)), asyncio.create_task(quick(run))],
        return_when=asyncio.FIRST_COMPLETED,
    )
    for task in rest:
        task.cancel()
    return [order, len(done)]


async def quick(run: Run) -> str:
    return str(await run.tool("count", q="quick"))


async def slow(run: Run) -> str:
    await run.tool("search", q="slow one")
    await run.tool("search", q="slow two")
    await run.tool("search", q="slow three")
    return "slow"


# --- timed -----------------------------------------------------------------------------------


async def timed(run: Run, given: str) -> Any:
    await run.tool("search", q="before")
    await asyncio.sleep(0.001)
    when = run.now().year
    try:
        async with asyncio.timeout(0.002):
            await asyncio.Event().wait()
    except TimeoutError:
        await run.tool("fetch", q="timed out")
    async with asyncio.timeout(60):
        await run.tool("search", q=given)
    await asyncio.wait_for(run.tool("fetch", q="in time"), 60)
    token = run.uuid()
    await run.tool("search", q=token)
    return [when > 2000, run.random("dice").randint(1, 6)]


# --- parent ----------------------------------------------------------------------------------


async def parent(run: Run, given: list[int]) -> Any:
    handles = [await run.start(Delegation(program=child, input=n, brief="count")) for n in given]
    await run.tool("search", q="while they work")
    outcomes = await run.join(*handles)
    last = await run.delegate(Delegation(program=child, input=9, brief="the last"))
    return [outcome.output for outcome in outcomes] + [last.status]


async def child(run: Run, number: Any) -> Any:
    await run.tool("fetch", q="in the child")
    size = await run.tool("count", q="y" * number)
    run.annotate("nearly")
    return size + 1


async def generated(_: Run, number: Any) -> Any:
    """Run as a child where an edit says so; random programs have one of this name, too."""
    return number


# --- delegating ------------------------------------------------------------------------------


async def delegating(run: Run, given: str) -> Any:
    one = await run.tool("helper", task=given)
    two = await run.tool("helper", task="again")
    await run.tool("search", q="done")
    return [one, two]


async def helper(run: Run, arguments: dict[str, Any]) -> Any:
    found = await run.tool("search", q=arguments["task"])
    await run.tool("fetch", q="inside")
    return {"found": found}


# --- asking ----------------------------------------------------------------------------------


async def asking(run: Run, given: str) -> Any:
    messages = [
        {"role": "system", "content": "You are terse."},
        {"role": "user", "content": given},
    ]
    reply = await run.model(messages, temperature=0)
    messages = [*messages, reply.message, {"role": "user", "content": "And then?"}]
    second = await run.model(messages, temperature=0, max_tokens=100)
    await run.tool("search", q=second.message["content"])
    return [reply.message["content"], second.stop_reason]


# --- plainly ---------------------------------------------------------------------------------


def plainly(run: PlainRun, given: list[str]) -> Any:
    found = []
    for name in given:
        found.append(run.tool("search", q=name))  # noqa: PERF401 - the same
    run.annotate("half way", {"found": len(found)})
    if len(found) == 2:
        run.tool("fetch", q="two")
    run.tool("count", q="last")
    return found


# --- retrying --------------------------------------------------------------------------------


async def retrying(run: Run, given: int) -> Any:
    tries = 0
    while tries < given:
        try:
            await run.tool("flaky", n=tries)
            break
        except ToolError as error:
            run.annotate(error.code)
            tries += 1
    try:
        raise_for(tries)
    except ValueError:
        await run.tool("search", q="recovered")
    finally:
        await run.tool("fetch", q="always")
    return tries


def raise_for(number: int) -> None:
    if number == 2:
        raise ValueError("two")


@attrs.frozen
class Base:
    """One program: its functions, the first of them the program, and what it is given."""

    functions: tuple[str, ...]
    given: Any
    children: tuple[str, ...] = ()
    """Functions that are programs of their own, with a log of their own."""
    own_tool: str = ""
    """The function that a delegation tool of that name runs."""

    source: str = ""
    """Its functions as text, and its run in simulated time; empty for one that stands here."""

    is_cut_off: bool = False
    """Whether it gives up on tasks: what these would have asked next is never seen, and a
    difference there has no one name."""

    @property
    def name(self) -> str:
        """The program's name."""
        return self.functions[0]


BASES: Final = (
    Base(("sequential",), "beta"),
    Base(("gathering", "look_up"), "two"),
    Base(("grouped",), ["p", "q", "r"]),
    Base(("racing", "quick", "slow"), ["u", "v", "w"], is_cut_off=True),
    Base(("timed",), "gamma"),
    Base(("parent", "child", "generated"), [1, 2], children=("child",)),
    Base(("delegating", "helper"), "first task", own_tool="helper"),
    Base(("asking",), "What is it?"),
    Base(("plainly",), ["k", "l"]),
    Base(("retrying", "raise_for"), 5),
)
