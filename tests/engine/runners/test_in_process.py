"""Children on threads of this process: the deadline is cooperative (CONTRACT.md §7.3)."""

import asyncio
import contextvars
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import attrs
import pytest

import refold
from refold.engine.events.limits import CHILDREN_AT_ONCE, Limits
from refold.engine.log.reader import read_entries, scan
from refold.engine.ports.ports import CancelSignal
from refold.engine.program.run import PlainRun, Run
from refold.engine.recording import workers
from refold.engine.runners import in_process
from refold.engine.runners.in_process import InProcess
from refold.replay.resume.resume import CONTINUED
from tests.engine.conftest import Make, ended
from tests.support.unfinished import lines_of

LET_GO = threading.Event()


class Stops:
    """A clock that shows one time and no other."""

    def __init__(self) -> None:
        self._times = [0]

    def time_us(self) -> int:
        """Return it, or fail."""
        return self._times.pop()


def will_not_yield(run: PlainRun, _input: Any) -> None:
    """Take no notice of anything, and write once it is let go."""
    LET_GO.wait(60)
    run.annotate("too late")


def let_go() -> None:
    """Let the child above go on, and wait until it has ended."""
    LET_GO.set()
    thread = next((t for t in threading.enumerate() if t.name == "refold-run-child"), None)
    if thread is not None:
        thread.join(60)


def test_a_child_that_never_yields_is_abandoned_and_fenced(
    request_for: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The parent goes on in time; nothing that the child does later is recorded."""
    monkeypatch.setattr("refold.engine.runners.in_process._PATIENCE_SECONDS", 0.3)
    LET_GO.clear()
    began = time.monotonic()
    request = request_for(will_not_yield, limits=Limits(timeout_seconds=0.1))

    outcome = ended(InProcess().run(request))

    assert time.monotonic() - began < 50
    assert (outcome.status, outcome.child is not None) == ("timed_out", True)
    assert outcome.error is not None
    assert "abandoned" in outcome.error.message
    thread = next(t for t in threading.enumerate() if t.name == "refold-run-child")
    let_go()
    assert not thread.is_alive()  # it is used no more
    entries = list(read_entries(tmp_path / "a.1.jsonl"))
    assert outcome.child is not None
    assert (outcome.child.head, outcome.child.events) == (entries[-1].hash, len(entries))
    assert [entry.kind for entry in entries] == ["run.started"]


@pytest.mark.long
def test_so_is_one_that_was_to_go_on_in_its_log(request_for: Make) -> None:
    """Abandoned while its record is still re-executed, it does not take the log over later."""
    LET_GO.set()
    request = request_for(will_not_yield, limits=Limits(timeout_seconds=0.1))
    assert ended(InProcess().run(request)).ok
    assert request.log is not None
    request.log.write_bytes(lines_of(request.log)[0])
    LET_GO.clear()

    outcome = ended(InProcess().run(attrs.evolve(request, resume=CONTINUED)))
    let_go()

    assert outcome.status == "timed_out"
    assert outcome.child is not None
    assert (outcome.child.head, outcome.child.events) == (scan(request.log).head, 1)


@pytest.mark.long
def test_so_is_one_that_is_cancelled(request_for: Make) -> None:
    """It has the same grace."""
    LET_GO.clear()
    cancel = CancelSignal()
    cancel.set()

    outcome = ended(InProcess().run(request_for(will_not_yield, cancel=cancel)))

    LET_GO.set()
    assert outcome.status == "cancelled"


def test_no_thread_of_its_tools_is_left(request_for: Make) -> None:
    """Where no run above lends its loop, it has one of its own, and ends it."""
    before = set(threading.enumerate())

    assert ended(InProcess().run(request_for("works", 3))).ok

    left = {thread.name for thread in set(threading.enumerate()) - before}
    assert "refold-host" not in left


def test_where_no_thread_can_be_started_the_child_has_failed(request_for: Make) -> None:
    """It has no log: a run that goes on may start it again."""
    before, runner, request = threading.stack_size(), InProcess(), request_for("works", 3)
    threading.stack_size(1 << 46)  # more than there is
    try:
        outcome = ended(runner.run(request))
    finally:
        threading.stack_size(before)

    assert outcome.error is not None
    assert (outcome.status, outcome.error.code) == ("failed", "runner")
    assert outcome.child is None
    assert request.log is not None
    assert not request.log.exists()


MINE = contextvars.ContextVar("mine", default=-1)


def marks(_run: PlainRun, number: int) -> int:
    """Leave something in this context, and return what was there before."""
    found = MINE.get()
    MINE.set(number)
    return found


async def one_by_one_and_at_once(run: Run, _input: Any) -> list[int]:
    """Start more children than may work at once."""
    asked = [refold.Delegation(program=marks, input=n) for n in range(CHILDREN_AT_ONCE + 5)]
    found = [(await run.delegate(each)).result() for each in asked[:2]]
    children = [await run.start(each) for each in asked[2:]]
    return [*found, *(each.result() for each in await run.join(*children))]


def test_no_child_finds_what_another_left_in_its_context(tmp_path: Path) -> None:
    """Each begins with an empty one, on whatever thread."""
    MINE.set(-2)

    recording = refold.record(one_by_one_and_at_once, log=tmp_path / "a.jsonl", durability="fast")

    assert recording.output == [-1] * (CHILDREN_AT_ONCE + 5)


def leaves_one_behind(run: PlainRun, _input: Any) -> str:
    """Start a child that has to be abandoned."""
    limits = Limits(timeout_seconds=0.1)
    return run.delegate(refold.Delegation(program=will_not_yield, limits=limits)).status


@pytest.mark.long
def test_the_thread_of_an_abandoned_child_is_used_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends once the child does, whose end does not count."""
    monkeypatch.setattr(workers, "_IDLE_SECONDS", 600.0)
    monkeypatch.setattr(workers, "_spare", [])
    LET_GO.clear()

    recording = refold.record(leaves_one_behind, log=tmp_path / "a.jsonl")

    assert recording.output == "timed_out"
    thread = next(t for t in threading.enumerate() if t.name == "refold-child-0#1")
    LET_GO.set()
    thread.join(60)
    assert not thread.is_alive()
    assert [entry.kind for entry in read_entries(tmp_path / "a.1.jsonl")] == ["run.started"]


def test_what_nobody_awaited_in_a_child_is_warned_of(request_for: Make) -> None:
    """As in the run above."""

    async def fails() -> None:
        raise ValueError("no room")

    async def child(run: Run, _input: Any) -> None:
        asyncio.create_task(fails())  # noqa: RUF006 - nobody awaits it
        await run.sleep(0.001)

    with pytest.warns(RuntimeWarning, match="ValueError: no room"):
        assert ended(InProcess().run(request_for(child))).ok


def test_a_child_that_cannot_be_recorded_to_its_end_has_failed(request_for: Make) -> None:
    """For want of a clock, say: what was raised is in the outcome, and the parent goes on."""
    outcome = ended(InProcess().run(request_for("works", clock=Stops())))

    assert outcome.error is not None
    assert (outcome.status, outcome.error.code) == ("failed", "crashed")
    assert "pop from empty list" in outcome.error.message


def test_a_child_whose_log_exists_has_failed(request_for: Make, tmp_path: Path) -> None:
    """A log is never overwritten; the error is data."""
    (tmp_path / "a.1.jsonl").write_text("here first\n")

    outcome = ended(InProcess().run(request_for("works")))

    assert outcome.error is not None
    assert (outcome.status, outcome.error.code) == ("failed", "LogExists")
    assert (tmp_path / "a.1.jsonl").read_text() == "here first\n"


SHARED: list[int] = []


async def adds_to_a_list_of_the_module(_run: Run, number: int) -> None:
    """Change what other runs see."""
    SHARED.append(number)


async def reads_a_list_of_the_module(_run: Run, number: int) -> int:
    """Leave it as it is."""
    return len(SHARED) + number


async def starts(run: Run, programs: list[str]) -> list[int]:
    """Run children that add to a list of their parent, or use one of the module."""
    seen: list[int] = []

    async def adds_to_a_list_of_its_parent(_run: Run, number: int) -> None:
        seen.append(number)

    known: dict[str, Any] = {
        "parent": adds_to_a_list_of_its_parent,
        "module": adds_to_a_list_of_the_module,
        "reads": reads_a_list_of_the_module,
    }
    for number, name in enumerate(programs):
        await run.delegate(refold.Delegation(program=known[name], input=number))
    return seen


@pytest.mark.parametrize(
    ("program", "name"), [("parent", "`seen`"), ("module", "`SHARED`"), ("reads", "")]
)
def test_a_child_that_changes_a_variable_of_others_is_warned_of_once(
    program: str, name: str, tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    """Their memory is one, and a replay has none of it."""
    in_process._warn_once.cache_clear()
    warnings.simplefilter("always")

    refold.record(starts, [program, program], log=tmp_path / "a.jsonl")

    found = [str(each.message) for each in recwarn if "subagent ran" in str(each.message)]
    assert [text.split()[0] for text in found] == [name] * bool(name)
