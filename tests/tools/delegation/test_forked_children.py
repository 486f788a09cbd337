"""A forked child hands back what its session recorded, whatever kind of program it runs."""

import inspect
from pathlib import Path
from typing import Any

import pytest

from refold.engine.errors import ProgramNotFound
from refold.engine.events.outcome import Artifact, Report
from refold.engine.log.reader import read_entries
from refold.engine.ports.programs import load, program_name, reference_of
from refold.engine.program.run import PlainRun, Run
from refold.engine.runners.recording import record
from refold.engine.session import Session
from refold.tools.agents.plans import PlanSetUp, register_plans
from refold.tools.agents.prompts import RenderedPrompt, context_of, use_prompt
from refold.tools.delegation.forked_children import (
    forked,
    reporting,
)

MADE = Artifact(kind="path", value="made.md")


def kept() -> Session:
    """Return a session with an artifact from before."""
    session = Session()
    session.register(Artifact)
    session.dispatch(Artifact(kind="path", value="from before.md"))
    return session


async def asynchronous(run: Run, given: Any) -> Any:
    run.session.dispatch(MADE)
    return given


def plain(run: PlainRun, given: Any) -> Any:
    run.session.dispatch(MADE)
    return given


async def reports(run: Run, _given: Any) -> Report:
    run.session.dispatch(MADE)
    return Report(summary="s", output=1, artifacts=(Artifact(kind="note", value="own"),))


@pytest.mark.parametrize("program", [asynchronous, plain])
@pytest.mark.parametrize(
    ("given", "summary"), [("text", "text"), ({"a": 1}, '{"a":1}'), (None, "")]
)
def test_artifacts_are_added_to_what_a_program_returns(
    tmp_path: Path, program: Any, given: Any, summary: str
) -> None:
    """Its output and its summary are as they would have been."""
    wrapped = reporting(program)

    recording = record(wrapped, given, log=tmp_path / "run.jsonl", session=kept())

    assert (recording.status, recording.output, recording.summary) == ("completed", given, summary)
    assert recording.artifacts == (MADE,)
    assert wrapped.__name__ == program.__name__


def test_a_report_keeps_its_own_artifacts(tmp_path: Path) -> None:
    recording = record(reporting(reports), log=tmp_path / "run.jsonl", session=kept())

    assert [artifact.value for artifact in recording.artifacts] == ["own", "made.md"]


def test_the_plan_is_reported_as_it_stands(tmp_path: Path) -> None:
    session = Session()
    register_plans(session)
    session.dispatch(PlanSetUp("ship"))

    async def returns(_run: Run, _given: Any) -> str:
        return "ok"

    recording = record(reporting(returns), log=tmp_path / "run.jsonl", session=session)

    plan = '{"objective":"ship","status":"active","steps":[]}'
    assert recording.artifacts == (Artifact(kind="json", name="plan", value=plan),)


def test_nothing_is_added_where_nothing_was_recorded(tmp_path: Path) -> None:
    async def returns(_run: Run, given: Any) -> Any:
        return given

    async def returns_no_json(_run: Run, _given: Any) -> Any:
        return object()

    program = reporting(returns)
    bare = record(program, 7, log=tmp_path / "a.jsonl")
    odd = record(reporting(returns_no_json), log=tmp_path / "b.jsonl", session=kept())

    assert (bare.output, bare.artifacts) == (7, ())
    assert not {"summary", "artifacts"} & set(list(read_entries(bare.log))[-1].data)
    assert odd.error is not None
    assert odd.error.code == "output"


def test_what_can_be_imported_can_run_in_another_process() -> None:
    """In this one it is the function itself: another import of it would have other classes."""
    shipped = forked("agent")
    reference = reference_of(shipped)

    assert (shipped.__name__, program_name(shipped)) == ("agent", "agent")
    assert load(reference).__name__ == "agent"
    assert inspect.unwrap(forked(asynchronous)) is asynchronous


def test_what_cannot_runs_here() -> None:
    async def local(_run: Run, _given: Any) -> None:
        pass

    with pytest.raises(ProgramNotFound, match="nested function"):
        reference_of(forked(local))
    with pytest.raises(ProgramNotFound):
        forked("no.such.module:program")


def test_a_prompt_is_the_runs_whatever_face_says_so(tmp_path: Path) -> None:
    """A delegation tool is given the run itself, and builds on it."""
    rendered = RenderedPrompt(ns="n", key="k", text="Do it.")

    def found_of(run: Any) -> Any:
        return getattr(context_of(run).rendered_prompt, "key", None)

    async def asynchronous(run: Run, _: Any) -> Any:
        use_prompt(run, rendered)
        return found_of(run)

    def plain(run: PlainRun, _: Any) -> Any:
        use_prompt(run, rendered)
        return found_of(run)

    for name, program in (("a", asynchronous), ("b", plain)):
        assert record(program, log=tmp_path / f"{name}.jsonl").output == "k"
