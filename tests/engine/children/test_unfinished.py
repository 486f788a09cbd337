"""A child of a resumed run: its outcome if it had ended, else how it is run now (§4.7)."""

import itertools
from collections.abc import Iterator

import attrs
import pytest

from refold.engine.children.unfinished import take_up
from refold.engine.errors import LogDamaged, LogLocked, UsageError
from refold.engine.events.outcome import Outcome
from refold.engine.log.reader import read_entries
from refold.engine.log.writer import LogWriter
from refold.engine.ports.ports import ChildRequest, Parentage, Reference
from refold.engine.runners.in_process import InProcess
from tests.engine.conftest import Make, ended
from tests.support.unfinished import lines_of

SECTOR = 512
CONTINUED = Reference("refold.replay.resume.resume", "continued")


@pytest.fixture
def request_again(request_for: Make) -> ChildRequest:
    """The request of a child that has run, now to be resumed."""
    request = request_for("works")
    assert ended(InProcess().run(request)).ok
    return attrs.evolve(request, resume=CONTINUED)


def test_the_outcome_of_a_sealed_log_is_the_one_it_had(request_for: Make) -> None:
    """Case 97: but for the time, word by word."""
    request = request_for("works")
    first = ended(InProcess().run(request))

    taken = take_up(attrs.evolve(request, resume=CONTINUED))

    assert isinstance(taken, Outcome)
    assert attrs.evolve(taken, duration_ms=0) == attrs.evolve(first, duration_ms=0)
    assert request.log is not None
    times = [entry.meta["mono_us"] for entry in read_entries(request.log)]
    assert taken.duration_ms == (times[-1] - times[0]) // 1000


def test_one_that_never_wrote_a_line_starts_afresh(request_for: Make) -> None:
    """Whether there is no log, or half a line of one."""
    request = attrs.evolve(request_for("works"), resume=CONTINUED)
    assert request.log is not None

    assert take_up(request) == attrs.evolve(request, resume=None)
    request.log.write_bytes(b'{"seq":0,')
    assert take_up(request) == attrs.evolve(request, resume=None)
    assert not request.log.exists()


def _shapes_of(line: bytes) -> Iterator[bytes]:
    """Yield what a disk may hold of a first line that was not synced: never all of it."""
    sectors = [line[at : at + SECTOR] for at in range(0, len(line), SECTOR)]
    edges = range(0, len(line) + SECTOR, SECTOR)
    ends = sorted({*(at + by for at in edges for by in (-1, 0, 1, 40)), len(line) - 1, len(line)})
    for is_kept in itertools.product([True, False], repeat=len(sectors)):
        image = b"".join(
            each if kept else bytes(len(each)) for each, kept in zip(sectors, is_kept, strict=True)
        )
        for end in ends:
            for zeros in (0, 1, SECTOR, 5000):
                if 0 <= end <= len(line) and (image[:end] != line):
                    yield image[:end] + bytes(zeros)


def test_whatever_a_disk_holds_of_a_first_line_it_starts_afresh(
    request_again: ChildRequest,
) -> None:
    """Nothing of it was acknowledged: any sectors may be zeros, and the file may end anywhere."""
    log = request_again.log
    assert log is not None
    first = lines_of(log)[0]
    shapes = set(_shapes_of(first))
    assert len(shapes) > 100

    for shape in shapes:
        log.write_bytes(shape)

        assert take_up(request_again) == attrs.evolve(request_again, resume=None), shape


def test_a_first_line_that_another_follows_is_damage(request_again: ChildRequest) -> None:
    """It was whole once, for the line after it was written; so is what never was a log."""
    log = request_again.log
    assert log is not None
    for content in (bytes(SECTOR) + log.read_bytes()[SECTOR:], b"text\n" + bytes(SECTOR)):
        log.write_bytes(content)

        with pytest.raises(LogDamaged):
            take_up(request_again)


def test_one_that_breaks_off_is_resumed(request_again: ChildRequest) -> None:
    """The request stays as it is."""
    assert request_again.log is not None
    request_again.log.write_bytes(b"".join(lines_of(request_again.log)[:-1]))

    assert take_up(request_again) == request_again


def test_damage_and_strangers_are_refused(request_again: ChildRequest) -> None:
    """Nothing is run in their place."""
    log, identity = request_again.log, request_again.identity
    assert log is not None
    other = Parentage(run="root", call="0#1", hash="1" * 64)
    with pytest.raises(UsageError):
        take_up(attrs.evolve(request_again, identity=attrs.evolve(identity, parent=other)))

    log.write_bytes(log.read_bytes().replace(b'"child"', b'"chold"', 1))
    with pytest.raises(LogDamaged):
        take_up(request_again)


def test_one_that_still_writes_is_waited_for_and_then_refused(request_again: ChildRequest) -> None:
    """§4.3: a child leaves soon after its parent; cancelled, nobody waits."""
    assert request_again.log is not None
    request_again.log.write_bytes(b"".join(lines_of(request_again.log)[:-1]))
    holder = LogWriter.resume(request_again.log)
    request_again.cancel.set()

    with pytest.raises(LogLocked):
        take_up(request_again)

    holder.writer.close()
    assert take_up(request_again) == request_again
