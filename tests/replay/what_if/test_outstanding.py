"""What could be delivered next, and what comes first (CONTRACT.md §12.8)."""

import asyncio
from pathlib import Path
from typing import Any

from refold.engine.events.limits import Limits
from refold.engine.ports.ports import Delegation, Tool
from refold.engine.program.run import Run
from refold.replay.what_if.rehearsal import RehearsalPlan, Stage
from refold.tools.contract.tool_types import tool
from tests.support.child_programs import Seen
from tests.support.child_programs import seeing as session
from tests.support.racing import fetch, gathered, recorded, stage_of, timed


def test_of_what_is_outstanding_the_first_of_the_order_comes_first(tmp_path: Path) -> None:
    """What the order does not list comes after it, as recorded."""
    log = recorded(tmp_path / "a.jsonl", gathered).log
    stage = stage_of(log, gathered)
    first, second, third = stage.baseline().delivered

    found = stage.rehearse(RehearsalPlan(order=(third, first)))

    assert found.delivered == (third, first, second)
    assert found.choices == ((third, first, second), (first, second), (second,))


def paced() -> list[Tool]:
    """Return `fetch`, and `slow`, which comes to an end after `ring` is asked for."""
    rung = asyncio.Event()

    @tool(effect="reads")
    async def slow() -> None:
        """Wait for the bell."""
        await rung.wait()

    @tool(effect="reads")
    async def ring() -> None:
        """Ring the bell."""
        rung.set()

    return [fetch, slow, ring]


async def napping(run: Run, _: Any) -> Any:
    """Sleeps beside a call, and beside one that comes after."""

    async def nap() -> None:
        await asyncio.sleep(0.05)
        await run.tool("ring")

    return await asyncio.gather(run.tool("slow"), nap(), run.tool("fetch", name="b"))


def test_a_recorded_timer_waits_for_what_was_recorded_before_it(tmp_path: Path) -> None:
    """Unless timers are free; what came after it may come before it."""
    stage = stage_of(recorded(tmp_path / "a.jsonl", napping, tools=paced()).log, napping)
    recorded_order = stage.baseline().delivered
    timer = next(key for key in recorded_order if "@" in key)
    before = recorded_order[: recorded_order.index(timer)]

    bound = stage.rehearse(RehearsalPlan(order=(timer,))).delivered
    free = stage.rehearse(RehearsalPlan(order=(timer,), free_timers=True)).delivered

    assert set(bound[: bound.index(timer)]) == set(before)
    assert free[0] == timer


def test_a_timeout_that_never_fired_fires_only_where_timers_are_free(tmp_path: Path) -> None:
    stage = stage_of(recorded(tmp_path / "a.jsonl", timed).log, timed)
    stage.baseline()

    assert stage.rehearse(RehearsalPlan(order=("0@1",))).end["output"] == "page a"
    late = stage.rehearse(RehearsalPlan(order=("0@1",), free_timers=True))
    assert (late.end["output"], late.delivered) == ("late", ("0@1",))


async def two_timeouts(run: Run, _: Any) -> Any:
    """One waits for a second, the other for an hour."""

    async def within(seconds: float) -> str:
        try:
            async with asyncio.timeout(seconds):
                await run.tool("fetch", name=str(seconds))
        except TimeoutError:
            return "late"
        return "in time"

    return await asyncio.gather(within(3600), within(60))


def test_free_timers_fire_as_they_are_due(tmp_path: Path) -> None:
    """An hour is never over before a minute that began with it."""
    stage = stage_of(recorded(tmp_path / "a.jsonl", two_timeouts).log, two_timeouts)
    stage.baseline()

    found = stage.rehearse(RehearsalPlan(order=("0/1@1", "0/2@1"), free_timers=True))

    assert found.delivered == ("0/2@1", "0/1@1")
    assert found.end["output"] == ["late", "late"]


async def nap_after_a_call(run: Run, _: Any) -> Any:
    """Sleeps for an instant, after what came when a longer sleep was over."""

    async def later() -> None:
        await run.tool("slow")
        await asyncio.sleep(0.001)

    async def longer() -> None:
        await asyncio.sleep(0.003)
        await run.tool("ring")

    await asyncio.gather(later(), longer())


def test_recorded_timers_keep_their_order_beside_one_that_is_due_sooner(tmp_path: Path) -> None:
    """Either may be next where timers are free: by the record the one, by the clock the other."""
    stage = stage_of(
        recorded(tmp_path / "a.jsonl", nap_after_a_call, tools=paced()).log, nap_after_a_call
    )
    stage.baseline()

    found = stage.rehearse(RehearsalPlan(order=("0/1#1",), free_timers=True))

    assert found.delivered == ("0/1#1", "0/2@1", "0/2#1", "0/1@1")
    assert found.choices[1] == ("0/2@1", "0/1@1")


async def two_naps_and_one(_run: Run, _: Any) -> Any:
    """The second of the two begins when the first is over, and ends after the one."""

    async def naps(*seconds: float) -> None:
        for each in seconds:
            await asyncio.sleep(each)

    await asyncio.gather(naps(0.002, 0.002), naps(0.003))


def test_a_timer_is_due_from_the_time_at_which_it_began(tmp_path: Path) -> None:
    """And not from the beginning of the run."""
    stage = stage_of(recorded(tmp_path / "a.jsonl", two_naps_and_one).log, two_naps_and_one)
    in_order = stage.baseline().delivered == ("0/1@1", "0/2@1", "0/1@2")

    found = stage.rehearse(RehearsalPlan(order=("0/1@1", "0/1@2"), free_timers=True))

    assert found.delivered == ("0/1@1", "0/2@1", "0/1@2") or not in_order


async def endless(run: Run, _: Any) -> Any:
    """Sleeps for longer than it may run."""
    await run.tool("fetch", name="a")
    await asyncio.sleep(3600)
    return "slept"


def test_the_end_of_a_run_from_outside_keeps_its_place(tmp_path: Path) -> None:
    """No timer that never fired comes before the run's own timeout, free or not."""
    limits = Limits(timeout_seconds=0.2)
    stage = stage_of(recorded(tmp_path / "a.jsonl", endless, limits=limits).log, endless)

    assert stage.baseline().end["status"] == "timed_out"
    assert (
        stage.rehearse(RehearsalPlan(free_timers=True, order=("0@1",))).end["status"] == "timed_out"
    )


async def joined(run: Run, _: Any) -> Any:
    """Joins its children in the order of starts."""
    started = [
        await run.start(Delegation(program=gathered, input=[name], brief=name)) for name in "ab"
    ]
    return [outcome.output for outcome in await run.join(*started)]


def test_children_come_as_their_join_takes_them(tmp_path: Path) -> None:
    """One join delivers in the order asked, whatever order is asked for here."""
    stage = stage_of(recorded(tmp_path / "a.jsonl", joined).log, joined)
    first, second = stage.baseline().delivered

    assert stage.rehearse(RehearsalPlan(order=(second, first))).delivered == (first, second)


def seeing(run: Any, name: str) -> None:
    """Acts on its parent's session."""
    run.session.dispatch(Seen(name))


async def shared(run: Run, _: Any) -> Any:
    """Lets a child change its session while it does something else."""
    child = await run.start(Delegation(program=seeing, input="x", session=run.session, shared=True))
    await asyncio.gather(run.join(child), run.tool("fetch", name="a"))
    return [each.text for each in run.session.select_all(Seen)]


def test_a_child_ends_after_what_it_did_to_a_shared_session(tmp_path: Path) -> None:
    """Its changes keep their place; its outcome cannot overtake them."""
    log = recorded(tmp_path / "a.jsonl", shared, session=session()).log
    stage = Stage(log, shared, session=session())
    baseline = stage.baseline()

    found = stage.rehearse(RehearsalPlan(order=("0#1", "0/2#1")))

    changed = next(key for key in found.delivered if key.startswith("session"))
    assert found.delivered.index(changed) < found.delivered.index("0#1")
    assert found.end["output"] == baseline.end["output"] == ["x"]
