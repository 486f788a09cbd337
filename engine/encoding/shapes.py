"""Which types a tool may use, and the JSON schema of each.

A type is a shape if its JSON form can be read back as an equal value: that is what lets a replay
give a program the same typed results without running a tool. A type that cannot make the round trip
is refused when the tool is made, not when the log is written. This file judges and describes types,
and chooses the readers of `engine.encoding.strict` for their values; `engine.encoding.plain` writes
them.

To add a type: give it a `Shape` here, with its reader, and a row in `engine.encoding.plain`.
Rules: CONTRACT.md §10.
"""

import dataclasses
import datetime as dt
import functools
import types
import typing
from collections.abc import Callable
from decimal import Decimal
from enum import Enum
from itertools import combinations
from pathlib import Path, PurePath
from typing import Any, Final, Literal, get_args, get_origin
from uuid import UUID

import attrs

from refold.engine.encoding import strict
from refold.engine.encoding.canonical import Json
from refold.engine.encoding.hints import (
    field_names,
    is_hashable,
    is_named_tuple,
    is_union,
    keywords_of,
    member_hints,
    name_of,
    note_of,
    required_members,
    spelled_out,
    strip,
)
from refold.engine.encoding.strict import JSON_KINDS, Hook, read_members
from refold.engine.errors import ToolRefused
from refold.engine.values import Value

DATE: Final = r"^\d{4}-\d{2}-\d{2}$"
TIME: Final = r"^\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?(Z|[+-]\d{2}:\d{2}(:\d{2})?)?$"
DATETIME: Final = (
    r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?(Z|[+-]\d{2}:\d{2}(:\d{2})?)?$"
)
IDENTIFIER: Final = r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"
DECIMAL: Final = r"^-?\d+(\.\d+)?(E[+-]?\d+)?$"


@attrs.frozen(kw_only=True)
class Shape(Value):
    """How the values of one type look in JSON, and how they are read."""

    schema: dict[str, Any]
    """JSON Schema 2020-12; member order follows the declaration."""
    kinds: frozenset[str]
    """JSON types that its values have; `integer` and `number` apart."""
    read: Hook = attrs.field(eq=False, repr=False)
    """Returns the typed value of a JSON value, or raises what `strict.problems_of` explains."""
    typed: bool = False
    """Whether reading gives anything but the JSON value itself."""
    lenient: bool = False
    """Whether an integer may represent a float somewhere inside."""
    values: tuple[Json, ...] = ()
    """All its values, if they are listed."""
    members: dict[str, "Shape"] | None = None
    """The members of an object whose names are known."""
    required: frozenset[str] = frozenset()


@attrs.frozen
class _Place(Value):
    """The judge's place in a tool's signature, and the classes around it."""

    tool: str
    where: str
    inside: tuple[type, ...] = ()

    def refuse(self, why: str) -> ToolRefused:
        return ToolRefused(self.tool, self.where, why)

    def inner(self, step: str, *, kind: type | None = None) -> "_Place":
        inside = (*self.inside, kind) if kind else self.inside
        return _Place(self.tool, f"{self.where}{step}", inside)


def _scalar(kind: str, read: Hook, *, typed: bool = True, **schema: Any) -> Shape:
    return Shape(schema={"type": kind, **schema}, kinds=frozenset({kind}), read=read, typed=typed)


def _text(pattern: str, parse: Callable[[str], Any], what: str, **schema: Any) -> Shape:
    return _scalar("string", strict.parsed(pattern, parse, what), **schema, pattern=pattern)


_ANY_TEXT: Final = r"[\s\S]*"
_NULL: Final = _scalar("null", strict.exactly(types.NoneType), typed=False)
_NUMBERS: Final = frozenset({"integer", "number"})

ANY: Final = Shape(schema={}, kinds=frozenset(JSON_KINDS.values()), read=strict.unchanged)
"""That of every JSON value, read as it is."""

SCALARS: Final[dict[Any, Shape]] = {
    Any: ANY,
    object: ANY,
    None: _NULL,
    types.NoneType: _NULL,
    bool: _scalar("boolean", strict.exactly(bool), typed=False),
    int: _scalar("integer", strict.exactly(int), typed=False),
    float: Shape(schema={"type": "number"}, kinds=_NUMBERS, read=strict.number, lenient=True),
    str: _scalar("string", strict.exactly(str), typed=False),
    Path: _scalar("string", strict.parsed(_ANY_TEXT, Path, "a path")),
    PurePath: _scalar("string", strict.parsed(_ANY_TEXT, PurePath, "a path")),
    UUID: _text(IDENTIFIER, UUID, "a UUID in lower case", format="uuid"),
    Decimal: _text(DECIMAL, Decimal, "a decimal number as text"),
    dt.datetime: _text(
        DATETIME, dt.datetime.fromisoformat, "an ISO 8601 date and time", format="date-time"
    ),
    dt.date: _text(DATE, dt.date.fromisoformat, "an ISO 8601 date", format="date"),
    dt.time: _text(TIME, dt.time.fromisoformat, "an ISO 8601 time", format="time"),
    dt.timedelta: Shape(
        schema={"type": "number", "description": "seconds"},
        kinds=_NUMBERS,
        read=strict.duration,
        typed=True,
    ),
}

_SETS: Final = (set, frozenset)
_SET_ITEMS: Final = frozenset({"string", "integer"})

_ADVICE: Final = (
    "it cannot be read back from a log as an equal value. Use str, int, float, bool, None, list, "
    "dict[str, …], tuple, Literal, an Enum, a dataclass, an attrs class, a TypedDict, Path, "
    "datetime, UUID, or Any for plain JSON"
)
_ENDLESS: Final = "contains itself: use Any for a tree of plain JSON"


def shape_of(hint: Any, *, tool: str, where: str) -> Shape:
    """Return the shape of a resolved type hint.

    Raises:
        ToolRefused: the type cannot make the round trip; gives the place in the signature, and the
            reason.
    """
    place = _Place(tool, where)
    try:
        return _shape(hint, place)
    except RecursionError:
        raise place.refuse(f"{name_of(hint)} {_ENDLESS}") from None


def hook_for(hint: Any) -> Hook:
    """Return the reader of `hint`, a type that `shape_of` accepts."""
    return _shape(hint, _Place("", "")).read


reader_of: Final = functools.cache(hook_for)
"""The same, made once: for classes of our own."""


def _shape(hint: Any, place: _Place) -> Shape:
    note, keywords = note_of(hint), keywords_of(hint)
    shape = _judge(spelled_out(strip(hint)), place)
    if not note and not keywords:
        return shape
    described = {"description": note} if note else {}
    return attrs.evolve(shape, schema={**shape.schema, **keywords, **described})


def _judge(hint: Any, place: _Place) -> Shape:
    if is_hashable(hint) and hint in SCALARS:
        return SCALARS[hint]
    if is_union(hint):
        return _union(hint, place)
    origin = get_origin(hint)
    if origin is Literal:
        return _listed([(value, value) for value in get_args(hint)], place, typed=False)
    if origin is not None:
        return _container(hint, origin, place)
    if isinstance(hint, type):
        return _class(hint, place)
    raise place.refuse(f"{name_of(hint)}: {_ADVICE}")


def _container(hint: Any, origin: Any, place: _Place) -> Shape:
    arguments = get_args(hint)
    if origin is tuple:
        return _tuple(arguments, place)
    if origin is list:
        item = _shape(arguments[0], place.inner("[]"))
        return _array(item, strict.array(item.read), typed=item.typed)
    if origin is dict:
        return _mapping(arguments, place)
    if origin in _SETS:
        return _set(origin, arguments[0], place)
    raise place.refuse(f"{name_of(hint)}: {_ADVICE}")


def _array(item: Shape, read: Hook, *, typed: bool, **more: Any) -> Shape:
    schema = {"type": "array", "items": item.schema, **more}
    kinds = frozenset({"array"})
    return Shape(schema=schema, kinds=kinds, read=read, typed=typed, lenient=item.lenient)


def _tuple(arguments: tuple[Any, ...], place: _Place, make: Any = None) -> Shape:
    """Return the shape of a tuple, or of a named one, which `make` makes of its items."""
    if len(arguments) == 2 and arguments[1] is Ellipsis:  # noqa: PLR2004  tuple[X, ...] is a pair
        item = _shape(arguments[0], place.inner("[]"))
        return _array(item, strict.array(item.read, tuple), typed=True)
    items = [_shape(item, place.inner(f"[{at}]")) for at, item in enumerate(arguments)]
    schema: dict[str, Any] = {"type": "array"}
    if items:
        schema["prefixItems"] = [item.schema for item in items]
    schema |= {"minItems": len(items), "maxItems": len(items)}
    read = strict.fixed([item.read for item in items], make or (lambda *found: found))
    return Shape(schema=schema, kinds=frozenset({"array"}), read=read, typed=True)


def _mapping(arguments: tuple[Any, ...], place: _Place) -> Shape:
    if strip(arguments[0]) is not str:
        raise place.refuse(
            f"keys of a JSON object must be strings, not {name_of(arguments[0])}: use dict[str, …]"
        )
    item = _shape(arguments[1], place.inner("[…]"))
    schema: dict[str, Any] = {"type": "object"}
    if item.schema:
        schema["additionalProperties"] = item.schema
    return Shape(
        schema=schema,
        kinds=frozenset({"object"}),
        read=strict.mapping(item.read),
        typed=item.typed,
        lenient=item.lenient,
    )


def _set(kind: Any, argument: Any, place: _Place) -> Shape:
    item = _shape(argument, place.inner("[]"))
    if len(item.kinds) != 1 or not item.kinds <= _SET_ITEMS:
        raise place.refuse("a set can only hold strings or integers: use a list")
    return _array(item, strict.unique(item.read, kind), typed=True, uniqueItems=True)


def _listed(meanings: list[tuple[Any, Any]], place: _Place, *, typed: bool) -> Shape:
    """Return the shape of listed values, each with its meaning."""
    values = tuple(value for value, _ in meanings)
    for value in values:
        if type(value) not in _LISTABLE:
            raise place.refuse(
                f"{value!r:.60} cannot be listed: use a string, integer, boolean or None"
            )
    return Shape(
        schema={"enum": list(values)},
        kinds=frozenset(JSON_KINDS[type(value)] for value in values),
        read=strict.listed({(type(value), value): meant for value, meant in meanings}),
        typed=typed,
        values=values,
    )


_LISTABLE: Final = (str, int, bool, types.NoneType)


def _class(kind: type, place: _Place) -> Shape:
    if issubclass(kind, Enum):
        return _listed([(member.value, member) for member in kind], place, typed=True)
    if kind in place.inside:
        raise place.refuse(f"{kind.__name__} {_ENDLESS}")
    if is_named_tuple(kind):
        hints = _resolved(kind, place)
        return _tuple(tuple(hints.values()), place.inner("", kind=kind), kind)
    if typing.is_typeddict(kind) or field_names(kind) is not None:
        return _object(kind, place)
    raise place.refuse(f"{name_of(kind)}: {_ADVICE}")


def _object(kind: type, place: _Place) -> Shape:
    hints = _resolved(kind, place)
    members = {
        name: _shape(hint, place.inner(f".{name}", kind=kind)) for name, hint in hints.items()
    }
    required = required_members(kind)
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {name: member.schema for name, member in members.items()},
    }
    if required:
        schema["required"] = [name for name in members if name in required]
    schema["additionalProperties"] = False
    hooks = {name: member.read for name, member in members.items()}
    is_plain = typing.is_typeddict(kind)
    whole = functools.partial(read_members, hooks, required)
    read = whole if is_plain else strict.built(kind, hooks, required)
    return Shape(
        schema=schema,
        kinds=frozenset({"object"}),
        read=read,
        typed=not is_plain or any(item.typed for item in members.values()),
        lenient=any(item.lenient for item in members.values()),
        members=members,
        required=required,
    )


def _resolved(kind: type, place: _Place) -> dict[str, Any]:
    try:
        hints = member_hints(kind)
    except (NameError, TypeError, AttributeError, SyntaxError) as error:
        raise place.refuse(
            f"the types of {kind.__name__}'s fields cannot be resolved ({error}): "
            "define them at module level and import them at run time"
        ) from None
    names = field_names(kind) or ()
    if bare := [name for name in names if name not in hints]:
        raise place.refuse(f"{kind.__name__}.{bare[0]} has no type: annotate it")
    if any(isinstance(hint, dataclasses.InitVar) for hint in hints.values()):
        raise place.refuse(f"{kind.__name__} has an InitVar, whose value is lost: use a field")
    return hints


def _union(hint: Any, place: _Place) -> Shape:
    """Return the shape of a union.

    Next to `int`, a `float` covers numbers with a fraction or exponent only, so that 1 and 1.0 come
    back unchanged.
    """
    members = [(member, _shape(member, place)) for member in get_args(hint)]
    if any(strip(member) is int for member, _ in members):
        number = attrs.evolve(SCALARS[float], kinds=frozenset({"number"}), lenient=False)
        members = [(arm, number if strip(arm) is float else shape) for arm, shape in members]
    for (one, left), (other, right) in combinations(members, 2):
        if not _apart(left, right):
            raise place.refuse(
                f"{name_of(one)} and {name_of(other)} look the same in JSON: give each its own "
                "class with a different Literal field, or use one of them"
            )
    shapes = [shape for _, shape in members]
    kinds = frozenset().union(*(shape.kinds for shape in shapes))
    expected = " or ".join(name_of(arm) for arm, _ in members)
    by_kind = {kind: [shape for shape in shapes if kind in shape.kinds] for kind in kinds}
    alone = {kind: found[0].read for kind, found in by_kind.items() if len(found) == 1}

    def read(value: Json) -> Any:
        kind = JSON_KINDS.get(type(value), "")
        if kind in alone:
            return alone[kind](value)
        found = [shape.read for shape in by_kind.get(kind, ()) if _has_members(shape, value)]
        return strict.first_of(found, value, expected)

    return Shape(
        schema=_any_of(shapes),
        kinds=kinds,
        read=read,
        typed=any(shape.typed for shape in shapes),
        lenient=any(shape.lenient for shape in shapes),
    )


def _any_of(shapes: list[Shape]) -> dict[str, Any]:
    if all(tuple(shape.schema) == ("type",) for shape in shapes):
        return {"type": [shape.schema["type"] for shape in shapes]}
    return {"anyOf": [shape.schema for shape in shapes]}


def _apart(one: Shape, other: Shape) -> bool:
    """Return whether at most one of two reads any JSON value, or both read it as itself."""
    if not one.kinds & other.kinds:
        return True
    if not (one.typed or one.lenient or other.typed or other.lenient):
        return True
    if one.values and other.values:
        return not set(map(repr, one.values)) & set(map(repr, other.values))
    return _objects_apart(one, other)


def _objects_apart(one: Shape, other: Shape) -> bool:
    if one.members is None or other.members is None:
        return False
    if one.required - set(other.members) or other.required - set(one.members):
        return True
    return any(
        one.members[tag].values
        and other.members[tag].values
        and not set(map(repr, one.members[tag].values)) & set(map(repr, other.members[tag].values))
        for tag in one.required & other.required
    )


def _has_members(shape: Shape, value: Json) -> bool:
    """Return whether the names and tags of `value` are those of the shape, if it is an object."""
    if shape.members is None or type(value) is not dict:
        return True
    if not shape.required <= value.keys() <= shape.members.keys():
        return False
    return all(
        not member.values or repr(value[tag]) in map(repr, member.values)
        for tag, member in shape.members.items()
        if tag in shape.required
    )
