"""Resolves type hints: takes them apart, writes them out, and finds the members of classes.

Knows nothing of JSON; which hints a tool may use is judged in `engine.encoding.shapes`.
"""

import dataclasses
import types
import typing
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, Union, get_args, get_origin
from weakref import WeakKeyDictionary

import attrs

_FIELDS: Final[WeakKeyDictionary[type, tuple[str, ...] | None]] = WeakKeyDictionary()
_LISTS: Final = (Collection, Iterable, Sequence)
_BARE: Final[dict[Any, Any]] = {
    list: list[Any],
    dict: dict[str, Any],
    tuple: tuple[Any, ...],
    Mapping: dict[str, Any],
    **dict.fromkeys(_LISTS, list[Any]),
}


def strip(hint: Any) -> Any:
    """Return `hint` without `Annotated`, `NewType`, a type alias, `Required` and `NotRequired`."""
    while True:
        if get_origin(hint) in (typing.Annotated, typing.Required, typing.NotRequired):
            hint = get_args(hint)[0]
        elif isinstance(hint, typing.NewType):
            hint = hint.__supertype__
        elif type(hint).__name__ == "TypeAliasType":  # absent from typing before Python 3.12
            hint = hint.__value__
        else:
            return hint


def spelled_out(hint: Any) -> Any:
    """Return a bare or abstract collection with its arguments: `list` as `list[Any]`."""
    if is_hashable(hint) and hint in _BARE:
        return _BARE[hint]
    origin = get_origin(hint)
    if origin in _LISTS:
        return list[get_args(hint)]  # type: ignore[misc]  # a type made at run time
    if origin is Mapping:
        return dict[get_args(hint)]  # type: ignore[misc]  # a type made at run time
    return hint


class Keywords(dict[str, Any]):
    """JSON schema keywords in `Annotated[…, Keywords(maxLength=500)]`, which the tool checks."""

    __hash__ = object.__hash__  # type: ignore[assignment]  # annotations are keys of caches


def keywords_of(hint: Any) -> dict[str, Any]:
    """Return the `Keywords` of an annotation; none for any other."""
    if get_origin(hint) is not typing.Annotated:
        return {}
    return next((dict(each) for each in get_args(hint)[1:] if isinstance(each, Keywords)), {})


def note_of(hint: Any) -> str:
    """Return the description in `Annotated[…, "description"]`; empty for none."""
    if get_origin(hint) is not typing.Annotated:
        return ""
    return next((note for note in get_args(hint)[1:] if isinstance(note, str)), "")


def is_union(hint: Any) -> bool:
    """Return whether `hint` is a union, however it is spelled."""
    return get_origin(hint) in (Union, types.UnionType)


def is_named_tuple(hint: Any) -> bool:
    """Return whether `hint` is a `typing.NamedTuple` class."""
    return isinstance(hint, type) and issubclass(hint, tuple) and hasattr(hint, "_fields")


def field_names(kind: type) -> tuple[str, ...] | None:
    """Return the init fields of an attrs class or dataclass; `None` for any other class."""
    if kind not in _FIELDS:
        _FIELDS[kind] = _find_fields(kind)
    return _FIELDS[kind]


def _find_fields(kind: Any) -> tuple[str, ...] | None:
    if (fields := getattr(kind, "__attrs_attrs__", None)) is not None:
        return tuple(field.name for field in fields if field.init)
    if dataclasses.is_dataclass(kind):
        return tuple(field.name for field in dataclasses.fields(kind) if field.init)
    return None


def member_hints(kind: type) -> dict[str, Any]:
    """Return the members of an attrs class, dataclass, TypedDict or named tuple, resolved.

    Raises:
        NameError: a hint names what its module does not know.
    """
    hints = typing.get_type_hints(kind, include_extras=True)
    names = field_names(kind) or getattr(kind, "_fields", None) or tuple(hints)
    return {name: hints[name] for name in names if name in hints}


def required_members(kind: type) -> frozenset[str]:
    """Return the members that a JSON object must have to be read as `kind`."""
    if typing.is_typeddict(kind):
        return _required_keys(kind)
    if attrs.has(kind):
        fields = [field for field in attrs.fields(kind) if field.init]
        return frozenset(field.name for field in fields if field.default is attrs.NOTHING)
    absent = dataclasses.MISSING
    return frozenset(
        field.name
        for field in dataclasses.fields(kind)
        if field.init and field.default is absent and field.default_factory is absent
    )


def _required_keys(kind: type) -> frozenset[str]:
    # Under `from __future__ import annotations` the class itself misses its NotRequired markers.
    required: frozenset[str] = getattr(kind, "__required_keys__")  # noqa: B009  unknown to mypy
    hints = typing.get_type_hints(kind, include_extras=True)
    marked = {name: _marker(hint) for name, hint in hints.items()}
    optional = {name for name, marker in marked.items() if marker is typing.NotRequired}
    return (required - optional) | {
        name for name, marker in marked.items() if marker is typing.Required
    }


def _marker(hint: Any) -> Any:
    while get_origin(hint) is typing.Annotated:
        hint = get_args(hint)[0]
    return get_origin(hint)


def is_hashable(hint: Any) -> bool:
    """Return whether `hint` can be looked up."""
    try:
        hash(hint)
    except TypeError:
        return False
    return True


def name_of(hint: Any) -> str:
    """Return a hint as a person wrote it."""
    if hint is types.NoneType:
        return "None"
    if isinstance(hint, type) and get_origin(hint) is None:
        return hint.__qualname__
    return str(hint).replace("typing.", "")
