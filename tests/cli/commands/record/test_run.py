"""`refold run` records an agent file with a model that is named; 5 where it does not complete."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import structlog
from click.testing import Result

from refold.engine.runners.shipped import RUNNERS
from refold.replay.run.opened_run import delegation_tree
from refold.tools.delegation.saved_sessions import load_session
from refold.tools.delegation.subagent_dispatch import session_id_of
from tests.contract.acceptance.test_004_spawn import SAMPLE
from tests.support.loops import some
from tests.support.schemas import validate
from tests.support.unfinished import cut

Invoke = Callable[..., Result]

AGENT = """---
name: reader
description: Reads files.
tools: [list_files]
---
You read.
"""
REPLIES = """
reader:
  - {name: list_files, arguments: {}}
  - "Two\\x1b[2J files."
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "AGENT.md").write_text(AGENT)
    (tmp_path / "replies.yaml").write_text(REPLIES)
    return tmp_path


def _run(invoke: Invoke, folder: Path, *more: str, task: str = "look", stdin: str = "") -> Result:
    model = f"scripted:{folder / 'replies.yaml'}"
    words = ["--task", task, "--model", model, "--root", folder, "--log", folder / "a.jsonl"]
    return invoke("run", folder / "AGENT.md", *words, *more, stdin=stdin)


def test_it_says_the_answer_safely_and_where_it_was_recorded(folder: Path, invoke: Invoke) -> None:
    said = _run(invoke, folder)

    assert said.exit_code == 0
    assert said.stdout == "Two\\x1b[2J files.\n"
    assert str(folder / "a.jsonl") in said.stderr
    head = json.loads((folder / "a.jsonl").read_bytes().splitlines()[-1])["hash"]
    assert f"head {head}\n" in said.stderr


def test_what_it_recorded_replays_by_its_name(folder: Path, invoke: Invoke) -> None:
    _run(invoke, folder)

    said = invoke("replay", folder / "a.jsonl")

    assert said.exit_code == 0
    assert "tool calls executed: 0" in said.stdout


def test_the_document_is_as_its_schema_says(folder: Path, invoke: Invoke) -> None:
    document = json.loads(_run(invoke, folder, "--json").stdout)

    validate(document, "run")
    assert document["status"] == "completed"
    assert document["log"] == str(folder / "a.jsonl")


def test_a_task_is_read_from_standard_input(folder: Path, invoke: Invoke) -> None:
    assert _run(invoke, folder, task="-", stdin="look there\n").exit_code == 0
    assert "look there" in (folder / "a.jsonl").read_text()


def test_an_empty_task_is_usage(folder: Path, invoke: Invoke) -> None:
    assert _run(invoke, folder, task="-", stdin=" \n").exit_code == 2


def test_a_run_that_stops_at_a_limit_is_five_and_recorded(folder: Path, invoke: Invoke) -> None:
    said = _run(invoke, folder, "--limit", "max_iterations=1")

    assert said.exit_code == 5
    assert "max_iterations" in said.stderr
    assert invoke("verify", folder / "a.jsonl").exit_code == 0


@pytest.mark.parametrize(
    "words",
    [
        ["missing/AGENT.md", "--task", "t", "--model", "scripted:replies.yaml"],
        ["AGENT.md", "--task", "t"],
        ["AGENT.md", "--task", "t", "--model", "nobody:x"],
        ["AGENT.md", "--task", "t", "--model", "scripted:missing.yaml"],
        ["AGENT.md", "--model", "scripted:replies.yaml"],
        ["AGENT.md", "--task", "t", "--model", "scripted:replies.yaml", "--root", "missing"],
        ["AGENT.md", "--task", "t", "--model", "scripted:replies.yaml", "--log", "AGENT.md"],
    ],
)
def test_what_is_wrong_with_the_call_is_usage_and_nothing_is_recorded(
    words: list[str], folder: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)

    said = invoke("run", *words)

    assert said.exit_code == 2
    assert "fault of Refold" not in said.stderr
    assert not list(folder.glob("**/*.jsonl"))


def test_a_program_is_no_agent_and_is_told_how_it_runs(folder: Path, invoke: Invoke) -> None:
    """Whatever else is missing from the call."""
    said = invoke("run", folder / "orchestrate.py:main")

    assert said.exit_code == 2
    assert "is not an agent file" in said.stderr
    assert "`refold record -- python orchestrate.py`" in said.stderr


def test_a_log_that_is_there_is_never_overwritten(folder: Path, invoke: Invoke) -> None:
    _run(invoke, folder)

    assert _run(invoke, folder).exit_code == 2


def test_each_delegation_is_one_line_of_diagnostics_when_asked_for(
    folder: Path, invoke: Invoke
) -> None:
    (folder / "AGENT.md").write_text(AGENT.replace("[list_files]", "[subagent]"))
    (folder / "replies.yaml").write_text(
        "reader:\n  - {name: subagent, arguments: {task: dig}}\n  - Done.\nsubagent:\n  - Dug.\n"
    )
    model = f"scripted:{folder / 'replies.yaml'}"
    words = ("run", folder / "AGENT.md", "--task", "t", "--model", model)

    structlog.reset_defaults()  # another test may have configured it in this process
    quiet = invoke(*words, "--log", folder / "b.jsonl")
    said = invoke("--log-level", "info", *words, "--log", folder / "a.jsonl")

    (line,) = [each for each in said.stderr.splitlines() if each.startswith("{")]
    assert json.loads(line)["level"] == "info"
    assert "replay" not in json.loads(line)
    assert "{" not in quiet.stderr
    assert "└─ completed subagent 1" in invoke("show", folder / "a.jsonl").stdout


def test_what_is_said_again_in_a_replay_is_marked(folder: Path, invoke: Invoke) -> None:
    """Case 103: whoever counts delegations by their lines counts none twice."""
    (folder / "AGENT.md").write_text(AGENT.replace("[list_files]", "[subagent]"))
    (folder / "replies.yaml").write_text(
        "reader:\n  - {name: subagent, arguments: {task: dig}}\n  - Done.\nsubagent:\n  - Dug.\n"
    )
    log = folder / "a.jsonl"
    model = f"scripted:{folder / 'replies.yaml'}"
    invoke("run", folder / "AGENT.md", "--task", "t", "--model", model, "--log", log)

    said = invoke("--log-level", "info", "replay", log)

    (line,) = [each for each in said.stderr.splitlines() if each.startswith("{")]
    assert said.exit_code == 0
    assert json.loads(line)["replay"] is True


FIVE = """---
name: lead
description: Delegates.
tools: [subagent, dispatch_subagent, dispatch_subagents, subagent_dispatch, spawn, spawn_await,
        planning_setup_plan]
---
You lead.
"""
CALLS = """
lead:
  - tool_calls:
      - {name: planning_setup_plan, arguments: {objective: all five}}
      - {name: subagent, arguments: {task: one}}
      - name: dispatch_subagent
        arguments: {mode: ad_hoc, prompt_ns: agents, prompt_key: helper, instructions: two}
      - {name: dispatch_subagents, arguments: {tasks: [{objective: three}]}}
      - {name: subagent_dispatch, arguments: {agent_id: helper, task: four}}
      - {name: spawn, arguments: {task: five, profile: sage}}
  - {name: spawn_await, arguments: {job_ids: "*"}}
  - done
"*": [did it]
"""
PROJECT = """
tools:
  spawn: {enabled: true, profiles: {sage: {system_prompt: Be wise.}}}
limits: {max_depth: 2}
"""


@pytest.mark.parametrize(
    "runner",
    [
        each if each == "in-process" else pytest.param(each, marks=pytest.mark.long)
        for each in RUNNERS
    ],
)
def test_all_five_tools_can_be_named_and_the_log_is_all_that_a_replay_needs(
    tmp_path: Path,
    runner: str,
    invoke: Invoke,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    """With a configuration, a plan, and another agent beside this one; on each runner."""
    if runner == "ray":
        request.getfixturevalue("ray_nodes")
    for name, text in (("lead", FIVE), ("helper", "---\ndescription: Helps.\n---\nYou help.\n")):
        (tmp_path / "agents" / name).mkdir(parents=True)
        (tmp_path / "agents" / name / "AGENT.md").write_text(text)
    (tmp_path / "replies.yaml").write_text(CALLS)
    (tmp_path / "refold.yaml").write_text(PROJECT)
    monkeypatch.chdir(tmp_path)
    words = ["--task", "go", "--model", "scripted:replies.yaml", "--log", "run.jsonl"]

    said = invoke("run", "agents/lead", *words, "--runner", runner, "--json")

    assert said.exit_code == 0, said.output
    tools = {child.tool: child.status for child in delegation_tree("run.jsonl").children}
    assert tools == dict.fromkeys(
        ["subagent", "dispatch_subagent", "dispatch_subagents", "subagent_dispatch", "spawn"],
        "completed",
    )
    (tmp_path / "refold.yaml").unlink()
    shutil.rmtree(tmp_path / "agents")
    replayed = invoke("replay", "run.jsonl")
    assert replayed.exit_code == 0, replayed.output
    assert replayed.stdout.startswith("identical")


def test_a_configuration_that_is_wrong_is_usage_with_its_line(
    tmp_path: Path, invoke: Invoke
) -> None:
    (tmp_path / "AGENT.md").write_text(AGENT)
    config = tmp_path / "other.yaml"
    config.write_text("tools:\n  spawn:\n    enabeld: true\n")

    said = invoke("run", tmp_path, "--task", "t", "--model", "scripted:x", "--config", config)

    assert said.exit_code == 2
    assert f"{config}:3: tools.spawn.enabeld" in said.stderr.replace("\n", "")
    assert "did you mean 'enabled'?" in " ".join(said.stderr.split())


def test_the_default_pool_is_the_model_where_none_is_named(tmp_path: Path, invoke: Invoke) -> None:
    (tmp_path / "AGENT.md").write_text("---\ndescription: d\ntools: []\n---\n")
    (tmp_path / "replies.yaml").write_text("'*': [hello]\n")
    config = tmp_path / "refold.yaml"
    spec = f"scripted:{tmp_path / 'replies.yaml'}"
    config.write_text(f"llm: {{default_pool: fast, pools: {{fast: '{spec}'}}}}\n")
    log = tmp_path / "run.jsonl"

    said = invoke("run", tmp_path, "--task", "t", "--config", config, "--log", log)

    assert said.exit_code == 0, said.output
    assert "hello" in said.stdout


OWN = """
import refold
from refold.engine.ports.ports import Delegation
from refold.tools import DelegationTool


@refold.tool(effect="reads")
def web_search(query: str) -> str:
    \"\"\"Search the web.\"\"\"
    return f"a page on {query}"


@refold.tool
def shell(command: str) -> str:
    \"\"\"Run a command.\"\"\"
    return "ran"


async def twice(run, arguments):
    child = Delegation(program="agent", input={"task": arguments["task"]}, tools=(), tool="twice")
    return [(await run.delegate(child)).summary for _ in range(2)]


TWICE = DelegationTool(
    name="twice",
    description="Ask two agents the same.",
    parameters={"type": "object", "properties": {"task": {"type": "string"}}},
    handler=twice,
)
TOOLS = [web_search, shell, TWICE]
"""
PROFILES = """
tools:
  spawn:
    enabled: true
    profiles:
      researcher:
        system_prompt: "Focus on academic sources."
        tools: [web_search, shell, read_file]
"""


@pytest.fixture
def lead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an agent that names no tools, tools of one's own, and a profile with them."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "AGENT.md").write_text("---\nname: lead\ndescription: Leads.\n---\nYou lead.\n")
    (tmp_path / "mine.py").write_text(OWN)
    (tmp_path / "refold.yaml").write_text(PROFILES)
    return tmp_path


def test_tools_of_ones_own_can_be_named_by_profiles(lead: Path, invoke: Invoke) -> None:
    """So the sample of the `spawn` document runs: `web_search` and `shell` are for users to add."""
    (lead / "replies.yaml").write_text(
        """
lead:
  - {name: spawn, arguments: {task: dig, profile: researcher}}
  - {name: spawn_await, arguments: {job_ids: "*"}}
  - "done"
researcher:
  - {name: web_search, arguments: {query: salt}}
  - "dug"
"""
    )
    words = ["--model", "scripted:replies.yaml", "--tools", "mine.py:TOOLS", "--log", "a.jsonl"]

    said = invoke("run", "AGENT.md", "--task", "go", *words)

    assert said.exit_code == 0, said.output
    assert "a page on salt" in (lead / "a.1.jsonl").read_text()
    assert invoke("replay", "a.jsonl").exit_code == 0
    without = invoke("run", "AGENT.md", "--task", "go", *words[:2])
    assert without.exit_code == 2
    assert "refold.yaml:8" in without.stderr
    assert "'web_search' is not a registered tool" in without.stderr


def test_the_sample_of_the_document_runs_with_tools_and_models_for_its_names(
    lead: Path, invoke: Invoke
) -> None:
    """All of it, `enabled` apart: prompt files, a profile's tools, and its pool."""
    sample = SAMPLE.replace("enabled: false", "enabled: true")
    pools = "\nllm: {pools: {smart: 'scripted:smart.yaml', fast: 'scripted:replies.yaml'}}\n"
    (lead / "refold.yaml").write_text(sample + pools)
    (lead / "SOUL.md").write_text("Be kind.\n")
    (lead / "RESEARCHER.md").write_text("Cite.\n")
    names = "web_search, shell, read_file, write_file, list_files, spawn, spawn_await"
    (lead / "AGENT.md").write_text(
        f"---\nname: lead\ndescription: Leads.\ntools: [{names}]\n---\nYou lead.\n"
    )
    (lead / "smart.yaml").write_text("researcher: [dug]\n")
    (lead / "replies.yaml").write_text(
        """
lead:
  - tool_calls:
      - {name: spawn, arguments: {task: dig, profile: researcher}}
      - {name: spawn, arguments: {task: code, profile: coder}}
  - {name: spawn_await, arguments: {job_ids: "*"}}
  - "done"
coder: [coded]
"""
    )
    words = ["--model", "scripted:replies.yaml", "--tools", "mine.py:TOOLS", "--log", "a.jsonl"]

    said = invoke("run", "AGENT.md", "--task", "go", *words)

    assert said.exit_code == 0, said.output
    assert [node.status for node in delegation_tree(lead / "a.jsonl").children] == ["completed"] * 2
    first = json.loads((lead / "a.1.jsonl").read_text().splitlines()[0])["data"]
    system = "Be kind.\n\n---\n\nCite.\n\n---\n\nFocus on academic sources."
    assert first["input"]["agent"]["system"] == system
    assert [one["name"] for one in first["tools"]] == ["read_file", "shell", "web_search"]
    assert invoke("replay", "a.jsonl").exit_code == 0


def test_so_can_a_delegation_tool_of_ones_own(lead: Path, invoke: Invoke) -> None:
    (lead / "replies.yaml").write_text(
        """
lead: [{name: twice, arguments: {task: think}}, "done"]
agent: ["once"]
"""
    )
    words = ["--model", "scripted:replies.yaml", "--tools", "mine.py:TOOLS", "--log", "a.jsonl"]

    said = invoke("run", "AGENT.md", "--task", "go", *words)

    assert said.exit_code == 0, said.output
    assert [node.tool for node in delegation_tree(lead / "a.jsonl").children] == ["twice", "twice"]
    assert invoke("replay", "a.jsonl", "--tools", "mine.py:TOOLS").exit_code == 0
    told = invoke("replay", "a.jsonl").stderr
    assert "and runs again in a replay" in " ".join(told.split())


@pytest.fixture
def sages(tmp_path: Path) -> Path:
    """A lead that dispatches to an agent whose file names a model, and a script for each."""
    lead = "---\ndescription: Leads.\ntools: [subagent_dispatch]\n---\n"
    for name, text in (("lead", lead), ("sage", "---\ndescription: d\nmodel: wise\n---\n")):
        (tmp_path / "agents" / name).mkdir(parents=True)
        (tmp_path / "agents" / name / "AGENT.md").write_text(text)
    call = "{name: subagent_dispatch, arguments: {agent_id: sage, task: t}}"
    (tmp_path / "lead.yaml").write_text(f"lead: [{call}, done]\n")
    (tmp_path / "sage.yaml").write_text("sage: [it is so]\n")
    return tmp_path


@pytest.mark.parametrize("runner", some(1, ["in-process", "subprocess"]))
def test_an_agents_own_model_answers_it(sages: Path, invoke: Invoke, runner: str) -> None:
    """002: `--model NAME=…` says which the name in its file means; a resumed run has it, too."""
    log = sages / "run.jsonl"
    wise = f"wise=scripted:{sages}/sage.yaml"
    models = ["--model", f"scripted:{sages}/lead.yaml", "--model", wise]
    words = ["run", sages / "agents" / "lead", "--task", "t", *models, "--runner", runner]

    said = invoke(*words, "--log", log)

    assert said.exit_code == 0, said.output
    shown = json.loads(invoke("show", log, "--json").stdout)
    assert [node["models"] for node in (shown, *shown["children"])] == [["scripted"], ["scripted"]]
    assert load_session(log, session_id_of(shown["children"][0]["run_id"])).messages[-1] == {
        "role": "assistant",
        "content": "it is so",
    }
    begun = cut(log, sages / "cut.jsonl", 3)
    agent = ["--agent", sages / "agents" / "lead"]
    lead = (sages / "lead.yaml").read_text()
    (sages / "both.yaml").write_text(f"{lead}sage: [it is still so]\n")
    for given, reply in (
        (models, "it is so"),
        (["--model", f"scripted:{sages}/both.yaml"], "it is still so"),
    ):
        shutil.copy(begun, again := sages / f"{len(reply)}.jsonl")
        resumed = invoke("resume", again, *agent, *given)
        assert resumed.exit_code == 0, resumed.output
        (child,) = delegation_tree(again).children
        session = load_session(again, session_id_of(child.run_id))
        assert session.messages[-1]["content"] == reply


def test_a_model_that_nothing_names_is_refused_before_anything_is_recorded(
    sages: Path, invoke: Invoke
) -> None:
    words = ["run", sages / "agents" / "lead", "--task", "t", "--log", sages / "run.jsonl"]

    said = invoke(*words, "--model", f"scripted:{sages}/lead.yaml")

    assert said.exit_code == 2
    assert "agent 'sage' uses the model 'wise'" in " ".join(said.stderr.split())
    assert not (sages / "run.jsonl").exists()
