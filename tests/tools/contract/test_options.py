"""The options that all delegation tools have, for each of the five kinds."""

import asyncio
from pathlib import Path
from typing import Any

import attrs
import pytest

import refold
from refold.engine.children.envelope import why_unreachable
from refold.engine.errors import LimitRefused, ToolError
from refold.engine.events.outcome import Outcome
from refold.engine.log.reader import read_entries
from refold.engine.models import ScriptedModel
from refold.engine.ports.offers import offer_of
from refold.engine.ports.ports import Reference, Tool
from refold.engine.ports.programs import load
from refold.engine.session import Session
from refold.replay.run.opened_run import delegation_tree
from refold.tools import Policy
from refold.tools.agents.agent_files import PLANNING_TOOLS
from refold.tools.contract.options import ChildOptions
from tests.support.loops import for_each
from tests.support.scripted_runners import Scripted
from tests.support.tool_ends import LEAST, TOOLS, look, made, session

KINDS = pytest.mark.parametrize("kind", TOOLS)
RUNNERS = pytest.mark.parametrize(
    "runner", ["in-process", pytest.param("subprocess", marks=pytest.mark.long)]
)
CHILDREN = Path(__file__).parents[3] / "fixtures" / "children" / "subagents.py"
CASES: list[dict[str, Any]] = [
    {},
    {"runner": "subprocess", "model": "small", "tools": ("look",)},
    {"limits": refold.Limits(max_iterations=3), "parameters": {"max_tokens": 9}},
    {"policy": Policy(summary_bytes=10, artifact_kinds=("note",))},
    {"program": f"{CHILDREN}:leaf"},
    {"program": Reference(str(CHILDREN), "leaf")},
]


async def calls(run: refold.Run, kind: str) -> Any:
    """Call the tool of a kind once, and wait for its child; return what it gave, or its error."""
    try:
        result = await run.tool(kind, **LEAST[kind])
        return await run.tool("spawn_await", job_ids="*") if kind == "spawn" else result
    except ToolError as error:
        return str(error)


def recorded(kind: str, log: Path, *given: Tool, **options: Any) -> refold.Recording:
    """Record `calls` with the tools of a kind."""
    chosen = {"model": ScriptedModel(["found"]), "session": session(), **options}
    return refold.record(calls, kind, log=log, tools=[look, *given], **chosen)


def needs(tool: Tool) -> Any:
    """Return what a tool's children need, but for the program, which has several names."""
    children = getattr(tool, "children", None)
    return children and attrs.evolve(children, program="")


@KINDS
@pytest.mark.parametrize("options", CASES)
def test_another_process_makes_the_same_tools(kind: str, options: dict[str, Any]) -> None:
    """However they are set up, if it can import what the children run."""
    for tool in made(kind, **options):
        assert tool.reference is not None
        again = load(tool.reference)
        assert (offer_of(again), again.reference) == (offer_of(tool), tool.reference)
        assert needs(again) == needs(tool)
    local = made(kind, program=lambda _run, given: given)[0]
    assert local.reference is None
    assert why_unreachable(local)


@KINDS
def test_every_option_reaches_the_child(kind: str, tmp_path: Path) -> None:
    runner = Scripted(Outcome(status="completed", summary="ok", output="ok"))
    policy, limits = Policy(summary_bytes=2), refold.Limits(max_iterations=2)
    given = made(
        kind, model="small", parameters={"max_tokens": 9}, tools=["look"], limits=limits,
        policy=policy, runner="scripted",
    )  # fmt: skip

    recorded(
        kind, tmp_path / "run.jsonl", *given,
        models={"": ScriptedModel([]), "small": ScriptedModel([])}, runners={"scripted": runner},
    )  # fmt: skip

    (request,) = runner.requests
    own: Any = request.input
    assert (request.policy, request.limits.max_iterations) == (policy, 2)
    assert (own["agent"]["model"], own["agent"]["parameters"]) == ("small", {"max_tokens": 9})
    names = {tool.name for tool in request.tools} - {*PLANNING_TOOLS, "subagent_dispatch"}
    assert names == {"look"}


@KINDS
@RUNNERS
def test_a_replay_needs_no_tool_that_is_set_up_the_same(
    kind: str, runner: str, tmp_path: Path
) -> None:
    """How a tool was set up is in the log, once, from its first use on."""
    log = tmp_path / "run.jsonl"
    given = made(kind, limits=refold.Limits(max_iterations=3), policy=Policy(summary_bytes=2))

    async def twice(run: refold.Run, _input: Any) -> Any:
        return [await calls(run, kind), await calls(run, kind)]

    recording = refold.record(
        twice,
        log=log,
        tools=given,
        runner=runner,
        session=session(),
        model=ScriptedModel(["found"]),
    )

    assert recording.ok, recording.error
    assert "the first 2 of 5 bytes" in str(recording.output)
    report = refold.reexecute(log, twice, session=session())
    assert report.identical, str(report)
    drawn = [entry.data for entry in read_entries(log) if entry.kind == "value.drawn"]
    assert [one["name"] for one in drawn if one["source"] == "settings"].count(kind) == 1
    assert len(delegation_tree(log).children) == 2


@KINDS
def test_a_child_has_the_model_and_the_tools_of_its_caller(kind: str, tmp_path: Path) -> None:
    """No child has a tool that its caller may not use."""
    call = {"name": kind, "arguments": LEAST[kind]}
    ends = [{"name": "spawn_await", "arguments": {"job_ids": "*"}}] if kind == "spawn" else []
    small = ScriptedModel({"lead": [call, *ends, "done"], "*": ["dug"]}, name="small")
    names = [tool.name for tool in made(kind)]

    @refold.tool(effect="reads")
    def hidden() -> str:
        return "hidden"

    recording = refold.record(
        "agent",
        {"agent": {"name": "lead", "model": "small", "tools": [*names, "look"]}, "task": "go"},
        log=tmp_path / "run.jsonl",
        tools=[*made(kind), look, hidden],
        models={"small": small},
        session=Session(),
    )

    assert recording.output == "done", recording.error
    first = next(iter(read_entries(tmp_path / "run.1.jsonl"))).data
    offered = [tool["name"] for tool in first["tools"]]
    assert "look" in offered
    assert ("hidden" in offered) is (kind == "subagent_dispatch")  # its definition has all
    assert first["input"]["agent"]["model"] == "small"


@KINDS
def test_a_program_that_cannot_be_had_is_told(kind: str, tmp_path: Path) -> None:
    """A replay tells the same, and imports nothing."""
    first, *rest = made(kind, program="no_such_module_x:leaf")

    async def program(run: refold.Run, _input: Any) -> Any:
        try:
            return await run.tool(first, **LEAST[kind])
        except ToolError as error:
            return error.message

    log = tmp_path / "run.jsonl"
    recording = refold.record(program, log=log, tools=rest, session=Session())

    assert "program 'no_such_module_x': No module named" in str(recording.output)
    assert str(tmp_path) not in str(recording.output)
    assert refold.reexecute(log, program=program, session=Session()).identical


async def sleeps(run: refold.Run, _given: Any) -> None:
    """Wait until it is cancelled."""
    await run.sleep(3600)


@KINDS
def test_a_call_that_is_given_up_cancels_its_children(kind: str, tmp_path: Path) -> None:
    """From the tool down: no child of it runs on and spends."""

    async def lead(run: refold.Run, _input: Any) -> str:
        try:
            async with asyncio.timeout(0.05):
                await calls(run, kind)
        except TimeoutError:
            return "given up"
        return "answered"

    log = tmp_path / "run.jsonl"
    recording = refold.record(lead, log=log, tools=made(kind, program=sleeps), session=session())

    entries = [*read_entries(log)]
    started = [one.call for one in entries if one.kind == "child.started"]
    outcomes = [one.data["outcome"] for one in entries if one.kind == "child.finished"]
    assert recording.output == "given up"
    assert started
    assert [one["status"] for one in outcomes] == ["cancelled"] * len(started)


@for_each(
    "options, error, said",
    [
        ({"levels": -1}, LimitRefused, "levels"),
        ({"request_bytes": 0}, LimitRefused, "request_bytes"),
        ({"tools": "look"}, refold.UsageError, "tools: expected a list of strings"),
        ({"limits": 3}, refold.UsageError, "limits: expected refold.Limits"),
        ({"policy": {}}, refold.UsageError, "policy: expected refold.tools.Policy"),
        ({"model": None}, refold.UsageError, "model: expected a name"),
        ({"program": 3}, refold.UsageError, "program: expected a function"),
        ({"modle": "x"}, TypeError, "modle"),
    ],
)
def test_options_are_read_strictly(
    options: dict[str, Any], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        ChildOptions(**options)
