"""Rules of scheduling by flags of the log (CONTRACT.md §15.1)."""

from pathlib import Path
from typing import Any

import attrs
import pytest

import refold
from refold.engine.errors import LogUnsupported
from refold.engine.events.flags import NOW, Flags
from refold.engine.log.writer import LogWriter
from refold.engine.recording.bookends import versions
from refold.replay.reexecute.world import Replayed, first_event
from tests.support.loops import for_each


@attrs.frozen(kw_only=True)
class Later(Flags):
    """The flags of a release that has some."""

    in_turn: bool = False
    most: int = 0


def test_a_log_names_the_flags_it_was_made_under() -> None:
    """And is read back as the same rules; no rule has come since version 1.0."""
    assert versions()["flags"] == NOW.as_json() == {}
    assert Flags.of_log(versions()) == NOW
    assert Flags.unknown(versions()) == []


def test_a_log_without_a_flag_follows_the_older_rule() -> None:
    """Each flag's default is what held before it."""
    new = Later(in_turn=True, most=7)

    assert new.as_json() == {"in_turn": True, "most": 7}
    assert Later.of_log({"flags": new.as_json()}) == new
    assert Later.of_log({"flags": {"most": 7}}) == Later(in_turn=False, most=7)
    assert Later.of_log({"flags": {}}) == Later()
    assert Later.unknown({"flags": new.as_json()}) == []
    assert Later.unknown({"flags": {"most": "7", "in_turn": False}}) == ["most='7'"]


@for_each("flags", [{"dreams": True}, {"in_turn": "yes"}, ["in_turn"], 7, None])
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
