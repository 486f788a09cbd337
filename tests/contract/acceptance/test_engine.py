"""The engine under the five tools: checks 119 to 128."""

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from refold.engine.clock import FixedClock
from refold.engine.delegation import Delegation
from refold.engine.log.names import tree
from refold.engine.models.scripted import Reply, ScriptedModel
from refold.engine.recording import Recording, record
from refold.engine.run import Run
from refold.engine.session import Session, append_all
from refold.replay.reexecute import reexecute
from refold.replay.refold import refold_log
from refold.tools.agent_loader import AgentLoader
from refold.tools.agent_prompts import NAMESPACE, agent_prompts
from refold.tools.contract import tool
from refold.tools.dispatch_subagent import dispatch_subagent_tool
from refold.tools.dispatch_subagents import subagents_tool
from refold.tools.plans import register_plans
from refold.tools.profiles import SpawnSettings
from refold.tools.spawn import spawn_tools
from refold.tools.subagent import subagent_tool
from refold.tools.subagent_dispatch import create_subagent_dispatch_tool

PATIENCE_SECONDS = 30


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "run.jsonl"


def calls(*named: tuple[str, dict[str, Any]]) -> Reply:
    return {"tool_calls": [{"name": name, "arguments": given} for name, given in named]}


def planned() -> Session:
    session = Session()
    register_plans(session)
    return session


SCRIPT: dict[str, list[Reply]] = {
    "agent": [
        calls(
            ("subagent", {"task": "count"}),
            ("dispatch_subagent", {
                "mode": "ad_hoc",
                "prompt_ns": NAMESPACE,
                "prompt_key": "scribe",
                "instructions": "write",
            }),
            ("dispatch_subagents", {"tasks": [
                {"objective": "one", "steps": ["a", "b"]},
                {"objective": "two", "steps": []},
            ]}),
            ("subagent_dispatch", {"agent_id": "reviewer", "task": "review"}),
            ("spawn", {"task": "dig"}),
            ("spawn", {"task": "dig deeper"}),
        ),
        calls(("spawn_await", {"job_ids": "*"})),
        "done",
    ],
    "subagent": [calls(("subagent", {"task": "too deep"})), "counted"],
    "agents/scribe": [calls(("look", {"at": "b.txt"}), ("spawn", {"task": "dig"})), "written"],
    "run-delegation": [
        calls(("planning_read_plan", {}), ("look", {"at": "c.txt"})),
        "planned",
    ],
    "reviewer": [calls(("subagent_dispatch", {"agent_id": "scribe", "task": "fix"})), "reviewed"],
    "scribe": [calls(("subagent", {"task": "count again"})), "fixed"],
    "spawn": [calls(("subagent", {"task": "sift"})), "dug"],
}  # fmt: skip
"""What each agent says; all five tools, and most of them once more inside another's child."""


@tool(effect="reads")
def look(at: str) -> str:
    """Look at a file."""
    return f"saw {at}"


def five(folder: Path) -> list[Any]:
    """Return all five tools over a folder of agents; `subagent` runs in processes of their own."""
    for agent in ("lead", "reviewer", "scribe"):
        (folder / agent).mkdir(parents=True, exist_ok=True)
        text = f"---\ndescription: Is {agent}.\n---\nYou are {agent}."
        (folder / agent / "AGENT.md").write_text(text)
    loader = AgentLoader(folder)
    return [
        look,
        subagent_tool(runner="subprocess"),
        dispatch_subagent_tool(prompts=agent_prompts(loader.discover_agents())),
        subagents_tool(),
        create_subagent_dispatch_tool(loader, "lead"),
        *spawn_tools(SpawnSettings(enabled=True)),
    ]


def all_five(log: Path, **options: Any) -> tuple[Recording, list[Any]]:
    tools = five(log.parent / "agents")
    model = ScriptedModel(SCRIPT)
    session = planned()
    recording = record(
        "agent", {"task": "go"}, log=log, tools=tools, model=model, session=session, **options
    )
    return recording, tools


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Recording, list[Any]]]:
    """One recorded run with all five tools."""
    yield all_five(tmp_path_factory.mktemp("five") / "run.jsonl")


def test_119_a_replay_executes_nothing_and_derives_every_state_again(
    whole: tuple[Recording, list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    recording, tools = whole

    def touched(*_: Any, **__: Any) -> Any:
        raise AssertionError("a replay reached the world")

    for port in (
        "refold.engine.models.scripted.ScriptedModel.complete",
        "refold.engine.runners.in_process.InProcess.run",
        "refold.engine.runners.in_subprocess.InSubprocess.run",
        "refold.tools.contract.FunctionTool.call",
        "refold.engine.driver.Workers.submit",
        "refold.engine.run._text_of",
    ):
        monkeypatch.setattr(port, touched)

    report = reexecute(recording.log, tools=tools, session=planned())

    assert report.identical, report
    assert report.tools_executed == 0
    logs = tree(recording.log)
    assert report.children == len(logs) - 1
    for each in logs:
        found = refold_log(each)
        assert found.recorded_digest is not None
        assert found.digest == found.recorded_digest


@tool(effect="reads")
async def wavers(which: int) -> int:
    """Take a moment, each time another."""
    await asyncio.sleep(random.SystemRandom().uniform(0, 0.004))
    return which


async def child(run: Run, which: Any) -> Any:
    both = await asyncio.gather(run.tool(wavers, which=which), run.tool(wavers, which=-which))
    return [*both, run.random("x").randint(0, 99)]


async def parallel(run: Run, _: Any) -> Any:
    children = [await run.start(Delegation(program=child, input=n)) for n in range(4)]
    return [outcome.output for outcome in await run.join(*children)]


def test_120_fifty_live_runs_of_parallel_children_have_one_data_digest(tmp_path: Path) -> None:
    recordings = [
        record(
            parallel,
            log=tmp_path / f"run{'abcdefghij'[number // 10]}{'abcdefghij'[number % 10]}.jsonl",
            tools=[wavers],
            seed=7,
            clock=FixedClock(),
            durability="fast",
        )
        for number in range(50)
    ]

    assert {recording.status for recording in recordings} == {"completed"}
    assert len({recording.data_digest for recording in recordings}) == 1
    assert len({recording.head for recording in recordings}) == 50


def findings() -> Session:
    session = Session()
    session.register(str_finding(), str_finding(), append_all)
    return session


def str_finding() -> Any:
    return events_of_findings


import attrs  # noqa: E402


@attrs.frozen
class events_of_findings:  # noqa: N801
    text: str


def test_121_races_in_a_shared_session_are_recorded_as_they_came(tmp_path: Path) -> None:
    pass
