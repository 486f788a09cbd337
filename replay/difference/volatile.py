"""The event fields that hold only time or place, and such parts of messages of errors.

The list is derived from the engine's own, which the data digest follows (CONTRACT.md §6.2): a field
is volatile here if and only if it is there. `meta` is never compared, so it needs no list.
`replay.compare.measured` has the values that tools and notes themselves declare to vary.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from refold.engine.events.events import KINDS, TAILS, UNDIGESTED

SPENT: Final = frozenset({"model_tokens", "cost_usd"})
"""Caps that a run shares with its children, each of which is granted a part of the rest."""
_WALL_TIME: Final = "timeout_seconds"


def _tail(kind: str) -> tuple[str, frozenset[str]]:
    """Return the member that holds the tail of `kind` (empty: the data itself), and its fields."""
    first = TAILS[kind]
    for holder, of in (("", KINDS[kind]), *_members(KINDS[kind])):
        names = [field.name for field in attrs.fields(of)]
        if first in names:
            return holder, frozenset(names[names.index(first) :])
    raise LookupError(f"{kind} has no field {first}")


def _members(event: type) -> list[tuple[str, type]]:
    fields = attrs.fields(event)
    return [(field.name, field.type) for field in fields if attrs.has(field.type or object)]


_TAILS: Final = {kind: _tail(kind) for kind in TAILS}


def is_volatile(kind: str) -> bool:
    """Return whether entries of `kind` are left out whole."""
    return kind in UNDIGESTED


def stable(kind: str, data: dict[str, Any]) -> dict[str, Any]:
    """Return the data of an entry without its volatile fields; `data` itself if it has none."""
    if kind in _TAILS:
        holder, names = _TAILS[kind]
        if not holder:
            return _without(data, names)
        inside = data.get(holder)
        return data | {holder: _without(inside, names)} if isinstance(inside, dict) else data
    match kind:
        case "limit.hit" if data.get("limit") == _WALL_TIME:
            return _without(data, frozenset({"observed"}))
        case _:
            return data


def without_rest(started: dict[str, Any], limits: Mapping[str, Any]) -> dict[str, Any]:
    """Return the data of a child's start without the caps that are parts of its parent's.

    `limits` are its parent's. What is left of them hangs on which run spent first. `started` is the
    data of `run.started` or `child.started`.
    """
    rest = frozenset(SPENT & limits.keys())
    match started:
        case {"limits": dict(caps)}:
            return started | {"limits": _without(caps, rest)}
        case {"delegation": dict(asked)}:
            return started | {"delegation": without_rest(asked, limits)}
    return started


def _without(data: dict[str, Any], names: frozenset[str]) -> dict[str, Any]:
    return {name: value for name, value in data.items() if name not in names}


_PLACED: Final = ("stuck", "spinning", "unending", "outside_loop")
"""Codes of errors whose message names files and lines of the program."""
_PLACE: Final = re.compile(r"(?:/[^\s:]*/)?([^\s/:]+):\d+")
_ADDRESS: Final = re.compile(r"\bat 0x[0-9a-fA-F]+")
_OF_CODE: Final = re.compile(r"\b(running|defined|created) at (?:[^:>\n]*[/\\])?([^:>/\\\n]+):\d+")
"""Where a task or coroutine is, in the texts of asyncio."""


def unplaced(message: str, code: str = "") -> str:
    """Return an error's message without addresses and line numbers.

    Another process has other addresses, and an edit above a line moves it; neither changes anything
    else (CONTRACT.md §12.2).
    """
    message = _OF_CODE.sub(r"\1 at \2", _ADDRESS.sub("at 0x", message))
    return _PLACE.sub(r"\1", message) if code in _PLACED else message


def without_places(
    data: dict[str, Any], cleaned: Callable[[str, str], str] = unplaced
) -> dict[str, Any]:
    """Return an end or a result with its error's message `cleaned`; `data` itself without one."""
    error = data.get("error")
    if not isinstance(error, dict) or not isinstance(error.get("message"), str):
        return data
    return data | {"error": error | {"message": cleaned(error["message"], error.get("code", ""))}}
