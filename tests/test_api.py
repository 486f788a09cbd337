"""The face joins tools, engine and replay (CONTRACT.md §9.6, §12.6)."""

import asyncio
from pathlib import Path
from typing import Any

import attrs
import pytest

import refold
from refold.api import replayer
from refold.engine.errors import ProgramNotFound, ToolRefused
from refold.engine.models import ScriptedModel
from refold.replay import open_ends
from refold.tools.delegation.subagent import subagent_tool
from tests.support.resumable import step
from tests.support.resumable_session import noting, session


def double(number: int) -> int:
    """Double a number."""
    return 2 * number


def quadruple(run: refold.PlainRun, number: int) -> int:
    once: int = run.tool("double", number=number)
    twice: int = run.tool("double", number=once)
    return twice


async def delegating(run: refold.Run, task: str) -> Any:
    return await run.tool("subagent", task=task)


def test_a_plain_function_among_the_tools_becomes_one(tmp_path: Path) -> None:
    """§10.1: taken to change the world."""
    recording = refold.record(quadruple, 3, log=tmp_path / "a.jsonl", tools=[double])

    assert recording.output == 12
    assert refold.reexecute(recording.log, quadruple).identical


def test_a_recording_can_be_passed_as_the_log(tmp_path: Path) -> None:
    """It knows where it is."""
    recording = refold.record(quadruple, 1, log=tmp_path / "a.jsonl", tools=[double])

    assert refold.reexecute(recording, quadruple).identical


def test_recording_from_a_coroutine_gives_the_same(tmp_path: Path) -> None:
    """`record_async` takes what `record` takes."""
    log = tmp_path / "a.jsonl"

    recording = asyncio.run(refold.record_async(quadruple, 2, log=log, tools=[double]))

    assert (recording.output, recording.log) == (8, log)


def test_what_is_no_tool_is_refused_before_anything_is_recorded(tmp_path: Path) -> None:
    """Nothing is written."""
    with pytest.raises(ToolRefused):
        refold.record(quadruple, 3, log=tmp_path / "a.jsonl", tools=[3])  # type: ignore[list-item]  # that is the point

    assert list(tmp_path.iterdir()) == []


def test_a_program_has_to_be_named(tmp_path: Path) -> None:
    """§3.8: the log has its name and not where it is."""
    recording = refold.record(quadruple, 3, log=tmp_path / "a.jsonl", tools=[double])

    with pytest.raises(ProgramNotFound, match="quadruple"):
        refold.reexecute(recording.log)


def dug(folder: Path) -> refold.Recording:
    """Record a run that delegates."""
    model = ScriptedModel(["found it"])
    log = folder / "a.jsonl"
    return refold.record(delegating, "dig", log=log, tools=[subagent_tool()], model=model)


def test_shipped_delegation_tools_need_not_be_passed_again(tmp_path: Path) -> None:
    """§12.6: they are program code that every installation has."""
    recording = dug(tmp_path)

    report = refold.reexecute(recording.log, delegating)

    assert recording.ok, recording
    assert recording.output["summary"] == "found it"
    assert report.identical, report
    assert report.children == 1


async def quickest(run: refold.Run, numbers: list[int]) -> object:
    order: list[int] = []

    async def one(number: int) -> None:
        order.append(await run.tool("double", number=number))

    await asyncio.gather(*(one(number) for number in numbers))
    return order[0]


def test_other_orders_are_explored_from_a_recording(tmp_path: Path) -> None:
    """§12.8: plain functions are tools here, too."""
    recording = refold.record(quickest, [1, 2], log=tmp_path / "a.jsonl", tools=[double])

    report = refold.explore(recording, quickest, tools=[double], orders=10)

    assert report.orders == 2
    assert not report.identical


def test_what_a_recording_depends_on_is_told(tmp_path: Path) -> None:
    """§12.9: shipped delegation tools are known."""
    recording = dug(tmp_path)

    report = refold.sensitivity(recording.log, delegating)

    assert [(call.kind, call.verdict) for call in report.calls if call.kind == "child"] == [
        ("child", "shows")
    ]


def test_resume_knows_the_delegation_tools_that_are_shipped(tmp_path: Path) -> None:
    """§4.7: they need not be passed; plain functions become tools."""
    model = ScriptedModel(["a", "b"])
    whole = refold.record(
        delegating, "t", log=tmp_path / "a.jsonl", tools=[subagent_tool(), double], model=model
    )
    assert whole.ok, whole.error
    lines = whole.log.read_bytes().splitlines(keepends=True)
    broken = tmp_path / "b.jsonl"
    broken.write_bytes(b"".join(lines[:2]))

    again = refold.resume(broken, delegating, tools=[double], model=model)

    assert again.ok, again.error
    assert open_ends(tmp_path / "b.jsonl").unfinished == ()
    assert refold.verify(broken).complete


def test_what_another_process_is_told_makes_the_same_replay(tmp_path: Path) -> None:
    """Program, tools and session by reference: what `replay_all` sends to its workers."""
    recording = refold.record(
        noting, 2, log=tmp_path / "a.jsonl", tools=[step], session=session(), seed=1
    )
    here = noting.__module__
    programs = {"noting": {"source": here, "name": "noting"}}
    tools = [attrs.asdict(step.reference)] if step.reference is not None else []

    told: dict[str, Any] = {"programs": programs, "tools": tools, "volatile": []}
    row = replayer(**told, session={"source": here, "name": "session"})(recording.log)
    without = replayer(**told)(recording.log)

    assert (row.result, row.entries, row.program) == ("identical", recording.entries, "noting")
    assert without.result == "refused"
