"""Rules of scheduling by flags of the log (CONTRACT.md §15.1)."""

from pathlib import Path
from typing import Any

import attrs
import pytest

import refold
from refold.engine.errors import LogUnsupported
from refold.engine.events.flags import NOW, Flags, unknown_flags
from refold.engine.log.writer import LogWriter
from refold.engine.recording.bookends import versions
from refold.replay.reexecute.world import Replayed, first_event


def test_a_log_names_the_flags_it_was_made_under() -> None:
    """And is read back as the same rules."""
    assert versions()["flags"] == NOW.as_json()
    assert Flags.of_log(versions()) == NOW
    assert unknown_flags(versions()) == []


def test_a_log_without_flags_follows_the_old_rules() -> None:
    """Each flag's default is what held before it."""
    assert Flags.of_log({"engine": 1}) == Flags() != NOW
    assert unknown_flags({"engine": 1}) == []


@pytest.mark.parametrize("flags", [{"dreams": True}, {"scope_hashes": "yes"}, ["scope_hashes"], 7])
def test_a_flag_that_is_not_known_is_refused_by_name(tmp_path: Path, flags: Any) -> None:
    """A later release wrote it: its rules cannot be followed; the log is verified all the same."""
    log = refold.record(_program, log=tmp_path / "a.jsonl").log
    started = first_event(log)
    started = attrs.evolve(started, versions={**started.versions, "flags": flags})
    LogWriter.create(tmp_path / "b.jsonl", started).close()

    assert refold.verify(tmp_path / "b.jsonl").intact
    with pytest.raises(LogUnsupported, match=r"flags of scheduling.*(dreams|scope_hashes|7)"):
        Replayed(tmp_path / "b.jsonl", tools={})


async def _program(_run: refold.Run, _input: Any) -> None:
    """Do nothing."""
