"""What `spawn` and `spawn_await` are beyond their document: tools like any other."""

import gc
import threading
import weakref
from pathlib import Path
from typing import Any

import pytest

from refold.engine.errors import ToolError
from refold.engine.events.events import MEASURED
from refold.engine.events.limits import Limits
from refold.engine.log.reader import read_entries
from refold.engine.models.scripted import FunctionModel, ScriptedModel
from refold.engine.ports.ports import ModelReply, ModelRequest
from refold.engine.runners.recording import record
from refold.replay.reexecute.reexecute import reexecute
from refold.replay.run.opened_run import delegation_tree
from refold.tools.agents.profiles import SpawnProfile, SpawnSettings
from refold.tools.delegation.spawn import (
    JobStore,
    spawn_tools,
)

PATIENCE_SECONDS = 60


def test_a_child_that_may_not_start_is_told_at_once_and_is_no_job(tmp_path: Path) -> None:
    async def program(run: Any, _: Any) -> Any:
        with pytest.raises(ToolError) as refused:
            await run.tool("spawn", task="dig")
        return [refused.value.message, await run.tool("spawn_await", job_ids="*")]

    log = tmp_path / "run.jsonl"
    recording = record(program, log=log, tools=spawn_tools(), limits=Limits(max_children=0))

    message, text = recording.output
    assert message.startswith("Error: max_children: this run may start no more children (0")
    assert text == "No jobs found."
    (ends,) = _notes(log, "spawn ends")
    assert (ends["success"], ends["error"]) == (False, message)
    assert reexecute(log, program, tools=spawn_tools()).identical


def _notes(log: Path, text: str) -> list[dict[str, Any]]:
    entries = (entry.data for entry in read_entries(log) if entry.kind == "note.added")
    return [data["data"] for data in entries if data["text"] == text]


def test_what_came_of_jobs_is_noted(tmp_path: Path) -> None:
    """By id, where it was waited for; nothing to wait for is a failure."""

    async def program(run: Any, _: Any) -> Any:
        job = await run.tool("spawn", task="dig", profile="sage", context="here")
        await run.tool("spawn_await", job_ids=job)
        with pytest.raises(ToolError):
            await run.tool("spawn_await", job_ids=" , ")
        return job

    settings = SpawnSettings(enabled=True, profiles={"sage": SpawnProfile()})
    log = tmp_path / "run.jsonl"
    tools = spawn_tools(settings)
    job = record(program, log=log, tools=tools, model=ScriptedModel(["dug"])).output

    (started,) = _notes(log, "spawn ends")
    waited, failed = _notes(log, "spawn_await ends")
    (child,) = delegation_tree(log).children
    assert (started["job_id"], started["success"]) == (job, True)
    assert waited["jobs"] == {job: "completed"}
    assert (failed["success"], failed["error"]) == (False, "Error: job_ids is required")
    assert (child.agent, child.brief, child.tool) == ("sage", "dig", "spawn")
    (measured,) = (
        entry.data["ids"]
        for entry in read_entries(log)
        if entry.kind == MEASURED and entry.data.get("ids")
    )
    assert measured == [job]


def test_jobs_that_nobody_waits_for_are_cancelled_when_the_run_ends(tmp_path: Path) -> None:
    asked, released = threading.Event(), threading.Event()

    def answer(_request: ModelRequest) -> ModelReply:
        asked.set()
        released.wait(PATIENCE_SECONDS)
        return ModelReply(message={"role": "assistant", "content": "late"})

    async def program(run: Any, _: Any) -> str:
        return str(await run.tool("spawn", task="dig"))

    log = tmp_path / "run.jsonl"
    recording = record(program, log=log, tools=spawn_tools(), model=FunctionModel(answer))
    released.set()

    assert recording.ok
    (finished,) = [entry.data for entry in read_entries(log) if entry.kind == "child.finished"]
    assert finished["outcome"]["status"] == "cancelled"


def test_jobs_belong_to_one_run_and_go_with_it(tmp_path: Path) -> None:
    kept: list[weakref.ref[JobStore]] = []

    async def program(run: Any, _: Any) -> Any:
        jobs = JobStore.of(run)
        before = jobs.all_job_ids()
        kept.append(weakref.ref(jobs))
        del jobs
        return [before, await run.tool("spawn", task="dig")]

    for name in ("one", "two"):
        recording = record(
            program,
            log=tmp_path / f"{name}.jsonl",
            tools=spawn_tools(),
            model=ScriptedModel(["dug"]),
        )
        assert recording.output[0] == []

    gc.collect()
    assert [reference() for reference in kept] == [None, None]


def test_a_star_among_ids_is_no_job(tmp_path: Path) -> None:
    """Alone it is every job."""

    async def program(run: Any, _: Any) -> Any:
        job = await run.tool("spawn", task="look")
        return [job, await run.tool("spawn_await", job_ids=f"{job}, *")]

    model = ScriptedModel({"*": ["seen"]})
    recording = record(program, log=tmp_path / "a.jsonl", tools=spawn_tools(), model=model)

    job, text = recording.output
    assert text == f"[{job}: OK]\nseen\n\n[*: NOT FOUND]"
