"""A secret as a program holds it: a name, and never the value (CONTRACT.md §3.9).

`run.secret("NAME")` gives a handle; it is passed to tools as an argument, stands in the log as
`{"$secret": "NAME"}`, and is replaced by the value just before the tool runs.  An object of that
form which is no handle, one that a model wrote, is data like any other and reveals nothing.
Values live in `engine.vault`.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

import attrs

from refold.engine.canonical import Json, join, unescaped

MEMBER: Final = "$secret"


@attrs.frozen
class Secret:
    """A handle to a secret; its text and its JSON hold the name alone."""

    name: str

    def __str__(self) -> str:
        return f"[secret {self.name}]"


def handles_in(value: Any, pointer: str = "") -> tuple[tuple[str, str], ...]:
    """Return the places of handles in arguments, as {JSON pointer, name}: in containers only."""
    if isinstance(value, Secret):
        return ((pointer, value.name),)
    if isinstance(value, Mapping):
        parts = [handles_in(item, join(pointer, key)) for key, item in value.items()]
    elif isinstance(value, list | tuple):
        parts = [handles_in(item, f"{pointer}/{at}") for at, item in enumerate(value)]
    else:
        names = _init_fields(type(value))
        parts = [handles_in(getattr(value, name), join(pointer, name)) for name in names]
    return tuple(found for part in parts for found in part)


def _init_fields(kind: type) -> list[str]:
    """Return the fields that `engine.plain` writes of a class; none of any other value's."""
    fields: Any = ()
    if attrs.has(kind):
        fields = attrs.fields(kind)
    elif dataclasses.is_dataclass(kind):
        fields = dataclasses.fields(kind)
    return [field.name for field in fields if field.init]


def put(value: Json, pointer: str, inside: Json) -> Json:
    """Return a copy of `value` with `inside` at `pointer`; what is on the way is copied."""
    if not pointer:
        return inside
    first, slash, rest = pointer[1:].partition("/")
    key = unescaped(first)
    if isinstance(value, list):
        at = int(key)
        return [*value[:at], put(value[at], slash + rest, inside), *value[at + 1 :]]
    return {**value, key: put(value[key], slash + rest, inside)}
