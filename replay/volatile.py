"""Which fields of an event say when or where, and not what happened.

The one registry that diffs and snapshots share.  It is derived from the engine's own list, which
the data digest follows (CONTRACT.md §6.2): a field is volatile here if and only if it is there.
`meta` is never looked at, so it needs no list.  Beyond it stand only the measured members of what
delegation tools say (`_MEASURED`): they reach the model, so digests keep them; two live runs always
differ in them, so a diff would say nothing else.
"""

import re
from typing import Any, Final

import attrs

from refold.engine.events import KINDS, TAILS, UNDIGESTED

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
        case "tool.returned" if _is_told(data.get("result")):
            return data | {"result": _without(data["result"], _MEASURED)}
        case "note.added" if (
            isinstance(data.get("data"), dict) and "correlation_id" in data["data"]
        ):
            return data | {"data": _without(data["data"], _MEASURED)}
        case _:
            return data


_MEASURED: Final = frozenset({"duration_ms", "started_at", "correlation_id"})
"""What delegation tools tell of time and identity: in their notes, and to the model."""

_TOLD: Final = frozenset({"success", "summary", "artifacts", "error", "timed_out", "duration_ms"})
_TOLD_DURATION: Final = re.compile(
    r'(?<="timed_out":true,"duration_ms":)\d+|(?<="timed_out":false,"duration_ms":)\d+'
)


def _is_told(result: Any) -> bool:
    """Return whether a result is that of a delegation tool which tells how long it took."""
    return isinstance(result, dict) and result.keys() == _TOLD


def stable_messages(messages: Any) -> Any:
    """Return messages without the durations that a delegation tool told the model."""
    if not isinstance(messages, list):
        return messages
    return [
        message | {"content": _TOLD_DURATION.sub("0", message["content"])}
        if isinstance(message, dict)
        and message.get("role") == "tool"
        and isinstance(message.get("content"), str)
        else message
        for message in messages
    ]


def _without(data: dict[str, Any], names: frozenset[str]) -> dict[str, Any]:
    return {name: value for name, value in data.items() if name not in names}
