"""The `subagent_dispatch` tool holds to the document that specifies it: checks 54 to 72."""

import json
import shutil
import uuid
from pathlib import Path
from typing import Any

import pytest
import structlog

from refold.engine.errors import InvalidDefError, ToolError, UsageError
from refold.engine.events.events import MEASURED
from refold.engine.events.limits import Limits
from refold.engine.log.reader import read_entries
from refold.engine.models.scripted import Reply, ScriptedModel
from refold.engine.ports.ports import Tool
from refold.engine.runners.recorded import Recording
from refold.engine.runners.recording import record
from refold.replay.reexecute.reexecute import reexecute
from refold.tools.agents.agent_files import AgentDef, AgentLoader, load_agent
from refold.tools.contract.registry import Registry
from refold.tools.contract.tool_types import DelegationTool
from refold.tools.delegation.saved_sessions import load_session
from refold.tools.delegation.shipped import offered_tools
from refold.tools.delegation.subagent_dispatch import (
    SharedContext,
    SilentFrontend,
    create_subagent_dispatch_tool,
)
from tests.support.loops import some


def define(folder: Path, *agents: str, front: str = "") -> AgentLoader:
    for agent in agents:
        (folder / agent).mkdir(parents=True)
        text = f"---\ndescription: Does {agent}.\n{front}---\nYou are {agent}.\n"
        (folder / agent / "AGENT.md").write_text(text)
    return AgentLoader(folder)


def made(loader: AgentLoader, current: str = "lead") -> DelegationTool:
    tool = create_subagent_dispatch_tool(loader, current)
    assert tool is not None
    return tool


def asks(agent_id: str, task: str = "look", **more: Any) -> dict[str, Any]:
    return {"name": "subagent_dispatch", "arguments": {"agent_id": agent_id, "task": task, **more}}


async def ask(run: Any, arguments: dict[str, Any]) -> Any:
    return await run.tool("subagent_dispatch", **arguments)


async def ask_and_catch(run: Any, arguments: dict[str, Any]) -> Any:
    try:
        return await run.tool("subagent_dispatch", **arguments)
    except ToolError as error:
        return {"code": error.code, "type": error.error_type, "message": error.message}


@pytest.fixture
def agents(tmp_path: Path) -> AgentLoader:
    return define(tmp_path / "agents", "lead", "reviewer", "scribe")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "run.jsonl"


def recorded(
    log: Path,
    tool: Tool,
    arguments: dict[str, Any],
    script: dict[str, list[Reply]],
    program: Any = ask,
    **options: Any,
) -> Recording:
    model = ScriptedModel(script)
    return record(program, arguments, log=log, tools=[tool], model=model, seed=1, **options)


def enum_of(tool: Tool) -> list[str]:
    found: list[str] = tool.parameters["properties"]["agent_id"]["enum"]
    return found


def messages(log: Path) -> list[dict[str, Any]]:
    return [
        message
        for entry in read_entries(log)
        if entry.kind == "model.asked"
        for message in entry.data["added"]
    ]


def test_054_the_enum_is_exactly_the_other_agents(agents: AgentLoader) -> None:
    tool = made(agents, "lead")

    assert tool.name == "subagent_dispatch"
    assert enum_of(tool) == ["reviewer", "scribe"]


def test_055_the_caller_is_in_neither_enum_nor_description(agents: AgentLoader) -> None:
    tool = made(agents, "reviewer")

    assert enum_of(tool) == ["lead", "scribe"]
    assert "reviewer" not in tool.description


def test_056_alone_there_is_no_tool(tmp_path: Path) -> None:
    tool = create_subagent_dispatch_tool(define(tmp_path / "one", "lead"), "lead")

    assert tool is None
    assert "subagent_dispatch" not in Registry(filter(None, [tool]))


def test_057_the_description_lists_the_agents(agents: AgentLoader) -> None:
    assert made(agents).description == (
        "Dispatch a task to a specialized subagent.\n"
        "<available_agents>\n"
        '  <agent id="reviewer">Does reviewer.</agent>\n'
        '  <agent id="scribe">Does scribe.</agent>\n'
        "</available_agents>"
    )


def test_058_agent_and_task_are_required_and_context_is_empty_by_default(
    agents: AgentLoader,
) -> None:
    schema = made(agents).parameters

    assert schema["required"] == ["agent_id", "task"]
    assert list(schema["properties"]) == ["agent_id", "task", "context"]
    assert {name: each["type"] for name, each in schema["properties"].items()} == dict.fromkeys(
        ["agent_id", "task", "context"], "string"
    )
    assert schema["properties"]["context"]["default"] == ""


def test_059_agents_are_sorted_by_id_whatever_the_directory_says(tmp_path: Path) -> None:
    tool = made(define(tmp_path / "agents", "zoe", "ann", "moe"))

    assert enum_of(tool) == ["ann", "moe", "zoe"]
    assert tool.description.index("ann") < tool.description.index("moe")


@pytest.mark.parametrize(
    ("more", "said"),
    [({}, "look"), ({"context": ""}, "look"), ({"context": "At a."}, "look\n\nContext:\nAt a.")],
)
def test_060_the_user_message_is_the_task_and_perhaps_the_context(
    agents: AgentLoader, log: Path, more: dict[str, Any], said: str
) -> None:
    arguments = {"agent_id": "reviewer", "task": "look", **more}

    recorded(log, made(agents), arguments, {"reviewer": ["fine"]})

    system, user = messages(log.with_name("run.1.jsonl"))
    assert user == {"role": "user", "content": said}
    assert system["content"] == "You are reviewer."


def test_061_the_result_is_a_json_text_as_the_standard_library_writes_it(
    agents: AgentLoader, log: Path
) -> None:
    arguments = {"agent_id": "reviewer", "task": "look"}

    text = recorded(log, made(agents), arguments, {"reviewer": ["fine é"]}).output

    result = json.loads(text)
    assert list(result) == ["result", "session_id"]
    assert result["result"] == "fine é"
    assert text == json.dumps(result)
    assert "\\u00e9" in text


def test_062_the_session_can_be_read_back_by_its_id(agents: AgentLoader, log: Path) -> None:
    async def twice(run: Any, _: Any) -> Any:
        task = {"agent_id": "reviewer", "task": "look", "context": "At a."}
        return [await run.tool("subagent_dispatch", **task) for _ in range(2)]

    recording = recorded(log, made(agents), {}, {"reviewer": ["fine"]}, twice)

    ids = [json.loads(text)["session_id"] for text in recording.output]
    assert len(set(ids)) == 2
    assert all(str(uuid.UUID(each)) == each for each in ids)
    measured = [each.data for each in read_entries(log) if each.kind == MEASURED]
    ends = [each for each in measured if each["what"].endswith(" ends")]
    assert [each["ids"] for each in ends] == [[each] for each in ids], "for diffs of two recordings"
    session = load_session(recording.log, ids[1])
    assert session.log == log.with_name("run.2.jsonl")
    assert (session.agent, session.status) == ("reviewer", "completed")
    assert session.messages == (
        {"role": "user", "content": "look\n\nContext:\nAt a."},
        {"role": "assistant", "content": "fine"},
    )
    with pytest.raises(UsageError):
        load_session(recording.log, str(uuid.uuid4()))


def test_063_a_replay_gives_the_same_session_id_and_reads_no_agent_file(
    agents: AgentLoader, log: Path
) -> None:
    script: dict[str, list[Reply]] = {"agent": [asks("reviewer"), "done"], "reviewer": ["fine"]}
    recorded(log, made(agents), {"task": "go"}, script, "agent")
    shutil.rmtree(agents.folder)
    offers = next(iter(read_entries(log))).data["tools"]

    report = reexecute(log, tools=offered_tools(offers))

    assert report.identical, report
    assert report.children == 1


def test_064_an_unknown_agent_is_a_value_error_to_the_letter(
    agents: AgentLoader, log: Path
) -> None:
    """To a program and to a model: the enum of the schema does not come first."""
    with pytest.raises(ValueError, match=r"^Agent 'x' not found$"):
        agents.load("x")

    async def catches(run: Any, arguments: dict[str, Any]) -> str:
        with pytest.raises(ValueError, match=r"^Agent 'x' not found$") as failed:
            await run.tool("subagent_dispatch", **arguments)
        return type(failed.value).__name__

    recording = recorded(log, made(agents), {"agent_id": "x", "task": "t"}, {}, catches)

    assert recording.output == "AgentUnknown"
    assert reexecute(log, catches, tools=[made(agents)]).identical
    model: dict[str, list[Reply]] = {"agent": [asks("x"), "done"]}
    recorded(log.with_name("two.jsonl"), made(agents), {"task": "go"}, model, "agent")
    (told,) = [one for one in messages(log.with_name("two.jsonl")) if one["role"] == "tool"]
    assert told["is_error"]
    assert told["content"] == "Agent 'x' not found"


def test_065_dispatching_to_oneself_is_the_same_error(agents: AgentLoader, log: Path) -> None:
    arguments = {"agent_id": "lead", "task": "t"}

    failed = recorded(log, made(agents, "lead"), arguments, {}, ask_and_catch).output

    assert failed["message"] == "Agent 'lead' not found"
    assert not log.with_name("run.1.jsonl").exists()


def test_066_a_child_that_fails_is_a_failed_call_and_its_session_is_kept(
    agents: AgentLoader, log: Path
) -> None:
    script: dict[str, list[Reply]] = {
        "reviewer": [asks("x"), {"error": {"code": "http_500", "message": "overloaded"}}]
    }
    arguments = {"agent_id": "reviewer", "task": "look"}

    failed = recorded(log, made(agents), arguments, script, ask_and_catch).output

    assert "overloaded" in failed["message"]
    (ends,) = [
        entry.data["data"]
        for entry in read_entries(log)
        if entry.data.get("text") == "subagent_dispatch ends"
    ]
    session = load_session(log, ends["session_id"])
    assert session.status == "failed"
    assert [message["role"] for message in session.messages] == ["user", "assistant", "tool"]


@pytest.mark.parametrize("runner", some(1, ["in-process", "subprocess"]))
def test_067_nothing_that_a_child_says_reaches_a_frontend(
    agents: AgentLoader, log: Path, capfd: pytest.CaptureFixture[str], runner: str
) -> None:
    """A run has no frontend: what its children say, and fail with, is in their own logs."""
    script: dict[str, list[Reply]] = {"reviewer": [{"name": "none", "arguments": {}}, "fine"]}
    arguments = {"agent_id": "reviewer", "task": "look"}

    recording = recorded(log, made(agents), arguments, script, runner=runner)

    assert json.loads(recording.output)["result"] == "fine"
    assert capfd.readouterr() == ("", "")


async def chatting(run: Any, given: dict[str, Any]) -> str:
    """A host's own agent, which shows all that it does to the frontend that it is given."""
    frontend = SilentFrontend()
    await frontend.show_status("at work")
    reply = await run.model([{"role": "user", "content": given["task"]}])
    await frontend.show_message(reply.message["content"])
    return str(reply.message["content"])


def test_067_a_hosts_own_agent_is_given_a_frontend_that_shows_nothing(
    agents: AgentLoader, log: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """No run makes one: it is for who brings frontends, and wants its children to have none."""
    tool = create_subagent_dispatch_tool(agents, "lead", SharedContext(program=chatting))
    assert tool is not None
    arguments = {"agent_id": "reviewer", "task": "look"}

    recording = recorded(log, tool, arguments, {"*": ["fine"]})

    assert json.loads(recording.output)["result"] == "fine"
    assert reexecute(log, ask, tools=[tool]).identical
    assert capfd.readouterr() == ("", "")


def test_068_agents_dispatch_in_turn_and_the_log_shows_who_asked_whom(
    agents: AgentLoader, log: Path
) -> None:
    script: dict[str, list[Reply]] = {
        "agent": [asks("reviewer"), "done"],
        "reviewer": [asks("scribe"), "reviewed"],
        "scribe": [asks("scribe"), "written"],
    }

    for runner in ("in-process", "subprocess"):
        path = log.with_name(f"{runner}.jsonl")
        recording = recorded(path, made(agents), {"task": "go"}, script, "agent", runner=runner)

        assert recording.output == "done"
        firsts = [
            next(iter(read_entries(path.with_name(f"{runner}{name}.jsonl")))).data
            for name in ("", ".1", ".1.1")
        ]
        assert [first["depth"] for first in firsts] == [0, 1, 2]
        assert [first["parent"]["run"] for first in firsts[1:]] == [
            first["run_id"] for first in firsts[:2]
        ]
        enums = [first["tools"][0]["schema"]["properties"]["agent_id"]["enum"] for first in firsts]
        assert enums == [["reviewer", "scribe"], ["lead", "scribe"], ["lead", "reviewer"]]
        assert reexecute(path, tools=[made(agents)]).identical


def test_069_a_cycle_ends_at_the_engines_ceiling(agents: AgentLoader, log: Path) -> None:
    script: dict[str, list[Reply]] = {
        "agent": [asks("reviewer"), "done"],
        "reviewer": [asks("lead"), "reviewed"],
        "lead": [asks("reviewer"), "led"],
    }

    recording = recorded(log, made(agents), {"task": "go"}, script, "agent")

    assert recording.output == "done"
    deepest = log.with_name(f"run{'.1' * 8}.jsonl")
    assert not deepest.with_name(f"run{'.1' * 9}.jsonl").exists()
    (first, *_) = [entry.data for entry in read_entries(deepest)]
    assert first["tools"] == []


def test_070_without_a_description_there_is_no_agent(tmp_path: Path, log: Path) -> None:
    loader = define(tmp_path / "agents", "lead", "reviewer")
    (tmp_path / "agents" / "mute").mkdir()
    (tmp_path / "agents" / "mute" / "AGENT.md").write_text("---\nname: Mute\n---\nYou are mute.\n")

    with pytest.raises(InvalidDefError, match="description is required"):
        loader.load("mute")
    structlog.configure()
    try:
        with (
            structlog.testing.capture_logs() as lines,
            pytest.warns(RuntimeWarning, match="agent skipped: .*description is required"),
        ):
            tool = made(loader)
    finally:
        structlog.reset_defaults()

    assert enum_of(tool) == ["reviewer"]
    assert [error.agent for error in loader.skipped] == ["mute"]
    (line,) = [line for line in lines if line["event"] == "agent skipped"]
    assert line["agent"] == "mute"
    assert "description is required" in line["reason"]
    assert line["path"].endswith("mute/AGENT.md")
    recorded(log, tool, {"agent_id": "mute", "task": "t"}, {}, ask_and_catch)
    notes = [entry.data for entry in read_entries(log) if entry.kind == "note.added"]
    (skipped,) = [note["data"] for note in notes if note["text"] == "agent skipped"]
    assert skipped["agent"] == "mute"
    assert "description is required" in skipped["reason"]


def test_071_unknown_members_are_refused_and_skills_are_off(tmp_path: Path) -> None:
    known = (
        "name: Reviewer\nprovider: openai\nmodel: gpt-4o\nallow_skills: true\n"
        "tools: [read_file]\ndisallowed_tools: [subagent]\nmax_turns: 3\n"
        "limits: {timeout_seconds: 9}\n"
    )
    define(tmp_path, "reviewer", front=known)
    define(tmp_path, "plain")
    define(tmp_path, "odd", front="temperatur: 1\n")

    reviewer, plain = load_agent(tmp_path / "reviewer"), load_agent(tmp_path / "plain")

    assert (reviewer.id, reviewer.name, reviewer.allow_skills) == ("reviewer", "Reviewer", True)
    assert reviewer.caps == Limits(timeout_seconds=9, max_iterations=3)
    assert reviewer.system_prompt == "You are reviewer."
    assert AgentDef.from_json(reviewer.as_json()) == reviewer
    assert not plain.allow_skills
    with pytest.raises(InvalidDefError, match="unknown member 'temperatur'"):
        load_agent(tmp_path / "odd")


@pytest.mark.parametrize("allow", ["true", "false"])
def test_072_the_tool_is_there_whatever_is_said_of_skills(
    tmp_path: Path, log: Path, allow: str
) -> None:
    loader = define(tmp_path / "agents", "lead", "reviewer", front=f"allow_skills: {allow}\n")

    recorded(log, made(loader), {"agent_id": "reviewer", "task": "t"}, {"reviewer": ["fine"]})

    first = next(iter(read_entries(log.with_name("run.1.jsonl")))).data
    assert [offer["name"] for offer in first["tools"]] == ["subagent_dispatch"]
    assert first["input"]["agent"]["tools"] == ["subagent_dispatch"]


def test_the_context_narrows_what_all_of_them_get(agents: AgentLoader, log: Path) -> None:
    tool = create_subagent_dispatch_tool(
        agents, "lead", SharedContext(limits=Limits(timeout_seconds=5))
    )
    assert tool is not None

    recorded(log, tool, {"agent_id": "reviewer", "task": "t"}, {"reviewer": ["fine"]})

    first = next(iter(read_entries(log.with_name("run.1.jsonl")))).data
    assert first["limits"]["timeout_seconds"] == 5
