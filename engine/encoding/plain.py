"""Turns typed Python values into JSON values, by their types at run time.

A program's results and arguments, and the results of tools, pass through here on their way to a
log. The way back needs the declared type and is in `engine.encoding.strict`; bytes belong to
`engine.encoding.canonical`. The result is always canonical (CONTRACT.md §3.5) and shares no
container with the value, so that nobody can change a recorded value.

| value | becomes |
|---|---|
| attrs class, dataclass | object of its init fields, in their order |
| tuple, named tuple, list | array |
| set, frozenset | array, sorted by the canonical bytes of its items |
| Enum | its value |
| Path, UUID | text |
| datetime, date, time | ISO 8601 text, with the offset where there is one |
| timedelta | seconds, as a float |
| Decimal | text, finite |
| Secret | `{"$secret": name}` |

All else is refused.  So are bytes: text or base64 is for the caller to choose.
"""

import datetime as dt
from collections.abc import Callable, Mapping
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any, Final, Self
from uuid import UUID

from refold.engine.encoding.canonical import (
    Json,
    check_depth,
    check_key,
    check_number,
    check_text,
    encode_sorted,
    join,
    kind_of,
)
from refold.engine.encoding.hints import field_names
from refold.engine.encoding.secret import MEMBER, Secret
from refold.engine.errors import NotCanonical

_WIDE: Final = 2**63
_LEAST, _MOST = -(2**30), 2**30
"""Python compares integers between these without a call."""


def to_json(value: object, pointer: str = "") -> Json:
    """Return `value` as a canonical JSON value in fresh containers.

    Raises:
        NotCanonical: no exact JSON form exists; `pointer` is put before the place.
    """
    return _to_json(value, pointer, 0)


def members_to_json(members: dict[str, Any]) -> dict[str, Json]:
    """Return an object's members as canonical JSON values, sorted by name.

    Raises:
        NotCanonical: a member has no exact JSON form.
    """
    names = [*members]
    if len(names) > 1:
        names.sort()
    plain: dict[str, Json] = {}
    for name in names:
        item = members[name]
        kind = type(item)
        if kind is str:  # a plain value needs no pointer: most are, and making one costs
            is_plain = item.isascii()
        elif kind is int:
            is_plain = _LEAST < item < _MOST
        else:
            is_plain = item is None or kind is bool
        plain[name] = item if is_plain else _to_json(item, f"/{name}", 0)
    return plain


def _to_json(value: Any, pointer: str, depth: int) -> Json:
    if value is None or value is True or value is False:
        return value
    convert = _EXACT.get(type(value))
    if convert is not None:
        return convert(value, pointer, depth)
    for kind, convert in _KINDS:
        if isinstance(value, kind):
            return convert(value, pointer, depth)
    return _instance(value, pointer, depth)


def _is_atom(value: Any) -> bool:
    """Return whether `value` is a plain one that needs no pointer: most are, and pointers cost."""
    kind = type(value)
    if kind is str:
        return value.isascii()  # type: ignore[no-any-return]  # known to be a str
    if kind is int:
        return -_WIDE <= value < _WIDE  # type: ignore[no-any-return]  # known to be an int
    return value is None or kind is bool


def _text(value: str, pointer: str, _depth: int) -> Json:
    if not value.isascii():
        check_text(value, pointer)
    return value


def _number(value: float, pointer: str, _depth: int) -> Json:
    check_number(value, pointer)
    return value


def _object(value: dict[Any, Any], pointer: str, depth: int) -> Json:
    check_depth(pointer, depth)
    members: dict[str, Json] = {}
    for key, item in value.items():
        check_key(key, pointer)
        members[key] = item if _is_atom(item) else _to_json(item, join(pointer, key), depth + 1)
    return members


def _array(value: list[Any] | tuple[Any, ...], pointer: str, depth: int) -> Json:
    check_depth(pointer, depth)
    return [
        item if _is_atom(item) else _to_json(item, f"{pointer}/{at}", depth + 1)
        for at, item in enumerate(value)
    ]


def _set(value: frozenset[Any], pointer: str, depth: int) -> Json:
    check_depth(pointer, depth)
    items = [_to_json(item, f"{pointer}/-", depth + 1) for item in value]
    return sorted(items, key=encode_sorted)


def _seconds(value: dt.timedelta, pointer: str, _depth: int) -> Json:
    seconds = value.total_seconds()
    try:
        exact = dt.timedelta(seconds=seconds) == value
    except OverflowError:
        exact = False
    if not exact:
        raise NotCanonical(pointer, "a duration that seconds hold exactly", str(value))
    return seconds


def _decimal(value: Decimal, pointer: str, _depth: int) -> Json:
    if not value.is_finite():
        raise NotCanonical(pointer, "a finite number", str(value))
    return str(value)


def _instance(value: Any, pointer: str, depth: int) -> Json:
    kind = type(value)
    names = field_names(kind)
    if names is None:
        expected = "a JSON value, an attrs class or a dataclass"
        raise NotCanonical(pointer, expected, kind_of(value))
    if not names and (bare := [name for name, each in vars(kind).items() if _is_bare(name, each)]):
        raise NotCanonical(
            pointer, f"fields with types: `{bare[0]}: TYPE`", f"{kind_of(value)} without"
        )
    check_depth(pointer, depth)
    return {name: _to_json(getattr(value, name), join(pointer, name), depth + 1) for name in names}


def _is_bare(name: str, value: object) -> bool:
    """Return whether a member of a class was probably meant as a field, and is none."""
    return name[0] != "_" and not callable(value) and not hasattr(value, "__get__")


_Convert = Callable[[Any, str, int], Json]


class Moment(float):
    """A loop's time, and the program's additions to it since, in seconds."""

    __slots__ = ("added",)

    added: float

    def __new__(cls, seconds: float, added: float = 0.0) -> Self:
        """Make one of a number; `added` is the part of it that the program added."""
        moment = super().__new__(cls, seconds)
        moment.added = added
        return moment

    def __add__(self, other: Any) -> Any:
        total = super().__add__(other)
        return total if total is NotImplemented else type(self)(total, self.added + other)

    __radd__ = __add__


_EXACT: Final[dict[type, _Convert]] = {
    str: _text,
    int: _number,
    float: _number,
    dict: _object,
    list: _array,
    tuple: _array,
    Secret: lambda value, _pointer, _depth: {MEMBER: value.name},
}

_KINDS: Final[tuple[tuple[type | tuple[type, ...], _Convert], ...]] = (
    (Moment, lambda value, pointer, depth: _number(float(value), pointer, depth)),
    (Enum, lambda value, pointer, depth: _to_json(value.value, pointer, depth)),
    (dict, _object),
    ((list, tuple), _array),
    ((set, frozenset), _set),
    (PurePath, lambda value, pointer, depth: _text(str(value), pointer, depth)),
    (UUID, lambda value, _pointer, _depth: str(value)),
    ((dt.date, dt.time), lambda value, _pointer, _depth: value.isoformat()),
    (dt.timedelta, _seconds),
    (Decimal, _decimal),
)
"""Types that are not exact JSON types; order matters, a datetime is a date."""


def without_empty(members: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members with content: not null, and not an empty text, list or object."""
    return {name: value for name, value in members.items() if value not in (None, "", [], {})}
