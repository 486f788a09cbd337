"""Tells how far a link between a conversation and the call above it is confirmed.

A link that follows from texts or names is provisional until a request of the caller shows the
call's result. A caller that continued without the result, or a command that completed without it,
did not open the conversation. What broke off or still runs keeps its provisional links. A link that
is found by the result alone is known late, so nothing acts on it. Pure.
Rules: CONTRACT.md §16.5.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal

import attrs

from refold.engine.events.call_key import scope_above, scope_of
from refold.engine.wire.parts.exchange import METHOD

Standing = Literal["confirmed", "provisional", "dropped"]

_INFERRED: Final = ("prompt", "delegation")
"""Links without an id, a header or a handoff."""
RESULT: Final = "result"
"""A link that the result of the call shows: it holds the whole answer of the conversation."""


@attrs.define
class Links:
    """The links of one log, as its entries come."""

    _linked: dict[str, tuple[str, str, int]] = attrs.field(factory=dict)
    """By scope: how, the call above, and the entry."""
    _asked: dict[str, int] = attrs.field(factory=dict)
    """By scope: the entry of its last request."""
    _returned: set[str] = attrs.field(factory=set)
    """Calls whose results were shown."""
    past: set[str] = attrs.field(factory=set)
    """Scopes of conversations that continue under another one: their results are shown nowhere."""
    _last: dict[str, int] = attrs.field(factory=dict)
    """By scope: its last entry."""
    _is_complete: bool = False

    def take(
        self, kind: str, call: str, seq: int, data: Mapping[str, Any], cause: int | None = None
    ) -> None:
        """Take an entry."""
        match kind:
            case "x-refold.conversation":
                self._linked[data["scope"]] = data.get("how", ""), data.get("call", ""), seq
                if data.get("how") == "continues":
                    self.past.update(each for each, last in self._last.items() if last == cause)
            case "model.asked" if METHOD not in data.get("parameters", ()):
                self._asked[scope_of(call)] = seq
            case "tool.returned":
                self._returned.add(call)
            case "run.finished":
                self._is_complete = data["status"] == "completed"
            case _:
                pass
        if call:
            self._last[scope_of(call)] = seq

    def standing(self, scope: str) -> Standing:
        """Return how far the link of a conversation is confirmed, by what has come so far."""
        how, call, began = self._linked.get(scope, ("", "", 0))
        if how not in _INFERRED or call in self._returned:
            return "confirmed"
        above = scope_of(call)
        has_continued = self._asked.get(above, 0) > began
        is_without = (has_continued or self._is_complete) and above not in self.past
        return "dropped" if is_without else "provisional"

    def above(self, scope: str) -> str:
        """Return the scope of the conversation above one, or of the command."""
        how, call, _ = self._linked.get(scope, ("", "", 0))
        if how == RESULT:
            return scope_of(call)
        return "0" if self.standing(scope) == "dropped" else scope_above(scope)
