import dataclasses
import datetime as dt
import enum
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import (
    IO,
    Annotated,
    Any,
    Generic,
    Literal,
    NamedTuple,
    NotRequired,
    Optional,
    TypedDict,
    TypeVar,
    Union,
)
from uuid import UUID

import attrs
import jsonschema
import pytest

from refold.engine.encoding.shapes import Shape, shape_of
from refold.engine.errors import ToolRefused
from tests.support.loops import for_each

T = TypeVar("T")


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Odd(enum.Enum):
    FLOAT = 1.5


class Options(TypedDict):
    deep: bool
    limit: NotRequired[int]


class Pair(NamedTuple):
    name: str
    size: int


@attrs.frozen
class Cat:
    kind: Literal["cat"]
    lives: int = 9


@attrs.frozen
class Dog:
    kind: Literal["dog"]
    lives: int = 1


@dataclasses.dataclass
class Loose:
    kind: str = ""


@dataclasses.dataclass
class Tree:
    inner: "list[Tree]"


@attrs.define
class Untyped:
    value = attrs.field()  # type: ignore[var-annotated]  # the point of the test


@dataclasses.dataclass
class WithInitVar:
    seed: dataclasses.InitVar[int]


@dataclasses.dataclass
class Box(Generic[T]):
    value: T


class Arbitrary:
    pass


def shape(hint: Any) -> Shape:
    return shape_of(hint, tool="probe", where="parameter 'x'")


@for_each(
    "hint, schema",
    [
        (str, {"type": "string"}),
        (int, {"type": "integer"}),
        (float, {"type": "number"}),
        (bool, {"type": "boolean"}),
        (None, {"type": "null"}),
        (Any, {}),
        (Path, {"type": "string"}),
        (list, {"type": "array", "items": {}}),
        (dict, {"type": "object"}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (Sequence[str], {"type": "array", "items": {"type": "string"}}),
        (list[object], {"type": "array", "items": {}}),
        (Mapping[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (tuple[int, ...], {"type": "array", "items": {"type": "integer"}}),
        (
            tuple[int, str],
            {
                "type": "array",
                "prefixItems": [{"type": "integer"}, {"type": "string"}],
                "minItems": 2,
                "maxItems": 2,
            },
        ),
        (tuple[()], {"type": "array", "minItems": 0, "maxItems": 0}),
        (set[str], {"type": "array", "items": {"type": "string"}, "uniqueItems": True}),
        (Literal["a", 1, True], {"enum": ["a", 1, True]}),
        (Color, {"enum": ["red", "blue"]}),
        (Optional[int], {"type": ["integer", "null"]}),  # noqa: UP045  both spellings count
        (Union[int, str], {"type": ["integer", "string"]}),  # noqa: UP007  both spellings count
        (int | float, {"type": ["integer", "number"]}),
        (
            list[int] | None,
            {"anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "null"}]},
        ),
        (Annotated[int, ["no note"]], {"type": "integer"}),
        (Annotated[str, "what it is"], {"type": "string", "description": "what it is"}),
        (
            Options,
            {
                "type": "object",
                "properties": {"deep": {"type": "boolean"}, "limit": {"type": "integer"}},
                "required": ["deep"],
                "additionalProperties": False,
            },
        ),
        (
            Cat,
            {
                "type": "object",
                "properties": {"kind": {"enum": ["cat"]}, "lives": {"type": "integer"}},
                "required": ["kind"],
                "additionalProperties": False,
            },
        ),
    ],
)
def test_each_type_has_its_schema(hint: Any, schema: dict[str, Any]) -> None:
    """JSON Schema 2020-12; members in the order of the declaration, on every run."""
    found = shape(hint).schema

    assert found == schema
    assert list(found) == list(schema)
    jsonschema.Draft202012Validator.check_schema(found)


@for_each(
    "hint",
    [dt.datetime, dt.date, dt.time, dt.timedelta, UUID, Decimal, Pair, Cat | Dog, frozenset[int]],
)
def test_every_schema_is_a_schema(hint: Any) -> None:
    """Types with a text form say which text, and unions of tagged classes are told apart."""
    jsonschema.Draft202012Validator.check_schema(shape(hint).schema)

    assert shape(hint).typed


@for_each(
    "hint, typed",
    [
        (int, False),
        (float, False),
        (Any, False),
        (list[str], False),
        (dict[str, list[int]], False),
        (int | None, False),
        (Literal["a"], False),
        (Options, False),
        (list[int] | list[str], False),
        (Path, True),
        (list[Path], True),
        (tuple[int, ...], True),
        (set[str], True),
        (Color, True),
        (Cat, True),
        (Path | None, True),
    ],
)
def test_typed_says_whether_reading_changes_anything(hint: Any, typed: bool) -> None:  # noqa: FBT001  a table row
    """Replay needs a tool's types only where its results are more than JSON."""
    assert shape(hint).typed is typed


@pytest.mark.parametrize(
    "hint",
    [
        type,
        bytes,
        complex,
        Arbitrary,
        IO[str],
        Iterator[int],
        Generator[int, None, None],
        Callable[[], int],
        dict[int, str],
        dict[Color, str],
        set[float],
        set[Any],
        set,
        T,
        Box[int],
        Box,
        Tree,
        Untyped,
        WithInitVar,
        Odd,
        Literal[b"x"],
        Literal[Color.RED],
        str | Path,
        Path | UUID,
        Any | Path,
        tuple[int, int] | list[int],
        list[Cat] | list[Dog],
        dict[str, Path] | dict[str, int],
        Cat | Loose,
        Cat | dict[str, Any],
        Color | str,
        float | dt.timedelta,
        list[bytearray],
        [int],
        "unresolved",
    ],
    ids=str,
)
def test_a_type_that_cannot_make_the_round_trip_is_refused(hint: Any) -> None:
    """When the tool is made, with the tool, the place and what to do."""
    with pytest.raises(ToolRefused) as refused:
        shape(hint)

    assert refused.value.tool == "probe"
    assert refused.value.where.startswith("parameter 'x'")


@pytest.mark.parametrize(
    "hint",
    [
        Cat | Dog,
        Cat | Dog | None,
        Literal["auto"] | int,
        Color | Literal["green"],
        int | float | None,
        Path | int,
        list[Path] | Path,
        Cat | list[Dog],
        Pair | Cat,
    ],
    ids=str,
)
def test_a_union_is_taken_where_json_tells_its_members_apart(hint: Any) -> None:
    """By JSON type, by listed values, by a tag, or by the names that objects must have."""
    assert shape(hint).schema


def test_the_refusal_names_the_place_inside_a_class() -> None:
    """A type deep inside a parameter is found by name."""

    @attrs.frozen
    class Inner:
        handle: list[Arbitrary]

    with pytest.raises(ToolRefused) as refused:
        shape(dict[str, Inner])

    assert refused.value.where == "parameter 'x'[…].handle[]"
    assert "dataclass" in refused.value.why
