"""OpenAI responses: the row of this format.  Pure.  Rules: CONTRACT.md §16."""

import re
from collections.abc import Iterator
from typing import Any, Final

from refold.engine.encoding.canonical import Json
from refold.engine.events.events import ModelAnswered
from refold.engine.wire.parts.exchange import Asked
from refold.engine.wire.parts.format import (
    CREATED,
    ID,
    OPENAI,
    AskedPaths,
    SpelledEvent,
    WireFormat,
    answer_text,
    arguments_in,
    calls_in,
)
from refold.engine.wire.responses import request
from refold.engine.wire.responses.answer import ResponsesSpeaker, served


def _response(asked: Asked, answered: ModelAnswered, status: str, output: Json) -> dict[str, Any]:
    counts = answered.usage
    said, given = counts.output_tokens, counts.input_tokens
    cached = {
        "cached_tokens": counts.cache_read_tokens or 0,
        "cache_write_tokens": counts.cache_write_tokens or 0,  # wanted since openai 3
    }
    usage = {
        "input_tokens": given,
        "input_tokens_details": cached,
        "output_tokens": said,
        "output_tokens_details": {"reasoning_tokens": counts.reasoning_tokens or 0},
        "total_tokens": given + said,
    }
    return {
        "id": f"resp_{ID}",
        "object": "response",
        "created_at": CREATED,
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
    text = answer_text(answered)
    part: dict[str, Any] = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    if answered.stop_reason == "refusal":
        part = {"type": "refusal", "refusal": text}
    said = {
        "id": f"msg_{ID}",
        "type": "message",
        "status": "completed",
        "role": "assistant",
        "content": [part],
    }
    return [*([said] if text else []), *map(_function_call, calls_in(answered))]


def _function_call(call: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": f"fc_{call['id']}",
        "type": "function_call",
        "status": "completed",
        "call_id": call["id"],
        "name": call["name"],
        "arguments": arguments_in(call),
    }


def body(asked: Asked, answered: ModelAnswered) -> dict[str, Any]:
    """Return the JSON body of an answer."""
    return _response(asked, answered, "completed", _items(answered))


def events(asked: Asked, answered: ModelAnswered) -> Iterator[SpelledEvent]:
    """Yield the events of an answer that is streamed."""
    for number, event in enumerate(_unnumbered(asked, answered)):
        yield event["type"], {**event, "sequence_number": number}


def _unnumbered(asked: Asked, answered: ModelAnswered) -> Iterator[dict[str, Any]]:
    empty = _response(asked, answered, "in_progress", [])
    yield {"type": "response.created", "response": empty}
    yield {"type": "response.in_progress", "response": empty}
    for at, item in enumerate(_items(answered)):
        is_said = item["type"] == "message"
        nothing: dict[str, Any] = {"content": []} if is_said else {"arguments": ""}
        begun = {**item, "status": "in_progress", **nothing}
        yield {"type": "response.output_item.added", "output_index": at, "item": begun}
        yield from (_content_parts if is_said else _called)(at, item)
        yield {"type": "response.output_item.done", "output_index": at, "item": item}
    yield {"type": "response.completed", "response": body(asked, answered)}


def _content_parts(at: int, item: dict[str, Any]) -> Iterator[dict[str, Any]]:
    (part,) = item["content"]
    inside = {"output_index": at, "item_id": item["id"], "content_index": 0}
    kind, member = part["type"], "refusal" if part["type"] == "refusal" else "text"
    text: str = part[member]
    more: dict[str, Json] = {} if member == "refusal" else {"logprobs": []}
    yield {"type": "response.content_part.added", **inside, "part": {**part, member: ""}}
    yield {"type": f"response.{kind}.delta", **inside, "delta": text, **more}
    yield {"type": f"response.{kind}.done", **inside, member: text, **more}
    yield {"type": "response.content_part.done", **inside, "part": part}


def _called(at: int, item: dict[str, Any]) -> Iterator[dict[str, Any]]:
    inside = {"output_index": at, "item_id": item["id"]}
    whole = item["arguments"]
    yield {"type": "response.function_call_arguments.delta", **inside, "delta": whole}
    done = {"name": item["name"], "arguments": whole}
    yield {"type": "response.function_call_arguments.done", **inside, **done}


_ONE: Final = r"/responses/(?P<id>resp_[^/]+)"

FORMAT: Final = WireFormat(
    name=request.API,
    route=OPENAI,
    places=(
        AskedPaths(re.compile(r"/responses\Z")),
        AskedPaths(re.compile(rf"{_ONE}\Z"), method="GET"),
        AskedPaths(re.compile(rf"{_ONE}/cancel\Z")),
    ),
    conversation="input",
    is_shaped=request.is_shaped,
    asked=request.asked,
    speaker=lambda _asked: ResponsesSpeaker(),
    body=body,
    events=events,
    served=served,
)
