import attrs
import pytest

from refold.engine.encoding.canonical import encode
from refold.engine.events import events
from refold.engine.events.codec import digestible, kind_of, unstructure
from refold.engine.events.outcome import ChildRef, Fault, Outcome
from refold.replay.difference.volatile import is_volatile, stable

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
