"""The OpenAI chat-completions interface, read from outside: requests.

They become the neutral messages of CONTRACT.md §11.1. Equivalent forms are: a text, or one text
part; in a message, null or a missing member, empty or missing `annotations` or `tool_calls`; in an
assistant's message, missing or empty content; the JSON form of a call's arguments, and its `index`
if it equals its position. Members without a neutral form are in `provider.chat`. `wire.chat.answer`
reads answers. Pure. Rules: CONTRACT.md §16.9.
"""

from typing import Any, Final

from refold.engine.wire.parts.exchange import Asked, asked_with
from refold.engine.wire.parts.notation import (
    bare,
    call_of,
    folded,
    is_just,
    is_nonblank,
    is_text,
    plain_json,
    text_of,
    text_of_content,
    with_original,
)
from refold.engine.wire.parts.series import NO_LISTS, Lists, series_in

API: Final = "chat"

_ROLES: Final = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}
"""Neutral roles; any other is `user`."""
_MEMBERS: Final = {
    "system": {"role", "content"},
    "user": {"role", "content"},
    "assistant": {"role", "content", "tool_calls"},
    "tool": {"role", "content", "tool_call_id"},
}
"""The members with a neutral form."""
_CALL: Final = {
    "id": is_text,
    "type": "function",
    "function": {"name": is_text, "arguments": is_nonblank},
}
"""A call that its neutral form represents completely."""


def is_shaped(body: dict[str, Any], lists: Lists = NO_LISTS) -> bool:
    """Return whether the members that this interface rests on have its shapes."""
    messages = body.get("messages")
    return isinstance(messages, list) and all(
        series_in(lists, "messages", messages).each(_is_message).values
    )


def _is_message(message: Any) -> bool:
    return isinstance(message, dict) and isinstance(message.get("role"), str)


def asked(body: dict[str, Any], lists: Lists = NO_LISTS) -> Asked:
    """Parse a body of the right shape; `lists` has its lists, perhaps partly parsed already."""
    rest = dict(body)
    said = series_in(lists, "messages", rest.pop("messages")).each(message_of)
    return asked_with(API, rest, said, lists)


def message_of(message: dict[str, Any]) -> dict[str, Any]:
    """Return the neutral message that a message of this interface is."""
    role = _ROLES.get(message["role"], "user") if is_text(message.get("role")) else "user"
    said = _shortest_message(message, is_assistant=role == "assistant")
    neutral: dict[str, Any] = {"role": role, "content": _words_of(said)}
    if role == "assistant" and (calls := _calls(said)):
        neutral["tool_calls"] = calls
    if role == "tool":
        neutral["tool_call_id"] = text_of(said.get("tool_call_id", said.get("name")))
    if _is_plain(said, role):
        return neutral
    return with_original(neutral, API, said)


def _shortest_message(message: dict[str, Any], *, is_assistant: bool) -> dict[str, Any]:
    """Return a copy of a message in its shortest notation, arguments of calls in one."""
    said: dict[str, Any] = bare(message)
    if "content" in said:
        said["content"] = folded(said["content"], "text")
        if is_assistant and said["content"] == "":
            del said["content"]
    if calls := _raw_calls(said):
        said["tool_calls"] = [_bare_call(call, place) for place, call in enumerate(calls)]
    return said


def _raw_calls(said: dict[str, Any]) -> list[Any]:
    calls = said.get("tool_calls")
    return calls if isinstance(calls, list) else []


def _words_of(said: dict[str, Any]) -> str:
    return text_of_content(said.get("content")) or text_of(said.get("refusal"))


def _bare_call(call: Any, place: int) -> Any:
    if not isinstance(call, dict):
        return call
    found = bare(call)
    if found.get("index") == place and type(found["index"]) is int:
        del found["index"]
    for member in ("function", "custom"):
        if member in found:
            found[member] = bare(found[member])
    function = found.get("function")
    if isinstance(function, dict) and "arguments" in function:
        function["arguments"] = plain_json(function["arguments"])
    return found


def _calls(said: dict[str, Any]) -> list[dict[str, Any]]:
    found = [_call(call) for call in _raw_calls(said) if isinstance(call, dict)]
    if isinstance(old := said.get("function_call"), dict):
        found.append(call_of(old.get("name"), old.get("name"), old.get("arguments")))
    return [call for call in found if call["name"]]  # Snowflake has one without beside texts


def _call(call: dict[str, Any]) -> dict[str, Any]:
    function, custom = call.get("function"), call.get("custom")
    if isinstance(function, dict):
        return call_of(call.get("id"), function.get("name"), function.get("arguments", ""))
    if isinstance(custom, dict):
        return call_of(call.get("id"), custom.get("name"), {"input": text_of(custom.get("input"))})
    return call_of(call.get("id"), call.get("type"), {})


def _is_plain(said: dict[str, Any], role: str) -> bool:
    """Return whether the neutral message represents it completely."""
    return (
        said.get("role") == role
        and said.keys() <= _MEMBERS[role]
        and is_text(said.get("content", "" if role == "assistant" else None))
        and (role != "tool" or is_text(said.get("tool_call_id")))
        and all(is_just(call, _CALL) for call in _raw_calls(said))
        and isinstance(said.get("tool_calls", []), list)
    )
