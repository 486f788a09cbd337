"""Logs for the tests beside this file."""

from collections.abc import Callable
from pathlib import Path

import pytest

from refold.engine.events.events import NoteAdded, RunStarted, ToolCalled, ToolReturned
from refold.engine.log.writer import LogWriter


@pytest.fixture
def started() -> RunStarted:
    """The first event of a root run."""
    return RunStarted(
        program="p",
        input={"ask": "why"},
        depth=0,
        limits={},
        seed="00",
        tools=[],
        versions={"format": 1, "engine": 1, "state": 1, "python": "3.12"},
        fingerprint={},
        rules={},
        path="",
        run_id="run",
        root_id="run",
        nonce="ab",
    )


@pytest.fixture
def make_log(tmp_path: Path, started: RunStarted) -> Callable[[int], Path]:
    """Write a log of that many entries, and close it."""

    def make(entries: int) -> Path:
        path = tmp_path / "audit.jsonl"
        with LogWriter.create(path, started, durability="fast") as log:
            for at in range(1, entries):
                call = f"0#{(at + 2) // 3}"
                match at % 3:
                    case 1:
                        log.append(ToolCalled("search", {"q": f"{at}"}, "reads"), call)
                    case 2:
                        log.append(ToolReturned("ok", {"hit": at}), call, at - 1)
                    case _:
                        log.append(NoteAdded("noted", at), call)
        return path

    return make
