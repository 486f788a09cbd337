"""What a child is given of the run above it (CONTRACT.md §7.1, §9.1)."""

from pathlib import Path
from typing import Any

import pytest

from refold.engine.events.limits import Limits
from refold.engine.models import ScriptedModel
from refold.engine.ports.effects import RunChild
from refold.engine.ports.ports import ChildRequest, Delegation, Identity, Tool
from refold.engine.program.run import Run
from refold.engine.recording.run_request import RunRequest, by_name, child_request
from refold.engine.runners.recording import record
from refold.replay.reexecute.reexecute import reexecute
from refold.tools.contract.tool_types import tool
from tests.support.loops import for_each


async def below(_run: Run, _input: Any) -> None:
    """Do nothing."""


def named(name: str, description: str = "One.") -> Tool:
    return tool(effect="reads", name=name, description=description)(lambda: None)


ABOVE = RunRequest(
    program=below,
    program_name="m:above",
    input=None,
    identity=Identity(run_id="r1", root_id="r0", path="0#1", depth=1, seed="5eed", parent=None),
    limits=Limits(),
    log=Path("runs/a.1.jsonl"),
    tools=by_name([named("a"), named("b"), named("c")]),
    runner="subprocess",
)


def asked(**how: Any) -> ChildRequest:
    delegation = Delegation(program=below, **how)
    effect = RunChild("0#3", delegation, 2, "r2", Limits(max_depth=2))
    return child_request(
        effect, ABOVE, path="0#1 > 0#3", start_hash="ab" * 32, session=None, host=None
    )


def test_a_child_is_one_deeper_and_bound_to_its_start() -> None:
    """Root, seed and durability are those of the run above; the rest is its own."""
    request = asked()

    identity = request.identity
    assert (identity.run_id, identity.root_id, identity.seed) == ("r2", "r0", "5eed")
    assert (identity.path, identity.depth) == ("0#1 > 0#3", 2)
    assert identity.parent is not None
    assert (identity.parent.run, identity.parent.call) == ("r1", "0#3")
    assert identity.parent.hash == "ab" * 32
    assert request.log == Path("runs/a.1.2.jsonl")
    assert request.limits == Limits(max_depth=2)
    assert request.durability == ABOVE.durability


@for_each(
    "how, names",
    [
        ({}, ["a", "b", "c"]),
        ({"tools": ("c", "a", "unknown")}, ["c", "a"]),
        ({"tools": ()}, []),
        ({"tools": ("b",), "own_tools": (named("d"),)}, ["b", "d"]),
    ],
)
def test_tools_are_those_that_pass_and_its_own(how: dict[str, Any], names: list[str]) -> None:
    """A name that the run above does not have gives nothing."""
    assert [one.name for one in asked(**how).tools] == names


def test_a_tool_of_its_own_goes_before_one_of_the_same_name() -> None:
    """The delegation is nearer."""
    request = asked(own_tools=(named("a", "Another."),))

    assert {one.name: one.description for one in request.tools}["a"] == "Another."


def test_the_runner_is_the_delegations_or_that_of_the_run_above() -> None:
    """Where nobody says one, children run as their parent's do."""
    assert asked().runner == "subprocess"
    assert asked(runner="in-process").runner == "in-process"


async def answers(run: Run, agent: str) -> str:
    """Ask the model, by the name that the input has, if any."""
    named = {"agent": agent} if agent else {}
    reply = await run.model([{"role": "user", "content": "?"}], **named)
    return str(reply.message["content"])


async def hands_on(run: Run, _input: Any) -> list[Any]:
    """Ask the model, once by a name, then have it asked by a child without a name."""
    own = [await answers(run, ""), await answers(run, "reviewer")]
    return [*own, (await run.delegate(Delegation(program=answers, input=""))).output]


async def leads(run: Run, _input: Any) -> list[Any]:
    """Ask the model, then start an agent."""
    outcome = await run.delegate(Delegation(program=hands_on, agent="worker"))
    return [await answers(run, ""), *outcome.result()]


@pytest.mark.long
@pytest.mark.parametrize("runner", ["in-process", "subprocess"])
def test_the_agent_of_a_delegation_is_the_default_of_its_own_requests(
    tmp_path: Path, runner: str
) -> None:
    """Of that run and of no run below it; a name that is passed with a request goes first."""
    model = ScriptedModel({"worker": ["W"], "reviewer": ["R"], "*": ["plan"]})

    recording = record(leads, log=tmp_path / "a.jsonl", model=model, runner=runner)

    assert recording.output == ["plan", "W", "R", "plan"]
    assert reexecute(recording.log, leads).identical
    assert reexecute(tmp_path / "a.1.jsonl", hands_on).identical
