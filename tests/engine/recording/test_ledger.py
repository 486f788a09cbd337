"""The log, its digest, the state and the causes to come grow together (CONTRACT.md §3.2, §6)."""

import threading
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest

from refold.engine.errors import NotCanonical, UsageError
from refold.engine.events.events import (
    ChildStarted,
    NoteAdded,
    RunFinished,
    ToolCalled,
    ToolReturned,
)
from refold.engine.events.outcome import ChildRef
from refold.engine.log.descriptors import sync_data
from refold.engine.log.reader import read_entries
from refold.engine.log.writer import LogWriter, SystemDisk
from refold.engine.recording.ledger import Ledger
from refold.replay.audit.refolding import refold_log
from refold.replay.audit.verify import verify
from tests.support import started

CALLED = ToolCalled("find", {"q": 1}, "reads")
STARTED = attrs.evolve(started.STARTED, versions={"format": 1, "state": 1})


def begun(log: Path) -> Ledger:
    return Ledger.begun(LogWriter.create(log, STARTED, durability="fast"), STARTED)


def test_a_sealed_ledger_is_a_log_that_verifies_and_folds_to_the_same_state(tmp_path: Path) -> None:
    """The last line speaks of all before it."""
    log = tmp_path / "a.jsonl"
    ledger = begun(log)
    ledger.append(NoteAdded("hello"), "0#1", ledger.step)
    asked = ledger.append(CALLED, "0#2", ledger.step)

    assert ledger.cause_of("0#2") == asked == 2
    assert ledger.cause_of("0#2") is None
    ledger.open_step(ToolReturned("ok", 7), "0#2", asked)
    assert ledger.step == 3
    sealed = ledger.seal(RunFinished("completed", "done"), {})

    assert (ledger.entries, sealed.entries) == (5, 5)
    assert [entry.cause for entry in read_entries(log)] == [None, 0, 0, 2, 3]
    assert verify(log).complete
    assert refold_log(log).agrees
    assert ledger.fold.seal is not None


def test_a_call_that_is_written_by_its_bytes_counts_as_any_other(tmp_path: Path) -> None:
    """Its two lines, and what is known of it once it has its request alone."""
    ledgers = [begun(tmp_path / name) for name in ("a.jsonl", "b.jsonl")]
    called = ledgers[0].writer.encode(CALLED)
    returned = ledgers[0].writer.encode(ToolReturned("ok", 7))

    asked = ledgers[0].append_fenced(b"tool.called", b"0#1", 0, called)
    ledgers[0].step = ledgers[0].append_fenced(b"tool.returned", b"0#1", asked, returned)
    ledgers[0].served(b"0#1", "find", called, returned)
    seq = ledgers[0].append_fenced(b"tool.called", b"0#2", ledgers[0].step, called)
    ledgers[0].called("0#2", seq, called, CALLED)
    for call, has_result in (("0#1", True), ("0#2", False)):
        ledgers[1].append(CALLED, call, ledgers[1].step)
        if has_result:
            ledgers[1].open_step(ToolReturned("ok", 7), call, ledgers[1].cause_of(call))

    one, other = ledgers
    assert one.requests == other.requests == {"0#2": 3}
    assert one.fold.state() == other.fold.state()
    assert one.digest.hexdigest() == other.digest.hexdigest()
    bodies = [
        [entry.data_bytes for entry in read_entries(ledger.writer.path)][1:] for ledger in ledgers
    ]
    assert bodies[0] == bodies[1]


def test_children_are_bound_by_the_hash_of_their_start_and_the_leaf_of_their_end(
    tmp_path: Path,
) -> None:
    """Leaves go by number, whatever the order of joins."""
    ledger = begun(tmp_path / "a.jsonl")
    ledger.append(ChildStarted(number=1, delegation={"program": "p"}, run_id="r1"), "0#1", 0)

    assert ledger.hash_of_start("0#1") == ledger.head
    ledger.joined("0#2", 2, ChildRef(run="r2", head="b" * 64, events=3))
    ledger.joined("0#1", 1, ChildRef(run="r1", head="a" * 64, events=2))
    sealed = ledger.seal(RunFinished("completed", "done"), {})

    other = begun(tmp_path / "b.jsonl")
    other.joined("0#1", 1, ChildRef(run="r1", head="a" * 64, events=2))
    other.joined("0#2", 2, ChildRef(run="r2", head="b" * 64, events=3))
    assert other.seal(RunFinished("completed", "done"), {}).children_root == sealed.children_root


def test_what_cannot_be_held_leaves_everything_as_it_was(tmp_path: Path) -> None:
    """A line that was refused is told to nobody."""
    ledger = begun(tmp_path / "a.jsonl")
    before = ledger.fold.state()

    with pytest.raises(NotCanonical):
        ledger.append(ToolCalled("find", {"q": float("nan")}, "reads"), "0#1", 0)

    assert ledger.requests == {}
    assert ledger.fold.state() == before


def test_behind_a_fence_nothing_is_written(tmp_path: Path) -> None:
    """From whichever thread; the head is the one that was told."""
    ledger = begun(tmp_path / "a.jsonl")

    assert ledger.close() == (ledger.head, 1)
    with pytest.raises(UsageError):
        ledger.append(NoteAdded("late"), "0#1", 0)


class HeldDisk(SystemDisk):
    """A disk on which a sync takes until it is let go, once it is held."""

    def __init__(self) -> None:
        self.is_held = False
        self.begun, self.let_go = threading.Event(), threading.Event()

    def sync(self, descriptor: int, /) -> None:
        """Return when what was written is on disk, and the disk was let go."""
        if self.is_held:
            self.begun.set()
            assert self.let_go.wait(60)
        sync_data(descriptor)


def ends(ledger: Ledger) -> None:
    ledger.seal(RunFinished("completed", "done"), {})


@pytest.mark.parametrize("write", [Ledger.barrier, ends])
def test_the_log_is_let_go_of_when_nobody_uses_it(
    tmp_path: Path, write: Callable[[Ledger], object]
) -> None:
    """Or a descriptor would be synced that is another file's by then."""
    disk = HeldDisk()
    log = tmp_path / "a.jsonl"
    ledger = Ledger.begun(LogWriter.create(log, STARTED, disk=disk), STARTED)
    ledger.append(NoteAdded("hello"), "0#1", 0)
    disk.is_held = True
    failures: list[Exception] = []

    def writes() -> None:
        try:
            write(ledger)
        except Exception as error:  # noqa: BLE001 - looked at below
            failures.append(error)

    writing = threading.Thread(target=writes)
    writing.start()
    assert disk.begun.wait(60)
    ending = threading.Thread(target=ledger.close)
    ending.start()
    ending.join(0.1)
    had_to_wait = ending.is_alive()
    disk.let_go.set()
    writing.join(60)
    ending.join(60)

    assert had_to_wait
    assert failures == []
    ledger.close()


def test_failed_outcomes_are_known_by_their_calls(tmp_path: Path) -> None:
    log = LogWriter.create(tmp_path / "a.jsonl", STARTED)
    ledger = Ledger.begun(log, STARTED)
    for call, status in (("0#1", "error"), ("0#2", "ok")):
        ledger.append(ToolCalled("t", {}, "pure"), call, 0)
        ledger.open_step(ToolReturned(status), call, None)  # type: ignore[arg-type]
    ledger.close()

    assert ledger.failed == {"0#1": 2}
