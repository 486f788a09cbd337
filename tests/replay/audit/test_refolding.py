from pathlib import Path
from typing import Any

import attrs
import pytest

from refold.engine.errors import EntryMissing, LogDamaged, LogMissing
from refold.engine.events import events
from refold.engine.log.writer import LogWriter
from refold.engine.state.digests import STATE_VERSION, state_digest
from refold.engine.state.folding import Fold
from refold.engine.state.run_state import RunState
from refold.replay.audit.refolding import refold_log, state

LONG = "x" * 40_000


def started(version: int = STATE_VERSION) -> events.RunStarted:
    return events.RunStarted(
        "demo",
        None,
        0,
        {"timeout_seconds": 0.5},
        "00",
        [],
        {"format": 1, "engine": 1, "state": version, "python": "3.12"},
        {},
        {},
        "",
        "r",
        "r",
        nonce="00",
    )


LINES: list[tuple[Any, str | None]] = [
    (events.ToolCalled("search", {"q": LONG}, "reads"), "0#1"),
    (events.ToolReturned("ok", LONG), "0#1"),
    (events.ModelAsked("m", "", 0, [{"role": "user", "content": LONG}], {}), "0#2"),
    (events.ModelAnswered("ok", {"role": "assistant", "content": LONG}), "0#2"),
    (events.NoteAdded("a note", {"$blob": "looks like a marker"}), None),
]


@attrs.frozen
class Recorded:
    path: Path
    states: list[RunState]
    """After each entry, as the run itself saw them."""


def record(
    path: Path, *, version: int = STATE_VERSION, digest: str = "", seal: bool = True
) -> Recorded:
    """Write a log as a live run does: append, then apply to a fold of its own."""
    fold = Fold()
    states = []
    with LogWriter.create(path, started(version), durability="fast") as log:
        fold.apply(started(version))
        states.append(fold.state())
        for event, call in LINES:
            log.append(event, call)
            fold.apply(event, call)
            states.append(fold.state())
        if seal:
            recorded = digest or state_digest(fold.state())
            end = events.RunFinished("completed", "done", entries=7, state_digest=recorded)
            log.append(end)
            fold.apply(end)
            states.append(fold.state())
    return Recorded(path, states)


@pytest.fixture
def log(tmp_path: Path) -> Recorded:
    return record(tmp_path / "audit.jsonl")


def test_a_log_folds_to_the_state_that_its_run_had(log: Recorded) -> None:
    """Live fold and refold are one, blobs and look-alike markers included."""
    found = refold_log(log.path)

    assert found.state == log.states[-1]
    assert found.recorded_digest == found.digest == state_digest(log.states[-2])
    assert found.agrees is True


def test_the_state_after_any_entry_can_be_had(log: Recorded) -> None:
    """By seq, or counted from the end."""
    entries = len(log.states)

    assert [state(log.path, at) for at in range(entries)] == log.states
    assert [state(log.path, at) for at in range(-entries, 0)] == log.states
    assert state(log.path) == log.states[-1]


@pytest.mark.parametrize("at", [7, 99, -8, -99])
def test_an_entry_that_is_not_there_is_refused(log: Recorded, at: int) -> None:
    with pytest.raises(EntryMissing) as refused:
        state(log.path, at)

    assert (refused.value.at, refused.value.entries) == (at, 7)
    assert str(refused.value) == (
        f"{log.path} has no entry {at}: its 7 entries are numbered 0 to 6, or -7 to -1 from the end"
    )


def test_a_recorded_digest_that_is_another_is_found(tmp_path: Path) -> None:
    found = refold_log(record(tmp_path / "audit.jsonl", digest="0" * 64).path)

    assert found.agrees is False
    assert found.recorded_digest == "0" * 64


def test_another_state_version_is_not_comparable(tmp_path: Path) -> None:
    """Never "different": other rules give other digests of the same run."""
    found = refold_log(record(tmp_path / "audit.jsonl", version=STATE_VERSION + 1).path)

    assert found.agrees is None
    assert found.state_version == STATE_VERSION + 1


def test_an_unsealed_log_is_not_comparable_and_has_a_state(tmp_path: Path) -> None:
    made = record(tmp_path / "audit.jsonl", seal=False)

    found = refold_log(made.path)

    assert (found.agrees, found.recorded_digest) == (None, None)
    assert (found.state, found.digest) == (made.states[-1], state_digest(made.states[-1]))


def test_a_torn_tail_ends_the_entries(tmp_path: Path) -> None:
    """The state of a crashed run is that of its whole entries."""
    made = record(tmp_path / "audit.jsonl", seal=False)
    content = made.path.read_bytes()
    made.path.write_bytes(content[:-5])

    assert state(made.path) == made.states[-2]


def test_damage_is_raised_where_it_is_reached(log: Recorded) -> None:
    """A state before the damage can be had; one after it cannot be trusted."""
    lines = log.path.read_bytes().splitlines(keepends=True)
    lines[3] = lines[3].replace(b'"model":"m"', b'"model":"n"')
    log.path.write_bytes(b"".join(lines))

    assert state(log.path, 2) == log.states[2]
    with pytest.raises(LogDamaged) as damaged:
        state(log.path, 3)
    assert damaged.value.line == 4
    with pytest.raises(LogDamaged):
        refold_log(log.path)


def test_no_log_is_a_typed_error(tmp_path: Path) -> None:
    with pytest.raises(LogMissing):
        refold_log(tmp_path / "none.jsonl")


def test_two_states_of_a_run_are_compared_in_either_order(log: Recorded) -> None:
    """By pointer, before and after, as the states are as JSON."""
    forth = {each.pointer: each for each in state(log.path, 1, -1)}
    back = {each.pointer: each for each in state(log.path, -1, 1)}

    assert (forth["/entries"].before, forth["/entries"].after) == (2, 7)
    assert (back["/entries"].before, back["/entries"].after) == (7, 2)
    assert forth["/open/0"].kind == "removed"
    assert back["/open/0"].kind == "added"
    assert state(log.path, 2, 2) == ()
    with pytest.raises(EntryMissing):
        state(log.path, 0, 99)
