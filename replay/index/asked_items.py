"""A program's requests as items that can be compared; divergences use their names.

An item is one request of a program (a call, a timer, a drawn value, a note, a cancellation) with
its identity besides its call key: kind, name, arguments.
"""

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import attrs

from refold.engine.encoding.canonical import Json, encode_key
from refold.engine.events.events import parts_of, scope_of
from refold.replay.difference.pointer_diff import shown

if TYPE_CHECKING:  # who only reads logs loads no loop
    from refold.engine.loop.loop import Timer

_NAMED: Final[dict[str, tuple[str, str]]] = {
    # kind: (the item's kind, the member that names it)
    "tool.called": ("tool", "tool"),
    "model.asked": ("model", "model"),
    "child.started": ("child", ""),
    "child.finished": ("child", ""),
    "timer.fired": ("timer", ""),
    "clock.read": ("clock", ""),
    "value.drawn": ("value", "source"),
    "input.asked": ("input", ""),
    "patch.marked": ("patch", "id"),
    "note.added": ("note", ""),
    "effect.cancelled": ("cancel", "kind"),
    "limit.hit": ("limit", "limit"),
    "session.seeded": ("session", ""),
    "session.restored": ("session", ""),
    "session.changed": ("session", "event"),
}
_ASKED: Final = frozenset(_NAMED) - {"child.finished"}
_MARKS: Final = frozenset({"timer", "cancel"})
"""Kinds without a call ordinal: they may be anywhere among the calls."""
_OF_PLACE: Final = frozenset({"uuid", "random"})
"""Sources of values that follow from the seed and the place."""


@attrs.frozen(eq=False)
class Item:
    """One thing that a program asked for; itself, not equal to others: see `key`."""

    kind: str
    """`tool`, `model`, `child`, `timer`, `clock`, `value`, `input`, `patch`, `note`, `cancel`,
    `limit` or `session`."""
    name: str
    """The name of the tool, the model, the child's agent or program; empty without one."""
    arguments: Json
    call: str
    """Its call key; empty for a look at the clock."""
    seq: int = -1
    """Of its entry in the log; -1 for one that was asked in replay."""

    @functools.cached_property
    def scope(self) -> str:
        """The scope of its call key."""
        return scope_of(self.call)

    @functools.cached_property
    def key(self) -> tuple[str, str, bytes]:
        """Kind, name and arguments: equal for two items with the same request, in any place.

        A value that follows from the place alone is not part of the request: a uuid after an
        inserted call differs, but the request is the same.
        """
        asked = self.arguments
        if self.kind == "value" and self.name in _OF_PLACE and isinstance(asked, dict):
            asked = {name: value for name, value in asked.items() if name != "value"}
        return self.kind, self.name, encode_key(asked)

    @property
    def is_mark(self) -> bool:
        """Whether it has no call ordinal: a timer, or a cancellation."""
        return self.kind in _MARKS

    def as_json(self) -> dict[str, Any]:
        """Return {kind, name, call, arguments}."""
        return {name: getattr(self, name) for name in ("kind", "name", "call", "arguments")}

    def label(self) -> str:
        """Return the item in a few words: `search#3`, `timer 0@2`, `child researcher#1`."""
        return call_label(self.kind, self.name, self.call)


def call_label(kind: str, name: str, call: str) -> str:
    """Return a request in a few words: `search#3`, `timer 0@2`, `child researcher#1`."""
    if kind in ("timer", "clock"):
        return f"{kind} {call}".strip()
    ordinal = parts_of(call)[2]
    words = name if kind == "tool" else f"{kind} {name}".strip()
    return f"{words}#{ordinal}" if ordinal else words


def inside(kind: str, arguments: Json) -> str:
    """Return a request's distinguishing values in parentheses: `(query="x")`."""
    if not isinstance(arguments, Mapping):
        return ""
    match kind:
        case "tool":
            return f"({', '.join(f'{key}={shown(item, 40)}' for key, item in arguments.items())})"
        case "child":
            told = arguments.get("brief") or arguments.get("input")
        case "model":
            added = arguments.get("added")
            if not added:
                return "(no new message)"
            last = added[-1] if isinstance(added, list) else added
            told = (last.get("content") or last) if isinstance(last, Mapping) else last
        case "note" | "input" | "value":
            told = arguments.get({"note": "text", "input": "question"}.get(kind, "name"))
        case "timer":
            length = arguments.get("length_us")
            return f"({length / 1_000_000:g} s)" if length is not None else ""
        case _:
            told = arguments
    return f"({shown(told, 80)})" if told or kind != "value" else ""


def is_asked(kind: str) -> bool:
    """Return whether an entry of this kind is something that a program asked for."""
    return kind in _ASKED


def item_of(kind: str, call: str | None, data: dict[str, Json], seq: int = -1) -> Item | None:
    """Return the item of an entry; `None` for kinds that are not requests.

    A `child.finished` counts as a request if it is the only entry of a rejected start.
    """
    if kind not in _ASKED and not (kind == "child.finished" and "delegation" in data):
        return None
    short, name = named(kind, data)
    return Item(short, name, _arguments(short, data), call or "", seq)


def timer_of(timer: "Timer") -> Item:
    """Return the item of a timer."""
    return Item("timer", "", {"length_us": timer.length_us}, timer.key)


def named(kind: str, data: dict[str, Json]) -> tuple[str, str]:
    """Return an entry's kind as comparisons name it, and the name in its request."""
    short, member = _NAMED.get(kind, (kind if kind[:2] == "x-" else kind.partition(".")[0], ""))
    if short == "child":
        delegation = data.get("delegation") or {}
        return short, str(delegation.get("agent") or delegation.get("program") or "")
    return short, str(data.get(member, "")) if member else ""


def _arguments(kind: str, data: dict[str, Json]) -> Json:
    match kind:
        case "tool":
            return data.get("arguments")
        case "child":
            return data.get("delegation")
        case "timer":
            return {"length_us": data.get("length_us")}
        case "clock" | "cancel":
            return None
        case _:
            return data
