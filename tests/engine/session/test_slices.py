"""Items come back from JSON as equal items of registered classes, or not at all."""

import dataclasses
import datetime as dt
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any, Literal
from uuid import UUID

import attrs
import pytest

from refold.engine.errors import (
    NotCanonical,
    SliceRefused,
    SnapshotRestoreError,
    SnapshotSerializationError,
)
from refold.engine.session import Session, Snapshot
from tests.support.loops import for_each


class Colour(Enum):
    RED = "red"


@dataclasses.dataclass(frozen=True)
class Inner:
    numbers: tuple[int, ...]


@attrs.frozen
class Rich:
    text: str
    inner: Inner
    colour: Colour = Colour.RED
    word: Literal["a", "b"] = "a"
    maybe: int | None = None
    either: str | int = 1
    inners: list[Inner] = attrs.field(factory=list)
    by_name: dict[str, Inner] = attrs.field(factory=dict)
    where: Path = Path("a/b")
    when: dt.datetime = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)
    day: dt.date = dt.date(2026, 1, 2)
    hour: dt.time = dt.time(3, 4)
    long: dt.timedelta = dt.timedelta(seconds=1.5)
    price: Decimal = Decimal("1.10")
    uuid: UUID = UUID(int=7)
    ratio: float = 2.0
    anything: Any = None


@attrs.frozen
class Anything:
    value: Any


@attrs.frozen
class Count:
    number: int


def test_rich_items_are_read_back_equal() -> None:
    session = Session()
    session.register(Rich)
    inner = Inner((1, 2))
    session.dispatch(
        Rich("x", inner, either="y", inners=[inner], by_name={"k": inner}, anything=[1])
    )

    clone = session.clone()

    assert clone.select_all(Rich) == session.select_all(Rich)
    assert clone.digest() == session.digest()
    assert clone.select_all(Rich)[0] is not session.select_all(Rich)[0]


@for_each("value, why", [((1, 2), "read back as"), ({1}, ""), (float("nan"), "finite"), (b"x", "")])
def test_an_item_that_would_come_back_otherwise_is_refused(value: Any, why: str) -> None:
    """Where it is dispatched; and in a snapshot if it was changed later."""
    session = Session()
    session.register(Anything)

    with pytest.raises((NotCanonical, SnapshotSerializationError), match=why or "Anything|at /"):
        session.dispatch(Anything(value))

    assert session.select_all(Anything) == ()
    session.dispatch(Anything(held := list[Any]()))
    held.append(value)
    with pytest.raises(SnapshotSerializationError, match="slice Anything, item 0") as refused:
        session.snapshot()
    assert why in str(refused.value)


@for_each(
    "item",
    [{"number": "12"}, {"number": True}, {"number": 1.0}, {}, {"number": 1, "more": 2}, 7, None],
)
def test_nothing_is_coerced_when_items_are_read(item: Any) -> None:
    session = Session()
    session.register(Count)
    session.dispatch(Count(5))
    before = session.digest()

    with pytest.raises(SnapshotRestoreError, match="Count, item 0"):
        session.rollback(Snapshot.of({"Count": [item]}))

    assert session.digest() == before


def test_only_classes_of_fields_can_be_slices() -> None:
    class Plain:
        pass

    @attrs.frozen
    class Unreadable:
        what: "Nowhere"  # type: ignore[name-defined]  # noqa: F821 - which is the point

    session = Session()

    with pytest.raises(SliceRefused, match="not an attrs class or a dataclass"):
        session.register(Plain)
    with pytest.raises(SliceRefused, match="Nowhere"):
        session.register(Unreadable)


def test_two_classes_of_one_name_cannot_be_told_apart() -> None:
    def made() -> type:
        @attrs.frozen
        class Same:
            text: str

        return Same

    session = Session()
    session.register(made())

    with pytest.raises(SliceRefused, match="another class of this session has that name"):
        session.register(made())
