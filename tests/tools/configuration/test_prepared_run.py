"""An agent's file names its tools; the project's configuration says which of them it may have."""

from pathlib import Path
from typing import Any

import pytest

from refold.engine.errors import InvalidDefError, UsageError
from refold.engine.events.limits import Limits
from refold.engine.models.scripted import Reply, ScriptedModel
from refold.engine.runners.recording import record
from refold.tools.agents.agent_files import DELEGATION_TOOLS, PLANNING_TOOLS
from refold.tools.agents.plans import Plan
from refold.tools.configuration.config import load_config
from refold.tools.configuration.prepared_run import (
    models_for,
    pool_models,
    prepare_run,
    session_for,
)
from tests.support.loops import for_each, table
from tests.support.tool_ends import LEAST


def lead_of(folder: Path, front: str, config: str = "") -> tuple[dict[str, Any], list[str], Limits]:
    """Return the input, the names of the tools, and the limits of an agent in `folder/lead`."""
    lead = folder / "lead"
    lead.mkdir(exist_ok=True)
    (lead / "AGENT.md").write_text(f"---\ndescription: d\n{front}---\nYou lead.\n")
    (folder / "refold.yaml").write_text(config)
    given, tools, limits = prepare_run(lead, task="go", root=folder, config=load_config(folder))
    return given, [tool.name for tool in tools], limits


@pytest.fixture
def team(tmp_path: Path) -> Path:
    """A folder of agents with one more than the lead."""
    (tmp_path / "lead").mkdir()
    (tmp_path / "lead" / "helper.md").write_text("---\ndescription: Helps.\n---\nYou help.\n")
    return tmp_path


DEFAULT = ["list_files", "read_file", "search_text", "subagent"]


@pytest.mark.parametrize(
    ("front", "config", "names"),
    [
        ("", "", DEFAULT),
        ("disallowed_tools: [subagent]\n", "", DEFAULT[:3]),
        ("tools: [read_file]\n", "", ["read_file"]),
        ("tools: [spawn, spawn_await]\n", "", ["spawn", "spawn_await"]),
        ("tools: [spawn]\n", "tools: {spawn: {enabled: false}}", []),
        ("tools: [spawn]\n", "tools: {spawn: {enabled: true}}", ["spawn", "spawn_await"]),
        ("tools: [spawn]\n", "tools: {enabled: [spawn]}", ["spawn", "spawn_await"]),
        ("", "tools: {spawn: {enabled: true}}", sorted([*DEFAULT, "spawn", "spawn_await"])),
        ("tools: [subagent_dispatch]\n", "", ["subagent_dispatch"]),
        ("", "agents: lead", sorted([*DEFAULT, "subagent_dispatch"])),
        ("tools: [read_file]\n", "agents: lead", ["read_file", "subagent_dispatch"]),
        ("tools: []\ndisallowed_tools: [subagent_dispatch]\n", "agents: lead", []),
        ("tools: []\n", "{agents: lead, tools: {disabled: [subagent_dispatch]}}", []),
        ("tools: [dispatch_subagent]\n", "", ["dispatch_subagent"]),
        ("tools: [dispatch_subagents]\n", "", ["dispatch_subagents"]),
        ("tools: [planning_read_plan]\n", "", ["planning_read_plan"]),
        ("tools: [write_file, read_file]\n", "", ["read_file", "write_file"]),
        (
            "tools: [run_command]\n",
            "tools: {run_command: {allow: [git]}}",
            ["run_command"],
        ),
        ("", "tools: {disabled: [read_file]}", ["list_files", "search_text", "subagent"]),
        ("", "tools: {enabled: [read_file]}", ["read_file", "subagent"]),
    ],
)
def test_an_agent_has_what_it_names_and_may(
    team: Path, front: str, config: str, names: list[str]
) -> None:
    given, found, _ = lead_of(team, front, config)

    assert found == names
    assert given["agent"]["tools"] == names


def test_all_five_can_be_named(team: Path) -> None:
    _, names, _ = lead_of(team, f"tools: [{', '.join(DELEGATION_TOOLS)}]\n")

    assert names == sorted(DELEGATION_TOOLS)


@for_each("own, read, passed_over", table("""
    mine         mine/reviewer.md         secret.md
    mine         mine/agents/reviewer.md  mine/secret.md
    agents/mine  agents/reviewer.md       agents/mine/secret.md
    agents/mine  agents/reviewer.md       secret.md
"""))  # fmt: skip
def test_agents_of_other_projects_are_not_offered(
    own: str, read: str, passed_over: str, tmp_path: Path
) -> None:
    """And the folder that was read is noted, with the files that define none."""
    front = "---\ndescription: d\ntools: [subagent_dispatch, dispatch_subagent]\n---\n"
    broken = str(Path(read).with_name("broken.md"))
    for name in (f"{own}/AGENT.md", read, passed_over, broken):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("" if name == broken else front)

    found = prepare_run(tmp_path / own, task="go", root=tmp_path)

    assert [agent.id for agent in found.agents] == ["mine", "reviewer"]
    folder, skipped = found.notes
    assert folder == f"other agents in {(tmp_path / read).parent}: reviewer"
    assert skipped.startswith("skipped: Invalid agent 'broken'")


@for_each("named, config, why", table("""
    spawn              {spawn: {profiles: {}}}        set tools.spawn.enabled in refold.yaml
    read_file          {disabled: [read_file]}        the configuration does not enable it
    subagent_dispatch  {}                             there is no other agent
"""))  # fmt: skip
def test_a_named_tool_that_an_agent_does_not_get_is_noted(
    named: str, config: str, why: str, tmp_path: Path
) -> None:
    (tmp_path / "refold.yaml").write_text(f"tools: {config}\n")
    (tmp_path / "lead.md").write_text(f"---\ndescription: d\ntools: [{named}]\n---\n")

    found = prepare_run(
        tmp_path / "lead.md", task="go", root=tmp_path, config=load_config(tmp_path)
    )

    assert found.notes[-1] == f"lead has no {named}: {why}"


def test_alone_there_is_nobody_to_dispatch_to(tmp_path: Path) -> None:
    assert lead_of(tmp_path, "tools: [subagent_dispatch]\n")[1] == []


@pytest.mark.parametrize("kind", ["spawn", "dispatch_subagents", "dispatch_subagent"])
def test_a_person_can_be_asked_before_any_delegation(kind: str, team: Path, tmp_path: Path) -> None:
    lead_of(team, f"tools: [{kind}]\n", f"tools: {{approval: [{kind}]}}")
    config = load_config(team)
    given, tools, _ = prepare_run(team / "lead", task="go", root=team, config=config)
    model = ScriptedModel([{"name": kind, "arguments": LEAST[kind]}, "done"])

    recording = record(
        "agent", given, log=tmp_path / "run.jsonl", tools=tools, model=model,
        session=session_for(tools),
    )  # fmt: skip

    assert recording.status == "suspended"
    assert len(recording.questions) == 1


def test_subagent_answers_that_it_is_not_enabled(team: Path, tmp_path: Path) -> None:
    lead = team / "lead"
    lead_of(team, "tools: [subagent]\n", "tools: {disabled: [subagent]}")
    given, tools, limits = prepare_run(lead, task="go", root=team, config=load_config(team))
    calls: list[Reply] = [{"name": "subagent", "arguments": {"task": "dig"}}, "done"]

    async def program(run: Any, _: Any) -> Any:
        return await run.tool("subagent", task="dig")

    model = ScriptedModel(calls)
    assert record("agent", given, log=tmp_path / "a.jsonl", tools=tools, model=model).ok
    result = record(program, log=tmp_path / "b.jsonl", tools=tools, limits=limits).output
    assert result["error"] == "disabled: subagent is not enabled in this phase"


def test_limits_are_the_lower_of_both(team: Path) -> None:
    _, _, limits = lead_of(team, "max_turns: 3\n", "limits: {max_iterations: 9, max_depth: 2}")

    assert limits == Limits(max_iterations=3, max_depth=2)


def test_profiles_stand_in_the_prompt_of_who_may_spawn(team: Path) -> None:
    config = "tools: {spawn: {enabled: true, profiles: {sage: {system_prompt: Be wise.}}}}"

    with_block = lead_of(team, "", config)[0]["agent"]["system"]
    without = lead_of(team, "tools: [read_file]\n", config)[0]["agent"]["system"]
    alone = lead_of(team, "tools: [spawn]\n", config)[0]["agent"]["system"]

    assert alone == with_block
    assert '<profile name="sage">Be wise. Tools: all.</profile>' in with_block
    assert without == "You lead."


def test_who_is_spawned_is_in_the_default_pool(team: Path) -> None:
    lead_of(team, "tools: [spawn]\n", "llm: {default_pool: fast, pools: {fast: 'openai:x'}}")

    _, (spawn, _), _ = prepare_run(team / "lead", task="go", root=team, config=load_config(team))

    assert spawn.reference is not None
    assert (spawn.reference.arguments or {})["options"]["default_pool"] == "fast"


def test_without_a_list_no_command_can_be_had(team: Path) -> None:
    with pytest.raises(InvalidDefError, match=r"tools\.run_command\.allow"):
        lead_of(team, "tools: [run_command]\n")


def test_commands_have_the_variables_that_are_named(team: Path) -> None:
    config = "tools: {run_command: {allow: [git], environment: [EDITOR]}}"
    lead_of(team, "tools: [run_command]\n", config)

    _, (command,), _ = prepare_run(team / "lead", task="go", root=team, config=load_config(team))

    assert command.reference is not None
    given = command.reference.arguments or {}
    assert (given["allow"], given["environment"]) == (["git"], ["EDITOR"])


def test_pools_are_models(team: Path) -> None:
    config = "llm: {pools: {fast: 'openai:gpt-4o-mini', local: {model: 'openai:x', base_url: 'http://h/v1'}}}"
    (team / "refold.yaml").write_text(config)

    models = pool_models(load_config(team))

    assert {name: model.name for name, model in models.items()} == {
        "fast": "openai:gpt-4o-mini",
        "local": "openai:x",
    }


def test_who_plans_needs_a_session(team: Path) -> None:
    (team / "AGENT.md").write_text(f"---\ndescription: d\ntools: [{PLANNING_TOOLS[0]}]\n---\n")
    _, tools, _ = prepare_run(team, task="go", root=team)

    session = session_for(tools)
    assert session is not None
    assert session.select_all(Plan) == ()
    assert session_for(()) is None
    assert session.factory is not None, "children in other processes make theirs"


A, B = "openai:a", "openai:b"


def models_of(folder: Path, said: dict[str, str], lead: str = "", config: str = "") -> Any:
    """Return the models of a lead beside two agents whose files name one each."""
    front = f"tools: [subagent_dispatch]\n{lead}"
    lead_of(folder, front, config)
    (folder / "lead" / "sage.md").write_text("---\ndescription: d\nmodel: wise\n---\n")
    (folder / "lead" / "clerk.md").write_text(
        "---\ndescription: d\nprovider: openai\nmodel: small\n---\n"
    )
    settings = load_config(folder)
    found = prepare_run(folder / "lead", task="go", root=folder, config=settings)
    made = models_for(found.agents, settings, said=said)
    return {name: model.name for name, model in made.items()}


@pytest.mark.parametrize(
    ("said", "lead", "config", "found"),
    [
        ({"": A, "wise": B}, "", "", {"": A, "wise": B}),
        ({"": A}, "", "llm: {pools: {wise: 'openai:b'}}", {"": A, "wise": B}),
        ({"": A, "*": B}, "", "", {"": A, "wise": B, "openai:small": B}),
        ({"wise": B}, "model: wise\n", "", {"": B, "wise": B}),
        ({"": A, "wise": B}, "model: own\n", "", {"": A, "wise": B, "own": A}),
    ],
)
def test_an_agents_own_model_is_a_model_of_the_run(
    team: Path, said: dict[str, str], lead: str, config: str, found: dict[str, str]
) -> None:
    """§10.16: as its file names it, or as is said of the name; the lead's, too."""
    assert models_of(team, said, lead, config) == {"openai:small": "openai:small", **found}


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"": "openai:a"}, "agent 'sage' uses the model 'wise', which is not defined"),
        ({"wise": "openai:b", "wize": "openai:c"}, "--model wize=…: no agent uses that model name"),
    ],
)
def test_a_name_without_a_model_is_refused(team: Path, said: dict[str, str], why: str) -> None:
    """And so is a model for a name that no file has."""
    with pytest.raises(UsageError, match=why):
        models_of(team, said)


def test_models_of_agents_that_cannot_be_given_a_task_are_not_asked_for(team: Path) -> None:
    (team / "lead" / "wise.md").write_text("---\ndescription: d\nmodel: wise\n---\n")
    lead_of(team, "disallowed_tools: [subagent_dispatch]\n", "agents: lead")
    config = load_config(team)
    found = prepare_run(team / "lead", task="go", root=team, config=config)

    assert [agent.id for agent in found.agents] == ["lead"]
    assert models_for(found.agents, config, said={"": "openai:a"}).keys() == {""}
