"""Tells how far a link between a conversation and the call above it is confirmed.

A link that follows from texts or names is provisional until a request of the caller shows the
call's result. A caller that continued without the result, or a command that completed without it,
did not open the conversation. What broke off or still runs keeps its provisional links. A link that
is found by the result alone is known late, so nothing acts on it.

Delegating tool calls of other frameworks are recognised by their names: a convention is a
framework's name for such tools. Some frameworks let a model write its calls as text, and write the
result below (ReAct). `observed.openers` uses other evidence for the opener of a conversation. Pure.
Rules: CONTRACT.md §16.5.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

import attrs

from refold.engine.events import events
from refold.engine.events.events import scope_above, scope_of
from refold.engine.observed.profile import NO_PROFILE, Profile
from refold.engine.wire.parts.exchange import METHOD
from refold.engine.wire.parts.notation import holds, object_in

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
            case events.CONVERSATION:
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


_NAMES: Final = (
    "subagent_type", "agent_name", "subagent_name", "subagent", "to_agent", "agent", "coworker",
    "co_worker", "member_id", "task_name", "name", "description",
)  # fmt: skip
"""Arguments that may have the agent's name; the first present is used."""
_NAMED_BY: Final = ("subagent_type", "subagent_name", "subagent")
"""Those that no other tool has (deepagents, pydantic-deep, others)."""
_CONVENTIONS: Final = (
    r"transfer_to_agent",  # Google ADK
    r"transfer_to_(.+)",  # OpenAI Agents
    r"Task|Agent",  # Claude
    r"(?i:delegate[_ ]work[_ ]to[_ ]co-?worker)",  # crewAI
    r"(?i:ask[_ ]question[_ ]to[_ ]co-?worker)",
    r"handoff",  # LlamaIndex
    r"delegate_task_to_members?",  # agno
    r"delegate_(?:task_)?(?:to_)?(.+)",  # others
)
"""Each is the whole name of a delegating tool.

The agent's name is the argument `agent` if there is one, else the group, else another argument,
else the tool's name.
"""


def delegated(tool: str, arguments: Mapping[str, Any], profile: Profile = NO_PROFILE) -> str | None:
    """Return whom a call hands work to; `None` if neither profile nor convention knows it."""
    if tool in profile.hands_over:
        return _named(arguments, (*profile.hands_over[tool], *_NAMES)) or tool
    for expression in _CONVENTIONS:
        if (found := re.fullmatch(expression, tool)) is not None:
            names = ("agent",) if found.groups() else _NAMES
            return _named(arguments, names) or (found[1] if found.groups() else tool)
    return _named(arguments, _NAMED_BY) or None


def _named(arguments: Mapping[str, Any], names: Iterable[str]) -> str:
    """Return the first of these arguments that is a text; empty for none."""
    said = (arguments.get(name) for name in names)
    return next((each for each in said if isinstance(each, str) and each), "")


_ACTION: Final = re.compile(
    r"^Action:[ \t]*(.+?)[ \t]*\nAction Input:[ \t]*(\{.*?\})[ \t]*$", re.MULTILINE
)
_OBSERVATION: Final = "\nObservation:"


def written(content: Any) -> tuple[str, dict[str, Any]] | None:
    """Return name and arguments of a call that a model wrote as text, if it hands work over."""
    if not isinstance(content, str) or "Action:" not in content:
        return None
    found = _ACTION.search(content)
    arguments = object_in(found[2]) if found is not None else None
    if found is None or arguments is None or not holds(arguments):
        return None
    return (found[1], arguments) if delegated(found[1], arguments) is not None else None


def observation_in(content: Any) -> str | None:
    """Return the last result written below a call, or `None`."""
    if not isinstance(content, str):
        return None
    _, mark, said = f"\n{content}".rpartition(_OBSERVATION)
    return said.strip() if mark else None
