"""What a program asks for, as items that can be compared (CONTRACT.md §9.1, §12.4)."""

from refold.engine.encoding.canonical import Json
from refold.engine.events.codec import unstructure
from refold.engine.events.events import (
    KIND_OF,
    ChildStarted,
    ClockRead,
    Event,
    ModelAsked,
    NoteAdded,
    PatchMarked,
    TimerFired,
    ToolCalled,
    ToolReturned,
    ValueDrawn,
)
from refold.replay.index.asked_items import is_asked, item_of
from tests.support.loops import for_each


@for_each(
    "event, call, kind, name, label",
    [
        (ToolCalled("search", {"q": 1}, "reads"), "0/1#3", "tool", "search", "search#3"),
        (ModelAsked("gpt", "", 0, [], {}), "0#1", "model", "gpt", "model gpt#1"),
        (ChildStarted({"program": "p"}, 1, "r"), "0#2", "child", "p", "child p#2"),
        (ChildStarted({"program": "p", "agent": "a"}, 1, "r"), "0#2", "child", "a", "child a#2"),
        (ValueDrawn("uuid", "", "x"), "0#4", "value", "uuid", "value uuid#4"),
        (PatchMarked("v2"), "0#5", "patch", "v2", "patch v2#5"),
        (NoteAdded("hello"), "0#6", "note", "", "note#6"),
        (TimerFired(7, nth=1), "0/2@1", "timer", "", "timer 0/2@1"),
        (ClockRead(1, 2), "", "clock", "", "clock"),
    ],
)
def test_a_request_has_a_kind_a_name_and_a_label(
    event: Event, call: str, kind: str, name: str, label: str
) -> None:
    """As divergences and diffs call it."""
    item = item_of(KIND_OF[type(event)], call, unstructure(event), 9)

    assert item is not None
    assert (item.kind, item.name, item.label(), item.seq) == (kind, name, label, 9)
    assert item.as_json()["call"] == call


def test_what_a_program_is_told_is_no_request() -> None:
    """A completion asks for nothing."""
    assert item_of("tool.returned", "0#1", unstructure(ToolReturned("ok"))) is None
    assert not is_asked("tool.returned")
    assert not is_asked("child.finished")
    assert is_asked("tool.called")


@for_each(
    "kind, data, arguments",
    [
        ("tool.called", {"tool": "t", "arguments": {"a": 1}}, {"a": 1}),
        ("child.started", {"delegation": {"program": "p"}, "number": 1}, {"program": "p"}),
        ("timer.fired", {"virtual_us": 5, "length_us": 2, "nth": 1}, {"length_us": 2}),
        ("note.added", {"text": "t"}, {"text": "t"}),
    ],
)
def test_arguments_are_what_identifies_a_request(
    kind: str, data: dict[str, Json], arguments: Json
) -> None:
    """Of a tool its arguments, of a child the delegation, of a timer its length."""
    item = item_of(kind, "0#1", data)

    assert item is not None
    assert item.arguments == arguments
