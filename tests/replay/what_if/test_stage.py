"""Before anything is told of a run, it is rehearsed as recorded, twice, within a limit (§12.8)."""

import asyncio
import itertools
import threading
from pathlib import Path
from typing import Any

import pytest

from refold.engine.errors import Diverged, SessionNeeded, ToolNeeded, UsageError
from refold.engine.program.run import Run
from refold.engine.runners.recording import record as refold_record
from refold.replay.what_if.rehearsal import RehearsalPlan, Stage
from refold.tools.contract.tool_types import DelegationTool, tool
from tests.support.child_programs import Seen
from tests.support.child_programs import seeing as session
from tests.support.racing import fetch, gathered, raced, recorded, stage_of


def test_a_program_that_is_not_as_recorded_is_refused(tmp_path: Path) -> None:
    """With the divergence that a re-execution finds."""
    log = recorded(tmp_path / "a.jsonl", gathered).log

    with pytest.raises(Diverged) as caught:
        stage_of(log, raced).baseline()

    assert caught.value.divergence.category == "output_changed"


async def thorough(run: Run, names: list[str]) -> str:
    await asyncio.gather(*(run.tool("fetch", name=name) for name in names))
    return "done"


async def hasty(run: Run, names: list[str]) -> str:
    """Ask for the same, and wait for the first alone."""
    asked = [asyncio.ensure_future(run.tool("fetch", name=name)) for name in names]
    await asked[0]
    return "done"


async def curious(run: Run, names: list[str]) -> str:
    """Ask for more, and do not wait for it."""
    asked = asyncio.ensure_future(run.tool("fetch", name="more"))
    await asyncio.gather(*(run.tool("fetch", name=name) for name in names))
    asked.cancel()
    return "done"


@pytest.mark.parametrize("other", [hasty, curious])
def test_so_is_one_that_comes_to_the_same_end_in_another_way(tmp_path: Path, other: Any) -> None:
    log = recorded(tmp_path / "a.jsonl", thorough).log
    assert stage_of(log, thorough).baseline().how == "ended"

    with pytest.raises(Diverged):
        stage_of(log, other).baseline()


def test_a_program_that_remembers_is_refused(tmp_path: Path) -> None:
    """What it keeps between runs in one process would look like an effect of the order."""
    seen: list[str] = []

    async def counting(run: Run, names: list[str]) -> Any:
        page = await run.tool("fetch", name=names[0])
        seen.append(page)
        return [page, len(seen) > 2]

    log = recorded(tmp_path / "a.jsonl", counting).log

    with pytest.raises(UsageError, match="again in the same process"):
        stage_of(log, counting).baseline()


def test_a_delegation_tool_has_to_be_passed(tmp_path: Path) -> None:
    async def handler(run: Run, arguments: dict[str, Any]) -> Any:
        return await run.tool("fetch", name=arguments["name"])

    asks = DelegationTool(name="asks", description="", parameters={}, handler=handler)

    async def program(run: Run, _: Any) -> Any:
        return await run.tool("asks", name="a")

    log = recorded(tmp_path / "a.jsonl", program, tools=[asks, fetch]).log

    with pytest.raises(ToolNeeded):
        stage_of(log, program).baseline()
    assert Stage(log, program, tools=[asks]).baseline().how == "ended"


def test_a_program_that_remembers_longer_is_found_out_later(tmp_path: Path) -> None:
    """Whoever rehearses many times looks once more at the end."""
    seen: list[str] = []

    async def counting(run: Run, names: list[str]) -> Any:
        seen.append(await run.tool("fetch", name=names[0]))
        return len(seen) > 3

    stage = stage_of(recorded(tmp_path / "a.jsonl", counting).log, counting)
    baseline = stage.baseline()

    with pytest.raises(UsageError, match="a global"):
        stage.check_again(baseline)


async def remembering(run: Run, names: list[str]) -> Any:
    run.session.dispatch(Seen(await run.tool("fetch", name=names[0])))
    return len(run.session.select_all(Seen))


def test_a_session_has_to_be_passed_and_starts_afresh(tmp_path: Path) -> None:
    """The same object serves every rehearsal: each begins with the recorded snapshot."""
    log = recorded(tmp_path / "a.jsonl", remembering, session=session()).log

    with pytest.raises(SessionNeeded, match="had a session"):
        stage_of(log, remembering)
    stage = Stage(log, remembering, session=session())
    assert stage.baseline().end["output"] == 1
    assert stage.rehearse(RehearsalPlan()).end["output"] == 1


@pytest.mark.long
def test_a_program_that_is_slow_as_recorded_may_be_slow(tmp_path: Path) -> None:
    """On a busy machine, or with much to do, all is: that is no other end."""
    takes = {"seconds": 0.0}

    async def slow(run: Run, names: list[str]) -> Any:
        page = await run.tool("fetch", name=names[0])
        threading.Event().wait(takes["seconds"])
        return page

    log = recorded(tmp_path / "a.jsonl", slow).log
    stage = Stage(log, slow, wall_seconds=1.0)
    takes["seconds"] = 0.3
    stage.baseline()
    takes["seconds"] = 1.3

    assert stage.rehearse(RehearsalPlan()).how == "ended"


@pytest.mark.long
def test_a_program_that_stands_still_is_left_behind(tmp_path: Path) -> None:
    """Inside one step nothing but the wall limit can notice."""
    stands, goes_on = threading.Event(), threading.Event()

    async def standing(run: Run, names: list[str]) -> Any:
        page = await run.tool("fetch", name=names[0])
        if stands.is_set():
            goes_on.wait(60)
        return page

    log = recorded(tmp_path / "a.jsonl", standing).log
    stage = Stage(log, standing, wall_seconds=0.5)
    stage.baseline()
    stands.set()

    assert stage.rehearse(RehearsalPlan()).how == "hung"
    with pytest.raises(UsageError, match="does not end within"):
        stage.baseline()
    goes_on.set()


async def stamped(run: Run, names: list[str]) -> Any:
    """Sends along, and returns, what it counts by itself."""
    number = next(COUNTED)
    pages = [await run.tool("fetch_at", name=name, at=number) for name in names]
    return {"pages": pages, "at": number}


COUNTED = itertools.count()


@tool(effect="reads")
def fetch_at(name: str, at: int) -> str:
    """Get something, and be told when."""
    return f"page {name}" if at >= 0 else ""


def test_what_rules_declare_volatile_is_no_difference(tmp_path: Path) -> None:
    """§12.7: in requests and at the end; without the rules it is one."""
    given: dict[str, Any] = {"tools": [fetch_at], "durability": "fast"}
    rules = ["tool:fetch_at/arguments/at", "run/output/at"]
    bare = refold_record(stamped, ["a"], log=tmp_path / "a.jsonl", **given).log
    ruled = refold_record(stamped, ["a"], log=tmp_path / "b.jsonl", volatile=rules, **given).log

    with pytest.raises(Diverged):
        stage_of(bare, stamped).baseline()
    assert stage_of(ruled, stamped).baseline().end["output"] == {"pages": ["page a"], "at": None}


@tool(effect="reads")
def whispers(name: str) -> str:
    """Return something with a secret in it."""
    return f"{name}: hush-hush-hush"


async def passed_on(run: Run, names: list[str]) -> Any:
    """Asks with a secret that the log does not hold."""
    return await run.tool("whispers", name=f"by hush-hush-hush {names[0]}")


def test_what_was_taken_out_of_a_log_is_no_difference(tmp_path: Path) -> None:
    given: dict[str, Any] = {"tools": [whispers], "secrets": {"KEY": "hush-hush-hush"}}
    log = refold_record(passed_on, ["a"], log=tmp_path / "a.jsonl", **given).log

    assert stage_of(log, passed_on).baseline().how == "ended"
