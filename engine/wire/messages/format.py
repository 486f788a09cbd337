"""Anthropic messages: the row of this format.  Pure.  Rules: CONTRACT.md §16."""

import re
from collections.abc import Iterator
from typing import Any, Final

from refold.engine.encoding.canonical import Json
from refold.engine.events.events import ModelAnswered
from refold.engine.wire.messages import request
from refold.engine.wire.messages.answer import MessagesSpeaker, served
from refold.engine.wire.parts.exchange import Asked
from refold.engine.wire.parts.format import (
    ANTHROPIC,
    ANTHROPIC_VERTEX,
    BEDROCK,
    ID,
    SERVER_ERROR,
    AskedPaths,
    SpelledEvent,
    WireFormat,
    answer_text,
    calls_in,
    json_of,
)

_STOPS: Final = {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens"}
_KINDS: Final = {
    401: "authentication_error", 403: "permission_error", 404: "not_found_error",
    413: "request_too_large", 429: "rate_limit_error", 504: "timeout_error",
    529: "overloaded_error",
}  # fmt: skip
"""The name of an error, by status."""


def _message(asked: Asked, answered: ModelAnswered, content: list[Json]) -> dict[str, Any]:
    usage = answered.usage
    known = {
        "cache_read_input_tokens": usage.cache_read_tokens,
        "cache_creation_input_tokens": usage.cache_write_tokens,
    }
    cached = {name: count for name, count in known.items() if count is not None}
    fresh = usage.input_tokens - sum(cached.values())
    return {
        "id": ID,
        "type": "message",
        "role": "assistant",
        "model": asked.model,
        "content": content,
        "stop_reason": _STOPS.get(answered.stop_reason, answered.stop_reason),
        "stop_sequence": None,
        "usage": {"input_tokens": fresh, "output_tokens": usage.output_tokens, **cached},
    }


def _tool_use(call: dict[str, Any]) -> dict[str, Any]:
    arguments = call.get("arguments") or {}
    return {"type": "tool_use", "id": call["id"], "name": call["name"], "input": arguments}


def body(asked: Asked, answered: ModelAnswered) -> dict[str, Any]:
    """Return the JSON body of an answer."""
    text = answer_text(answered)
    content: list[Json] = [{"type": "text", "text": text}] if text else []
    return _message(asked, answered, [*content, *map(_tool_use, calls_in(answered))])


def events(asked: Asked, answered: ModelAnswered) -> Iterator[SpelledEvent]:
    """Yield the events of an answer that is streamed."""
    whole = body(asked, answered)
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
            else {"type": "input_json_delta", "partial_json": json_of(block["input"])}
        )
        yield "content_block_delta", {"type": "content_block_delta", "index": at, "delta": delta}
        yield "content_block_stop", {"type": "content_block_stop", "index": at}
    ended = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    usage = {"output_tokens": whole["usage"]["output_tokens"]}
    yield "message_delta", {"type": "message_delta", "delta": ended, "usage": usage}
    yield "message_stop", {"type": "message_stop"}


def refused(status: int, message: str) -> dict[str, Any]:
    """Return the body of a failure."""
    usual = "api_error" if status >= SERVER_ERROR else "invalid_request_error"
    kind = _KINDS.get(status, usual)
    return {"type": "error", "error": {"type": kind, "message": message}}


_OF_VERTEX: Final = AskedPaths(
    re.compile(r"/publishers/anthropic/models/(?P<model>[^/]+):(rawPredict|streamRawPredict)\Z"),
)
"""Other publishers at Vertex have formats of their own."""
_FRAMED: Final = "/invoke-with-response-stream"
_OF_BEDROCK: Final = AskedPaths(
    re.compile(r"/model/(?P<model>[^/]+)/invoke(-with-response-stream)?\Z"),
    needs="anthropic_version",
    provider="aws",
    escaped=re.compile(r"%([2-7][0-9A-Fa-f])"),
)
"""Other models at Bedrock have other formats, and bodies without that member."""

FORMAT: Final = WireFormat(
    name=request.API,
    route=ANTHROPIC,
    elsewhere=(ANTHROPIC_VERTEX, BEDROCK),
    places=(AskedPaths(re.compile(r"/messages\Z")), _OF_VERTEX, _OF_BEDROCK),
    conversation="messages",
    is_shaped=request.is_shaped,
    apart=request.without_marks,
    asked=request.asked,
    speaker=lambda _asked: MessagesSpeaker(),
    body=body,
    events=events,
    served=served,
    framing=lambda place: "frames" if place.partition("?")[0].endswith(_FRAMED) else "sse",
    refused=refused,
)
