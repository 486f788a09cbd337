"""How a `subagent` tool is set up, shown to a model, and made again in another process."""

from pathlib import Path
from typing import Any

import jsonschema
import pytest

from refold.engine.errors import LimitRefused
from refold.engine.events.outcome import Artifact, Fault, Outcome, Truncated
from refold.engine.kernel.pending import Child
from refold.engine.log.reader import read_entries
from refold.engine.models.scripted import ScriptedModel
from refold.engine.ports.ports import Policy, Reference, Tool
from refold.engine.ports.programs import load
from refold.engine.runners.recording import record
from refold.replay.reexecute.reexecute import reexecute
from refold.tools.contract.tool_types import is_tool, tool
from refold.tools.delegation.shipped import offered_tools
from refold.tools.delegation.subagent import SubagentOptions, result_of, subagent_tool

CHILDREN = Path(__file__).parents[3] / "fixtures" / "children" / "subagents.py"


async def looks(_run: Any, given: Any) -> Any:
    return given


def test_it_is_a_delegation_tool() -> None:
    made = subagent_tool()

    assert is_tool(made)
    assert (made.name, made.delegates) == ("subagent", True)


def test_its_schema_takes_what_it_takes() -> None:
    schema = subagent_tool(max_iterations=3, timeout_seconds_cap=200).parameters
    whole = {"task": "a", "context": "b", "files": ["c"], "max_iterations": 1, "timeout_seconds": 2}

    jsonschema.validate({"task": "a"}, schema)
    jsonschema.validate(whole, schema)
    others = [{"max_iterations": 0}, {"timeout_seconds": 0}, {"depth": 1}]
    for wrong in ({}, {"task": 1}, *({"task": "a"} | each for each in others)):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, schema)
    assert schema["properties"]["max_iterations"]["default"] == 3
    assert "at most 200" in schema["properties"]["timeout_seconds"]["description"]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"enabled": False},
        {"max_depth": 3, "timeout_seconds": 9, "runner": "subprocess", "model": "small"},
        {"tools": ("read_file",), "agent": "digger", "system": "Dig."},
        {"policy": Policy(summary_bytes=10, artifact_kinds=("note",))},
        {"program": f"{CHILDREN}:leaf"},
        {"program": looks},
        {"program": Reference(str(CHILDREN), "leaf")},
    ],
)
def test_its_reference_makes_the_same_tool(options: dict[str, Any]) -> None:
    made = subagent_tool(**options)

    assert made.reference is not None
    again = load(made.reference)
    assert again.reference == made.reference
    assert again.parameters == made.parameters


def test_without_a_program_that_can_be_imported_there_is_no_reference() -> None:
    assert subagent_tool(program=lambda _run, given: given).reference is None


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("max_depth", -1),
        ("max_depth", True),
        ("timeout_seconds", 0),
        ("timeout_seconds", 1.5),
        ("max_iterations", "8"),
        ("timeout_seconds_cap", 0),
        ("max_iterations_cap", None),
    ],
)
def test_nonsense_as_a_cap_is_refused(option: str, value: Any) -> None:
    with pytest.raises(LimitRefused) as refused:
        subagent_tool(**{option: value})

    assert refused.value.limit == option


def test_the_least_that_a_cap_may_be_is_taken() -> None:
    least = {"timeout_seconds": 1, "max_iterations": 1}
    caps = {f"{name}_cap": value for name, value in least.items()}

    assert subagent_tool(max_depth=0, request_bytes=1, **least, **caps).name == "subagent"


def test_options_can_be_kept_and_varied() -> None:
    options = SubagentOptions(max_depth=2)

    assert subagent_tool(options, enabled=False).reference == Reference(
        "refold.tools.delegation.subagent", "remade", {"enabled": False, "max_depth": 2}
    )


def shown(log: Path, outcome: Outcome) -> Any:
    """Return the six keys that a run makes of an outcome."""

    async def program(run: Any, _input: Any) -> Any:
        return result_of(run, Child("0#1", 1, "c1", outcome), {})

    return record(program, log=log).output


def test_a_result_has_what_the_outcome_has(tmp_path: Path) -> None:
    outcome = Outcome(
        status="completed",
        summary="made it",
        output={"not": "shown"},
        artifacts=(Artifact(kind="path", value="a.py", name="code"),),
        truncated=Truncated(kept_bytes=1, seen_bytes=2, sha256="ab"),
        duration_ms=7,
    )

    assert shown(tmp_path / "run.jsonl", outcome) == {
        "success": True,
        "summary": "made it\n[cut: the first 1 of 2 bytes. Ask for a shorter answer.]",
        "artifacts": [
            {"kind": "path", "value": "a.py"},
            {"kind": "note", "value": "truncated: kept_bytes=1 seen_bytes=2 sha256=ab"},
        ],
        "error": None,
        "timed_out": False,
        "duration_ms": 7,
    }


def test_a_failed_one_keeps_its_summary(tmp_path: Path) -> None:
    fault = Fault(code="crashed", message="exit code 1")
    outcome = Outcome(status="failed", summary="half", error=fault)

    assert shown(tmp_path / "run.jsonl", outcome) == {
        "success": False,
        "summary": "[not finished; the child's last words] half",
        "artifacts": [],
        "error": "crashed: exit code 1. Try again once, or do the work yourself.",
        "timed_out": False,
        "duration_ms": 0,
    }


def test_the_childs_agent_is_the_one_that_was_set_up(tmp_path: Path) -> None:
    async def ask(run: Any, _input: Any) -> Any:
        return await run.tool("subagent", task="dig")

    model = ScriptedModel({"digger": ["dug"]}, name="small")
    other = ScriptedModel(["by the default"], name="default")
    made: Tool = subagent_tool(agent="digger", system="Dig.", model="small")

    recording = record(
        ask, log=tmp_path / "run.jsonl", tools=[made], model=other, models={"small": model}
    )

    assert recording.output["summary"] == "dug"


def test_how_it_is_set_up_is_in_the_log_so_that_a_replay_needs_no_options(tmp_path: Path) -> None:
    """What a child runs is code, and has to be given; all else is found."""

    async def ask(run: Any, _input: Any) -> Any:
        return [await run.tool("subagent", task="dig") for _ in range(2)]

    policy = Policy(summary_bytes=2, artifact_kinds=("note",))
    made = subagent_tool(max_iterations=3, agent="digger", system="Dig.", policy=policy)
    log = tmp_path / "run.jsonl"
    record(ask, log=log, tools=[made], model=ScriptedModel({"digger": ["dug"]}))

    offers = next(iter(read_entries(log))).data["tools"]
    report = reexecute(log, ask, tools=offered_tools(offers))
    assert report.identical, report
    drawn = [entry.data for entry in read_entries(log) if entry.kind == "value.drawn"]
    assert [(each["source"], each["name"]) for each in drawn] == [("settings", "subagent")]


@tool(effect="reads")
def one() -> int:
    """Return one."""
    return 1


@tool(effect="reads")
def two() -> int:
    """Return two."""
    return 2


@pytest.mark.parametrize(
    ("agent", "options", "names"),
    [
        ({}, {}, ["one", "two"]),
        ({"tools": ["subagent", "one"]}, {}, ["one"]),
        ({"tools": ["subagent"]}, {"tools": ("two",)}, ["two"]),
    ],
)
def test_the_child_has_what_its_caller_has_unless_it_is_set_up_otherwise(
    tmp_path: Path, agent: dict[str, Any], options: dict[str, Any], names: list[str]
) -> None:
    """No child has a tool that its caller may not use, nor one that its own depth forbids."""
    model = ScriptedModel(
        {"agent": [{"name": "subagent", "arguments": {"task": "dig"}}, "done"], "subagent": ["dug"]}
    )

    record(
        "agent",
        {"agent": agent, "task": "go"},
        log=tmp_path / "run.jsonl",
        tools=[one, two, subagent_tool(**options)],
        model=model,
    )

    first = next(iter(read_entries(tmp_path / "run.1.jsonl")))
    assert [offer["name"] for offer in first.data["tools"]] == names


def test_and_asks_the_model_that_its_caller_asks(tmp_path: Path) -> None:
    calling = {"name": "subagent", "arguments": {"task": "dig"}}
    small = ScriptedModel({"agent": [calling, "done"], "subagent": ["dug by small"]}, name="small")

    record(
        "agent",
        {"agent": {"model": "small"}, "task": "go"},
        log=tmp_path / "run.jsonl",
        tools=[subagent_tool()],
        model=ScriptedModel(["by the default"]),
        models={"small": small},
    )

    *_, last = read_entries(tmp_path / "run.1.jsonl")
    assert last.data["output"] == "dug by small"


def test_children_nest_as_deep_as_the_tool_allows(tmp_path: Path) -> None:
    """Levels count from the caller, in subprocesses too: each child has the tool again."""
    deeper = {"name": "subagent", "arguments": {"task": "deeper"}}
    recording = record(
        "agent",
        {"task": "go"},
        log=tmp_path / "run.jsonl",
        tools=[subagent_tool(max_depth=2)],
        model=ScriptedModel([deeper, "done"]),
        runner="subprocess",
    )

    assert recording.output == "done"
    logs = sorted(path.name for path in tmp_path.glob("*.jsonl"))
    assert logs == ["run.1.1.jsonl", "run.1.jsonl", "run.jsonl"]


def test_a_disabled_tool_says_so_before_it_looks_at_arguments(tmp_path: Path) -> None:
    """Mended arguments would not help."""

    async def program(run: Any, _: Any) -> Any:
        return await run.tool("subagent", task=" ", files={"a": 1})

    recording = record(program, log=tmp_path / "a.jsonl", tools=[subagent_tool(enabled=False)])

    assert recording.output["error"] == "disabled: subagent is not enabled in this phase"
