"""Reads JSON values back as typed values, and coerces nothing.

A hook is built once for a type, out of hooks for its parts.  Classes are built by cattrs, which is
handed our hook for each field: left to its own it would turn "12" into 12, None into "None" and
"abc" into a list of letters.  An integer is accepted for a float, because JSON writers drop the
`.0`, and that is all.  All that is wrong with a value is reported at once, with JSON pointers.

Which types exist is judged in `engine.encoding.shapes`; the way out is `engine.encoding.plain`.
Rules: CONTRACT.md §10.
"""

import datetime as dt
import functools
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from decimal import Decimal
from enum import Enum
from pathlib import Path, PurePath
from types import NoneType
from typing import Any, Final, Literal, get_args, get_origin, is_typeddict
from uuid import UUID

import cattrs
from cattrs.errors import AttributeValidationNote, BaseValidationError, ForbiddenExtraKeysError
from cattrs.gen import make_dict_structure_fn, override

from refold.engine.encoding import hints, shapes
from refold.engine.encoding.canonical import Json, join
from refold.engine.errors import NotCanonical

Hook = Callable[[Json], Any]
"""Gives the typed value of a JSON value, or raises what `problems_of` explains."""

_CONVERTER: Final = cattrs.Converter(detailed_validation=True)


class _Problems(Exception):
    """All that is wrong inside one value."""

    def __init__(self, found: list[NotCanonical]) -> None:
        super().__init__(found)
        self.found = found


def hook_for(hint: Any) -> Hook:
    """Return the reader of `hint`, a type that `shapes.shape_of` has accepted."""
    hint = hints.strip(hint)
    if (scalar := _SCALARS.get(hint) if hints.is_hashable(hint) else None) is not None:
        return scalar
    if hints.is_union(hint):
        return _union(hint)
    hint = hints.spelled_out(hint)
    origin = get_origin(hint)
    if origin is Literal:
        return _listed({(type(value), value): value for value in get_args(hint)})
    if origin is tuple:
        return _tuple(get_args(hint))
    if origin is not None:
        return _container(origin, get_args(hint))
    return _class(hint)


reader_of: Final = functools.cache(hook_for)
"""The same, made once: for classes of our own."""


def problems_of(error: Exception, pointer: str = "") -> Iterator[NotCanonical]:
    """Yield what a hook found wrong, in the order of the value, each with its JSON pointer."""
    match error:
        case NotCanonical():
            yield NotCanonical(pointer + error.pointer, error.expected, error.found)
        case _Problems():
            for inner in error.found:
                yield from problems_of(inner, pointer)
        case BaseValidationError():
            for part in error.exceptions:
                yield from problems_of(part, _step(part, pointer))
        case ForbiddenExtraKeysError():
            known = tuple(hints.member_hints(error.cl))
            for name in sorted(error.extra_fields):
                yield unknown(name, known, pointer)
        case KeyError() if pointer.endswith(join("", str(error.args[0]))):
            yield missing(pointer)
        case _:
            yield NotCanonical(pointer, "a value that the type accepts", f"{error}")


def unknown(name: str, known: Iterable[str], pointer: str = "") -> NotCanonical:
    """Return the problem of a member that nobody asked for, with the nearest known name."""
    names = tuple(known)
    known_names = f"one of {', '.join(names)}" if names else "no member at all"
    return NotCanonical(
        join(pointer, name), known_names, f"the unknown name {name!r}{nearest(name, names)}"
    )


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the question whether the nearest known name was meant; empty where none is near."""
    from difflib import get_close_matches  # noqa: PLC0415 - only to complain

    near = get_close_matches(name, tuple(known), n=1)
    return f", did you mean {near[0]!r}?" if near else ""


def missing(pointer: str) -> NotCanonical:
    """Return the problem of a member that has to be there and is not."""
    return NotCanonical(pointer, "a value, which is required", "none")


def read_members(hooks: dict[str, Hook], required: frozenset[str], value: Json) -> dict[str, Any]:
    """Return the members of a JSON object, read; absent ones stay absent.

    Raises:
        Exception: one that `problems_of` explains.
    """
    _expect(dict, value)
    wrong = [missing(join("", name)) for name in hooks if name in required and name not in value]
    wrong += [unknown(name, hooks) for name in value if name not in hooks]
    present = [(name, hooks[name], item) for name, item in value.items() if name in hooks]
    items = _each(present, wrong)
    return {name: item for (name, _, _), item in zip(present, items, strict=True)}


def _step(error: Exception, pointer: str) -> str:
    for note in getattr(error, "__notes__", ()):
        if isinstance(note, AttributeValidationNote):
            return join(pointer, note.name)
    return pointer


def _each(
    parts: Iterable[tuple[str | int, Hook, Json]], wrong: list[NotCanonical] | None = None
) -> list[Any]:
    problems = list(wrong or ())
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

_ARTICLES: Final = {"null": "", "integer": "an ", "array": "an ", "object": "an "}


def _expect(kind: type, value: Json) -> None:
    if type(value) is not kind:
        name = shapes.JSON_KINDS[kind]
        raise NotCanonical("", f"{_ARTICLES.get(name, 'a ')}{name}", _describe(value))


def _describe(value: Json) -> str:
    kind = shapes.JSON_KINDS.get(type(value), type(value).__name__)
    if kind in ("array", "object"):
        return f"{kind} of {len(value)}"
    if kind == "null":
        return kind
    return f"{kind} {value!r:.60}"


def _exactly(kind: type) -> Hook:
    def read(value: Json) -> Any:
        _expect(kind, value)
        return value

    return read


def _number(value: Json) -> float:
    if type(value) is int and int(float(value)) == value:
        return float(value)
    _expect(float, value)
    number: float = value
    return number


def _parsed(pattern: str, parse: Callable[[str], Any], what: str) -> Hook:
    def read(value: Json) -> Any:
        _expect(str, value)
        if re.fullmatch(pattern, value, re.ASCII) is None:  # compiled at its first use, and kept
            raise NotCanonical("", what, _describe(value))
        try:
            return parse(value)
        except (ValueError, ArithmeticError) as error:
            raise NotCanonical("", what, f"{_describe(value)} ({error})") from None

    return read


def _path(kind: type[PurePath]) -> Hook:
    def read(value: Json) -> PurePath:
        _expect(str, value)
        return kind(value)

    return read


def _duration(value: Json) -> dt.timedelta:
    try:
        return dt.timedelta(seconds=_number(value))
    except (OverflowError, ValueError):
        raise NotCanonical("", "seconds of a duration", _describe(value)) from None


def _unchanged(value: Json) -> Json:
    return value


_SCALARS: Final[dict[Any, Hook]] = {
    Any: _unchanged,
    None: _exactly(NoneType),
    NoneType: _exactly(NoneType),
    bool: _exactly(bool),
    int: _exactly(int),
    float: _number,
    str: _exactly(str),
    Path: _path(Path),
    PurePath: _path(PurePath),
    UUID: _parsed(shapes.IDENTIFIER, UUID, "a UUID in lower case"),
    Decimal: _parsed(shapes.DECIMAL, Decimal, "a decimal number as text"),
    dt.datetime: _parsed(shapes.DATETIME, dt.datetime.fromisoformat, "an ISO 8601 date and time"),
    dt.date: _parsed(shapes.DATE, dt.date.fromisoformat, "an ISO 8601 date"),
    dt.time: _parsed(shapes.TIME, dt.time.fromisoformat, "an ISO 8601 time"),
    dt.timedelta: _duration,
}


def _listed(values: dict[tuple[type, Any], Any]) -> Hook:
    expected = "one of " + ", ".join(repr(value) for _, value in values)

    def read(value: Json) -> Any:
        try:
            return values[type(value), value]
        except (KeyError, TypeError):
            raise NotCanonical("", expected, _describe(value)) from None

    return read


# --- containers ----------------------------------------------------------------------------


def _container(origin: Any, arguments: tuple[Any, ...]) -> Hook:
    item = hook_for(arguments[-1])
    if origin is dict:
        return lambda value: _read_dict(item, value)
    if origin is list:
        return functools.partial(_read_list, item)
    return lambda value: _read_set(origin, item, value)


def _read_list(item: Hook, value: Json) -> list[Any]:
    _expect(list, value)
    return _each((at, item, part) for at, part in enumerate(value))


def _read_dict(item: Hook, value: Json) -> dict[str, Any]:
    _expect(dict, value)
    return dict(zip(value, _each((key, item, part) for key, part in value.items()), strict=True))


def _read_set(kind: Callable[[list[Any]], Any], item: Hook, value: Json) -> Any:
    items = _read_list(item, value)
    result = kind(items)
    if len(result) != len(items):
        raise NotCanonical("", "items that all differ", _describe(value))
    return result


def _tuple(arguments: tuple[Any, ...]) -> Hook:
    if arguments[1:] == (Ellipsis,):
        item = hook_for(arguments[0])
        return lambda value: tuple(_read_list(item, value))
    return _fixed([hook_for(argument) for argument in arguments])


def _fixed(hooks: list[Hook]) -> Hook:
    def read(value: Json) -> tuple[Any, ...]:
        _expect(list, value)
        if len(value) != len(hooks):
            raise NotCanonical("", f"an array of {len(hooks)}", _describe(value))
        return tuple(_each(zip(range(len(hooks)), hooks, value, strict=True)))

    return read


# --- classes and unions --------------------------------------------------------------------


def _class(kind: Any) -> Hook:
    if issubclass(kind, Enum):
        return _listed({(type(member.value), member.value): member for member in kind})
    hooks = {name: hook_for(hint) for name, hint in hints.member_hints(kind).items()}
    if hints.is_named_tuple(kind):
        items = _fixed(list(hooks.values()))
        return lambda value: kind(*items(value))
    if is_typeddict(kind):
        required = hints.required_members(kind)
        return lambda value: read_members(hooks, required, value)
    return _built(kind, hooks)


def _built(kind: Any, hooks: dict[str, Hook]) -> Hook:
    fields: dict[str, Any] = {
        name: override(struct_hook=_of_field(hook)) for name, hook in hooks.items()
    }
    build = make_dict_structure_fn(
        kind, _CONVERTER, _cattrs_forbid_extra_keys=True, _cattrs_detailed_validation=True, **fields
    )

    def read(value: Json) -> Any:
        _expect(dict, value)
        return build(value, kind)

    return read


def _of_field(hook: Hook) -> Callable[[Json, Any], Any]:
    return lambda value, _hint: hook(value)


def _union(hint: Any) -> Hook:
    choices: dict[str, list[tuple[Hook, shapes.Shape]]] = {}
    for arm, shape in shapes.arms(hint):
        hook = hook_for(arm)
        for kind in shape.kinds:
            choices.setdefault(kind, []).append((hook, shape))
    expected = " or ".join(hints.name_of(arm) for arm in get_args(hint))

    def read(value: Json) -> Any:
        arms = choices.get(shapes.JSON_KINDS.get(type(value), ""), [])
        if len(arms) > 1:
            arms = [(hook, shape) for hook, shape in arms if shapes.has_members(shape, value)]
        if len(arms) == 1:
            return arms[0][0](value)
        for hook, _ in arms:  # all of them read JSON as it is
            with suppress(NotCanonical, _Problems):
                return hook(value)
        raise NotCanonical("", expected, _describe(value))

    return read
