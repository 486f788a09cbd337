"""The OpenAI responses interface, read from outside: requests.

They become the neutral messages of CONTRACT.md §11.1: `instructions` first, and adjacent items of
the assistant joined into one message, as one answer has them. Equivalent forms are: input or
content as a text, or as one part; in an item or part, null or a missing member, empty or missing
`annotations` or `logprobs`, `status: completed` or none; `type: message` or none; the JSON form of
a call's arguments. Members without a neutral form are in `provider.responses`, as the list of the
items. `wire.responses.answer` reads answers. Pure. Rules: CONTRACT.md §16.9.
"""

from collections.abc import Sequence
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

API: Final = "responses"

_ROLES: Final = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
}
"""Neutral roles; any other is `user`."""
_MAIL: Final = "agent_message"
"""An item with a message from a different agent of Codex, not from this one."""
_RESULTS: Final = ("_output", "_response")
"""The ends of the types of items with a tool's result."""
_CALL: Final = {
    "type": "function_call",
    "call_id": is_text,
    "name": is_text,
    "arguments": is_nonblank,
}
_RESULT: Final = {"type": "function_call_output", "call_id": is_text, "output": is_text}
"""Items that neutral messages represent completely."""


def is_shaped(body: dict[str, Any], lists: Lists = NO_LISTS) -> bool:
    """Return whether the members that this interface rests on have its shapes."""
    given = body.get("input")
    if isinstance(given, list) and not all(series_in(lists, "input", given).each(_is_item).values):
        return False
    is_instructed = isinstance(body.get("instructions"), str | None)
    return is_instructed and isinstance(given, list | str | None)


def _is_item(item: Any) -> bool:
    return isinstance(item, dict)


def asked(body: dict[str, Any], lists: Lists = NO_LISTS) -> Asked:
    """Parse a body of the right shape; `lists` has its lists, perhaps partly parsed already."""
    rest = dict(body)
    first: list[dict[str, Any]] = []
    if (given := rest.pop("instructions", None)) is not None:
        said_first = {"role": "system", "content": text_of(given)}
        first.append(said_first if is_text(given) else with_original(said_first, API, given))
    items = rest.pop("input", None) if body.get("input") != [] else []
    if isinstance(items, str):
        items = [{"role": "user", "content": items}]
    said = series_in(lists, "input", items or []).each(_bare_item).grouped(_take_items, first)
    follows = text_of(rest.get("previous_response_id"))
    return asked_with(API, rest, said, lists, follows=follows)


def _take_items(found: list[dict[str, Any]], items: Sequence[dict[str, Any]], at: int) -> int:
    """Add the neutral message that an item is, with its neighbours if all are the assistant's.

    Returns where the next begins.
    """
    role, end = _role(items[at]), at + 1
    if role != "assistant":
        found.append(_message(role, items[at], is_first=not found))
        return end
    while end < len(items) and _role(items[end]) == "assistant":
        end += 1
    found.append(_assistant(items[at:end]))
    return end


def _role(item: dict[str, Any]) -> str:
    """Return the neutral role of an item: calls, reasoning and all else are the assistant's."""
    if "role" in item:
        return _ROLES.get(item["role"], "user") if is_text(item["role"]) else "user"
    kind = item.get("type")
    if kind == _MAIL:
        return "user"
    return "tool" if isinstance(kind, str) and kind.endswith(_RESULTS) else "assistant"


def _bare_item(item: dict[str, Any]) -> dict[str, Any]:
    said: dict[str, Any] = bare(item)
    if said.get("status") == "completed":
        del said["status"]
    if "role" in said:
        if said.get("type") == "message":
            del said["type"]
        kind = "output_text" if said["role"] == "assistant" else "input_text"
        if "content" in said:
            said["content"] = folded(said["content"], kind)
    elif "output" in said:
        said["output"] = folded(said["output"], "input_text")
    return said


def _message(role: str, item: dict[str, Any], *, is_first: bool) -> dict[str, Any]:
    """Return the neutral message of an item that is not the assistant's."""
    if role == "tool":
        return _result(item)
    content = item.get("content")
    message = {"role": role, "content": text_of_content(content)}
    # The first system message without its original is the one of `instructions`.
    is_plain = is_just(item, {"role": role, "content": is_text}) and not (
        role == "system" and is_first
    )
    return message if is_plain else with_original(message, API, [item])


def _result(item: dict[str, Any]) -> dict[str, Any]:
    output = item.get("output")
    call_id = item.get("call_id", item.get("approval_request_id"))
    message = {"role": "tool", "tool_call_id": text_of(call_id), "content": text_of_content(output)}
    return message if is_just(item, _RESULT) else with_original(message, API, [item])


def _assistant(items: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the one neutral message that neighbouring items of the assistant are."""
    texts = [text_of_content(item.get("content")) for item in items if "role" in item]
    message: dict[str, Any] = {"role": "assistant", "content": "".join(texts)}
    if calls := [call for item in items for call in _calls(item)]:
        message["tool_calls"] = calls
    if _are_plain(items):
        return message
    return with_original(message, API, [_rewritten(item) for item in items])


def answer_of(items: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the neutral message that an answer of these items is."""
    return _assistant([_bare_item(item) for item in items])


def _rewritten(item: dict[str, Any]) -> dict[str, Any]:
    """Return an item with the arguments of its call in one notation."""
    if item.get("type") != "function_call" or "arguments" not in item:
        return item
    return {**item, "arguments": plain_json(item["arguments"])}


def _calls(item: dict[str, Any]) -> list[dict[str, Any]]:
    match item.get("type"):
        case "function_call":
            return [call_of(item.get("call_id"), item.get("name"), item.get("arguments", ""))]
        case "custom_tool_call":
            arguments = {"input": text_of(item.get("input"))}
            return [call_of(item.get("call_id"), item.get("name"), arguments)]
        case _:
            return []


def _are_plain(items: Sequence[dict[str, Any]]) -> bool:
    """Return whether text and calls are all of it: at most one text, then calls."""
    has_text = bool(items) and "role" in items[0]
    calls = items[1:] if has_text else items
    if has_text and not _is_plain_text(items[0], is_alone=not calls):
        return False
    return bool(items) and all(is_just(call, _CALL) for call in calls)


def _is_plain_text(item: dict[str, Any], *, is_alone: bool) -> bool:
    content = item.get("content")
    return item.keys() == {"role", "content"} and is_text(content) and (is_alone or content != "")
