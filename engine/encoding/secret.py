"""A secret as a program holds it: a name, and never the value (CONTRACT.md §3.9).

`run.secret("NAME")` returns a handle; it is passed to tools as an argument, appears in the log as
`{"$secret": "NAME"}`, and is replaced by the value just before the tool runs. An object of that
form that a model wrote is not a handle: it is data like any other and reveals nothing. Values live
in `engine.secrets.vault`.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Any, Final

import attrs

from refold.engine.encoding.canonical import Json, join, unescaped
from refold.engine.encoding.hints import field_names
from refold.engine.errors import UsageError
from refold.engine.values import Value

MEMBER: Final = "$secret"
_TEXT: Final = ": pass the handle itself, not its text>"
"""How the `repr` of a handle ends."""


@attrs.frozen
class Secret(Value):
    """A handle to a secret; its JSON holds the name alone, and it has no text.

    Its `repr`, which Python writes of a list that holds it, is refused where it is sent.

    Raises:
        UsageError: it is formatted, or turned into a text.
    """

    name: str

    def __str__(self) -> str:
        # f"Bearer {handle}" would send the name instead of the value, and no error would say so.
        raise UsageError(
            f"run.secret({self.name!r}) is a handle, not a string, so it cannot be formatted into "
            'text. Pass it to a tool, run.tool(…, key=handle), and build the text there: f"Bearer '
            '{key}"'
        )

    def __repr__(self) -> str:
        return f"<run.secret({self.name!r}){_TEXT}"

    def __format__(self, _spec: str) -> str:
        return str(self)


def handles_in(value: Any, pointer: str = "") -> tuple[tuple[str, str], ...]:
    """Return the places of handles in arguments, as {JSON pointer, name}: in containers only.

    Raises:
        UsageError: one is in a set, which has no places, or the text of one in a text.
    """
    if isinstance(value, str):
        _refuse_text(value)
        return ()
    if isinstance(value, Secret):
        return ((pointer, value.name),)
    if isinstance(value, Enum):
        return handles_in(value.value, pointer)
    if isinstance(value, set | frozenset):
        if any(handles_in(item) for item in value):
            raise UsageError("a handle to a secret is in a set: pass it in a list")
        return ()
    if isinstance(value, Mapping):
        _refuse_text(*value)
        parts = [handles_in(item, join(pointer, key)) for key, item in value.items()]
    elif isinstance(value, list | tuple):
        parts = [handles_in(item, f"{pointer}/{at}") for at, item in enumerate(value)]
    else:
        names = field_names(type(value)) or ()
        parts = [handles_in(getattr(value, name), join(pointer, name)) for name in names]
    return tuple(found for part in parts for found in part)


def refuse_handles(what: str, value: Any) -> None:
    """Raise UsageError if a handle, or the text of one, is in what models or children are given."""
    if handles := handles_in(value):
        raise UsageError(
            f"{what} was given the handle run.secret({handles[0][1]!r}), but only tools receive "
            "the value of a secret. A child can call its own run.secret"
        )


def _refuse_text(*texts: Any) -> None:
    for text in texts:
        if isinstance(text, str) and _TEXT in text:
            name = text.partition(_TEXT)[0].rpartition("<run.secret(")[2]
            raise UsageError(
                f"the repr of the handle run.secret({name:.80} is in a string, for example because "
                "a list was formatted: pass the handle itself to a tool"
            )


def put(value: Json, pointer: str, inside: Json) -> Json:
    """Return a copy of `value` with `inside` at `pointer`; the containers on the way are copied."""
    if not pointer:
        return inside
    first, slash, rest = pointer[1:].partition("/")
    key = unescaped(first)
    if isinstance(value, list):
        at = int(key)
        return [*value[:at], put(value[at], slash + rest, inside), *value[at + 1 :]]
    return {**value, key: put(value[key], slash + rest, inside)}
