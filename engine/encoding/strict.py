"""Reads JSON values back as typed values, and coerces nothing.

A hook is built once for a type, out of hooks for its parts: by `engine.encoding.shapes`, which
defines the types. Not by cattrs: with hooks for six types it would be as strict, but its import
takes an eighth of the start of `refold verify`, and each child reads values. An integer is
accepted for a float, because JSON writers drop the `.0`, and that is all. All that is wrong with a
value is reported at once, with JSON pointers.

The way out is `engine.encoding.plain`.  Rules: CONTRACT.md §10.
"""

import datetime as dt
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from types import NoneType
from typing import Any, Final

from refold.engine.encoding import hints
from refold.engine.encoding.canonical import Json, join
from refold.engine.errors import NotCanonical

Hook = Callable[[Json], Any]
"""Gives the typed value of a JSON value, or raises what `problems_of` explains."""


class _Problems(Exception):
    """All that is wrong inside one value."""

    def __init__(self, found: list[NotCanonical]) -> None:
        super().__init__(found)
        self.found = found


def problems_of(error: Exception, pointer: str = "") -> Iterator[NotCanonical]:
    """Yield the problems found by a hook, in the value's order, each with its JSON pointer."""
    match error:
        case NotCanonical():
            yield NotCanonical(pointer + error.pointer, error.expected, error.found)
        case _Problems():
            for inner in error.found:
                yield from problems_of(inner, pointer)
        case _:
            yield NotCanonical(pointer, "a value that the type accepts", f"{error}")


def _unknown(name: str, known: Iterable[str], kind: type | None) -> NotCanonical:
    """Return the problem of a member that nobody asked for, with the nearest known name.

    Or with the subclass of `kind` that has it, for a value that was one.
    """
    names = tuple(known)
    known_names = f"one of {', '.join(names)}" if names else "no members"
    below: list[type] = kind.__subclasses__() if kind is not None else []
    more = nearest(name, names)
    for each in below:
        if kind is not None and name in (hints.field_names(each) or ()):
            more += f", a field of the subclass {each.__qualname__}, but the value is read as the "
            more += f"annotated {kind.__name__}"
    return NotCanonical(join("", name), known_names, f"the unknown name {name!r}{more}")


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the question whether the nearest known name was meant; empty where none is near."""
    from difflib import get_close_matches  # noqa: PLC0415 - only to complain

    near = get_close_matches(name, tuple(known), n=1)
    return f", did you mean {near[0]!r}?" if near else ""


def suggestion(name: Any, known: Iterable[str]) -> str:
    """Return the nearest known name, if one is near, and all known names, to add to an error."""
    names = sorted(known)
    near = nearest(str(name), names).replace(",", ";", 1) or ";"
    return f"{near} there are: {', '.join(names) or 'none'}"


def missing(pointer: str) -> NotCanonical:
    """Return the problem of a member that has to be there and is not."""
    return NotCanonical(pointer, "a value, which is required", "none")


def read_members(
    hooks: dict[str, Hook], required: frozenset[str], value: Json, kind: type | None = None
) -> dict[str, Any]:
    """Return the members of a JSON object, read; absent ones stay absent.

    `kind` is the class that they are for, if one is.

    Raises:
        Exception: one that `problems_of` explains.
    """
    _expect(dict, value)
    try:
        if required <= value.keys():
            return {name: hooks[name](item) for name, item in value.items()}
    except Exception:  # noqa: BLE001, S110  once more, to say all that is wrong and where
        pass
    read: dict[str, Any] = {}
    wrong: list[NotCanonical] = []
    for name, hook in hooks.items():
        if name in value:
            try:
                read[name] = hook(value[name])
            except Exception as error:  # noqa: BLE001  as in `_each`
                wrong += problems_of(error, join("", name))
        elif name in required:
            wrong.append(missing(join("", name)))
    wrong += [_unknown(name, hooks, kind) for name in value if name not in hooks]
    if wrong:
        raise _Problems(wrong)
    return read


def _each(parts: Iterable[tuple[str | int, Hook, Json]]) -> list[Any]:
    problems: list[NotCanonical] = []
    values = []
    for step, hook, value in parts:
        try:
            values.append(hook(value))
        except Exception as error:  # noqa: BLE001  a class may raise what it likes when it is built
            problems += problems_of(error, join("", step))
    if problems:
        raise _Problems(problems)
    return values


# --- scalars -------------------------------------------------------------------------------

JSON_KINDS: Final[dict[Any, str]] = {
    NoneType: "null",
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
}
"""What JSON calls the Python types that `orjson.loads` gives."""
_ARTICLES: Final = {"null": "", "integer": "an ", "array": "an ", "object": "an "}


def _expect(kind: type, value: Json) -> None:
    if type(value) is not kind:
        name = JSON_KINDS[kind]
        raise NotCanonical("", f"{_ARTICLES.get(name, 'a ')}{name}", _describe(value))


def _describe(value: Json) -> str:
    kind = JSON_KINDS.get(type(value), type(value).__name__)
    if kind in ("array", "object"):
        return f"{kind} of {len(value)}"
    if kind == "null":
        return kind
    return f"{kind} {value!r:.60}"


_TAKEN: Final[dict[Hook | None, type]] = {}
"""The type that a hook takes as it is: an array of it is checked at once."""


def exactly(kind: type) -> Hook:
    """Return what takes values of a type as they are."""

    def read(value: Json) -> Any:
        if type(value) is not kind:  # a call less for each value that fits
            _expect(kind, value)
        return value

    _TAKEN[read] = kind
    return read


def number(value: Json) -> float:
    """Return a float, of an integer as well if that is exact."""
    if type(value) is int and int(float(value)) == value:
        return float(value)
    _expect(float, value)
    return value  # type: ignore[no-any-return]  # it is a float


def parsed(pattern: str, parse: Callable[[str], Any], what: str) -> Hook:
    """Return the reader of a text that has a pattern; `what` names it in errors."""

    def read(value: Json) -> Any:
        _expect(str, value)
        if re.fullmatch(pattern, value, re.ASCII) is None:  # compiled at its first use, and kept
            raise NotCanonical("", what, _describe(value))
        try:
            return parse(value)
        except (ValueError, ArithmeticError) as error:
            raise NotCanonical("", what, f"{_describe(value)} ({error})") from None

    return read


def duration(value: Json) -> dt.timedelta:
    """Return a duration, of seconds."""
    try:
        return dt.timedelta(seconds=number(value))
    except (OverflowError, ValueError):
        raise NotCanonical("", "a duration in seconds", _describe(value)) from None


def unchanged(value: Json) -> Json:
    """Return the value itself."""
    return value


def listed(values: dict[tuple[type, Any], Any]) -> Hook:
    """Return the reader of listed values, given by type and value, with their meanings."""
    expected = "one of " + ", ".join(repr(value) for _, value in values)

    def read(value: Json) -> Any:
        try:
            return values[type(value), value]
        except (KeyError, TypeError):
            raise NotCanonical("", expected, _describe(value)) from None

    return read


# --- containers, classes and unions --------------------------------------------------------


def array(item: Hook, make: Callable[[list[Any]], Any] = list) -> Hook:
    """Return what reads arrays, and makes of their items what `make` does."""
    taken = {_TAKEN.get(item)}

    def read(value: Json) -> Any:
        _expect(list, value)
        try:
            is_plain = taken.issuperset(map(type, value))
            items = [*value] if is_plain else [item(part) for part in value]
        except Exception:  # noqa: BLE001  once more, to say all that is wrong and where
            items = _each((at, item, part) for at, part in enumerate(value))
        return items if make is list else make(items)

    return read


def unique(item: Hook, make: Callable[[list[Any]], Any]) -> Hook:
    """Return what reads a set."""
    items_of = array(item)

    def read(value: Json) -> Any:
        items = items_of(value)
        result = make(items)
        if len(result) != len(items):
            raise NotCanonical("", "unique items", _describe(value))
        return result

    return read


def mapping(item: Hook) -> Hook:
    """Return what reads objects whose members have any names."""

    def read(value: Json) -> dict[str, Any]:
        _expect(dict, value)
        items = _each((key, item, part) for key, part in value.items())
        return dict(zip(value, items, strict=True))

    return read


def fixed(hooks: list[Hook], make: Callable[..., Any]) -> Hook:
    """Return what reads arrays of so many items, each by its hook; `make` takes them all."""

    def read(value: Json) -> Any:
        _expect(list, value)
        if len(value) != len(hooks):
            raise NotCanonical("", f"an array of {len(hooks)}", _describe(value))
        return make(*_each(zip(range(len(hooks)), hooks, value, strict=True)))

    return read


def built(kind: Any, hooks: dict[str, Hook], required: frozenset[str]) -> Hook:
    """Return what reads an attrs class or a dataclass, given what reads its fields."""
    attributes = getattr(kind, "__attrs_attrs__", ())
    keywords = {name: name for name in hooks} | {each.name: each.alias for each in attributes}

    def read(value: Json) -> Any:
        members = read_members(hooks, required, value, kind)
        return kind(**{keywords[name]: item for name, item in members.items()})

    return read


def first_of(arms: list[Hook], value: Json, expected: str) -> Any:
    """Return a value as the members of a union read it that it may be of."""
    if len(arms) == 1:
        return arms[0](value)
    for hook in arms:  # all of them read JSON as it is
        with suppress(NotCanonical, _Problems):
            return hook(value)
    raise NotCanonical("", expected, _describe(value))
