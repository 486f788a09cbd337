"""An agent's file says who it is, what it may use and how much; nothing in it goes unread."""

from pathlib import Path
from typing import Any

import pytest

from refold.engine.errors import InvalidDefError, ToolRefused
from refold.engine.events.limits import Limits
from refold.engine.models.scripted import ScriptedModel
from refold.engine.runners.recording import record
from refold.replay.audit.verify import verify
from refold.replay.reexecute.reexecute import reexecute
from refold.tools.agents.agent_files import NAMEABLE_TOOLS, AgentDef, agent_input, load_agent
from refold.tools.configuration.prepared_run import prepare_run


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "reviewer"
    made.mkdir()
    return made


def write(folder: Path, front: str, body: str = "You review.\n") -> Path:
    file = folder / "AGENT.md"
    file.write_text(f"---\n{front}\n---\n{body}")
    return file


def load(folder: Path, front: str, **options: Any) -> AgentDef:
    return load_agent(write(folder, front), **options)


def refusal(folder: Path, front: str) -> str:
    with pytest.raises(InvalidDefError) as refused:
        load(folder, front)
    assert refused.value.path == str(folder / "AGENT.md")
    assert str(refused.value).startswith("Invalid agent 'reviewer': ")
    return refused.value.reason


def test_a_definition_is_its_front_matter_and_the_text_below(folder: Path) -> None:
    front = """
name: Ada
description: Reviews changes.
provider: openai
model: gpt-4o
allow_skills: true
tools: [search_text, read_file]
disallowed_tools: [subagent]
max_turns: 12
parameters: {max_tokens: 8000}
limits: {timeout_seconds: 300, model_tokens: 1000}
"""
    assert load(folder, front, known_tools=("read_file", "search_text", "subagent")) == AgentDef(
        id="reviewer",
        name="Ada",
        description="Reviews changes.",
        system_prompt="You review.",
        provider="openai",
        model="gpt-4o",
        allow_skills=True,
        tools=("search_text", "read_file"),
        disallowed_tools=("subagent",),
        max_turns=12,
        parameters={"max_tokens": 8000},
        limits=Limits(timeout_seconds=300, model_tokens=1000),
    )


def test_only_the_description_is_needed(folder: Path) -> None:
    agent = load(folder, "description: Reviews changes.")

    assert agent == AgentDef(
        id="reviewer",
        name="reviewer",
        description="Reviews changes.",
        system_prompt="You review.",
    )
    assert agent.allow_skills is False


def test_a_folder_stands_for_its_agent_md_and_another_file_for_itself(folder: Path) -> None:
    write(folder, "description: d")
    other = folder / "tester.md"
    other.write_text("---\r\ndescription: d\r\n---\r\n\r\nText\r\n--- \r\nmore")

    assert load_agent(folder) == load_agent(folder / "AGENT.md")
    assert load_agent(other).id == "tester"
    assert load_agent(other).system_prompt == "Text\n--- \nmore"


@pytest.mark.parametrize(
    "front", ["name: Ada", "description:", "description: ''", "description: ' '"]
)
def test_without_a_description_it_is_refused(folder: Path, front: str) -> None:
    assert refusal(folder, front).startswith("description is required")


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ("provider: openai", "provider needs a `model`: add one, or remove the provider"),
        ("desciption: d", "unknown member 'desciption'; did you mean 'description'?"),
        ("zzz: d", "unknown member 'zzz'"),
        ("3: d", "unknown member 3"),
        ("name: 3", "name: expected text, found 3"),
        ("allow_skills: 'yes'", "allow_skills: expected true or false, found 'yes'"),
        ("parameters: [1]", "parameters: expected an object, found [1]"),
        (
            "parameters: {stop: 2026-01-01}",
            "parameters: expected JSON: at /stop: expected a JSON value, found datetime.date",
        ),
        ("max_turns: 0", "max_turns: expected a positive integer, found 0"),
        ("max_turns: true", "max_turns: expected a positive integer, found True"),
        ("max_turns: 2.0", "max_turns: expected a positive integer, found 2.0"),
        ("limits: 3", "limits: expected an object, found 3"),
        ("tools: 3", "tools: expected a list of names, found 3"),
        ("tools: [3]", "tools: expected a list of names, found [3]"),
        (
            "limits: {timeout_seconds: -1}",
            "limit timeout_seconds: expected a positive number of seconds, found -1",
        ),
        (
            "tools: [read_fil]",
            (
                "tools: no tool is named 'read_fil'; did you mean 'read_file'? "
                f"there are: {', '.join(sorted(NAMEABLE_TOOLS))}. Tools of your own are named by "
                "AgentLoader(…, known_tools=…), or by --tools"
            ),
        ),
        ("max_turns: 3\nmaxTurns: 4", "maxTurns and max_turns are the same: remove one of them"),
        ("name: a\nname: b", "name on line 4 already set on line 3"),
        ("limits: {a: 1, a: 2}", "limits.a on line 3 already set on line 3"),
        ("tools: [{a: 1, a: 2}]", "tools[0].a on line 3 already set on line 3"),
        ("hooks: {}", "unknown member 'hooks'"),
    ],
)
def test_what_cannot_be_read_as_meant_is_refused(folder: Path, more: str, reason: str) -> None:
    assert refusal(folder, f"description: d\n{more}").startswith(reason)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"You review.", "expected front matter between two lines of ---"),
        (b"---\ndescription: d\n", "expected front matter between two lines of ---"),
        (b"---\n- a\n---\n", "front matter: expected `name: value` lines"),
        (b"---\n---\n", "front matter: expected `name: value` lines"),
        (b"---\na: [\n---\n", "front matter: while parsing"),
        (b"---\na: !!python/object:os.system {}\n---\n", "front matter: could not determine"),
        (b"---\ndescription: \xff\n---\n", "cannot be read: "),
    ],
)
def test_a_file_that_is_no_definition_is_refused(folder: Path, content: bytes, reason: str) -> None:
    (folder / "AGENT.md").write_bytes(content)

    with pytest.raises(InvalidDefError) as refused:
        load_agent(folder)

    assert refused.value.reason.startswith(reason)


def test_so_is_one_that_is_not_there(folder: Path) -> None:
    with pytest.raises(InvalidDefError, match=r"no such file \(.*AGENT.md\)"):
        load_agent(folder)


CLAUDE = """---
name: code-reviewer
description: Use it after each change.
tools: Read, Grep, Glob, Task
disallowedTools: Bash(rm:*), Write
model: inherit
maxTurns: 7
color: purple
---
You are a reviewer.
"""


def test_an_agent_file_of_claude_code_is_read_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "code-reviewer.md"
    file.write_text(CLAUDE)

    agent = load_agent(file)

    assert agent.tools == ("read_file", "search_text", "list_files", "subagent")
    assert agent.disallowed_tools == ()
    assert agent.caps.max_iterations == 7
    assert (agent.model, agent.model_spec) == ("", "")


@pytest.mark.parametrize(
    ("tools", "reason"),
    [
        ("Read, Bash", "tools: no tool is named 'Bash'; there are:"),
        ("Bash(git:*)", "tools: no tool is named 'Bash(git:*)'; there are:"),
        ("mcp__github__search", "tools: no tool is named 'mcp__github__search'; there are:"),
        ("Agent(worker)", "tools: 'Agent(worker)': a tool cannot be restricted to some"),
    ],
)
def test_what_it_asks_for_and_nobody_has_is_refused(folder: Path, tools: str, reason: str) -> None:
    assert refusal(folder, f"description: d\ntools: {tools}").startswith(reason)


def test_tools_of_ones_own_may_be_named(folder: Path) -> None:
    agent = load(folder, "description: d\ntools: [Bash, ask]", known_tools=["ask", "Bash"])

    assert agent.tools_among(["ask", "Bash", "other"]) == ("Bash", "ask")


@pytest.mark.parametrize(
    ("front", "names"),
    [
        ("", ["list_files", "read_file", "search_text", "subagent"]),
        ("disallowed_tools: [subagent]", ["list_files", "read_file", "search_text"]),
        ("tools: [subagent, read_file]\ndisallowed_tools: [subagent]", ["read_file"]),
        ("tools: []", []),
    ],
)
def test_a_run_has_the_tools_that_the_file_allows(
    folder: Path, front: str, names: list[str]
) -> None:
    write(folder, f"description: d\n{front}")

    given, tools, _ = prepare_run(folder, task="go", root=folder)

    assert [tool.name for tool in tools] == names
    assert given["agent"]["tools"] == names


@pytest.mark.parametrize(
    ("front", "cap"),
    [
        ("", None),
        ("max_turns: 1", 1),
        ("max_turns: 3", 3),
        ("max_turns: 3\nlimits: {max_iterations: 2}", 2),
    ],
)
def test_a_run_has_the_lower_of_both_caps_on_turns(
    folder: Path, front: str, cap: int | None
) -> None:
    write(folder, f"description: d\n{front}")

    _, _, limits = prepare_run(folder, task="go", root=folder)

    assert limits == Limits(max_iterations=cap)


def test_the_input_says_what_the_loop_needs(folder: Path) -> None:
    agent = load(folder, "description: d\nname: Ada\ntools: [read_file]")

    assert agent_input(agent, "go", context="c", files=("a",)) == {
        "agent": {"name": "Ada", "system": "You review.", "tools": ["read_file"]},
        "task": "go",
        "context": "c",
        "files": ["a"],
    }


def test_the_file_tools_read_below_the_root_and_need_one(folder: Path) -> None:
    write(folder, "description: d")

    with pytest.raises(ToolRefused):
        prepare_run(folder, task="go", root=folder / "absent")


def test_a_prepared_run_can_be_recorded_verified_and_replayed(folder: Path, tmp_path: Path) -> None:
    write(folder, "description: d\nname: Ada\ntools: Read, Task")
    (folder / "a.txt").write_text("42\n")
    model = ScriptedModel(
        {
            "Ada": [{"name": "subagent", "arguments": {"task": "read a.txt"}}, "It says 42."],
            "subagent": [{"name": "read_file", "arguments": {"path": "a.txt"}}, "42"],
        }
    )

    given, tools, limits = prepare_run(folder, task="What does a.txt say?", root=folder)
    log = tmp_path / "run.jsonl"
    recording = record("agent", given, tools=tools, limits=limits, model=model, log=log)

    assert recording.output == "It says 42."
    assert recording.usage.requests == 4
    assert [report.intact and report.complete for report in verify(log).logs] == [True, True]
    replayed = reexecute(log, tools=[tool for tool in tools if tool.delegates])
    assert replayed.identical, str(replayed)
    assert replayed.children == 1
