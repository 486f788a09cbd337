"""A dispatched agent's conversation is read back from its log, and nobody else's is."""

import json
from pathlib import Path
from typing import Any

import pytest

import refold
from refold.engine.errors import UsageError
from refold.engine.log.reader import read_entries
from refold.engine.models.scripted import ScriptedModel
from refold.engine.runners.recording import record
from refold.tools.agents.agent_files import AgentDef
from refold.tools.delegation.saved_sessions import load_session
from refold.tools.delegation.subagent import subagent_tool
from refold.tools.delegation.subagent_dispatch import session_id_of

HELPER = AgentDef(id="helper", name="helper", description="d", system_prompt="You help.")


def dispatched(log: Path, program: Any = "agent", **options: Any) -> Any:
    (tool,) = refold.subagents("subagent_dispatch", agents=[HELPER], program=program)

    async def lead(run: Any, _: Any) -> Any:
        return await run.tool("subagent_dispatch", agent_id="helper", task="look " * 9000)

    return record(lead, log=log, tools=[tool], seed=1, **options)


def test_long_texts_are_whole(tmp_path: Path) -> None:
    """They lie beside the log, and are read from there."""
    recording = dispatched(tmp_path / "run.jsonl", model=ScriptedModel(["ok " * 20_000]))

    session = load_session(recording.log, json.loads(recording.output)["session_id"])

    assert (session.agent, session.system, session.status) == ("helper", "You help.", "completed")
    assert [message["content"] for message in session.messages] == ["look " * 9000, "ok " * 20_000]


def test_one_that_failed_before_its_first_request_said_nothing(tmp_path: Path) -> None:
    async def breaks(_run: Any, _given: Any) -> None:
        raise RuntimeError("at once")

    recording = dispatched(tmp_path / "run.jsonl", breaks)

    assert recording.status == "failed"
    child = next(iter(read_entries(tmp_path / "run.1.jsonl")))
    session = load_session(recording.log, session_id_of(child.data["run_id"]))
    assert (session.status, session.run_id) == ("failed", child.data["run_id"])
    assert session.messages == ()


def test_a_torn_log_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    recording = dispatched(tmp_path / "run.jsonl", model=ScriptedModel(["ok"]))
    child = tmp_path / "run.1.jsonl"
    child.write_bytes(child.read_bytes()[:-9])

    session = load_session(recording.log, json.loads(recording.output)["session_id"])

    assert session.status == ""
    assert session.messages[-1]["content"] == "ok"


def test_children_of_other_tools_are_sealed(tmp_path: Path) -> None:
    async def program(run: Any, _: Any) -> Any:
        return await run.tool("subagent", task="dig")

    log = tmp_path / "run.jsonl"
    record(program, log=log, tools=[subagent_tool()], model=ScriptedModel(["a"]))
    child = next(iter(read_entries(tmp_path / "run.1.jsonl")))

    with pytest.raises(UsageError, match="no descendant"):
        load_session(log, session_id_of(child.data["run_id"]))
