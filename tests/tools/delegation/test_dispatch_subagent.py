"""How `dispatch_subagent` is set up, made again elsewhere, and replayed without its registry."""

from pathlib import Path
from typing import Any

import attrs

import refold
from refold.engine.events.limits import Limits
from refold.engine.events.outcome import ChildRef, Fault, Outcome
from refold.engine.log.reader import read_entries
from refold.engine.models.scripted import ScriptedModel
from refold.engine.ports.ports import Delegation, Reference
from refold.engine.ports.programs import load
from refold.engine.program.run import Run
from refold.engine.runners.recording import record
from refold.engine.session import Session
from refold.tools.agents.prompts import MarkdownSection, Prompt, PromptRegistry, context_of
from refold.tools.delegation.dispatch_subagent import (
    DispatchSubagent,
    PromptSubagentToolsSection,
    dispatch_subagent_tool,
    validated,
)
from tests.support.loops import for_each
from tests.support.scripted_runners import Scripted

FORKS = Path(__file__).parents[3] / "fixtures" / "children" / "forks.py"
ARGUMENTS = {"mode": "ad_hoc", "prompt_ns": "n", "prompt_key": "k", "instructions": "look"}


def registry(**more: Any) -> PromptRegistry:
    section = MarkdownSection[Any](title="T", key="t", template="Look.")
    found = PromptRegistry(**more)
    found.register("n", "k", lambda session: Prompt(ns="n", key=session.id, sections=(section,)))
    return found


def test_the_step_of_a_plan_is_trimmed() -> None:
    """As its text is: what is compared with the plan has no blanks around it."""
    given = DispatchSubagent(
        mode="plan_step", prompt_ns="n", prompt_key="k", instructions="look", plan_step_id=" 3 "
    )

    assert validated(given).plan_step_id == "3"


def test_a_section_takes_the_options_of_the_tool(tmp_path: Path) -> None:
    session = Session()
    section = PromptSubagentToolsSection(
        session=session, prompts=registry(), limits=Limits(max_iterations=2), levels=1
    )

    async def program(run: Run, _input: Any) -> Any:
        return await run.tool(section.tools()[0], **ARGUMENTS)

    log = tmp_path / "run.jsonl"
    recording = record(program, log=log, model=ScriptedModel(["ok"]), session=session)

    assert recording.output["message"] == "ok"
    (started,) = [entry.data for entry in read_entries(log) if entry.kind == "child.started"]
    limits = started["delegation"]["limits"]
    assert (limits["max_iterations"], limits["max_depth"]) == (2, 1)


def test_a_child_that_began_has_failed_whatever_its_code_says(tmp_path: Path) -> None:
    """What never began is told the model; of what began the program is told."""

    def recorded(outcome: Outcome) -> Any:
        async def program(run: Run, _input: Any) -> Any:
            tool = dispatch_subagent_tool(prompts=registry(), runner="scripted")
            return (await run.tool(tool, **ARGUMENTS))["message"]

        log, runners = tmp_path / f"{outcome.child is None}.jsonl", {"scripted": Scripted(outcome)}
        return record(program, log=log, runners=runners)

    fault = Fault(code="runner", message="it broke")
    child = ChildRef(run="0" * 32, head="0" * 64, events=3)

    never = recorded(Outcome(status="failed", error=fault))
    began = recorded(Outcome(status="failed", error=fault, child=child))

    assert never.output == "runner: it broke. Change the task, or do the work yourself."
    assert began.status == "failed"
    assert "DispatchSubagentError" in began.error.message


def test_a_run_without_a_session_forks_an_empty_one(tmp_path: Path) -> None:
    async def program(run: Run, _input: Any) -> Any:
        return await run.tool(dispatch_subagent_tool(prompts=registry()), **ARGUMENTS)

    log = tmp_path / "run.jsonl"
    recording = record(program, log=log, model=ScriptedModel(["ok"]))

    assert recording.output["success"] is True
    child = log.with_name("run.1.jsonl")
    (seeded,) = [entry.data for entry in read_entries(child) if entry.kind == "session.seeded"]
    assert seeded["snapshot"]["slices"] == []


def test_without_a_prompt_a_child_has_its_callers_tools(tmp_path: Path) -> None:
    """All of them: nothing says which the prompt would have named."""
    dispatch = dispatch_subagent_tool(prompts=registry())

    async def program(run: Run, _input: Any) -> str:
        context = attrs.evolve(context_of(run), rendered_prompt=None)
        return str((await dispatch.handler(DispatchSubagent(**ARGUMENTS), context=context)).message)  # type: ignore[arg-type]  # of these types

    recording = record(program, log=tmp_path / "run.jsonl", model=ScriptedModel(["ok"]))

    (started,) = [e.data for e in read_entries(recording.log) if e.kind == "child.started"]
    assert recording.output == "ok"
    assert "tools" not in started["delegation"]


def test_a_child_in_another_process_has_the_session_and_gives_back_what_it_recorded(
    tmp_path: Path,
) -> None:
    forks: Any = load(Reference(str(FORKS), "Finding"))
    factory = Reference(str(FORKS), "session")
    made: Any = load(factory)
    session = made()
    session.factory = factory
    session.dispatch(forks("before"))
    before = session.digest()
    dispatch = dispatch_subagent_tool(
        prompts=registry(), program=f"{FORKS}:finds", runner="subprocess"
    )

    async def program(run: Run, _input: Any) -> Any:
        return await run.tool(dispatch, **ARGUMENTS)

    log = tmp_path / "run.jsonl"
    recording = record(program, log=log, session=session)

    assert recording.status == "completed", recording.error
    value = recording.output["value"]
    assert value["message_summary"] == "look after ['before']"
    assert value["artifacts"] == ["mine.md"]
    assert session.digest() == before
    again = made()
    report = refold.reexecute(log, program, tools=[dispatch], session=again)
    assert report.identical, str(report)


@for_each("given", ["own", "other", "face"])
def test_children_that_share_a_session_have_the_sections(tmp_path: Path, given: str) -> None:
    """What they see is a face of their caller's: theirs is the one that it shows."""
    session = Session()
    section = PromptSubagentToolsSection(
        session=session if given == "own" else Session(), prompts=registry()
    )

    async def child(run: Run, _input: Any) -> str:
        own = PromptSubagentToolsSection(session=run.session, prompts=registry())
        (dispatch,) = (own if given == "face" else section).tools()
        return str((await run.tool(dispatch, **ARGUMENTS))["message"])

    async def program(run: Run, _input: Any) -> Any:
        shared = Delegation(program=child, session=run.session, shared=True)
        outcome = await run.delegate(shared)
        return outcome.output if outcome.ok else str(outcome.error)

    log = tmp_path / "run.jsonl"
    recording = record(program, log=log, model=ScriptedModel(["ok"]), session=session)

    assert ("not the run's" in recording.output) is (given == "other")
    assert (recording.output == "ok") is (given != "other")
