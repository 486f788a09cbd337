"""Logs for the tests beside this file."""

from collections.abc import Callable
from pathlib import Path

import attrs
import pytest

from refold.engine.events.events import NoteAdded, RunStarted, ToolCalled, ToolReturned
from refold.engine.log.writer import LogWriter
from tests.support.started import STARTED


@pytest.fixture
def started() -> RunStarted:
    """The first event of a root run."""
    return attrs.evolve(
        STARTED,
        input={"ask": "why"},
        versions={"format": 1, "engine": 1, "state": 1, "python": "3.12"},
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
