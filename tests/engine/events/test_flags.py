"""Rules of scheduling by flags of the log (CONTRACT.md §15.1)."""

from pathlib import Path
from typing import Any

import attrs
import pytest

import refold
from refold.engine.errors import LogUnsupported
from refold.engine.log.writer import LogWriter
from refold.replay.reexecute.world import Replayed, first_event


@pytest.mark.parametrize("flags", [{"dreams": True}, {"in_turn": "yes"}, ["in_turn"], 7, None])
def test_a_flag_that_is_not_known_is_refused_by_name(tmp_path: Path, flags: Any) -> None:
    """A later release wrote it: its rules cannot be followed; the log is verified all the same."""
    log = refold.record(_program, log=tmp_path / "a.jsonl").log
    started = first_event(log)
    started = attrs.evolve(started, versions={**started.versions, "flags": flags})
    LogWriter.create(tmp_path / "b.jsonl", started).close()

    assert refold.verify(tmp_path / "b.jsonl").intact
    with pytest.raises(LogUnsupported, match=r"flags of scheduling.*(dreams|in_turn|7|None)"):
        Replayed(tmp_path / "b.jsonl", tools={})


async def _program(_run: refold.Run, _input: Any) -> None:
    """Do nothing."""
