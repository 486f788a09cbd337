"""Plans are a slice that three events change; the tools work on the session of the run."""

from pathlib import Path
from typing import Any

import jsonschema
import pytest

from refold.engine.errors import ToolError, UsageError
from refold.engine.log.reader import read_entries
from refold.engine.ports.ports import Reference
from refold.engine.ports.programs import load
from refold.engine.program.run import Run
from refold.engine.runners.recording import record
from refold.engine.session import Session
from refold.replay.reexecute.reexecute import reexecute
from refold.tools.agents.plans import (
    Plan,
    PlanningToolsSection,
    PlanSetUp,
    PlanStep,
    StepsAdded,
    StepUpdated,
    planned_session,
    planning_tool,
    planning_tools,
    register_plans,
)
from refold.tools.contract.registry import Registry


def planned(*events: Any) -> Plan | None:
    session = Session()
    register_plans(session)
    for event in events:
        assert session.dispatch(event) == ()
    return session.latest(Plan)


def test_reducers_follow_the_events() -> None:
    plan = planned(
        PlanSetUp("ship", ("a",)),
        StepsAdded(("b", "c")),
        StepUpdated(2, title="B", status="in_progress"),
        StepUpdated(9, title="nothing"),
    )

    assert plan == Plan(
        "ship", "active", (PlanStep(1, "a"), PlanStep(2, "B", "in_progress"), PlanStep(3, "c"))
    )


def test_a_plan_is_completed_when_all_its_steps_are_done() -> None:
    done = [StepUpdated(number, status="done") for number in (1, 2)]

    plans = [planned(PlanSetUp("x", ("a", "b")), *done[:count]) for count in (1, 2)]

    assert [plan.status for plan in plans if plan] == ["active", "completed"]
    anew = planned(PlanSetUp("x", ("a",)), done[0], PlanSetUp("y", ("b",)))
    assert anew == Plan("y", "active", (PlanStep(1, "b"),))


def test_events_without_a_plan_change_nothing() -> None:
    assert planned(StepsAdded(("a",)), StepUpdated(1, status="done")) is None


def test_registering_twice_adds_a_step_once() -> None:
    session = Session()
    PlanningToolsSection(session)
    register_plans(session)

    session.dispatch(PlanSetUp("x"))
    session.dispatch(StepsAdded(("a",)))

    assert session.latest(Plan) == Plan("x", "active", (PlanStep(1, "a"),))


def test_its_changes_keep_the_names_that_logs_hold() -> None:
    session = Session()
    register_plans(session)

    for event, name in (
        (PlanSetUp, "plan.set_up"),
        (StepsAdded, "plan.steps_added"),
        (StepUpdated, "plan.step_updated"),
    ):
        assert not session.register(event, Plan, lambda *_: (), name=name), name


@pytest.mark.parametrize(
    "factory", [None, Reference("refold.engine.session.session", "Session", {})]
)
def test_a_factory_makes_plans_in_another_process_too(factory: Reference | None) -> None:
    """Of a session without reducers of its own, Refold knows how to make it."""
    session = Session(factory=factory)
    register_plans(session)
    session.dispatch(PlanSetUp("x", ("a",)))

    made = load(session.factory) if session.factory else None
    assert isinstance(made, Session)
    made.rollback(session.snapshot())

    assert made.latest(Plan) == session.latest(Plan)
    again = planned_session(factory={"source": "refold.engine.session", "name": "Session"})
    assert again.slice_types == (Plan,)


def test_there_are_four_tools_and_references_lead_to_them() -> None:
    tools = planning_tools()

    assert Registry(tools).names == (
        "planning_add_step",
        "planning_read_plan",
        "planning_setup_plan",
        "planning_update_step",
    )
    for each in tools:
        assert each.reference is not None
        assert load(each.reference) == each == planning_tool(each.name)
    assert PlanningToolsSection().tools() == tools


def test_schemas_say_what_is_taken() -> None:
    schemas = {each.name: each.parameters for each in planning_tools()}
    update = schemas["planning_update_step"]

    jsonschema.validate({"step_id": 1, "status": "in_progress"}, update)
    jsonschema.validate({}, schemas["planning_read_plan"])
    for wrong in ({"status": "done"}, {"step_id": 1, "status": "paused"}, {"step_id": "1"}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, update)


async def keeping_a_plan(run: Run, _input: Any) -> Any:
    await run.tool("planning_setup_plan", objective="ship", initial_steps=["build"])
    await run.tool("planning_update_step", step_id=1, status="done")
    return (await run.tool("planning_read_plan"))["value"]["status"]


def test_each_change_is_a_line_of_the_log_and_is_replayed(tmp_path: Path) -> None:
    log = tmp_path / "run.jsonl"
    session = Session()
    recording = record(keeping_a_plan, log=log, tools=planning_tools(), session=session)

    assert recording.output == "completed"
    changes = [entry.data for entry in read_entries(log) if entry.kind == "session.changed"]
    assert [change["event"] for change in changes] == ["PlanSetUp", "StepUpdated"]
    report = reexecute(log, keeping_a_plan, tools=planning_tools(), session=Session())
    assert report.identical, str(report)


def test_a_refused_call_writes_no_change(tmp_path: Path) -> None:
    async def program(run: Run, _input: Any) -> str:
        with pytest.raises(ToolError) as failed:
            await run.tool("planning_add_step", steps=["a"])
        return failed.value.message

    log = tmp_path / "run.jsonl"
    recording = record(program, log=log, tools=planning_tools(), session=Session())

    assert recording.output == "No plan is currently initialised."
    assert [entry for entry in read_entries(log) if entry.kind == "session.changed"] == []


def test_planning_without_a_session_says_what_to_do(tmp_path: Path) -> None:
    async def program(run: Run, _input: Any) -> str:
        with pytest.raises(ToolError) as failed:
            await run.tool(planning_tools()[3])
        return failed.value.message

    recording = record(program, log=tmp_path / "run.jsonl")

    assert (
        recording.output
        == "Planning is not available: this run has no session. Work without a plan."
    )


def test_a_section_is_made_for_a_session() -> None:
    with pytest.raises(UsageError, match="session: expected a Session, found 'x'"):
        PlanningToolsSection("x")  # type: ignore[arg-type]  # which is the point


def test_only_done_is_done_and_a_new_title_keeps_the_status() -> None:
    """Steps in progress complete no plan; what an update leaves out stays as it was."""
    session = Session()
    register_plans(session)
    session.dispatch(PlanSetUp("o", ("one", "two")))
    session.dispatch(StepUpdated(1, status="done"))
    session.dispatch(StepUpdated(2, status="in_progress"))
    session.dispatch(StepUpdated(1, title="first"))

    plan = session.latest(Plan)

    assert plan is not None
    assert plan.status == "active"
    assert [(step.title, step.status) for step in plan.steps] == [
        ("first", "done"),
        ("two", "in_progress"),
    ]
    session.dispatch(StepUpdated(2, status="done"))
    ended = session.latest(Plan)
    assert ended is not None
    assert ended.status == "completed"
    session.dispatch(StepUpdated(2, status="pending"))
    again = session.latest(Plan)
    assert again is not None
    assert again.status == "active"
