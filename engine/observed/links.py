"""Tells how far a link between a conversation and the call above it is confirmed.

A link that follows from texts or names is provisional until a request of the caller shows the
call's result. A caller that continued without the result, or a command that completed without it,
did not open the conversation. What broke off or still runs keeps its provisional links. Pure.
Rules: CONTRACT.md §16.5.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal

import attrs

from refold.engine.events.call_key import scope_above, scope_of

Standing = Literal["confirmed", "provisional", "dropped"]

_INFERRED: Final = ("prompt", "delegation")
"""Links without an id, a header or a handoff."""


@attrs.define
class Links:
    """The links of one log, as its entries come."""

    _linked: dict[str, tuple[str, str, int]] = attrs.field(factory=dict)
    """By scope: how, the call above, and the entry."""
    _asked: dict[str, int] = attrs.field(factory=dict)
    """By scope: the entry of its last request."""
    _returned: set[str] = attrs.field(factory=set)
    """Calls whose results were shown."""
    _past: set[str] = attrs.field(factory=set)
    """Scopes of shortened conversations: their results are shown nowhere."""
    _is_complete: bool = False

    def take(self, kind: str, call: str, seq: int, data: Mapping[str, Any]) -> None:
        """Take an entry."""
        match kind:
            case "x-refold.conversation":
                self._linked[data["scope"]] = data.get("how", ""), data.get("call", ""), seq
            case "model.asked":
                self._asked[scope_of(call)] = seq
            case "tool.returned":
                self._returned.add(call)
            case "run.finished":
                self._is_complete = data["status"] == "completed"
            case _:
                pass

    def continued(self, scope: str) -> None:
        """Take note that another conversation continues this one."""
        self._past.add(scope)

    def standing(self, scope: str) -> Standing:
        """Return how far the link of a conversation is confirmed, by what has come so far."""
        how, call, began = self._linked.get(scope, ("", "", 0))
        if how not in _INFERRED or call in self._returned:
            return "confirmed"
        above = scope_of(call)
        has_continued = self._asked.get(above, 0) > began
        is_without = (has_continued or self._is_complete) and above not in self._past
        return "dropped" if is_without else "provisional"

    def above(self, scope: str) -> str:
        """Return the scope of the conversation above one, or of the command."""
        return "0" if self.standing(scope) == "dropped" else scope_above(scope)
