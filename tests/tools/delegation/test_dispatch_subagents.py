"""How `dispatch_subagents` is set up, made again elsewhere, and replayed as it was."""

from pathlib import Path
from typing import Any

import pytest

import refold
from refold.engine.events.limits import Limits
from refold.engine.events.outcome import Outcome
from refold.engine.log.reader import read_entries
from refold.engine.models.scripted import ScriptedModel
from refold.engine.ports.ports import Policy, Reference
from refold.engine.ports.programs import load
from refold.engine.program.run import PlainRun, Run
from refold.engine.runners.recording import record
from refold.engine.session import Session
from refold.tools.agents.prompts import context_of
from refold.tools.delegation.dispatch_subagents import (
    DispatchSubagentsParams,
    SubagentIsolationLevel,
    SubagentTask,
    build_dispatch_subagents_tool,
    dispatch_subagents,
    subagents_tool,
)
from tests.support.loops import some
from tests.support.scripted_runners import Scripted

FORKS = Path(__file__).parents[3] / "fixtures" / "children" / "forks.py"
FULL, NONE = SubagentIsolationLevel.FULL_ISOLATION, SubagentIsolationLevel.NO_ISOLATION
TASKS = {"tasks": [{"objective": "a", "steps": ["s"]}, {"objective": "b"}]}


class Counting(Session):
    """A session that counts how often it is cloned."""

    clones = 0

    def clone(self, *given: Any) -> Any:
        self.clones += 1
        return super().clone(*given)


@pytest.mark.parametrize("plainly", [False, True])
def test_a_list_longer_than_what_is_left_is_refused_one_by_one(
    tmp_path: Path,
    plainly: bool,  # noqa: FBT001 - a table
) -> None:
    """No session is cloned for whom no child can be; the world has its turn in between."""
    params = DispatchSubagentsParams([SubagentTask(str(number)) for number in range(40)])

    def plain(run: PlainRun, _input: Any) -> list[bool]:
        result = dispatch_subagents.handler(params, context=context_of(run))
        return [one.success for one in result.value]

    async def program(run: Run, _input: Any) -> list[bool]:
        result = await dispatch_subagents.handler(params, context=context_of(run))
        return [one.success for one in result.value]

    session, limits = Counting(), Limits(max_children=2)
    log, chosen = tmp_path / "run.jsonl", plain if plainly else program
    recording = record(chosen, log=log, model=ScriptedModel(["ok"]), session=session, limits=limits)

    assert recording.output == [True] * 2 + [False] * 38
    assert session.clones == 2
    assert [entry.kind for entry in read_entries(log)].count("timer.fired") == 2
    assert refold.reexecute(log, chosen, session=Counting()).identical


@pytest.mark.long
def test_children_in_other_processes_have_their_plans_and_the_callers_items(
    tmp_path: Path,
) -> None:
    factory = Reference(str(FORKS), "session")
    session: Any = load(factory)()
    session.factory = factory
    session.dispatch(load(Reference(str(FORKS), "Finding"))("before"))
    tool = subagents_tool(program=f"{FORKS}:finds", runner="subprocess")

    async def program(run: Run, _input: Any) -> Any:
        return await run.tool(tool, **TASKS)

    log = tmp_path / "run.jsonl"
    recording = record(program, log=log, session=session)

    assert recording.status == "completed", recording.error
    outputs = [one["output"] for one in recording.output["value"]]
    artifact = "[artifact 1 of 1: path]\nmine.md"
    assert outputs == [
        f"a after ['before']\n[0 of 1 steps of its plan are done]\n{artifact}",
        f"b after ['before']\n{artifact}",
    ]
    finished = [entry.data for entry in read_entries(log) if entry.kind == "child.finished"]
    names = [[item["name"] for item in one["outcome"]["artifacts"]] for one in finished]
    assert names == [["", "plan"]] * 2


@pytest.mark.parametrize("runner", some(1, ["in-process", "subprocess"]))
def test_no_cap_on_artifacts_applies_to_a_plan(tmp_path: Path, runner: str) -> None:
    """It is Refold's own: the answer of a child is not lost for it."""
    policy = Policy(max_artifacts=0, artifact_bytes=0, artifact_kinds=())
    tool = subagents_tool(policy=policy, runner=runner)

    async def program(run: Run, _input: Any) -> Any:
        return await run.tool(tool, **TASKS)

    log = tmp_path / "run.jsonl"
    recording = record(program, log=log, model=ScriptedModel(["found"]))

    assert [one["success"] for one in recording.output["value"]] == [True, True]
    assert refold.reexecute(log, program).identical
    outcomes = [entry.data["outcome"] for entry in read_entries(log) if "outcome" in entry.data]
    assert [[each["name"] for each in one["artifacts"]] for one in outcomes] == [["plan"]] * 2


def test_what_a_child_is_to_do_stands_once_in_its_request(tmp_path: Path) -> None:
    model = ScriptedModel(["found"])

    async def program(run: Run, _input: Any) -> Any:
        for level in (FULL, NONE):
            tasks = [{"objective": "find the tides"}]
            await run.tool(subagents_tool(isolation_level=level), tasks=tasks)

    record(program, log=tmp_path / "run.jsonl", model=model, session=Session())

    for child in ("run.1.jsonl", "run.2.jsonl"):
        entries = read_entries(tmp_path / child)
        (asked,) = [entry.data["added"] for entry in entries if entry.kind == "model.asked"]
        assert str(asked).count("find the tides") == 1


def test_another_process_cannot_share_a_session(tmp_path: Path) -> None:
    tool = subagents_tool(program=f"{FORKS}:finds", runner="subprocess", isolation_level=NONE)

    async def program(run: Run, _input: Any) -> Any:
        return await run.tool(tool, **TASKS)

    recording = record(program, log=tmp_path / "run.jsonl", session=Session())

    results = recording.output["value"]
    assert [one["success"] for one in results] == [False, False]
    assert "cannot share its parent's session" in results[0]["error"]


def test_a_child_may_dispatch_again_from_a_shared_session(tmp_path: Path) -> None:
    """A fork of what is shared is a session of the grandchild's own."""
    inner = build_dispatch_subagents_tool()

    async def child(run: Run, given: Any) -> Any:
        if given["task"] == "b":
            return "leaf"
        result = await inner.handler(
            DispatchSubagentsParams([SubagentTask("b")]), context=context_of(run)
        )
        return result.value[0].output

    outer = subagents_tool(program=child, isolation_level=NONE)

    async def program(run: Run, _input: Any) -> Any:
        return await run.tool(outer, tasks=[{"objective": "a"}])

    log = tmp_path / "run.jsonl"
    recording = record(program, log=log, session=Session(), model=ScriptedModel(["deep"]))

    assert recording.output["value"][0]["output"] == "deep"
    report = refold.reexecute(log, program, session=Session())
    assert report.identical, str(report)


def test_without_a_session_children_may_run_anywhere(tmp_path: Path) -> None:
    """There is nothing to share, whatever the tool would have shared."""
    runner = Scripted(Outcome(status="completed", summary="ok", output="ok"))
    tool = subagents_tool(runner="scripted", isolation_level=NONE)

    async def program(run: Run, _input: Any) -> Any:
        return await run.tool(tool, **TASKS)

    recording = record(program, log=tmp_path / "run.jsonl", runners={"scripted": runner})

    assert [one["success"] for one in recording.output["value"]] == [True, True]
