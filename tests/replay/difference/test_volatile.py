from pathlib import Path

import attrs
import pytest

from refold import Delegation, Run, diff, drift, record, reexecute
from refold.engine.encoding.canonical import encode
from refold.engine.events import events
from refold.engine.events.codec import digestible, kind_of, unstructure
from refold.engine.events.outcome import ChildRef, Fault, Outcome
from refold.replay.difference.volatile import is_volatile, stable
from refold.replay.testing.snapshot import delegation_text, log_text

CHILD = Outcome(
    status="failed",
    output={"duration_ms": 1},
    error=Fault(code="c", message="m"),
    duration_ms=7,
    child=ChildRef(run="r", head="h", events=1),
)
EVENTS: list[events.Event] = [
    events.RunStarted("p", {"run_id": 1}, 0, {}, "00", [], {}, {}, {}, "", "r", "r", nonce="n"),
    events.ChildStarted({"program": "p", "input": {"run_id": 1}}, 1, "r"),
    events.ChildFinished(CHILD),
    events.TimerFired(5, nth=1),
    events.RunFinished("completed", "done", output={"entries": 1}, entries=3, data_digest="d"),
    events.LimitHit("timeout_seconds", 1, "run", 1.5),
    events.LimitHit("max_depth", 1, "child", 2),
    events.ToolCalled("t", {"duration_ms": 1}, "pure"),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_what_is_volatile_is_what_the_data_digest_leaves_out(event: events.Event) -> None:
    """One list (CONTRACT.md §6.2): the engine cuts text, this file drops fields, of one accord."""
    kind, data = kind_of(event), unstructure(event)
    cut = digestible(kind, encode(data))

    kept = encode(stable(kind, data))

    assert kept.rstrip(b"}") == cut.rstrip(b"}")


def test_every_kind_with_a_tail_is_among_the_examples() -> None:
    assert {kind_of(event) for event in EVENTS} >= set(events.TAILS)


def test_data_without_a_tail_is_not_copied() -> None:
    data = {"tool": "t", "arguments": {}, "effect": "pure"}

    assert stable("tool.called", data) is data
    assert stable("x-mine", data) is data


def test_fields_are_dropped_and_the_rest_is_left() -> None:
    data = unstructure(events.ChildFinished(CHILD))

    outcome = stable("child.finished", data)["outcome"]

    assert outcome["error"] == {"code": "c", "message": "m"}
    assert outcome["output"] == {"duration_ms": 1}
    assert not outcome.keys() & {"duration_ms", "child"}
    assert data["outcome"]["duration_ms"] == 7


def test_looks_at_the_clock_and_late_ends_are_left_out_whole() -> None:
    assert is_volatile("clock.read")
    assert is_volatile("effect.late")
    assert not is_volatile("tool.called")
    assert {field.name for field in attrs.fields(events.ClockRead)} == {"time_us", "virtual_us"}


@pytest.mark.parametrize(
    ("before", "after", "is_same"),
    [
        ("<a.Order object at 0x7f01>", "<a.Order object at 0x55Aa>", True),
        ("coro=<work() running at /a b/prog.py:6>", "coro=<work() running at /c/prog.py:7>", True),
        ("coro=<work() running at /a/prog.py:6>", "coro=<work() running at /a/other.py:6>", False),
        ("<a.Order object at 0x7f01>", "<a.Offer object at 0x7f01>", False),
        ("at line 0x1", "at line 0x2", False),
    ],
)
def test_addresses_and_places_of_tasks_in_a_message_are_not_compared(
    tmp_path: Path, before: str, after: str, *, is_same: bool
) -> None:
    """In no comparison: they differ in every process, or after an edit above; the rest counts."""
    said = [before]

    async def fails(_run: Run, _input: None) -> None:
        raise KeyError(said[0])

    async def lead(run: Run, _input: None) -> None:
        await run.delegate(Delegation(program=fails))

    a = record(lead, log=tmp_path / "a.jsonl").log
    said[0] = after
    b = record(lead, log=tmp_path / "b.jsonl").log

    assert reexecute(a, lead).identical is is_same
    assert diff(a, b).identical is is_same
    assert (not drift(a, lead).drifted) is is_same
    for text in (delegation_text, log_text):
        assert (text(a) == text(b)) is is_same
