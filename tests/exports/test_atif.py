"""Trajectories as the format's own package reads them (CONTRACT.md §14.20)."""

import json
from pathlib import Path
from typing import Any

from atif import Trajectory

from refold.engine.log.names import parent_of
from refold.engine.ports.ports import Delegation
from refold.engine.program.run import Run
from refold.engine.runners.recording import record
from refold.exports.atif import trajectory
from refold.exports.spans import UNREAD, Spans
from refold.replay.run.opened_run import delegation_tree
from refold.replay.run.run_node import RunNode
from tests.support.loops import for_each

LOGS = Path(__file__).parents[2] / "fixtures" / "logs" / "engine-2"
ROOTS = sorted(path.name for path in LOGS.glob("*.jsonl") if parent_of(path) is None)


def names(found: Trajectory) -> list[Any]:
    """Return the names of a trajectory and of those below it, nested."""
    return [found.agent.name, sorted(map(names, found.subagent_trajectories or ()), key=str)]


def named(node: RunNode) -> list[Any]:
    return [node.name or node.program or "agent", sorted(map(named, node.children), key=str)]


@for_each("name", ROOTS)
def test_a_trajectory_is_valid_and_nested_as_the_run(name: str) -> None:
    spans = Spans(LOGS / name, content=True)
    document = trajectory(spans)

    found = Trajectory.model_validate(document)

    assert names(found) == named(delegation_tree(LOGS / name))
    metrics = [step.metrics for step in found.steps if step.metrics]
    assert found.final_metrics is not None
    tokens = sum(each.prompt_tokens or 0 for each in metrics)
    assert tokens == found.final_metrics.total_prompt_tokens
    again = trajectory(Spans(LOGS / name, content=True))
    assert json.dumps(again) == json.dumps(document)


def test_a_run_whose_first_text_is_missing_is_a_trajectory_all_the_same() -> None:
    spans = Spans(LOGS.parents[1] / "conformance" / "blob-missing" / "a.jsonl", content=True)

    found = Trajectory.model_validate(trajectory(spans))

    assert found.agent.name == spans.tree.name
    assert spans.left_out[UNREAD] == spans.tree.entries > 0


def test_a_subagent_is_named_by_the_result_of_its_call() -> None:
    """And each message of the run is a step, in its order."""
    found = Trajectory.model_validate(trajectory(Spans(LOGS / "watched.jsonl", content=True)))
    lead = (found.subagent_trajectories or [found])[0]

    assert [step.source for step in lead.steps] == ["system", "user", "agent", "agent"]
    assert lead.steps[1].message == "Plan a day in Bergen."
    observation = lead.steps[2].observation
    assert observation is not None
    told = {each.source_call_id: each for each in observation.results}
    assert told["t1"].content == "the fish hall"
    assert told["w1"].content == "no such city"
    below = {each.trajectory_id: each.agent.name for each in lead.subagent_trajectories or ()}
    refs = {
        name: [below[ref.trajectory_id or ""] for ref in each.subagent_trajectory_ref or ()]
        for name, each in told.items()
    }
    assert refs == {"t1": ["cook"], "t2": ["hiker"], "w1": []}


async def asks(run: Run, question: str) -> str:
    return str(await run.ask(question))


async def asks_by_a_child(run: Run, question: str) -> str:
    outcome = await run.delegate(Delegation(program=asks, input=question, brief="ask"))
    return outcome.status


def test_a_child_that_has_no_log_yet_is_a_trajectory(tmp_path: Path) -> None:
    log = record(asks_by_a_child, "may I?", log=tmp_path / "a.jsonl").log
    (tmp_path / "a.1.jsonl").unlink()

    told = trajectory(Spans(log, content=True))

    Trajectory.model_validate(told)
    assert [each["agent"]["name"] for each in told["subagent_trajectories"]] == ["asks"]
