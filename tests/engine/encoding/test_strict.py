import dataclasses
import datetime as dt
import enum
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, NamedTuple, NotRequired, TypedDict
from uuid import UUID

import attrs
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.engine.encoding.plain import to_json
from refold.engine.encoding.shapes import hook_for, shape_of
from refold.engine.encoding.strict import problems_of
from tests.support.loops import for_each


class Color(enum.Enum):
    RED = "red"


class Name(enum.StrEnum):
    ANN = "ann"


class Options(TypedDict):
    deep: bool
    limit: NotRequired[int]


class Pair(NamedTuple):
    name: str
    place: Path


@attrs.frozen(kw_only=True)
class Item:
    _path: Path
    tags: tuple[str, ...] = ()
    size: int = attrs.field(default=1, validator=attrs.validators.gt(0))


@dataclasses.dataclass(frozen=True)
class Report:
    items: list[Item]
    options: Options | None = None


@attrs.frozen
class Cat:
    kind: Literal["cat"]
    home: Path


@attrs.frozen
class Dog:
    kind: Literal["dog"]
    home: Path


def read(hint: Any, value: Any) -> Any:
    shape_of(hint, tool="probe", where="return")
    return hook_for(hint)(value)


def problems(hint: Any, value: Any) -> list[str]:
    with pytest.raises(Exception) as refused:  # noqa: PT011  whatever it is, it must be explained
        read(hint, value)
    return [str(problem) for problem in problems_of(refused.value)]


VALUES = [
    (int, 3),
    (float, 2.5),
    (Path, Path("a/b")),
    (UUID, UUID(int=5)),
    (Decimal, Decimal("-1.50E+3")),
    (dt.datetime, dt.datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=dt.timezone(dt.timedelta(hours=2)))),
    (dt.datetime, dt.datetime(2026, 1, 2, 3, 4)),  # noqa: DTZ001  naive on purpose
    (dt.date, dt.date(2026, 1, 2)),
    (dt.time, dt.time(3, 4, tzinfo=dt.UTC)),
    (dt.timedelta, dt.timedelta(days=-1, microseconds=1)),
    (Color, Color.RED),
    (Name, Name.ANN),
    (Literal["a", 1], 1),
    (tuple[int, ...], (1, 2)),
    (tuple[int, Path], (1, Path("x"))),
    (tuple[()], ()),
    (set[str], {"b", "a"}),
    (frozenset[int], frozenset({3, 1})),
    (dict[str, Path], {"a": Path("b")}),
    (Pair, Pair("n", Path("p"))),
    (Options, {"deep": True}),
    (Item, Item(path=Path("x"), tags=("a",))),
    (Report, Report([Item(path=Path("x"))], {"deep": False, "limit": 3})),
    (Cat | Dog, Dog("dog", Path("hut"))),
    (list[Cat | Dog | None], [Cat("cat", Path("x")), None]),
    (int | float, 1),
    (int | float, 1.0),
    (Path | int, Path("7")),
]


@pytest.mark.parametrize(
    ("hint", "value"), VALUES, ids=[f"{at}-{hint}" for at, (hint, _) in enumerate(VALUES)]
)
def test_what_was_written_is_read_back_equal(hint: Any, value: Any) -> None:
    """Through real bytes, equal and of the same type."""
    written = orjson.loads(orjson.dumps(to_json(value)))

    found = read(hint, written)

    assert found == value
    assert type(found) is type(value)


@for_each(
    "hint, value, problem",
    [
        (int, "12", "expected an integer, found string '12'"),
        (int, True, "expected an integer, found boolean True"),
        (int, 2.0, "expected an integer, found number 2.0"),
        (float, "1.5", "expected a number, found string '1.5'"),
        (float, False, "expected a number, found boolean False"),
        (float, 2**53 + 1, "expected a number, found integer 9007199254740993"),
        (str, None, "expected a string, found null"),
        (str, 3, "expected a string, found integer 3"),
        (bool, "no", "expected a boolean, found string 'no'"),
        (bool, 1, "expected a boolean, found integer 1"),
        (None, 0, "expected null, found integer 0"),
        (list[str], "abc", "expected an array, found string 'abc'"),
        (list[str], {"a": 1}, "expected an array, found object of 1"),
        (dict[str, int], [["a", 1]], "expected an object, found array of 1"),
        (tuple[int, int], [1], "expected an array of 2, found array of 1"),
        (tuple[str, str], "ab", "expected an array, found string 'ab'"),
        (set[int], [1, 1], "expected unique items, found array of 2"),
        (Literal[1], True, "expected one of 1, found boolean True"),
        (Literal[1], 1.0, "expected one of 1, found number 1.0"),
        (Color, "blue", "expected one of 'red', found string 'blue'"),
        (Color, ["red"], "expected one of 'red', found array of 1"),
        (Path, 3, "expected a string, found integer 3"),
        (UUID, "{00000000-0000-0000-0000-000000000005}", "expected a UUID in lower case"),
        (dt.date, "2026-02-31", "expected an ISO 8601 date, found string '2026-02-31'"),
        (dt.date, "20260101", "expected an ISO 8601 date"),
        (dt.datetime, "2026-01-01", "expected an ISO 8601 date and time"),
        (dt.datetime, "2026-01-01T00:00:00\n", "expected an ISO 8601 date and time"),
        (dt.timedelta, 1e300, "expected a duration in seconds"),
        (Decimal, "NaN", "expected a decimal number as text"),
        (int | None, "1", "expected int or None, found string '1'"),
    ],
)
def test_nothing_is_coerced(hint: Any, value: Any, problem: str) -> None:
    """No text becomes a number, no number a text, no null a word."""
    [found] = problems(hint, value)

    assert problem in found


def outcome(hint: Any, value: Any) -> tuple[Any, list[tuple[str, str, str]]]:
    """Return what is read, or else the problems."""
    try:
        return hook_for(hint)(value), []
    except Exception as error:  # noqa: BLE001  whatever it is, it must be explained
        return None, [(each.pointer, each.expected, each.found) for each in problems_of(error)]


SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()


@given(st.sampled_from([int, str, bool, type(None)]), st.data())
def test_an_array_is_read_as_its_items_are(hint: Any, data: st.DataObject) -> None:
    """It is checked at once where its type is plain: with the same result, and as a copy."""
    own = st.from_type(hint)
    items = data.draw(st.lists(own, max_size=4) | st.lists(own | SCALARS, max_size=4))

    alone = [outcome(hint, item) for item in items]
    problems = [
        (f"/{at}", expected, found)
        for at, (_, wrong) in enumerate(alone)
        for _, expected, found in wrong
    ]
    read, wrong = outcome(list[hint], items)
    assert wrong == problems
    assert wrong or read == items
    assert read is not items


@pytest.mark.parametrize("hint", [float | None, float | str])
def test_so_it_does_in_a_union_without_integers(hint: Any) -> None:
    found = read(hint, 1)

    assert (found, type(found)) == (1.0, float)


def test_an_integer_stands_for_a_float() -> None:
    """JSON writers drop the `.0`; the value read is a float."""
    found = read(list[float], [1, 2.5])

    assert found == [1.0, 2.5]
    assert type(found[0]) is float


def test_all_problems_are_told_at_once_with_their_pointers() -> None:
    """Deep inside classes and arrays, missing and unknown names included."""
    found = problems(
        Report,
        {
            "items": [{"_path": 3, "tgas": []}, {"size": 0}, {"_path": "x", "tags": ["a", 1]}],
            "options": {"limit": None, "depe": True},
            "more": 1,
        },
    )

    assert found == [
        "at /items/0/_path: expected a string, found integer 3",
        (
            "at /items/0/tgas: expected one of _path, tags, size, "
            "found the unknown name 'tgas', did you mean 'tags'?"
        ),
        "at /items/1/_path: expected a value, which is required, found none",
        "at /items/2/tags/1: expected a string, found integer 1",
        "at /options/deep: expected a value, which is required, found none",
        "at /options/limit: expected an integer, found null",
        (
            "at /options/depe: expected one of deep, limit, "
            "found the unknown name 'depe', did you mean 'deep'?"
        ),
        "at /more: expected one of items, options, found the unknown name 'more'",
    ]


def test_what_a_class_itself_refuses_is_told_with_its_place() -> None:
    """A validator's complaint is a problem like any other."""
    [found] = problems(list[Item], [{"_path": "x", "size": 0}])

    assert found.startswith("at /0: expected a value that the type accepts")
    assert "'size' must be > 0" in found


def test_the_member_of_a_union_is_chosen_by_its_tag() -> None:
    """And the chosen one says what is wrong, not the union."""
    assert problems(Cat | Dog, {"kind": "dog", "home": 3}) == [
        "at /home: expected a string, found integer 3"
    ]
    assert "expected Cat or Dog" in problems(Cat | Dog, {"kind": "cow", "home": "x"})[0]


@attrs.frozen
class Ticket:
    number: int


@attrs.frozen
class Urgent(Ticket):
    until: str


def test_a_member_of_a_subclass_says_what_crosses() -> None:
    """A value is read as its annotated class, whatever subclass it was made of."""
    with pytest.raises(Exception) as caught:  # noqa: PT011 - `problems_of` explains it
        hook_for(Ticket)({"number": 1, "until": "noon"})

    (problem,) = problems_of(caught.value)
    assert problem.found == (
        "the unknown name 'until', a field of the subclass Urgent, but the value is read as the "
        "annotated Ticket"
    )
