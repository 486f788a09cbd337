"""Laws of types, schemas and the strict reader, over generated types and values."""

import dataclasses
import datetime as dt
import enum
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, NamedTuple, NotRequired, TypedDict
from uuid import UUID

import attrs
import jsonschema
import orjson
from hypothesis import given
from hypothesis import strategies as st

from refold.engine.encoding.canonical import encode
from refold.engine.encoding.plain import to_json
from refold.engine.encoding.shapes import hook_for, shape_of
from refold.engine.encoding.strict import problems_of
from tests.engine.encoding.test_shapes import Cat


class Color(enum.Enum):
    RED = "red"
    FIVE = 5


class Options(TypedDict):
    deep: bool
    limit: NotRequired[int | None]


class Pair(NamedTuple):
    name: str
    place: Path


@attrs.frozen
class Dog:
    kind: Literal["dog"]
    weight: float = 1.0


@dataclasses.dataclass(frozen=True)
class Report:
    pets: tuple[Cat | Dog, ...]
    where: Path | None = None


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
INTEGERS = st.integers(-(2**63), 2**63 - 1)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
PATHS = st.builds(Path, TEXT)
ZONES = st.none() | st.integers(-1439, 1439).map(
    lambda minutes: dt.timezone(dt.timedelta(minutes=minutes))
)
CATS = st.builds(Cat, st.just("cat"), INTEGERS)
DOGS = st.builds(Dog, st.just("dog"), FLOATS)

Typed = tuple[Any, st.SearchStrategy[Any]]

JSON_TYPES: list[Typed] = [
    (int, INTEGERS),
    (float, FLOATS),
    (str, TEXT),
    (bool, st.booleans()),
    (None, st.none()),
    (Literal["a", 2, True], st.sampled_from(["a", 2, True])),
    (Color, st.sampled_from(Color)),
    (int | float, INTEGERS | FLOATS),
    (str | None, TEXT | st.none()),
    (Options, st.fixed_dictionaries({"deep": st.booleans()}, optional={"limit": INTEGERS})),
    (set[str], st.sets(TEXT, max_size=3)),
    (Cat, CATS),
    (Cat | Dog, CATS | DOGS),
]
"""Types whose JSON a schema describes whole."""

TEXT_TYPES: list[Typed] = [
    (Path, PATHS),
    (UUID, st.uuids()),
    (Decimal, st.decimals(allow_nan=False, allow_infinity=False)),
    (dt.datetime, st.datetimes(timezones=ZONES)),
    (dt.date, st.dates()),
    (dt.time, st.times(timezones=ZONES)),
    (dt.timedelta, st.timedeltas(dt.timedelta(days=-90000), dt.timedelta(days=90000))),
    (Pair, st.builds(Pair, TEXT, PATHS)),
    (Report, st.builds(Report, st.lists(CATS | DOGS, max_size=3).map(tuple), st.none() | PATHS)),
]


def containers(inner: Typed) -> list[Typed]:
    """Return the types one level around a type."""
    hint: Any = inner[0]
    values = inner[1]
    return [
        (list[hint], st.lists(values, max_size=3)),
        (tuple[hint, ...], st.lists(values, max_size=3).map(tuple)),
        (tuple[hint, bool], st.tuples(values, st.booleans())),
        (dict[str, hint], st.dictionaries(TEXT, values, max_size=3)),
    ]


def types(leaves: list[Typed]) -> st.SearchStrategy[Typed]:
    """Return types, bare and one or two containers deep."""
    leaf = st.sampled_from(leaves)
    once = leaf.flatmap(lambda inner: st.sampled_from(containers(inner)))
    twice = once.flatmap(lambda inner: st.sampled_from(containers(inner)))
    return leaf | once | twice


EXACT = jsonschema.validators.extend(  # type: ignore[no-untyped-call]  # their stubs lag
    jsonschema.Draft202012Validator,
    type_checker=jsonschema.Draft202012Validator.TYPE_CHECKER.redefine(
        "integer", lambda _checker, value: type(value) is int
    ),
)

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.sampled_from([0.5, -1.25, 1e300])
    | st.sampled_from(["a", "red", "cat", "12", " "]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["kind", "lives", "weight", "deep", "limit", "x"]), inner, max_size=3
        )
    ),
    max_leaves=6,
)


def accepts(hint: Any, value: Any) -> bool:
    try:
        hook_for(hint)(value)
    except Exception as error:  # noqa: BLE001  whatever it is, it has to be explained
        explained = list(problems_of(error))
    else:
        return True
    assert explained
    return False


@given(types(JSON_TYPES + TEXT_TYPES), st.data())
def test_what_is_written_is_read_back_equal(typed: Typed, data: st.DataObject) -> None:
    """For every type: value → JSON → bytes → JSON → equal value of the same type."""
    hint, values = typed
    value = data.draw(values)
    shape = shape_of(hint, tool="probe", where="return")

    written = to_json(value)
    read = hook_for(hint)(orjson.loads(encode(written)))

    assert read == value
    assert type(read) is type(value)
    assert to_json(read) == written
    assert shape.typed or read == orjson.loads(encode(written))


@given(types(JSON_TYPES), st.data())
def test_the_schema_accepts_what_the_reader_accepts(typed: Typed, data: st.DataObject) -> None:
    """Neither more nor less, where the validator takes 2.0 for no integer, as the reader does."""
    hint, values = typed
    value = data.draw(JSON | values.map(to_json))
    schema = shape_of(hint, tool="probe", where="return").schema

    assert accepts(hint, value) is EXACT(schema).is_valid(value)


@given(types(JSON_TYPES + TEXT_TYPES), JSON)
def test_the_reader_never_coerces(typed: Typed, value: Any) -> None:
    """What it accepts writes back as it was, but for an integer that stands for a float."""
    hint, _ = typed
    if not accepts(hint, value):
        return

    back = to_json(hook_for(hint)(value))

    assert _without_defaults(back, value) == value


def _without_defaults(back: Any, given_value: Any) -> Any:
    if isinstance(back, dict):
        return {name: _without_defaults(back[name], given_value[name]) for name in given_value}
    if isinstance(back, list) and isinstance(given_value, list):
        if len(back) == len(given_value) and all(isinstance(item, str) for item in back):
            return given_value if sorted(back) == sorted(given_value) else back
        return [_without_defaults(*pair) for pair in zip(back, given_value, strict=True)]
    if type(back) is float and type(given_value) is int:
        return int(back)
    return back if type(back) is type(given_value) else (back, "is no longer", given_value)


@given(JSON)
def test_plain_json_stays_as_it_is(value: Any) -> None:
    """`to_json` changes nothing that is JSON already, and shares nothing with it."""
    assert to_json(value) == value
    assert encode(to_json(value)) == encode(value)
