"""What `subagent_dispatch` is beyond its document: bounded, exact, and remade elsewhere."""

from pathlib import Path
from typing import Any

import attrs
import pytest

from refold.engine.errors import NotReady, ToolError
from refold.engine.events.limits import Limits
from refold.engine.log.reader import read_entries
from refold.engine.models.scripted import ScriptedModel
from refold.engine.program.run import Run
from refold.engine.runners.recording import record
from refold.replay.reexecute.reexecute import reexecute
from refold.replay.run.opened_run import delegation_tree
from refold.tools.agents.agent_files import AgentDef
from refold.tools.contract.tool_types import DelegationTool, tool
from refold.tools.delegation.shipped import as_offered
from refold.tools.delegation.subagent_dispatch import DispatchOptions, made_of
from tests.support.loops import for_each


def defined(agent_id: str, **more: Any) -> AgentDef:
    return AgentDef(id=agent_id, name=agent_id, description=f"Is {agent_id}.", **more)


def made(*agents: AgentDef, **options: Any) -> DelegationTool:
    return made_of(DispatchOptions.over(agents, caller="lead", **options))


@tool(effect="reads")
def look() -> str:
    """Look."""
    return "seen"


@tool(effect="reads")
def read() -> str:
    """Read."""
    return "text"


def child_of(tmp_path: Path, dispatch: DelegationTool, **options: Any) -> dict[str, Any]:
    """Dispatch once to `helper`, replay it, and return the first entry of its log."""

    async def program(run: Any, _: Any) -> Any:
        return await run.tool("subagent_dispatch", agent_id="helper", task="help")

    log = tmp_path / "run.jsonl"
    chosen = {"model": ScriptedModel(["helped"]), **options}
    recording = record(program, log=log, tools=[dispatch, look, read], **chosen)
    assert recording.ok, recording.error
    report = reexecute(log, program, tools=[as_offered(*_definition(dispatch))])
    assert report.identical, report
    return next(iter(read_entries(log.with_name("run.1.jsonl")))).data


def _definition(dispatch: DelegationTool) -> tuple[str, str, dict[str, Any]]:
    return dispatch.name, dispatch.description, dispatch.parameters


@for_each(
    "agent, names",
    [
        (defined("helper"), ["look", "read", "subagent_dispatch"]),
        (defined("helper", tools=()), ["subagent_dispatch"]),
        (defined("helper", tools=("look",)), ["look", "subagent_dispatch"]),
        (defined("helper", disallowed_tools=("look",)), ["read", "subagent_dispatch"]),
        (defined("helper", tools=(), disallowed_tools=("subagent_dispatch",)), []),
    ],
)
def test_an_agent_is_offered_what_its_definition_says(
    tmp_path: Path, agent: AgentDef, names: list[str]
) -> None:
    first = child_of(tmp_path, made(agent, defined("other")))

    assert first["input"]["agent"]["tools"] == names


def test_its_caps_are_its_definitions_and_the_contexts(tmp_path: Path) -> None:
    helper = defined("helper", max_turns=3, limits=Limits(timeout_seconds=50))
    ours = Limits(timeout_seconds=40, max_children=2)

    limits = child_of(tmp_path, made(helper, limits=ours))["limits"]

    assert (limits["max_iterations"], limits["timeout_seconds"]) == (3, 40)
    assert limits["max_children"] == 2


def test_it_has_its_own_model_where_the_run_has_it(tmp_path: Path) -> None:
    helper = defined("helper", provider="openai", model="gpt-4o")

    first = child_of(tmp_path, made(helper), models={"openai:gpt-4o": ScriptedModel(["helped"])})

    assert first["input"]["agent"]["model"] == "openai:gpt-4o"


@pytest.mark.parametrize("provider", ["openai", ""])
def test_a_model_that_the_run_has_not_is_refused_by_name(tmp_path: Path, provider: str) -> None:
    """§10.16: never another in its place."""
    helper = defined("helper", provider=provider, model="gpt-4o")

    async def program(run: Any, _: Any) -> Any:
        with pytest.raises(ToolError) as refused:
            await run.tool(made(helper), agent_id="helper", task="help")
        return [refused.value.code, refused.value.message]

    model, log = ScriptedModel(["helped"]), tmp_path / "run.jsonl"
    with pytest.raises(NotReady, match=f"model {helper.model_spec!r}: not found"):
        record(program, log=log, tools=[made(helper)], model=model)
    recording = record(program, log=log, model=model)

    code, message = recording.output
    assert code == "model"
    assert message.startswith(f"agent 'helper' needs the model {helper.model_spec!r}, and this run")
    assert message.endswith("Choose another agent, or do the work yourself.")
    assert reexecute(recording.log, program, tools=[made(helper)]).identical


def test_a_child_that_may_not_begin_has_no_session(tmp_path: Path) -> None:
    """An id of nothing would lead whoever looks for its log astray."""

    async def program(run: Any, _: Any) -> Any:
        with pytest.raises(ToolError, match="max_depth"):
            await run.tool("subagent_dispatch", agent_id="helper", task="help")

    log = tmp_path / "run.jsonl"
    record(program, log=log, tools=[made(defined("helper"))], limits=Limits(max_depth=0))

    entries = [entry.data for entry in read_entries(log)]
    (ends,) = [one["data"] for one in entries if one.get("text") == "subagent_dispatch ends"]
    assert (ends["success"], ends["session_id"], ends["timed_out"]) == (False, None, False)
    assert ends["error"].startswith("max_depth: no run may be started at this depth")
    assert [one["ids"] for one in entries if "ids" in one] == [[], []]


def test_alone_with_its_caller_it_gets_no_tool(tmp_path: Path) -> None:
    """Its own tool would offer nobody but those that there are: here its caller is unknown."""
    first = child_of(tmp_path, made(defined("helper")))

    assert [offer["name"] for offer in first["tools"]] == ["look", "read"]


async def relays(run: Run, given: Any) -> str:
    """Hand the task on, once."""
    if given["agent"]["name"] == "helper":
        await run.tool("subagent_dispatch", agent_id="digger", task="dig")
    return "done"


def test_whom_a_child_gives_a_task_to_runs_what_it_runs(tmp_path: Path) -> None:
    """What all dispatched agents have in common goes down with the tool."""
    tool = made(defined("helper"), defined("digger"), program=relays)

    async def program(run: Run, _: Any) -> None:
        await run.tool("subagent_dispatch", agent_id="helper", task="help")

    log = tmp_path / "run.jsonl"
    recording = record(program, log=log, tools=[tool])

    assert recording.ok, recording.error
    (helper,) = delegation_tree(log).children
    (digger,) = helper.children
    assert (digger.agent, digger.program) == ("digger", helper.program)


def test_a_child_has_the_name_of_its_definition(tmp_path: Path) -> None:
    """Its id is its file's; its name may be another."""
    agent = attrs.evolve(defined("helper"), name="Kind Helper")

    started = child_of(tmp_path, made(agent))

    assert started["input"]["agent"]["name"] == "Kind Helper"
