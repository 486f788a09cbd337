"""A world that is a book: the program runs on what was recorded, and no further (§12.8)."""

import asyncio
import contextlib
import itertools
import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from refold.engine.events.events import ToolReturned
from refold.engine.events.limits import Limits
from refold.engine.ports.ports import Tool
from refold.engine.program.run import PlainRun, Run
from refold.engine.runners.recording import record
from refold.replay.what_if.rehearsal import RehearsalPlan
from refold.tools.contract.tool_types import DelegationTool, tool
from tests.support.loops import for_each
from tests.support.racing import followed, gathered, raced, recorded, stage_of
from tests.support.steps import Step, program_of
from tests.support.steps import recorded as recorded_steps
from tests.support.trees import Latency, random_tree, tools_with, tree_program

EVERYTHING: list[Step] = [
    ("uuid",),
    ("now",),
    ("both", [("tool", "search", {"q": "a"}), ("sleep", 0.001)], [("model", "hi"), ("now",)]),
    ("child", [("tool", "fetch", {"q": "b"})]),
    ("note", "n"),
    ("start", [("tool", "fetch", {"q": "c"})]),
    ("await",),
]


@for_each("seed", range(12))
def test_the_recorded_order_gives_the_record(seed: int, tmp_path: Path) -> None:
    """Whatever the program waits with; every request, every delivery and the end are the same."""
    tree = random_tree(seed, children=seed % 2 == 0)
    tools = tools_with(Latency(seed))
    log = record(
        tree_program, tree, log=tmp_path / "a.jsonl", tools=tools, seed=1, durability="fast"
    ).log
    stage = stage_of(log, tree_program)

    found = stage.baseline()

    assert found.delivered == stage.book.delivered
    assert found.end == stage.book.end


def test_all_that_a_program_can_ask_for_is_served(tmp_path: Path) -> None:
    log = recorded_steps(tmp_path / "a.jsonl", *EVERYTHING).log
    stage = stage_of(log, program_of(*EVERYTHING))

    found = stage.baseline()

    assert [one.item.kind for one in found.asked] == ["tool", "model", "child", "tool"]
    assert [each.number for each in found.children] == [1]
    assert set(found.tools) == {"0/1#1", "0/3#1"}


def test_a_plain_program_is_served_too(tmp_path: Path) -> None:
    def plain(run: PlainRun, names: list[str]) -> Any:
        run.sleep(0.001)
        return [run.tool("fetch", name=name) for name in names]

    stage = stage_of(recorded(tmp_path / "a.jsonl", plain).log, plain)

    assert stage.baseline().end["output"] == ["page a", "page b", "page c"]


def test_what_was_never_recorded_is_missing(tmp_path: Path) -> None:
    """The program waits for it and for nothing else; it is named, and so is the place."""
    stage = stage_of(recorded(tmp_path / "a.jsonl", followed).log, followed)
    first, *others = stage.baseline().delivered

    found = stage.rehearse(RehearsalPlan(order=(others[0], first)))

    assert (found.how, found.end) == ("missing", {})
    assert found.missing is not None
    assert found.missing.call == "0#1"
    assert found.missing.arguments["name"].startswith("page ")
    assert found.place is not None
    assert found.place[0].endswith("racing.py")


async def impatient(run: Run, names: list[str]) -> Any:
    """Follows whoever is first, for an hour at most."""
    try:
        async with asyncio.timeout(3600):
            return await followed(run, names)
    except TimeoutError:
        return "late"


def test_no_timeout_stands_in_for_what_was_never_recorded(tmp_path: Path) -> None:
    """Unless timers are free to race."""
    stage = stage_of(recorded(tmp_path / "a.jsonl", impatient).log, impatient)
    first, *others = stage.baseline().delivered
    order = (others[0], first)

    assert stage.rehearse(RehearsalPlan(order=order)).how == "missing"
    assert stage.rehearse(RehearsalPlan(order=order, free_timers=True)).end["output"] == "late"


async def pooled(run: Run, names: list[str]) -> Any:
    """Shares work among two workers: who takes what, the order decides."""
    waiting, pages = list(names), {}

    async def worker() -> None:
        while waiting:
            name = waiting.pop(0)
            pages[name] = await run.tool("fetch", name=name)

    await asyncio.gather(worker(), worker())
    return [pages[name] for name in names]


def test_a_worker_that_takes_anothers_task_is_served(tmp_path: Path) -> None:
    """The same request under another key has the outcome that was recorded for it."""
    stage = stage_of(recorded(tmp_path / "a.jsonl", pooled, list("abcd")).log, pooled)
    first, second, *_ = stage.baseline().delivered

    found = stage.rehearse(RehearsalPlan(order=(second, first)))

    assert found.end["output"] == ["page a", "page b", "page c", "page d"]


def test_an_outcome_can_be_another(tmp_path: Path) -> None:
    stage = stage_of(recorded(tmp_path / "a.jsonl", gathered).log, gathered)
    stage.baseline()

    found = stage.rehearse(RehearsalPlan(answers={"0/2#1": ToolReturned("ok", "else")}))

    assert found.end["output"] == ["page a", "else", "page c"]


async def drawing(run: Run, _: Any) -> Any:
    """Draws one of each."""
    return {
        "uuid": run.uuid(),
        "random": run.random("s").random(),
        "unnamed": run.random().random(),
        "file": run.read_text("no such file"),
    }


@for_each(
    "plan, changed",
    [
        (RehearsalPlan(), set()),
        (RehearsalPlan(seeds=frozenset({"0#1"})), {"uuid"}),
        (RehearsalPlan(seeds=frozenset({"0#2"})), {"random"}),
        (RehearsalPlan(seeds=frozenset({"0#3"})), {"unnamed"}),
        (RehearsalPlan(values={"0#4": "text"}), {"file"}),
    ],
)
def test_a_drawn_value_can_be_another(
    plan: RehearsalPlan, changed: set[str], tmp_path: Path
) -> None:
    """And that one alone."""
    stage = stage_of(recorded(tmp_path / "a.jsonl", drawing).log, drawing)
    before = stage.baseline().end["output"]

    after = stage.rehearse(plan).end["output"]

    assert {name for name in before if before[name] != after[name]} == changed


async def looking(run: Run, _: Any) -> Any:
    """Looks at the clock in each branch, after its call."""

    async def look(name: str) -> str:
        await run.tool("fetch", name=name)
        return run.now().isoformat()

    return await asyncio.gather(look("a"), look("b"))


def test_times_do_not_depend_on_the_order(tmp_path: Path) -> None:
    """Each scope sees what it saw: that clocks differ says nothing about the program."""
    stage = stage_of(recorded(tmp_path / "a.jsonl", looking).log, looking)
    baseline = stage.baseline()

    found = stage.rehearse(RehearsalPlan(order=tuple(reversed(baseline.delivered))))

    assert found.delivered != baseline.delivered
    assert found.end == baseline.end


def test_a_delegation_tool_is_program_code(tmp_path: Path) -> None:
    """It runs; what it asks for is served."""

    async def handler(run: Run, arguments: dict[str, Any]) -> Any:
        return await run.tool("fetch", name=arguments["name"])

    asks = DelegationTool(name="asks", description="", parameters={}, handler=handler)

    async def program(run: Run, _: Any) -> Any:
        return await asyncio.gather(run.tool(asks, name="a"), run.tool(asks, name="b"))

    log = recorded(tmp_path / "a.jsonl", program).log

    assert stage_of(log, program).baseline().end["output"] == ["page a", "page b"]


def test_a_program_that_asks_without_end_is_let_go(tmp_path: Path) -> None:
    """A number of steps bounds each rehearsal, even where the call never comes."""

    async def waits(run: Run, _: Any) -> Any:
        task = asyncio.ensure_future(run.tool("fetch", name="a"))
        if await run.tool("fetch", name="b") == "other":
            task.cancel()
            for _ in itertools.count():
                await asyncio.sleep(1)
        return await task

    stage = stage_of(recorded(tmp_path / "a.jsonl", waits).log, waits)
    stage.baseline()

    found = stage.rehearse(RehearsalPlan(answers={"0#1": ToolReturned("ok", "other")}))

    assert found.how == "endless"


def test_the_program_may_change_its_input(tmp_path: Path) -> None:
    """Each rehearsal gets a copy."""

    async def emptying(run: Run, names: list[str]) -> Any:
        return [await run.tool("fetch", name=names.pop()) for _ in range(len(names))]

    stage = stage_of(recorded(tmp_path / "a.jsonl", emptying).log, emptying)

    assert stage.baseline().end == stage.rehearse(RehearsalPlan()).end


def test_any_order_can_be_asked_for(tmp_path: Path) -> None:
    """Case 46: permuted schedules with recorded results; each is delivered as asked."""
    names = list("abcdef")
    stage = stage_of(recorded(tmp_path / "a.jsonl", raced, names).log, raced)
    keys = list(stage.baseline().delivered)
    rng = random.Random(1)

    for _ in range(20):
        rng.shuffle(keys)
        found = stage.rehearse(RehearsalPlan(order=tuple(keys)))

        assert found.delivered == tuple(keys)
        assert found.end["output"]["first"] == names[int(keys[0][2]) - 1]
        assert found.end["output"]["pages"] == [f"page {name}" for name in names]


@tool(effect="reads")
def typed(n: int) -> tuple[int, ...]:
    """Return a tuple, which JSON does not have."""
    return (n, n)


def test_typed_results_have_their_type(tmp_path: Path) -> None:
    async def program(run: Run, _: Any) -> Any:
        first = await run.tool(typed, n=1)
        return isinstance(first, tuple)

    stage = stage_of(recorded(tmp_path / "a.jsonl", program).log, program)

    assert stage.baseline().end["output"] is True


async def asking(run: Run, _: Any) -> Any:
    """Puts two questions to people at once."""
    return await asyncio.gather(run.ask("first?"), run.ask("second?"))


def test_answers_of_people_go_to_their_questions(tmp_path: Path) -> None:
    """Case 81: whichever comes first."""
    log = recorded(tmp_path / "a.jsonl", asking, ask=lambda asked: f"to {asked.question}").log
    stage = stage_of(log, asking)
    first, second = stage.baseline().delivered

    found = stage.rehearse(RehearsalPlan(order=(second, first)))

    assert found.delivered == (second, first)
    assert found.end["output"] == ["to first?", "to second?"]


def late_ones() -> list[Tool]:
    """Return `late`, which comes to an end when another is asked for, if ever."""
    after = {"a": "c", "c": "d", "d": "nothing", "e": "f"}
    asked = defaultdict[str, asyncio.Event](asyncio.Event)

    @tool(effect="reads")
    async def late(name: str) -> str:
        """Get something, or wait."""
        asked[name].set()
        await asked[after.get(name, name)].wait()
        return f"page {name}"

    return [late]


async def beside_a_limit(run: Run, _: Any) -> Any:
    """Gives up on a call by the clock, while another is under way."""

    async def limited() -> str:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.001):
                return str(await run.tool("late", name="d"))
        return str(await run.tool("late", name="f"))  # the other waits for this one alone

    return await asyncio.gather(run.tool("late", name="e"), limited())


async def never_done(run: Run, _: Any) -> Any:
    """Has had one of two answers when its time is over."""
    return await asyncio.gather(run.tool("late", name="b"), run.tool("late", name="d"))


@pytest.mark.parametrize(
    ("program", "limits"),
    [(beside_a_limit, Limits()), (never_done, Limits(timeout_seconds=0.2))],
    ids=["by a timer", "by the run's own timeout"],
)
def test_nothing_stands_in_for_what_time_gave_up_on(
    program: Any, limits: Limits, tmp_path: Path
) -> None:
    """Unless timers are free to race: how long it would have taken is not known."""
    log = recorded(tmp_path / "a.jsonl", program, tools=late_ones(), limits=limits).log
    stage = stage_of(log, program)
    baseline = stage.baseline()

    found = stage.rehearse(RehearsalPlan(order=("0/2#1",)))

    assert (found.how, found.end, found.delivered) == ("ended", baseline.end, baseline.delivered)


async def first_three(run: Run, _: Any) -> Any:
    """Shares four calls among two workers, and gives up on the last."""
    waiting, pages = ["c", "d"], asyncio.Queue[str]()

    async def worker(name: str) -> None:
        pages.put_nowait(await run.tool("late", name=name))
        pages.put_nowait(await run.tool("late", name=waiting.pop(0)))

    workers = [asyncio.ensure_future(worker(name)) for name in "ab"]
    found = sorted([await pages.get() for _ in range(3)])
    for each in workers:
        each.cancel()
    return found


def test_what_was_given_up_stands_in_for_whoever_asks_for_it(tmp_path: Path) -> None:
    """Under another order another worker may ask for it, under a key of its own."""
    log = recorded(tmp_path / "a.jsonl", first_three, tools=late_ones()).log
    stage = stage_of(log, first_three)
    assert stage.baseline().delivered == ("0/2#1", "0/1#1", "0/2#2")

    found = stage.rehearse(RehearsalPlan(order=("0/1#1", "0/2#1", "0/1#2")))

    assert (found.how, found.is_given_up) == ("missing", True)
    assert found.delivered == ("0/1#1", "0/2#1", "0/1#2")
    assert found.missing is not None
    assert (found.missing.call, found.missing.arguments) == ("0/2#2", {"name": "d"})
