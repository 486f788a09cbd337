"""What a parent reads of a child's log when it joins (CONTRACT.md §7.4)."""

from pathlib import Path

import attrs
import pytest

from refold.engine.children.anchor import anchored, written_here
from refold.engine.events.limits import Limits
from refold.engine.events.outcome import Outcome
from refold.engine.log.names import child_path
from refold.engine.log.reader import read_entries, scan
from refold.engine.ports.ports import ChildRequest, Identity
from refold.engine.runners.in_process import InProcess
from tests.engine.conftest import Make, ended

DONE = Outcome(status="completed", summary="s", duration_ms=5)


@pytest.fixture
def ran(request_for: Make) -> ChildRequest:
    """Give the request of a child that has run, three levels deep."""
    request = request_for("nests", 2, runners={"in-process": InProcess()})
    assert ended(InProcess().run(request)).ok
    return request


def log_of(request: ChildRequest) -> Path:
    assert request.log is not None
    return request.log


def test_an_outcome_is_bound_to_the_head_of_the_log(ran: ChildRequest) -> None:
    """Run, head and number of entries."""
    last = list(read_entries(log_of(ran)))[-1]

    child = anchored(DONE, ran).child

    assert child is not None
    assert (child.run, child.head, child.events) == ("child", last.hash, last.seq + 1)


def test_a_child_in_this_process_is_bound_to_what_was_written(request_for: Make) -> None:
    """Its log is not read again: the head that its writer knows is the head of the file."""
    request = request_for("nests", 2, runners={"in-process": InProcess()})

    outcome = ended(InProcess().run(request))

    assert outcome == anchored(outcome, request)


def test_a_child_without_a_log_has_no_anchor(request_for: Make) -> None:
    """It died before its first line, or keeps none."""
    assert anchored(DONE, request_for("works")) == DONE
    assert anchored(DONE, request_for("works", log=None)) == DONE


def test_a_torn_line_is_cut_off_and_kept(ran: ChildRequest) -> None:
    """The head that the parent records is the head of the file."""
    log = log_of(ran)
    whole = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(whole[:2]) + whole[2][:20])

    outcome = anchored(DONE, ran)

    assert outcome.child is not None
    found = scan(log)
    assert (found.torn, found.damage) == (None, None)
    assert outcome.child.head == found.head
    assert [path for path in log.parent.iterdir() if whole[2][:20] in path.read_bytes()]


def test_bytes_behind_its_end_change_nothing(ran: ChildRequest) -> None:
    """Nobody goes on with a sealed log: they stay for `verify` to tell."""
    log = log_of(ran)
    head = scan(log).head
    log.write_bytes(log.read_bytes() + b'{"seq":')

    outcome = anchored(DONE, ran)

    assert outcome.status == "completed"
    assert outcome.child is not None
    assert outcome.child.head == head
    assert scan(log).torn is not None


def test_a_damaged_log_fails_the_child(ran: ChildRequest) -> None:
    """Whatever the reply said."""
    log = log_of(ran)
    log.write_bytes(log.read_bytes().replace(b'"depth":1', b'"depth":2', 1))

    outcome = anchored(DONE, ran)

    assert outcome.error is not None
    assert (outcome.status, outcome.error.code) == ("failed", "child_log")
    assert outcome.duration_ms == 5


def test_another_runs_log_in_its_place_fails_the_child(ran: ChildRequest) -> None:
    """By run id, or by depth."""
    identity: Identity = attrs.evolve(ran.identity, run_id="another")

    outcome = anchored(DONE, attrs.evolve(ran, identity=identity))

    assert outcome.error is not None
    assert "a different run" in outcome.error.message
    assert (outcome.status, outcome.duration_ms) == ("failed", 5)
    assert outcome.child is not None
    assert outcome.child.head == scan(log_of(ran)).head


def test_a_descendant_below_the_depth_fails_the_child(ran: ChildRequest) -> None:
    """A child enforces its own limits, and the parent checks."""
    low = attrs.evolve(ran, limits=Limits(max_depth=2))
    outcome = anchored(DONE, low)

    assert outcome.error is not None
    assert outcome.error.message == "a run at depth 3 was started; max_depth is 2"
    assert written_here(DONE, low, 1).error == outcome.error
    assert written_here(DONE, low, 0) == DONE, "it started none"
    deep = child_path(child_path(log_of(ran), 1), 1)
    assert deep.is_file()
    deep.rename(deep.with_name("elsewhere.jsonl"))
    deep.symlink_to(deep.with_name("elsewhere.jsonl"))
    assert anchored(DONE, low).error is None, "a link is nobody's child"
