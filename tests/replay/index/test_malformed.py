"""A log that no recorder writes is the log's fault, whatever reads it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import refold
from refold.engine.errors import EventMalformed
from refold.replay import refold_session
from refold.replay.index.by_call import Book
from refold.replay.index.malformed import explains_malformed
from tests.support.fixtures import LOGS
from tests.support.forging import altered
from tests.support.loops import for_each

EVERYTHING = LOGS / "everything.jsonl"


async def program(run: refold.Run, _input: Any) -> None:
    await run.model([{"role": "user", "content": "What?"}])


@for_each(
    "read, kind, place, value",
    [
        (lambda log: refold.diff(log, EVERYTHING), "child.finished", "outcome", []),
        (lambda log: refold.diff(EVERYTHING, log), "child.finished", "outcome", []),
        (lambda log: refold.reexecute(log, program), "run.started", "tools", [1]),
        (lambda log: refold.resume(log, program), "run.started", "tools", [1]),
        (lambda log: refold.why(log, -1, every=True), "model.asked", "added", 5),
        (Book, "child.started", "delegation", {"limits": 5}),
        (lambda log: refold_session(log, refold.Session()), "child.finished", "outcome", []),
    ],
)
def test_what_a_reader_fails_over_is_named(
    read: Callable[[Path], object], kind: str, place: str, value: Any, tmp_path: Path
) -> None:
    def change(own: str, data: dict[str, Any]) -> None:
        if own == kind:
            data[place] = value

    log = altered(EVERYTHING, tmp_path / "a.jsonl", change)
    with pytest.raises(EventMalformed, match=f"^{kind} at /{place}"):
        read(log)


def test_a_failure_over_a_sound_log_stays() -> None:
    @explains_malformed
    def fails(_log: Path) -> None:
        raise TypeError("of its own")

    with pytest.raises(TypeError, match="of its own"):
        fails(EVERYTHING)
