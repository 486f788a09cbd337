"""A recording tells what became of a run."""

from pathlib import Path
from typing import Any

import pytest

from refold.engine.errors import RunFailed
from refold.engine.events.outcome import Artifact, Report
from refold.engine.log.reader import read_entries
from refold.engine.program.run import Run
from refold.engine.runners.recording import record
from refold.replay.reexecute.reexecute import reexecute


async def echoes(run: Run, value: Any) -> Any:
    run.annotate("uuid", run.uuid())
    return value


def test_a_recording_tells_what_became_of_it(tmp_path: Path) -> None:
    """Status, output, and where its log stands."""
    recording = record(echoes, {"x": 1}, log=tmp_path / "a.jsonl", seed=1)
    last = list(read_entries(recording.log))[-1]

    assert (recording.status, recording.reason, recording.ok) == ("completed", "done", True)
    assert (recording.output, recording.error) == ({"x": 1}, None)
    assert (recording.head, recording.entries) == (last.hash, last.seq + 1)
    assert recording.data_digest == last.data["data_digest"]


def test_a_report_is_a_root_programs_too(tmp_path: Path) -> None:
    """Summary and artifacts beside the output."""

    async def program(_run: Run, _input: Any) -> Report:
        return Report(summary="s", output=1, artifacts=(Artifact(kind="note", value="v"),))

    recording = record(program, log=tmp_path / "a.jsonl")

    assert (recording.summary, recording.output) == ("s", 1)
    assert recording.artifacts == (Artifact(kind="note", value="v"),)
    assert reexecute(recording.log, program).identical


async def _asks(run: Run, text: str) -> bool:
    return bool(await run.ask(text, {"type": "boolean"}))


def test_the_result_of_a_suspended_run_is_refused_with_its_questions(tmp_path: Path) -> None:
    recording = record(_asks, "publish?", log=tmp_path / "a.jsonl")

    with pytest.raises(RunFailed) as failed:
        recording.result()

    assert "it waits for 1 answer: 0#1 publish?\nContinue it with refold.resume(" in str(
        failed.value
    )
    assert f"refold resume {recording.log} --list" in str(failed.value)
