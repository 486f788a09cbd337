"""A cursor gives the lines of a log that a program could see, one ahead (CONTRACT.md §12.1)."""

from pathlib import Path

import attrs
import pytest

from refold.engine.events.events import (
    EffectCancelled,
    EffectLate,
    Event,
    Extension,
    NoteAdded,
    TimerFired,
    ToolCalled,
    ToolReturned,
)
from refold.engine.log.writer import LogWriter
from refold.replay.index.cursor import Cursor
from tests.support import started

STARTED = attrs.evolve(
    started.STARTED,
    versions={"format": 1, "engine": 1, "state": 1, "python": "3.12"},
    run_id="r",
    root_id="r",
)
LONG = "x" * 40_000


def written(folder: Path, *events: tuple[Event | Extension, str | None]) -> Cursor:
    """Return a cursor on a log of these events."""
    log = folder / "a.jsonl"
    writer = LogWriter.create(log, STARTED, durability="fast")
    for event, call in events:
        writer.append(event, call, 0)
    writer.close()
    return Cursor(log)


def test_lines_come_one_after_the_other(tmp_path: Path) -> None:
    """`peek` shows the next and leaves it; `take` goes on; the end is `None`."""
    cursor = written(tmp_path, (NoteAdded("one"), "0#1"))

    assert cursor.peek() is not None
    assert [cursor.take().kind, cursor.take().kind] == ["run.started", "note.added"]
    assert cursor.peek() is None
    assert cursor.taken == 2
    with pytest.raises(EOFError):
        cursor.take()


def test_what_no_program_sees_is_passed_over_and_counted(tmp_path: Path) -> None:
    """Late effects and the lines of third parties."""
    cursor = written(
        tmp_path,
        (ToolCalled("t", {}, "pure"), "0#1"),
        (EffectCancelled("tool"), "0#1"),
        (EffectLate("tool", "ok"), "0#1"),
        (Extension("x-ours", {"a": 1}), None),
        (NoteAdded("end"), "0#2"),
    )

    kinds = [entry.kind for entry in cursor.rest()]

    assert kinds == ["run.started", "tool.called", "effect.cancelled", "note.added"]
    assert cursor.taken == 6


def test_a_step_ends_before_the_next_line_of_the_world(tmp_path: Path) -> None:
    """What the program emitted in it can be looked at, and one be taken out of its turn."""
    cursor = written(
        tmp_path,
        (NoteAdded("a"), "0/1#1"),
        (NoteAdded("b"), "0/2#1"),
        (TimerFired(1, nth=1), "0@1"),
        (NoteAdded("c"), "0#1"),
    )
    cursor.take()

    emitted = list(cursor.step())
    cursor.take_out(emitted[1])

    assert [entry.call for entry in emitted] == ["0/1#1", "0/2#1"]
    assert [entry.kind for entry in cursor.rest()] == ["note.added", "timer.fired", "note.added"]


def test_events_come_with_their_blobs(tmp_path: Path) -> None:
    """§3.6: long texts are read back, and what only looks like a marker stays what it was."""
    marked = {"$blob": "no"}
    cursor = written(
        tmp_path,
        (ToolCalled("t", {}, "pure"), "0#1"),
        (ToolReturned("ok", {"text": LONG, "odd": marked}), "0#1"),
    )
    *_, last = list(cursor.rest())

    assert cursor.event(last) == ToolReturned("ok", {"text": LONG, "odd": marked})
    assert cursor.data(last) == {"status": "ok", "result": {"text": LONG, "odd": marked}}


EVERY_SORT: list[tuple[Event | Extension, str | None]] = [
    (ToolCalled("search", {"q": "a"}, "reads"), "0#1"),
    (EffectLate("tool", "ok"), "0#9"),
    (ToolReturned("ok", ["é", LONG, {"$x": 1}]), "0#1"),
    (Extension("x-mine", {}), None),
    (ToolCalled("search", {"q": 'b","meta":{"wall_us":1'}, "reads"), "0#2"),
    (ToolReturned("ok", None), "0#2"),
    (NoteAdded("done"), None),
]


def test_a_verified_log_is_read_as_any_other(tmp_path: Path) -> None:
    """Entry by entry, blobs and places in the file included."""
    written(tmp_path, *EVERY_SORT)
    cursors = Cursor(tmp_path / "a.jsonl"), Cursor(tmp_path / "a.jsonl", verified=True)

    entries = [list(cursor.rest()) for cursor in cursors]

    assert entries[0] == entries[1]
    assert len(entries[0]) == 6
    assert cursors[0].taken == cursors[1].taken == 8
    assert [cursors[0].data(entry) for entry in entries[0]] == [
        cursors[1].data(entry) for entry in entries[1]
    ]


def test_a_line_that_is_expected_is_taken_unparsed(tmp_path: Path) -> None:
    """The same line as `peek` would show; what does not match is left for `peek`."""
    expected = list(written(tmp_path, *EVERY_SORT).rest())
    cursor = Cursor(tmp_path / "a.jsonl", verified=True)
    cursor.take()

    first, second = expected[1].data_bytes, expected[3].data_bytes
    assert cursor.take_if(b"tool.called", "0#2", 0, first) is None
    assert cursor.take_if(b"tool.called", "0#1", 1, first) is None
    assert cursor.take_if(b"tool.called", "0#1", 0, second) is None
    taken = cursor.take_if(b"tool.called", "0#1", 0, first)

    assert taken is not None
    assert cursor.parsed(taken) == expected[1]
    assert cursor.data_if(b"tool.returned", "0#1", 0) is None  # a late effect stands before it
    assert cursor.take() == expected[2]
    assert cursor.peek() == expected[3]
    assert cursor.take_if(b"tool.called", "0#2", 0, second) is None  # it is parsed already
    assert cursor.take() == expected[3]
    assert cursor.data_if(b"tool.returned", "0#2", 0) == expected[4].data_bytes
    assert cursor.parsed(cursor.take_line()) == expected[4]
    assert [entry.kind for entry in cursor.rest()] == ["note.added"]


def test_the_kind_of_the_next_line_leaves_it_unparsed(tmp_path: Path) -> None:
    """It is that of the line that comes next, also where lines that no program sees come first."""
    expected = list(written(tmp_path, *EVERY_SORT).rest())
    cursor = Cursor(tmp_path / "a.jsonl", verified=True)
    found = []
    for _ in expected:
        found.append(cursor.next_kind())
        cursor.take()

    assert [*found, cursor.next_kind()] == [*(entry.kind for entry in expected), ""]
    cursor = Cursor(tmp_path / "a.jsonl", verified=True)
    cursor.take()
    assert cursor.next_kind() == "tool.called"
    assert cursor.take_if(b"tool.called", "0#1", 0, expected[1].data_bytes) is not None


def test_a_line_with_more_than_clocks_is_left_to_be_parsed(tmp_path: Path) -> None:
    """Nothing is taken unparsed unless all around its data is as a writer makes it for a call."""
    log = tmp_path / "a.jsonl"
    with LogWriter.create(log, STARTED, durability="fast") as writer:
        writer.append(ToolReturned("ok", 1), "0#1", 0, meta={"more": 1})
        data = writer.last_data
    cursor = Cursor(log, verified=True)
    cursor.take()

    assert cursor.take_if(b"tool.returned", "0#1", 0, data) is None
    assert cursor.data_if(b"tool.returned", "0#1", 0) is None
    assert cursor.take().data == {"status": "ok", "result": 1}
