"""How a reply is spelled in each of the interfaces: as one JSON value, or as a stream.

Every function takes a `Reply` and gives what a client of that interface needs, event by event;
nothing here sends a byte (`tests.support.serving`) or chooses a reply (`tests.support.traffic`).
Ids of answers count up, as a provider's differ each time; ids of tool calls are those of the rule.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Any, Final

import attrs

from tests.support.traffic import Call, Refusal, Reply

_CREATED: Final = 1_760_000_000
_PIECE_CHARS: Final = 9
_FLOOD_PIECE: Final = "All work and no play. " * 2979
"""Close to 64 KiB."""

Event = tuple[str, dict[str, Any] | str]
"""The name of an event (empty: none) and its data."""


@attrs.frozen(kw_only=True)
class Spoken:
    """A reply on its way: what each spelling needs besides the reply."""

    reply: Reply
    model: str
    ordinal: int
    usage_asked: bool = False
    flood_mb: int = 0
    """Text in a stream before the reply's own."""

    def pieces(self) -> Iterator[str]:
        """Return the text in the pieces of a stream."""
        for _ in range(self.flood_mb * 16):
            yield _FLOOD_PIECE
        yield from _pieces(self.reply.text)


def _pieces(text: str) -> Iterator[str]:
    return (text[at : at + _PIECE_CHARS] for at in range(0, len(text), _PIECE_CHARS))


# --- chat completions --------------------------------------------------------------------------


def _chat_base(spoken: Spoken, kind: str) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{spoken.ordinal:06}",
        "object": kind,
        "created": _CREATED + spoken.ordinal,
        "model": spoken.model,
        "system_fingerprint": "fp_upstream",
    }


def _chat_usage(reply: Reply) -> dict[str, Any]:
    asked, said = reply.usage
    return {"prompt_tokens": asked, "completion_tokens": said, "total_tokens": asked + said}


def _chat_call(call: Call) -> dict[str, Any]:
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call.id, "type": "function", "function": function}


def _chat_finish(reply: Reply) -> str:
    return "tool_calls" if reply.calls else "stop"


def chat_json(spoken: Spoken) -> dict[str, Any]:
    """Return a chat completion."""
    reply = spoken.reply
    message: dict[str, Any] = {"role": "assistant", "content": reply.text or None, "refusal": None}
    if reply.calls:
        message["tool_calls"] = [_chat_call(call) for call in reply.calls]
    choice = {
        "index": 0,
        "message": message,
        "logprobs": None,
        "finish_reason": _chat_finish(reply),
    }
    return {
        **_chat_base(spoken, "chat.completion"),
        "choices": [choice],
        "usage": _chat_usage(reply),
    }


def chat_events(spoken: Spoken) -> Iterator[Event]:
    """Yield the chunks of a chat completion, and `[DONE]`."""
    base = _chat_base(spoken, "chat.completion.chunk")
    extra = {"usage": None} if spoken.usage_asked else {}
    for delta in _chat_deltas(spoken):
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}
        yield "", {**base, "choices": [choice], **extra}
    last = {"index": 0, "delta": {}, "logprobs": None, "finish_reason": _chat_finish(spoken.reply)}
    yield "", {**base, "choices": [last], **extra}
    if spoken.usage_asked:
        yield "", {**base, "choices": [], "usage": _chat_usage(spoken.reply)}
    yield "", "[DONE]"


def _chat_deltas(spoken: Spoken) -> Iterator[dict[str, Any]]:
    yield {"role": "assistant", "content": "", "refusal": None}
    for piece in spoken.pieces():
        yield {"content": piece}
    for index, call in enumerate(spoken.reply.calls):
        begun = _chat_call(attrs.evolve(call, arguments=""))
        yield {"tool_calls": [{"index": index, **begun}]}
        for piece in _pieces(call.arguments):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


# --- messages ----------------------------------------------------------------------------------


def _message(spoken: Spoken, content: list[dict[str, Any]], stop: str | None) -> dict[str, Any]:
    return {
        "id": f"msg_{spoken.ordinal:06}",
        "type": "message",
        "role": "assistant",
        "model": spoken.model,
        "content": content,
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": {"input_tokens": spoken.reply.usage[0], "output_tokens": spoken.reply.usage[1]},
    }


def _message_stop(reply: Reply) -> str:
    return "tool_use" if reply.calls else "end_turn"


def _tool_use(call: Call) -> dict[str, Any]:
    id_ = call.id.replace("call_", "toolu_", 1)
    return {"type": "tool_use", "id": id_, "name": call.name, "input": json.loads(call.arguments)}


def messages_json(spoken: Spoken) -> dict[str, Any]:
    """Return a message."""
    reply = spoken.reply
    text = [{"type": "text", "text": reply.text}] if reply.text else []
    content = [*text, *(_tool_use(call) for call in reply.calls)]
    return _message(spoken, content, _message_stop(reply))


def messages_events(spoken: Spoken) -> Iterator[Event]:
    """Yield the events of a message."""
    reply = spoken.reply
    begun = _message(spoken, [], None)
    begun["usage"] = {**begun["usage"], "output_tokens": 1}
    yield "message_start", {"type": "message_start", "message": begun}
    yield "ping", {"type": "ping"}
    index = 0
    if reply.text or spoken.flood_mb:
        deltas = ({"type": "text_delta", "text": piece} for piece in spoken.pieces())
        yield from _block(index, {"type": "text", "text": ""}, deltas)
        index += 1
    for at, call in enumerate(reply.calls, start=index):
        pieces = ["", *_pieces(call.arguments)]
        deltas = ({"type": "input_json_delta", "partial_json": piece} for piece in pieces)
        yield from _block(at, {**_tool_use(call), "input": {}}, deltas)
    yield (
        "message_delta",
        {
            "type": "message_delta",
            "delta": {"stop_reason": _message_stop(reply), "stop_sequence": None},
            "usage": {"output_tokens": reply.usage[1]},
        },
    )
    yield "message_stop", {"type": "message_stop"}


def _block(index: int, block: dict[str, Any], deltas: Iterator[dict[str, Any]]) -> Iterator[Event]:
    start = {"type": "content_block_start", "index": index, "content_block": block}
    yield "content_block_start", start
    for delta in deltas:
        delta_event = {"type": "content_block_delta", "index": index, "delta": delta}
        yield "content_block_delta", delta_event
    yield "content_block_stop", {"type": "content_block_stop", "index": index}


# --- responses ---------------------------------------------------------------------------------


def _response(spoken: Spoken, status: str, output: list[dict[str, Any]]) -> dict[str, Any]:
    asked, said = spoken.reply.usage
    usage = {
        "input_tokens": asked,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": said,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": asked + said,
    }
    return {
        "id": f"resp_{spoken.ordinal:06}",
        "object": "response",
        "created_at": _CREATED + spoken.ordinal,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": spoken.model,
        "output": output,
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": usage if status == "completed" else None,
    }


def _said(spoken: Spoken, status: str, parts: list[dict[str, Any]]) -> dict[str, Any]:
    id_ = f"msg_{spoken.ordinal:06}"
    return {
        "id": id_,
        "type": "message",
        "status": status,
        "role": "assistant",
        "content": parts,
    }


def _part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _called(call: Call, status: str) -> dict[str, Any]:
    kind, member, begin = (
        ("custom_tool_call", "input", "ctc_")
        if call.is_custom
        else ("function_call", "arguments", "fc_")
    )
    return {
        "id": call.id.replace("call_", begin, 1),
        "type": kind,
        "status": status,
        "call_id": call.id,
        "name": call.name,
        member: call.arguments if status == "completed" else "",
        **({"namespace": call.namespace} if call.namespace else {}),
    }


def responses_json(spoken: Spoken) -> dict[str, Any]:
    """Return a response."""
    reply = spoken.reply
    text = [_said(spoken, "completed", [_part(reply.text)])] if reply.text else []
    return _response(
        spoken, "completed", [*text, *(_called(call, "completed") for call in reply.calls)]
    )


def responses_events(spoken: Spoken) -> Iterator[Event]:
    """Yield the events of a response, numbered."""
    for number, event in enumerate(_unnumbered(spoken)):
        yield event["type"], {**event, "sequence_number": number}


def _unnumbered(spoken: Spoken) -> Iterator[dict[str, Any]]:
    output: list[dict[str, Any]] = []
    for kind in ("created", "in_progress"):
        yield {"type": f"response.{kind}", "response": _response(spoken, "in_progress", [])}
    if spoken.reply.text or spoken.flood_mb:
        yield from _text_item(spoken, output)
    for call in spoken.reply.calls:
        yield from _call_item(call, output)
    yield {"type": "response.completed", "response": _response(spoken, "completed", output)}


def _text_item(spoken: Spoken, output: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    place = {"output_index": len(output)}
    inside = {**place, "item_id": f"msg_{spoken.ordinal:06}", "content_index": 0}
    begun = _said(spoken, "in_progress", [])
    yield {"type": "response.output_item.added", **place, "item": begun}
    yield {"type": "response.content_part.added", **inside, "part": _part("")}
    for piece in spoken.pieces():
        yield {"type": "response.output_text.delta", **inside, "delta": piece, "logprobs": []}
    text = "".join(spoken.pieces())
    yield {"type": "response.output_text.done", **inside, "text": text, "logprobs": []}
    yield {"type": "response.content_part.done", **inside, "part": _part(text)}
    output.append(_said(spoken, "completed", [_part(text)]))
    yield {"type": "response.output_item.done", **place, "item": output[-1]}


def _call_item(call: Call, output: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    place = {"output_index": len(output)}
    begun, done = _called(call, "in_progress"), _called(call, "completed")
    inside = {**place, "item_id": done["id"]}
    yield {"type": "response.output_item.added", **place, "item": begun}
    for piece in () if call.is_custom else _pieces(call.arguments):
        yield {"type": "response.function_call_arguments.delta", **inside, "delta": piece}
    whole = {"name": call.name, "arguments": call.arguments}
    if not call.is_custom:
        yield {"type": "response.function_call_arguments.done", **inside, **whole}
    output.append(done)
    yield {"type": "response.output_item.done", **place, "item": done}


# --- Gemini ------------------------------------------------------------------------------------


def _generated(spoken: Spoken, parts: list[dict[str, Any]], *, is_last: bool) -> dict[str, Any]:
    read, written = spoken.reply.usage
    counts = {"promptTokenCount": read, "candidatesTokenCount": written}
    finish = {"finishReason": "STOP"} if is_last else {}
    return {
        "candidates": [{"content": {"role": "model", "parts": parts}, "index": 0, **finish}],
        "usageMetadata": {**counts, "totalTokenCount": read + written},
        "modelVersion": spoken.model,
        "responseId": f"gen-{spoken.ordinal:06}",
    }


def _generated_parts(spoken: Spoken, texts: Iterable[str]) -> list[dict[str, Any]]:
    calls = spoken.reply.calls
    made = ({"name": each.name, "args": json.loads(each.arguments)} for each in calls)
    return [*({"text": text} for text in texts), *({"functionCall": each} for each in made)]


def generate_json(spoken: Spoken) -> dict[str, Any]:
    """Return the answer as one value."""
    texts = [spoken.reply.text] if spoken.reply.text else []
    return _generated(spoken, _generated_parts(spoken, texts), is_last=True)


def generate_events(spoken: Spoken) -> Iterator[Event]:
    """Yield the answer part by part."""
    parts = _generated_parts(spoken, spoken.pieces()) or [{"text": ""}]
    for at, part in enumerate(parts, start=1):
        yield "", _generated(spoken, [part], is_last=at == len(parts))


# --- errors ------------------------------------------------------------------------------------


def error_json(api: str, refusal: Refusal) -> dict[str, Any]:
    """Return the body of an error."""
    if api == "messages":
        return {"type": "error", "error": {"type": refusal.kind, "message": refusal.message}}
    if api == "generate":
        told = {"code": refusal.status, "message": refusal.message, "status": refusal.kind.upper()}
        return {"error": told}
    return {
        "error": {
            "message": refusal.message,
            "type": refusal.kind,
            "param": None,
            "code": None,
        }
    }


def error_event(api: str, message: str) -> Event:
    """Return an error as it comes in the middle of a stream."""
    if api == "messages":
        refusal = Refusal(status=529, kind="overloaded_error", message=message)
        return "error", error_json(api, refusal)
    if api == "responses":
        return (
            "error",
            {
                "type": "error",
                "code": "server_error",
                "message": message,
                "param": None,
                "sequence_number": 99,
            },
        )
    return "", error_json(api, Refusal(status=500, kind="server_error", message=message))


def json_text(value: Any) -> str:
    """Return `value` as streams spell it: without spaces, and with all characters as they are."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def sse(event: Event) -> bytes:
    """Return the bytes of one event."""
    name, data = event
    text = data if isinstance(data, str) else json_text(data)
    return (f"event: {name}\n" if name else "").encode() + f"data: {text}\n\n".encode()


JSON_OF: Final = {
    "chat": chat_json,
    "messages": messages_json,
    "responses": responses_json,
    "generate": generate_json,
}
EVENTS_OF: Final = {
    "chat": chat_events,
    "messages": messages_events,
    "responses": responses_events,
    "generate": generate_events,
}
