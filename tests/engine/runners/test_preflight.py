"""What children certainly need is checked before the first line, and named at once (§10.4.8)."""

import contextlib
from pathlib import Path
from typing import Any

import attrs
import pytest

import refold
from refold.engine.errors import NotReady, ProgramNeeded, ToolAbsent
from refold.engine.events.limits import Limits
from refold.engine.models import FunctionModel, ScriptedModel
from refold.engine.ports.ports import Tool
from refold.engine.session import Session
from refold.tools import (
    Prompt,
    PromptRegistry,
    PromptSubagentToolsSection,
    SpawnProfile,
    SpawnSettings,
    SubagentIsolationLevel,
    dispatch_subagent_tool,
    dispatch_subagents,
    planning_tools,
    spawn_tools,
    subagent_tool,
    subagents_tool,
)
from refold.tools.agents.agent_files import AgentDef, agent_prompts
from tests.support.tool_ends import LEAST, TOOLS, EndsModel, look, session, told, tools


@attrs.frozen
class Noted:
    """What a session keeps."""

    text: str


HELPER = AgentDef(id="helper", name="helper", description="Helps.", system_prompt="You help.")


def closure() -> Tool:
    """Return a tool that no other process can import."""

    @refold.tool(effect="reads")
    def secret(page: int) -> str:
        """Look at a page."""
        return f"page {page}"

    return secret


def started(given: list[Any], log: Path, **options: Any) -> refold.Recording:
    """Record an agent that does nothing with its tools."""
    given_model = options.pop("model", ScriptedModel(["done"]))
    asked = {"agent": {"name": "lead"}, "task": "x"}
    return refold.record("agent", asked, log=log, tools=given, model=given_model, **options)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "run.jsonl"


@pytest.mark.parametrize("name", TOOLS)
def test_each_tool_refuses_to_begin_with_a_tool_that_cannot_cross(name: str, log: Path) -> None:
    """Every child of every tool would fail, and only a model would read why."""
    given = [tool for tool in tools() if tool.name == name]
    why = "a subprocess cannot import it; define it at module level"

    with pytest.raises(NotReady) as refused:
        started([*given, closure()], log, runner="subprocess")

    assert refused.value.problems == (f"tool 'secret': {why} (for {name})",)
    assert not log.exists()


def naming(tool: str) -> dict[str, list[Tool]]:
    """Return delegation tools whose settings name a tool, by where they do."""
    helper = AgentDef(id="a", name="a", description="d", tools=(tool, "read_file"))
    (dispatch,) = refold.subagents("subagent_dispatch", agents=[helper])
    profiles = {"clerk": SpawnProfile(tools=(tool,))}
    return {
        "options": [subagent_tool(tools=(tool,))],
        "definition": [dispatch],
        "profile": [*spawn_tools(SpawnSettings(enabled=True, profiles=profiles))],
    }


@pytest.mark.parametrize("where", naming(""))
def test_a_tool_that_the_run_lacks_is_named_with_the_nearest(where: str, log: Path) -> None:
    """A child would else begin without it, and answer anyway.

    An agent's definition may name a tool of Refold's own that the run does not have.
    """
    with pytest.raises(NotReady, match=r"tool 'lok': .*did you mean 'look'\?.*for s"):
        started([look, *naming("lok")[where]], log)

    assert not log.exists()
    assert started([look, *naming("look")[where]], log).ok


USELESS: dict[str, tuple[list[Tool], str]] = {
    "no prompt": ([dispatch_subagent_tool()], "no prompt is registered: pass prompts="),
    "no session": ([*planning_tools()], r"record\(…, session=refold.Session\(\)\)"),
    "another session": (
        [*PromptSubagentToolsSection(session=Session(), prompts=agent_prompts([HELPER])).tools()],
        "its section has another session",
    ),
}


@pytest.mark.parametrize("why", USELESS)
def test_a_tool_that_can_never_succeed_is_refused(why: str, log: Path) -> None:
    """A model would only read that each call failed."""
    given, said = USELESS[why]

    with pytest.raises(NotReady, match=said):
        started(given, log)

    assert not log.exists()


def test_planning_tools_are_of_use_to_children_with_a_session(log: Path) -> None:
    """The run itself has none."""
    assert started([dispatch_subagents, *planning_tools()], log).ok


def test_what_is_missing_is_named_at_once(log: Path) -> None:
    """A registry, a program, a tool, models, a runner, files and a session."""

    async def mine(_run: Any, _given: Any) -> None:
        raise AssertionError

    profile = SpawnProfile(system_prompt_file="GONE.md", pool="smart", tools=(" lok", "spawn"))
    registry = PromptRegistry()
    registry.register("team", "review", lambda **_: Prompt[str](ns="team", key="review"))
    made = [
        closure(),
        subagent_tool(program=mine, model="quick"),
        dispatch_subagent_tool(prompts=registry),
        subagents_tool(isolation_level=SubagentIsolationLevel.NO_ISOLATION, runner="cloud"),
        *spawn_tools(SpawnSettings(enabled=True, profiles={"clerk": profile})),
    ]
    with pytest.raises(NotReady) as refused:
        started(made, log, runner="subprocess", model=FunctionModel(lambda _: "no"))

    words = [
        "runner 'cloud': not found (known: in-process, ray, subprocess)",
        "tool 'secret': a subprocess cannot import it",
        "tool 'dispatch_subagent': another process cannot make its registry of prompts: Prompt",
        "program 'test_what_is_missing_is_named_at_once.<locals>.mine': ",
        "model 'quick': not found (known: none)",
        "model 'smart': not found",
        "file GONE.md: no such file (for spawn)",
        "tool 'lok': not found",
        "model 'function': a subprocess cannot create it; give it a `reference`",
    ]
    problems = refused.value.problems
    for each in words:
        assert sum(problem.startswith(each) for problem in problems) == 1, (each, problems)
    assert len(problems) == len(words)
    assert all(problem in str(refused.value) for problem in problems)


@pytest.mark.parametrize(
    "options",
    [
        {"runner": "in-process"},
        {"runner": "subprocess", "limits": Limits(max_depth=0)},
        {"runner": "subprocess", "limits": Limits(max_children=0)},
    ],
)
def test_a_run_whose_children_need_no_more_begins(options: dict[str, Any], log: Path) -> None:
    """Children that share its process, and children that may not be."""
    assert started([*tools(), closure()], log, session=session(), **options).ok


async def _takes_bytes(_run: refold.Run, _given: bytes) -> None:
    """A program whose input no log holds."""


def test_a_program_with_a_type_that_cannot_be_read_is_missing(log: Path) -> None:
    """No call of a model could give it its input."""
    with pytest.raises(NotReady, match=r"'_takes_bytes', parameter '_given': .* \(for subagent\)"):
        refold.record(calling("subagent"), log=log, tools=[subagent_tool(program=_takes_bytes)])


def test_tools_that_no_child_is_given_stay_closures(log: Path) -> None:
    """A program that never delegates, one whose children get others, an agent that lacks it."""
    alone = started([closure()], log, runner="subprocess")
    chosen = started(
        [closure(), look, subagent_tool(tools=("look",))],
        log.with_name("b.jsonl"),
        runner="subprocess",
    )

    assert (alone.status, chosen.status) == ("completed",) * 2


@pytest.mark.long
def test_an_agent_without_a_tool_has_children_without_it(log: Path) -> None:
    """The run has it, and no other process needs it."""
    recording = refold.record(
        "agent",
        {"agent": {"name": "lead", "tools": ["look", "subagent"]}, "task": "subagent done"},
        log=log,
        tools=[closure(), look, subagent_tool()],
        model=EndsModel(),
        runner="subprocess",
    )

    assert recording.ok
    assert '"success":true' in told(log)[0]


def test_a_session_that_cannot_cross_is_missing(log: Path) -> None:
    own = Session()
    own.register(Noted)
    given = [tool for tool in tools() if tool.name in ("dispatch_subagents", "look")]

    with pytest.raises(NotReady, match=r"a session with a factory.* \(for dispatch_subagents\)"):
        started(given, log, runner="subprocess", session=own)
    shared = subagents_tool(isolation_level=SubagentIsolationLevel.NO_ISOLATION)
    with pytest.raises(NotReady, match="runner 'subprocess': its children cannot share"):
        started([shared], log, runner="subprocess", session=session())


def calling(name: str) -> Any:
    """Return a program that calls a tool which the run was not given, whatever comes of it."""

    async def program(run: refold.Run, _: Any) -> str:
        with contextlib.suppress(refold.ToolError):
            await run.tool({tool.name: tool for tool in tools()}[name], **LEAST[name])
            if name == "spawn":
                await run.tool({tool.name: tool for tool in tools()}["spawn_await"], job_ids="*")
        await run.sleep(0.001)
        return "went on"

    return program


@pytest.mark.parametrize("name", TOOLS)
def test_what_only_a_start_shows_ends_the_run_with_that_error(name: str, log: Path) -> None:
    program = calling(name)

    recording = refold.record(program, log=log, tools=[closure()], runner="subprocess")

    assert (recording.status, recording.output) == ("failed", None)
    assert recording.error is not None
    assert recording.error.code == "ToolRefused"
    assert "define it at module level" in recording.error.message
    assert refold.reexecute(log, program).identical


def test_it_ends_the_runs_above_too(log: Path) -> None:
    """A child whose own child lacks something is no work for the model above."""

    async def inner(run: refold.Run, _: Any) -> str:
        result = await run.tool(subagent_tool(runner="subprocess"), task="look")
        return str(result["error"])

    async def program(run: refold.Run, _: Any) -> str:
        result = await run.tool(subagent_tool(program=inner, levels=2), task="look")
        return str(result["error"])

    recording = refold.record(program, log=log, tools=[closure()])

    assert recording.error is not None
    assert (recording.status, recording.error.code) == ("failed", "ToolRefused")
    assert refold.reexecute(log, program).identical


def test_a_program_that_starts_a_child_itself_reads_why_it_failed(log: Path) -> None:
    """Its own code can act on it."""

    async def program(run: refold.Run, _: Any) -> str:
        outcome = await run.delegate(refold.Delegation(program="agent", input={"task": "x"}))
        return outcome.error.code if outcome.error else ""

    recording = refold.record(program, log=log, tools=[closure()], runner="subprocess")

    assert (recording.status, recording.output) == ("completed", "ToolRefused")


async def mine(_run: refold.Run, given: Any) -> str:
    """Answer without a model."""
    return f"mine: {given['task']}"


def own_program(name: str) -> Tool:
    """Return a tool whose children run a program of their own."""
    found = {
        "subagent": subagent_tool(program=mine),
        "subagent_dispatch": refold.subagents("subagent_dispatch", agents=[HELPER], program=mine)[
            0
        ],
        "dispatch_subagent": dispatch_subagent_tool(prompts=agent_prompts([HELPER]), program=mine),
        "dispatch_subagents": subagents_tool(program=mine),
    }[name]
    assert found is not None
    return found


@pytest.mark.parametrize(
    "runner", ["in-process", pytest.param("subprocess", marks=pytest.mark.long)]
)
@pytest.mark.parametrize("name", [name for name in TOOLS if name != "spawn"])
def test_a_replay_says_which_tool_has_the_program_that_children_ran(
    name: str, runner: str, log: Path
) -> None:
    """No log says what code to import, and another program is not what the run did."""

    async def lead(run: refold.Run, _: Any) -> Any:
        return await run.tool(name, **LEAST[name])

    recording = refold.record(lead, log=log, tools=[own_program(name)], runner=runner)
    assert recording.ok

    with pytest.raises(ProgramNeeded) as needed:
        refold.reexecute(log, lead)

    assert str(needed.value) == (
        f"the children of {name} ran the program 'mine': pass the tool with tools=[…] "
        "(--tools FILE.py:TOOL on the command line)"
    )
    assert refold.reexecute(log, lead, tools=[own_program(name)]).identical


def test_a_run_that_goes_on_live_needs_it_before_the_first_child(log: Path) -> None:
    """Else its children would run another program."""

    async def lead(run: refold.Run, _: Any) -> Any:
        answer = await run.ask("Go on?")
        return [answer, (await run.tool("subagent", task="look"))["summary"]]

    refold.record(lead, log=log, tools=[own_program("subagent")])
    before = log.read_bytes()

    with pytest.raises(ToolAbsent, match="'subagent'"):
        refold.resume(log, lead, answers={"0#1": True})
    assert log.read_bytes() == before
    with pytest.raises(NotReady, match="tool 'secret'"):
        refold.resume(
            log, lead, tools=[own_program("subagent"), closure()], answers={}, runner="subprocess"
        )
    resumed = refold.resume(log, lead, tools=[own_program("subagent")], answers={"0#1": True})

    assert resumed.output == [True, "mine: look"]
