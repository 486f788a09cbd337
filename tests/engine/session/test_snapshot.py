"""A snapshot is a value: versioned JSON, comparable, hashable, and nothing else fits a session."""

from typing import Any

import attrs
import pytest

from refold.engine.errors import SnapshotRestoreError
from refold.engine.session import SCHEMA_VERSION, Session, Snapshot
from tests.support.loops import for_each


@attrs.frozen
class Finding:
    text: str


@attrs.frozen
class Empty:
    text: str


def session_of(*texts: str) -> Session:
    session = Session()
    session.register(Empty)
    session.register(Finding)
    for text in texts:
        session.dispatch(Finding(text))
    return session


def test_the_json_names_classes_by_their_names_and_leaves_empty_slices_out() -> None:
    assert session_of("a", "b").snapshot().as_json() == {
        "version": "1",
        "slices": [
            {
                "slice_type": "Finding",
                "item_type": "Finding",
                "items": [{"text": "a"}, {"text": "b"}],
            }
        ],
    }
    assert SCHEMA_VERSION == "1"


def test_equal_sessions_have_equal_snapshots() -> None:
    one, same, other = session_of("a"), session_of("a"), session_of("b")

    assert one.snapshot() == same.snapshot()
    assert hash(one.snapshot()) == hash(same.snapshot())
    assert len({one.snapshot(), same.snapshot(), other.snapshot()}) == 2
    assert one.digest() == same.digest() != other.digest()


def test_a_snapshot_stays_as_it_was() -> None:
    session = session_of("a")
    snapshot = session.snapshot()

    session.dispatch(Finding("b"))
    snapshot.as_json()["slices"].clear()
    snapshot.slices["Finding"].clear()

    assert snapshot == session_of("a").snapshot()
    assert Snapshot.from_json(snapshot.as_json()) == snapshot
    with pytest.raises(AttributeError):
        snapshot.encoded = b""  # type: ignore[misc]  # which is the point


def test_a_summary_counts() -> None:
    assert session_of("a", "b").snapshot().summary == "Finding: 2 items"
    assert session_of("a").snapshot().summary == "Finding: 1 item"
    assert session_of().snapshot().summary == "empty"


@for_each(
    "value, message",
    [
        ({"version": "2", "slices": []}, "Snapshot schema version mismatch: expected 1, got 2"),
        ({"version": 1, "slices": []}, "Snapshot schema version mismatch: expected 1, got 1"),
        ([], "expected an object, found array of 0"),
        ({"version": "1"}, "at /slices: expected a value, which is required, found none"),
        ({"version": "1", "slices": [{}]}, "at /slices/0/slice_type: expected a value"),
        (
            {"version": "1", "slices": [{"slice_type": "A", "item_type": "B", "items": []}]},
            "expected an `item_type` equal to its `slice_type`",
        ),
        (
            {
                "version": "1",
                "slices": [
                    {"slice_type": "B", "item_type": "B", "items": [1]},
                    {"slice_type": "A", "item_type": "A", "items": [1]},
                ],
            },
            "Slice types not registered: A, B",
        ),
    ],
)
def test_what_does_not_fit_is_refused_and_the_session_untouched(value: Any, message: str) -> None:
    session = session_of("a")

    with pytest.raises(SnapshotRestoreError) as refused:
        session.restore(value)

    assert message in str(refused.value)
    assert session.select_all(Finding) == (Finding("a"),)
