"""A dialect is one file; what is shipped is found by name, as a run was offered it."""

import importlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import refold
from refold.engine.errors import NotReady, OptionRefused, ToolError, ToolUnknown, UsageError
from refold.engine.events.limits import Limits
from refold.engine.log.reader import read_entries
from refold.engine.models import FunctionModel
from refold.engine.models.scripted import ScriptedModel
from refold.engine.ports.offers import offer_of
from refold.engine.ports.ports import Tool
from refold.engine.ports.programs import load
from refold.engine.runners.recording import record
from refold.replay.reexecute.reexecute import reexecute
from refold.replay.run.opened_run import delegation_tree
from refold.tools import file_tools, run_command_tool, write_file_tool
from refold.tools.agents.agent_files import AgentDef, AgentLoader, agent_prompts
from refold.tools.agents.profiles import SpawnProfile, SpawnSettings
from refold.tools.agents.prompts import Prompt, PromptRegistry
from refold.tools.configuration.prepared_run import planned
from refold.tools.contract.policy import POLICIES
from refold.tools.contract.registry import Registry
from refold.tools.contract.tool_types import with_approval
from refold.tools.delegation.dispatch_subagent import dispatch_subagent_tool
from refold.tools.delegation.shipped import (
    MAKERS,
    Kind,
    as_offered,
    offered_tools,
    shipped_tools,
    subagents,
)
from refold.tools.delegation.spawn import spawn_tools
from refold.tools.delegation.subagent import subagent_tool
from tests.support.loops import for_each, some
from tests.support.tool_ends import LEAST, look

SIXTH = '''
"""`handoff`: hand a task over and give back the other's words."""

from refold.engine.ports.ports import Delegation
from refold.engine.ports.ports import Reference
from refold.tools.contract.tool_types import DelegationTool
from refold.tools.delegation.shared import call_begins, call_ends
from refold.tools.delegation.words import answer_of, error_of


def handoff_tool():
    return DelegationTool(
        name="handoff",
        description="Hand a task over.",
        parameters={"type": "object", "properties": {"task": {"type": "string"}}},
        handler=handoff,
        reference=Reference(__name__, "handoff_tool", {}),
    )


async def handoff(run, arguments):
    ticket = call_begins(run, "handoff", arguments["task"])
    outcome = await run.delegate(
        Delegation(
            program="agent",
            input={"agent": {"name": "other"}, "task": arguments["task"]},
            brief=arguments["task"],
            tool="handoff",
            levels=1,
        ),
    )
    call_ends(run, ticket, success=outcome.ok)
    return error_of(outcome, run=run) or answer_of(outcome)
'''

SHIPPED = """
import json, sys
from refold.tools.contract.policy import POLICIES

POLICIES["handoff"] = ()

from click.testing import CliRunner
from handoff_dialect import handoff_tool
from refold.cli.group import refold
from refold.tools.delegation.shipped import MAKERS

MAKERS["handoff"] = lambda: (handoff_tool(),)
said = [CliRunner().invoke(refold, words) for words in json.load(sys.stdin)]
print(json.dumps([[one.exit_code, one.output] for one in said]))
"""
"""The recipe of `tools.delegation`, followed in a process of its own, and commands of it."""


@pytest.fixture
def handoff(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Tool, ...]:
    """A sixth dialect beside the others: one file."""
    (tmp_path / "handoff_dialect.py").write_text(SIXTH)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "handoff_dialect", raising=False)
    return (importlib.import_module("handoff_dialect").handoff_tool(),)


@pytest.mark.parametrize("runner", some(1, ["in-process", "subprocess"]))
def test_a_sixth_dialect_is_one_file(
    handoff: tuple[Tool, ...], tmp_path: Path, runner: str
) -> None:
    """It is recorded, bounded, shown and replayed like the others, nested in them and in itself."""
    calls = [{"name": "handoff", "arguments": {"task": "dig"}}]
    other = [{"name": "handoff", "arguments": {"task": "deeper"}}]
    model = ScriptedModel({
        "agent": [{"tool_calls": calls}, "done"],
        "other": [{"tool_calls": other}, "dug"],
    })  # fmt: skip
    log = tmp_path / "run.jsonl"

    recording = record(
        "agent",
        {"task": "go"},
        log=log,
        tools=handoff,
        model=model,
        runner=runner,
    )

    assert recording.output == "done"
    (child,) = delegation_tree(log).children
    (grandchild,) = child.children
    assert (child.tool, child.brief, child.status) == ("handoff", "dig", "completed")
    assert grandchild.status == "rejected"
    report = reexecute(log, tools=handoff)
    assert report.identical, report
    assert report.children == 1


@pytest.mark.long
def test_a_sixth_row_is_one_of_the_shipped(tmp_path: Path) -> None:
    """Its file, row and maker are all: an agent names it, and its run replays without tools."""
    (tmp_path / "handoff_dialect.py").write_text(SIXTH)
    (tmp_path / "shipped.py").write_text(SHIPPED)
    (tmp_path / "agents").mkdir()
    lead = "---\ndescription: Leads.\ntools: [handoff, read_file]\n---\nYou lead.\n"
    (tmp_path / "agents" / "lead.md").write_text(lead)
    (tmp_path / "refold.yaml").write_text("tools: {enabled: [handoff]}\n")
    call = {"name": "handoff", "arguments": {"task": "dig"}}
    (tmp_path / "replies.json").write_text(json.dumps({"lead": [call, "done"], "other": ["dug"]}))
    run = ["run", "agents/lead.md", "--task", "go", "--model", "scripted:replies.json"]
    commands = [
        ["run", "agents", "--dry-run"],
        [*run, "--log", "run.jsonl"],
        ["replay", "run.jsonl"],
    ]

    ended = subprocess.run(
        [sys.executable, "shipped.py"],
        cwd=tmp_path,
        input=json.dumps(commands),
        capture_output=True,
        check=True,
        encoding="utf-8",
    )

    said = json.loads(ended.stdout)
    assert [code for code, _ in said] == [0, 0, 0], said
    (child,) = delegation_tree(tmp_path / "run.jsonl").children
    assert (child.tool, child.brief, child.status) == ("handoff", "dig", "completed")


def test_each_row_makes_its_tools() -> None:
    assert MAKERS.keys() == POLICIES.keys()
    for name, row in POLICIES.items():
        assert {name, *row} <= {tool.name for tool in MAKERS[name]()}
    assert "spawn_await" in Registry(shipped_tools()).names


def test_a_tool_as_offered_has_the_definition_of_the_run() -> None:
    """Also in another process, and with the digest that the run recorded."""
    made = subagent_tool(max_iterations=3)
    offer = offer_of(made)

    (again,) = offered_tools([offer, {"name": "look", "description": "", "schema": {}}])

    assert offer_of(again) == offer
    assert again.reference is not None
    assert offer_of(load(again.reference)) == offer


def test_every_shipped_tool_is_as_offered() -> None:
    """Its effect class too, which stands in every call."""
    offers = [offer_of(each) for each in shipped_tools()]

    assert [offer_of(each) for each in offered_tools(offers)] == offers


def test_a_tool_that_asks_first_is_offered_so() -> None:
    """§10.18: a person is asked in a replay as in the run."""
    offers = [offer_of(each) for each in (with_approval(subagent_tool()), subagent_tool())]

    assert [offer_of(each) for each in offered_tools(offers)] == offers
    assert offers[0]["approval"] is True


def test_what_is_not_shipped_is_not_found() -> None:
    own: dict[str, Any] = {"name": "own", "description": "", "schema": {}, "delegates": True}

    assert offered_tools([own]) == ()
    assert offered_tools([own | {"name": "spawn", "delegates": False}]) == ()
    with pytest.raises(ToolUnknown):
        as_offered("own", "", {})


def _properties(schema: Any, at: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each property of a schema and of the objects in its lists, with its place."""
    for name, one in schema.get("properties", {}).items():
        yield f"{at}/{name}", one
        yield from _properties(one.get("items", {}), f"{at}/{name}")


def _all_tools(root: Path) -> list[Tool]:
    commands: list[Tool] = [write_file_tool(root), run_command_tool(root, allow=["ls"])]
    helper = AgentDef(id="helper", name="helper", description="Helps.", system_prompt="You help.")
    (dispatch,) = subagents("subagent_dispatch", agents=[helper], caller="lead")
    clerk = SpawnSettings(enabled=True, profiles={"clerk": SpawnProfile()})
    prompting = dispatch_subagent_tool(prompts=agent_prompts([helper]))
    given: list[Tool] = [*shipped_tools(), *file_tools(root), *commands]
    given += [dispatch, prompting, *spawn_tools(clerk)]
    return [*{tool.name: tool for tool in given}.values()]


def test_every_argument_of_a_shipped_tool_is_described_and_no_other_is_taken(
    tmp_path: Path,
) -> None:
    """What a model has to know stands in the schema."""
    tools = _all_tools(tmp_path)

    assert len(tools) >= 15
    for tool in tools:
        assert tool.parameters["additionalProperties"] is False, tool.name
        for place, one in _properties(tool.parameters):
            assert one.get("description"), f"{tool.name}{place}"


WHOLE: dict[str, dict[str, Any]] = {
    **LEAST,
    "dispatch_subagent": {**LEAST["dispatch_subagent"], "plan_step_id": "1"},
    "spawn_await": {"job_ids": "*"},
    "planning_setup_plan": {"objective": "look"},
    "planning_add_step": {"steps": ["look"]},
    "planning_update_step": {"step_id": 1, "title": "look", "status": "pending"},
    "planning_read_plan": {},
    "list_files": {},
    "read_file": {"path": "a.txt"},
    "search_text": {"pattern": "a"},
    "write_file": {"path": "b.txt", "content": "b"},
    "run_command": {"command": ["ls"]},
}
"""Arguments that each tool takes."""
NAMES: dict[str, str] = {
    "spawn/profile": "clerk",
    "spawn/tools": "read_file",
    "spawn_await/job_ids": "*",
    "run_command/command": "ls",
}
"""Texts that name something: others are refused by name, and not for their form."""


def _values(schema: Any, text: str = "a") -> tuple[list[Any], list[Any]]:
    """Return values at the bounds of a schema, inside and outside."""
    named = schema.get("type", [])
    kinds = {named} if isinstance(named, str) else {*named}
    if "anyOf" in schema:
        return [value for part in schema["anyOf"] for value in _values(part, text)[0]], [7, []]
    inside: list[Any] = [None] if kinds & {"null"} else []
    outside: list[Any] = []
    for kind, of in _OF.items():
        if kind in kinds or (kind == "string" and "enum" in schema):
            good, bad = of(schema, text)
            inside, outside = inside + good, outside + bad
    return inside, outside


def _texts(schema: Any, text: str) -> tuple[list[Any], list[Any]]:
    if "enum" in schema:
        return [*schema["enum"]], [7, [], "no such thing"]
    inside, outside = [text], [7, [], *(["", " \n"] if schema.get("minLength") else [])]
    if "maxLength" in schema:
        inside += ["a" * schema["maxLength"]] if text == "a" else []
        outside.append("a" * (schema["maxLength"] + 1))
    return inside, [*outside, *(["a \u2014 b"] if "x00" in schema.get("pattern", "") else [])]


def _arrays(schema: Any, text: str) -> tuple[list[Any], list[Any]]:
    good, bad = _values(schema["items"], text)
    inside, outside = [[each] for each in good], [[each] for each in bad]
    (outside if schema.get("minItems") else inside).append([])
    return inside, [*outside, "a", {"a": 1}]


def _objects(schema: Any, _: str) -> tuple[list[Any], list[Any]]:
    base = dict.fromkeys(schema["required"], "look")
    members = {name: _values(one) for name, one in schema["properties"].items()}
    inside = [base | {name: value} for name, (good, _) in members.items() for value in good]
    outside = [base | {name: value} for name, (_, bad) in members.items() for value in bad]
    return inside, [*outside, {}, base | {"objectives": "a"}]


_OF: dict[str, Any] = {
    "string": _texts,
    "boolean": lambda _schema, _text: ([True, False], ["yes", 1]),
    "integer": lambda schema, _text: (
        [schema.get("minimum", 0)],
        ["7", True, schema.get("minimum", 0) - 1],
    ),
    "array": _arrays,
    "object": _objects,
}


def _is_refused(name: str, said: Any) -> bool:
    """Return whether a call was refused for its arguments."""
    if name == "subagent":
        return str(said["error"]).startswith(("arguments: ", "rejected: "))
    if not isinstance(said, ToolError):
        told = str(said.get("message")) if isinstance(said, dict) else ""
        return told.startswith(("No tasks supplied.", "Snapshot schema version mismatch"))
    return said.code in ("arguments", "refused") or said.error_type == "ToolValidationError"


def _answers(root: Path, calls: list[tuple[str, dict[str, Any]]]) -> list[Any]:
    """Call tools in one run, and return their results, and what they raised."""
    (root / "a.txt").write_text("a")
    found: list[Any] = []

    async def program(run: Any, _: Any) -> None:
        await run.tool("planning_setup_plan", objective="look")
        await run.tool("planning_add_step", steps=["look", "look again"])
        await run.tool("spawn", task="look")
        for name, arguments in calls:
            try:
                found.append(await run.tool(name, **arguments))
            except ToolError as error:
                found.append(error)

    model = FunctionModel(lambda _: "ok")
    log, limits = root / "run.jsonl", Limits(max_children=100_000)
    record(
        program, log=log, tools=_all_tools(root), model=model, session=planned(), limits=limits
    )  # fmt: skip
    return found


def test_a_schema_and_its_tool_take_the_same_arguments(tmp_path: Path) -> None:
    """Each bound that a handler checks is in the schema, and each in the schema is checked."""
    tools = {tool.name: tool for tool in _all_tools(tmp_path)}
    cases = [
        (name, {**WHOLE[name], member: value}, is_outside)
        for name, tool in tools.items()
        for member, schema in tool.parameters["properties"].items()
        for is_outside, values in enumerate(_values(schema, NAMES.get(f"{name}/{member}", "a")))
        for value in values
    ]

    said = _answers(tmp_path, [(name, arguments) for name, arguments, _ in cases])

    wrong = [
        (name, str(arguments)[:200], str(answer)[:200])
        for (name, arguments, is_outside), answer in zip(cases, said, strict=True)
        if _is_refused(name, answer) != bool(is_outside)
    ]
    assert wrong == [], "\n".join(map(str, wrong))
    assert tools.keys() == WHOLE.keys()
    assert len(cases) > 150


def test_a_misspelt_argument_is_refused_with_the_nearest_name(tmp_path: Path) -> None:
    """For every argument of every tool."""
    cases = [
        (tool.name, member, {**WHOLE[tool.name], f"{member}s": "look"})
        for tool in _all_tools(tmp_path)
        for member in tool.parameters["properties"]
    ]

    said = _answers(tmp_path, [(name, arguments) for name, _, arguments in cases])

    for (name, member, _), answer in zip(cases, said, strict=True):
        text = answer["error"] if name == "subagent" else str(answer)
        assert f"did you mean '{member}'?" in text, (name, member, text)


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("name", POLICIES)
def test_no_child_is_offered_what_its_depth_forbids(name: str, depth: int, tmp_path: Path) -> None:
    """A call of it could only be refused; above the last level, it is offered."""
    starters = {each for row in POLICIES for each in (row, *POLICIES[row])}

    async def program(run: Any, _: Any) -> None:
        await run.tool(name, **WHOLE[name])
        await run.tool("spawn_await", job_ids="*")

    log, model = tmp_path / "run.jsonl", FunctionModel(lambda _: "ok")
    tools, limits = _all_tools(tmp_path), Limits(max_depth=depth)
    record(program, log=log, tools=tools, model=model, session=planned(), limits=limits)

    child = next(iter(read_entries(tmp_path / "run.1.jsonl"))).data
    offered = {tool["name"] for tool in child["tools"]}
    goes_deeper = depth == 2 and name != "subagent"
    assert bool(offered & starters) is goes_deeper
    assert "read_file" in offered


POET = AgentDef(id="poet", name="poet", description="Writes.", tools=("spawn",))
NAMING: dict[str, tuple[list[Tool], dict[str, Any], list[Any]]] = {
    "input": ([], {"tools": ["spawn"]}, []),
    "options": (
        subagents("dispatch_subagents", tools=["spawn"]), {},
        [{"name": "dispatch_subagents", "arguments": {"tasks": [{"objective": "x"}]}}],
    ),
    "file": (
        subagents("subagent_dispatch", agents=[POET]), {},
        [{"name": "subagent_dispatch", "arguments": {"agent_id": "poet", "task": "x"}}],
    ),
}  # fmt: skip


@for_each("way", NAMING)
def test_who_is_given_spawn_can_wait_for_its_jobs(way: str, tmp_path: Path) -> None:
    """By an agent's input, by the options of a delegation tool, and by an agent's file."""
    starters, own, replies = NAMING[way]
    offered: dict[str, set[str]] = {}

    def answer(request: Any) -> Any:
        name = request.parameters["agent"]
        is_first = name not in offered
        offered[name] = {tool.name for tool in request.tools}
        return replies[0] if replies and name == "agent" and is_first else "ok"

    given: dict[str, Any] = {"log": tmp_path / "run.jsonl", "model": FunctionModel(answer)}
    refold.record(
        "agent", {"agent": own, "task": "x"}, tools=[*starters, *subagents("spawn")], **given
    )

    last = list(offered.values())[-1]
    assert {"spawn", "spawn_await"} <= last
    assert refold.reexecute(tmp_path / "run.jsonl").identical


def test_a_model_sees_which_prompts_there_are() -> None:
    """Those that are registered when the run begins."""
    registry = PromptRegistry()
    tool = dispatch_subagent_tool(prompts=registry)
    for key in ("review", "write"):
        registry.register("team", key, lambda **_: Prompt[str](ns="team", key="x"))
    registry.enable("team", "write", enabled=False)

    properties = tool.parameters["properties"]

    assert properties["prompt_ns"]["enum"] == ["team"]
    assert properties["prompt_key"]["enum"] == ["review"]
    assert properties["prompt_key"]["description"].endswith("; there are team/review")


def test_subagents_are_made_by_kind(tmp_path: Path) -> None:
    """A list always; agents may be a folder, a loader, or definitions."""
    (tmp_path / "helper.md").write_text("---\ndescription: Helps.\n---\nYou help.\n")
    loader = AgentLoader(tmp_path)

    plain: tuple[Kind, ...] = ("subagent", "dispatch_subagents", "spawn")
    for kind in plain:
        assert [each.name for each in subagents(kind)] == [kind, *POLICIES[kind]]
    given = (tmp_path, str(tmp_path), loader, loader.discover_agents())
    of_files: tuple[Kind, ...] = ("subagent_dispatch", "dispatch_subagent")
    for kind in of_files:
        made = [subagents(kind, agents=each) for each in given]
        assert [[offer_of(tool) for tool in each] for each in made] == [[offer_of(made[0][0])]] * 4
        assert "helper" in str(made[0][0].parameters)
    with pytest.raises(OptionRefused, match="with an agent that is not the caller"):
        subagents("subagent_dispatch", agents=tmp_path, caller="helper")


def test_agents_of_a_folder_may_name_tools_of_the_run(tmp_path: Path) -> None:
    """Of one's own too: the run has to have them, and a misspelt one is told with the nearest."""
    front = "---\ndescription: Helps.\ntools: [look]\n---\nYou help.\n"
    (tmp_path / "helper.md").write_text(front)

    given = [look, subagents("subagent_dispatch", agents=tmp_path)]
    assert _started(given, log=tmp_path / "run.jsonl").ok
    with pytest.raises(NotReady, match="'look': not found"):
        _started(given[1:])
    (tmp_path / "helper.md").write_text(front.replace("look", "Bash"))
    with pytest.warns(RuntimeWarning), pytest.raises(OptionRefused, match="no tool is named 'Ba"):
        subagents("subagent_dispatch", agents=tmp_path)


MISTAKES: list[tuple[Callable[[Any], object], str]] = [
    (lambda make: make("spwan"), "did you mean 'spawn'"),
    (lambda make: make("dispatch_subagent"), "PromptRegistry, or agents="),
    (lambda make: make("dispatch_subagent", prompts={}), "PromptRegistry, or agents="),
    (lambda make: make(["spawn"]), "expected one of subagent"),
    (lambda make: make("subagent_dispatch", agents=["helper"]), "a folder of agent files"),
    (lambda make: make("subagent_dispatch", agents=3), "a folder of agent files"),
    (lambda make: make("subagent_dispatch"), "a folder of agent files.*found NoneType"),
    (lambda make: make("dispatch_subagent", agents=[]), "a folder of agent files"),
    (lambda make: make("spawn", profiles={"poet": {}}), "profiles: expected SpawnProfiles"),
    (lambda make: make("spawn", profiles=["poet"]), "profiles: expected SpawnProfiles"),
    (lambda make: make("spawn", parameters=[]), "parameters: expected a dict"),
    (lambda make: make("spawn", policy={}), "policy: expected refold.tools.Policy"),
    (lambda make: make("spawn", prompts=PromptRegistry()), "nothing for spawn: it is an option of"),
    (lambda make: make("subagent", agents="agents"), "nothing for subagent: it is an option of"),
    (lambda _: dispatch_subagent_tool(PromptRegistry()), "expected DispatchSubagentOptions, or"),  # type: ignore[arg-type]
    (lambda _: spawn_tools({"enabled": True}), "as spawn_settings"),  # type: ignore[arg-type]
    (lambda make: _started([make]), "expected the result of subagents"),
    (lambda _: _started([subagent_tool]), "expected the result of subagent_tool"),
    (lambda _: _started([None]), "found no agents or settings"),
    (lambda _: _started(["spwan"]), "did you mean 'spawn'"),
    (lambda _: _started(["subagent_dispatch"]), "a folder of agent files"),
]


@for_each("slip, said", MISTAKES)
def test_a_slip_is_told_in_a_sentence(slip: Callable[[Any], object], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        slip(subagents)


def _started(tools: list[Any], **options: Any) -> Any:
    given = {"tools": tools, "model": ScriptedModel(["ok"]), **options}
    return refold.record("agent", {"task": "x"}, **given)


def test_a_run_takes_lists_in_lists_and_names(tmp_path: Path) -> None:
    log = tmp_path / "run.jsonl"

    _started([["subagent", (subagents("spawn"),)], file_tools(tmp_path)], log=log)

    offers = next(iter(read_entries(log))).data["tools"]
    names = [offer["name"] for offer in offers]
    assert {"read_file", "spawn", "spawn_await", "subagent"} <= {*names}
