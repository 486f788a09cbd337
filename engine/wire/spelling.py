"""How an answer is spelled that no server gave: an edited one, in the interface of its request.

One JSON body, or a stream of the events that clients of the interface need, with each text in one
piece.  What a neutral message does not hold (reasoning, annotations) is not in it.  Pure.
Rules: CONTRACT.md §16.6.
"""

import base64
import json
from collections.abc import Iterator
from typing import Any, Final

from refold.engine.encoding.canonical import Json
from refold.engine.events.events import ModelAnswered
from refold.engine.wire.parts.exchange import Asked
from refold.engine.wire.parts.framing import FRAMES, frame_of

Event = tuple[str, dict[str, Any] | str]
"""The name of an event (empty: none), and its data."""

_ID: Final = "refold-fork"
_CREATED: Final = 0
"""The time of an answer that nobody gave."""
_ERROR_STATUS: Final = 500
_MESSAGE_STOPS: Final = {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens"}


def spelled(asked: Asked, answered: ModelAnswered) -> dict[str, Json]:
    """Return the one part of the wire of an answer (CONTRACT.md §16.4)."""
    if answered.status == "error":
        return _part(_ERROR_STATUS, "application/json", _json(_error(asked, answered)))
    if asked.streamed:
        return _streamed(asked, list(_EVENTS[asked.api](asked, answered)))
    return _part(200, "application/json", _json(_BODIES[asked.api](asked, answered)))


def _streamed(asked: Asked, events: list[Event]) -> dict[str, Json]:
    match asked.framing:
        case "frames":
            content = b"".join(frame_of(data) for _, data in events)
            part = _part(200, FRAMES, "")
            del part["text"]
            return {
                **part,
                "base64": base64.b64encode(content).decode(),
                "sizes": [len(content)],
            }
        case "array":
            return _part(200, "application/json", _json([data for _, data in events]))
        case "sse":
            return _part(200, "text/event-stream", "".join(map(_sse, events)))


def can_spell(asked: Asked) -> bool:
    """Return whether the answer to a request can be spelled: not of `other`."""
    return asked.api in _BODIES


def _part(status: int, content_type: str, text: str) -> dict[str, Json]:
    headers: dict[str, Json] = {"content-type": content_type}
    if status != 200:  # noqa: PLR2004  # fine
        headers["x-should-retry"] = "false"
    return {
        "status": status,
        "headers": headers,
        "text": text,
        "sizes": [len(text.encode())],
        "at_ms": [0],
        "end": "whole",
    }


def _json(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False)


def _sse(event: Event) -> str:
    name, data = event
    text = data if isinstance(data, str) else _json(data)
    return (f"event: {name}\n" if name else "") + f"data: {text}\n\n"


def _error(asked: Asked, answered: ModelAnswered) -> dict[str, Any]:
    message = str((answered.error or {}).get("message", ""))
    if asked.api == "messages":
        return {"type": "error", "error": {"type": "api_error", "message": message}}
    return {"error": {"message": message, "type": "server_error", "param": None, "code": None}}


def _text(answered: ModelAnswered) -> str:
    content = (answered.message or {}).get("content") or ""
    return content if isinstance(content, str) else _json(content)


def _calls(answered: ModelAnswered) -> list[dict[str, Any]]:
    return list((answered.message or {}).get("tool_calls") or ())


def _arguments(call: dict[str, Any]) -> str:
    """Return a call's arguments as text; those that are no JSON as they are."""
    invalid = call.get("invalid")
    return invalid if isinstance(invalid, str) else _json(call.get("arguments") or {})


# --- chat completions ------------------------------------------------------------------------


def _chat_base(asked: Asked, kind: str) -> dict[str, Any]:
    return {"id": _ID, "object": kind, "created": _CREATED, "model": asked.model}


def _chat_call(call: dict[str, Any]) -> dict[str, Any]:
    function = {"name": call["name"], "arguments": _arguments(call)}
    return {"id": call["id"], "type": "function", "function": function}


def _chat_usage(answered: ModelAnswered) -> dict[str, int]:
    asked, said = answered.usage.input_tokens, answered.usage.output_tokens
    return {"prompt_tokens": asked, "completion_tokens": said, "total_tokens": asked + said}


def _chat_choice(answered: ModelAnswered, holder: str, said: dict[str, Any]) -> dict[str, Any]:
    is_last = holder == "message" or not said
    reason = answered.stop_reason if is_last else None
    return {"index": 0, holder: said, "logprobs": None, "finish_reason": reason}


def _chat_body(asked: Asked, answered: ModelAnswered) -> dict[str, Any]:
    calls = [_chat_call(call) for call in _calls(answered)]
    message: dict[str, Any] = {"role": "assistant", "content": _text(answered) or None}
    message |= {"refusal": None} | ({"tool_calls": calls} if calls else {})
    return {
        **_chat_base(asked, "chat.completion"),
        "choices": [_chat_choice(answered, "message", message)],
        "usage": _chat_usage(answered),
    }


def _chat_events(asked: Asked, answered: ModelAnswered) -> Iterator[Event]:
    base = _chat_base(asked, "chat.completion.chunk")
    first: dict[str, Any] = {"role": "assistant", "content": _text(answered)}
    calls = enumerate(_calls(answered))
    more = [{"tool_calls": [{"index": at, **_chat_call(call)}]} for at, call in calls]
    for delta in (first, *more, {}):
        yield "", {**base, "choices": [_chat_choice(answered, "delta", delta)]}
    options = asked.parameters.get("stream_options")
    if isinstance(options, dict) and options.get("include_usage"):
        yield "", {**base, "choices": [], "usage": _chat_usage(answered)}
    yield "", "[DONE]"


# --- messages --------------------------------------------------------------------------------


def _message(asked: Asked, answered: ModelAnswered, content: list[Json]) -> dict[str, Any]:
    usage = answered.usage
    known = {
        "cache_read_input_tokens": usage.cache_read_tokens,
        "cache_creation_input_tokens": usage.cache_write_tokens,
    }
    cached = {name: count for name, count in known.items() if count is not None}
    fresh = usage.input_tokens - sum(cached.values())
    return {
        "id": _ID,
        "type": "message",
        "role": "assistant",
        "model": asked.model,
        "content": content,
        "stop_reason": _MESSAGE_STOPS.get(answered.stop_reason, answered.stop_reason),
        "stop_sequence": None,
        "usage": {"input_tokens": fresh, "output_tokens": usage.output_tokens, **cached},
    }


def _tool_use(call: dict[str, Any]) -> dict[str, Any]:
    arguments = call.get("arguments") or {}
    return {"type": "tool_use", "id": call["id"], "name": call["name"], "input": arguments}


def _messages_body(asked: Asked, answered: ModelAnswered) -> dict[str, Any]:
    text = _text(answered)
    content: list[Json] = [{"type": "text", "text": text}] if text else []
    return _message(asked, answered, [*content, *map(_tool_use, _calls(answered))])


def _messages_events(asked: Asked, answered: ModelAnswered) -> Iterator[Event]:
    whole = _messages_body(asked, answered)
    begun = {**whole, "content": [], "stop_reason": None}
    yield "message_start", {"type": "message_start", "message": begun}
    for at, block in enumerate(whole["content"]):
        is_text = block["type"] == "text"
        empty: dict[str, Json] = {"text": ""} if is_text else {"input": {}}
        start = {"index": at, "content_block": {**block, **empty}}
        yield "content_block_start", {"type": "content_block_start", **start}
        delta = (
            {"type": "text_delta", "text": block["text"]}
            if is_text
            else {"type": "input_json_delta", "partial_json": _json(block["input"])}
        )
        yield "content_block_delta", {"type": "content_block_delta", "index": at, "delta": delta}
        yield "content_block_stop", {"type": "content_block_stop", "index": at}
    ended = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    usage = {"output_tokens": whole["usage"]["output_tokens"]}
    yield "message_delta", {"type": "message_delta", "delta": ended, "usage": usage}
    yield "message_stop", {"type": "message_stop"}


# --- responses -------------------------------------------------------------------------------


def _response(asked: Asked, answered: ModelAnswered, status: str, output: Json) -> dict[str, Any]:
    said, given = answered.usage.output_tokens, answered.usage.input_tokens
    usage = {
        "input_tokens": given,
        "input_tokens_details": {"cached_tokens": answered.usage.cache_read_tokens or 0},
        "output_tokens": said,
        "output_tokens_details": {"reasoning_tokens": answered.usage.reasoning_tokens or 0},
        "total_tokens": given + said,
    }
    return {
        "id": f"resp_{_ID}",
        "object": "response",
        "created_at": _CREATED,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": asked.model,
        "output": output,
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": usage if status == "completed" else None,
    }


def _items(answered: ModelAnswered) -> list[dict[str, Any]]:
    text = _text(answered)
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    said = {
        "id": f"msg_{_ID}",
        "type": "message",
        "status": "completed",
        "role": "assistant",
        "content": [part],
    }
    return [*([said] if text else []), *map(_function_call, _calls(answered))]


def _function_call(call: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": f"fc_{call['id']}",
        "type": "function_call",
        "status": "completed",
        "call_id": call["id"],
        "name": call["name"],
        "arguments": _arguments(call),
    }


def _responses_body(asked: Asked, answered: ModelAnswered) -> dict[str, Any]:
    return _response(asked, answered, "completed", _items(answered))


def _responses_events(asked: Asked, answered: ModelAnswered) -> Iterator[Event]:
    for number, event in enumerate(_unnumbered(asked, answered)):
        yield event["type"], {**event, "sequence_number": number}


def _unnumbered(asked: Asked, answered: ModelAnswered) -> Iterator[dict[str, Any]]:
    begun = _response(asked, answered, "in_progress", [])
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    for at, item in enumerate(_items(answered)):
        yield from (_said if item["type"] == "message" else _called)(at, item)
    yield {"type": "response.completed", "response": _responses_body(asked, answered)}


def _said(at: int, item: dict[str, Any]) -> Iterator[dict[str, Any]]:
    (part,) = item["content"]
    inside = {"output_index": at, "item_id": item["id"], "content_index": 0}
    begun = {**item, "status": "in_progress", "content": []}
    yield {"type": "response.output_item.added", "output_index": at, "item": begun}
    yield {"type": "response.content_part.added", **inside, "part": {**part, "text": ""}}
    text = part["text"]
    yield {"type": "response.output_text.delta", **inside, "delta": text, "logprobs": []}
    yield {"type": "response.output_text.done", **inside, "text": text, "logprobs": []}
    yield {"type": "response.content_part.done", **inside, "part": part}
    yield {"type": "response.output_item.done", "output_index": at, "item": item}


def _called(at: int, item: dict[str, Any]) -> Iterator[dict[str, Any]]:
    inside = {"output_index": at, "item_id": item["id"]}
    begun = {**item, "status": "in_progress", "arguments": ""}
    yield {"type": "response.output_item.added", "output_index": at, "item": begun}
    whole = item["arguments"]
    yield {"type": "response.function_call_arguments.delta", **inside, "delta": whole}
    done = {"name": item["name"], "arguments": whole}
    yield {"type": "response.function_call_arguments.done", **inside, **done}
    yield {"type": "response.output_item.done", "output_index": at, "item": item}


# --- generate --------------------------------------------------------------------------------


def _generate_body(_asked: Asked, answered: ModelAnswered) -> dict[str, Any]:
    parts: list[Json] = [{"text": text}] if (text := _text(answered)) else []
    for call in _calls(answered):
        made = {"name": call["name"], "args": call.get("arguments") or {}}
        is_ours = call["id"].startswith(f"{call['name']}#")
        parts.append({"functionCall": made if is_ours else {"id": call["id"], **made}})
    usage = answered.usage
    counts = {"promptTokenCount": usage.input_tokens, "candidatesTokenCount": usage.output_tokens}
    reason = "MAX_TOKENS" if answered.stop_reason == "length" else "STOP"
    content = {"role": "model", "parts": parts}
    candidate = {"content": content, "finishReason": reason, "index": 0}
    return {"candidates": [candidate], "usageMetadata": counts}


def _generate_events(asked: Asked, answered: ModelAnswered) -> Iterator[Event]:
    yield "", _generate_body(asked, answered)


_BODIES: Final = {
    "chat": _chat_body,
    "messages": _messages_body,
    "responses": _responses_body,
    "generate": _generate_body,
}
_EVENTS: Final = {
    "chat": _chat_events,
    "messages": _messages_events,
    "responses": _responses_events,
    "generate": _generate_events,
}
