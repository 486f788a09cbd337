import dataclasses
import datetime as dt
import enum
import math
from collections import OrderedDict
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import attrs
import pytest

from refold.engine.encoding.canonical import encode
from refold.engine.encoding.hints import field_names
from refold.engine.encoding.plain import Moment, to_json
from refold.engine.errors import NotCanonical
from tests.support.loops import for_each


class Color(enum.Enum):
    RED = "red"


@attrs.frozen
class Wrapped:
    x: Any


class Level(enum.IntEnum):
    HIGH = 3


class Pair(NamedTuple):
    one: int
    other: str


@attrs.frozen
class Point:
    x: int
    y: Any = None
    total: int = attrs.field(init=False, default=9)


@dataclasses.dataclass(frozen=True)
class Report:
    where: Path
    points: tuple[Point, ...] = ()


@for_each(
    "value, plain",
    [
        (None, None),
        (True, True),
        (3, 3),
        (-(2**63), -(2**63)),
        (2.0, 2.0),
        ("é", "é"),
        ((1, (2,)), [1, [2]]),
        (Pair(1, "b"), [1, "b"]),
        ({"b": 1, "a": [None]}, {"b": 1, "a": [None]}),
        (OrderedDict(a=1), {"a": 1}),
        ({"b", "a", "c"}, ["a", "b", "c"]),
        (frozenset({10, 9}), [10, 9]),
        (Color.RED, "red"),
        (Level.HIGH, 3),
        (Path("a/b"), "a/b"),
        (UUID(int=7), "00000000-0000-0000-0000-000000000007"),
        (Decimal("1.50"), "1.50"),
        (dt.date(2026, 1, 2), "2026-01-02"),
        (dt.datetime(2026, 1, 2, 3, 4), "2026-01-02T03:04:00"),  # noqa: DTZ001  naive on purpose
        (dt.datetime(2026, 1, 2, 3, 4, tzinfo=dt.UTC), "2026-01-02T03:04:00+00:00"),
        (dt.time(3, 4, 5), "03:04:05"),
        (dt.timedelta(minutes=1, microseconds=1), 60.000001),
        (Point(1, y=Point(2)), {"x": 1, "y": {"x": 2, "y": None}}),
        (Report(Path("a"), (Point(1),)), {"where": "a", "points": [{"x": 1, "y": None}]}),
    ],
)
def test_a_value_becomes_json_by_its_run_time_type(value: object, plain: Any) -> None:
    """Case 86: each row of the table in the module's docstring."""
    found = to_json(value)

    assert found == plain
    assert type(found) is type(plain)


@for_each(
    "value, pointer",
    [
        ({"a": [1, object()]}, "/a/1"),
        ({"a/b~c": b""}, "/a~1b~0c"),
        ([{"x": math.nan}], "/0/x"),
        ([1, math.inf], "/1"),
        (Point(1, y=2**63), "/y"),
        ({"a": {1: 2}}, "/a"),
        (["\ud800"], "/0"),
        ({"\ud800": 1}, ""),
        (Report(Path("\udcff")), "/where"),
        ([int], "/0"),
        ([Point], "/0"),
        ([Decimal("NaN")], "/0"),
        ([dt.timedelta.max], "/0"),
        ([1j], "/0"),
        ([print], "/0"),
        (iter([1]), ""),
    ],
)
def test_what_has_no_exact_json_form_is_refused_with_its_place(value: object, pointer: str) -> None:
    """Case 86: the pointer leads to the offending place, escaped as RFC 6901 says."""
    with pytest.raises(NotCanonical) as refused:
        to_json(value)

    assert refused.value.pointer == pointer


def test_the_pointer_given_is_put_before() -> None:
    """A caller that holds the value in a larger one says where."""
    with pytest.raises(NotCanonical) as refused:
        to_json({"a": b""}, "/input")

    assert refused.value.pointer == "/input/a"


def test_nesting_is_bounded() -> None:
    """At most 128 levels, so that what is written can be read; a loop ends there too."""
    deep: list[Any] = []
    for _ in range(127):
        deep = [deep]
    endless: list[Any] = []
    endless.append(endless)

    assert encode(to_json(deep))
    with pytest.raises(NotCanonical, match="128 levels"):
        to_json([deep])
    with pytest.raises(NotCanonical, match="128 levels"):
        to_json(endless)


@pytest.mark.parametrize(
    "within",
    [lambda it: [it], lambda it: (it,), lambda it: {"x": it}, lambda it: frozenset({it}), Wrapped],
    ids=["list", "tuple", "dict", "set", "instance"],
)
def test_every_kind_of_container_is_a_level(within: Callable[[Any], Any]) -> None:
    """128 of them, whichever they are."""
    deep: Any = 1
    for _ in range(128):
        deep = within(deep)

    assert to_json(deep)
    with pytest.raises(NotCanonical, match="128 levels"):
        to_json(within(deep))


def test_the_result_shares_no_container_with_the_value() -> None:
    """Who changes the value later does not change what was recorded."""
    inner = {"b": [1]}
    value = {"a": inner}

    plain = to_json(value)
    inner["b"].append(2)

    assert plain == {"a": {"b": [1]}}


def test_fields_are_those_that_the_constructor_takes() -> None:
    """Init fields in order; `None` for a class that is neither attrs nor dataclass."""
    assert field_names(Point) == ("x", "y")
    assert field_names(Report) == ("where", "points")
    assert field_names(int) is None


def test_a_moment_of_a_loop_is_its_number() -> None:
    """What a program has added to it is known, and no part of the value."""
    moment = 1 + (Moment(2.5) + 3)

    assert (moment, moment.added, type(to_json([moment])[0])) == (6.5, 4.0, float)
    assert type(moment - Moment(1.0)) is float
    assert Moment(1.0).__add__("no number") is NotImplemented
    with pytest.raises(NotCanonical):
        to_json(Moment(math.inf))


def test_a_class_whose_members_have_no_types_is_refused() -> None:
    """It has no fields, so nothing of it would be in the log."""

    @dataclasses.dataclass
    class Answer:
        words = 3

    @dataclasses.dataclass
    class Nothing:
        def words(self) -> int:
            return 3

    with pytest.raises(NotCanonical, match="`words: TYPE`"):
        to_json([Answer()])
    assert to_json([Nothing()]) == [{}]
