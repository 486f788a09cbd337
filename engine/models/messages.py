"""Checks that messages have the neutral shape, before a model is asked.

Used by the clients and by scripts, so that a test finds what a provider would refuse. Messages of a
record, and those for a program's own models, are not checked. Rules: CONTRACT.md §11.5.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from refold.engine.encoding.canonical import shown
from refold.engine.encoding.strict import nearest
from refold.engine.errors import ModelError
from refold.engine.wire.parts.notation import short

_ROLES: Final = ("system", "user", "assistant", "tool")
_NEEDED: Final = {"assistant": (), "tool": ("content", "tool_call_id")}
"""Members that a message needs, by its role; only an assistant may say nothing."""


def check_messages(model: str, messages: Sequence[Mapping[str, Any]]) -> None:
    """Refuse messages, and tool calls in them, that lack a member; and no message at all.

    Raises:
        ModelError: `messages`: one does, or there is none.
    """
    if not messages:
        raise ModelError(model, "there is no message to answer: the list is empty", "messages")
    for message in messages:
        role = message.get("role")
        if role not in _ROLES:
            found = str(message.get("role", ""))
            there = f"expected system, user, assistant or tool{nearest(found, _ROLES)}"
            why = f"unknown role {short(repr(found))}: {there}"
            raise ModelError(model, why, "messages")
        kind = "tool message" if role == "tool" else "message"
        _check(model, kind, message, _NEEDED.get(role, ("content",)))
        content = message.get("content")
        if not isinstance(content, str | list | None):
            why = f"the content of a {role} message must be a string or a list of parts"
            raise ModelError(model, f"{why}; found {shown(content)}", "messages")
        for call in message.get("tool_calls") or ():
            _check(model, "tool call", call, ("id", "name", "arguments"))


def _check(model: str, what: str, found: Mapping[str, Any], needed: Iterable[str]) -> None:
    for name in needed:
        if name not in found:
            meant = " (the id of the call that it answers)" if name == "tool_call_id" else ""
            said = f"a {what} has no {name}{meant}, only {short(', '.join(found))}"
            raise ModelError(model, said, "messages")
