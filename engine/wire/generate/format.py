"""Gemini generateContent: the row of this format.  Pure.  Rules: CONTRACT.md §16."""

import re
from collections.abc import Iterator
from typing import Any, Final

from refold.engine.encoding.canonical import Json
from refold.engine.events.events import ModelAnswered
from refold.engine.wire.generate import request
from refold.engine.wire.generate.answer import GenerateSpeaker, served
from refold.engine.wire.parts.exchange import Asked
from refold.engine.wire.parts.format import (
    GOOGLE,
    GOOGLE_VERTEX,
    AskedPaths,
    SpelledEvent,
    WireFormat,
    answer_text,
    calls_in,
)

_REASONS: Final = {"length": "MAX_TOKENS", "refusal": "SAFETY"}
_STATUSES: Final = {
    400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 503: "UNAVAILABLE", 504: "DEADLINE_EXCEEDED",
}  # fmt: skip
"""The name of an error, by status."""


def body(_asked: Asked, answered: ModelAnswered) -> dict[str, Any]:
    """Return the JSON body of an answer."""
    parts: list[Json] = [{"text": text}] if (text := answer_text(answered)) else []
    for call in calls_in(answered):
        made = {"name": call["name"], "args": call.get("arguments") or {}}
        is_ours = call["id"].startswith(f"{call['name']}#")
        parts.append({"functionCall": made if is_ours else {"id": call["id"], **made}})
    usage = answered.usage
    counts = {"promptTokenCount": usage.input_tokens, "candidatesTokenCount": usage.output_tokens}
    reason = _REASONS.get(answered.stop_reason, "STOP")
    content = {"role": "model", "parts": parts}
    candidate = {"content": content, "finishReason": reason, "index": 0}
    return {"candidates": [candidate], "usageMetadata": counts}


def events(asked: Asked, answered: ModelAnswered) -> Iterator[SpelledEvent]:
    """Yield the events of an answer that is streamed."""
    yield "", body(asked, answered)


def refused(status: int, message: str) -> dict[str, Any]:
    """Return the body of a failure."""
    name = _STATUSES.get(status, "UNKNOWN")
    return {"error": {"code": status, "message": message, "status": name}}


FORMAT: Final = WireFormat(
    name=request.API,
    route=GOOGLE,
    elsewhere=(GOOGLE_VERTEX,),
    places=(
        AskedPaths(
            re.compile(r"(?:/(?P<model>[^/:]+))?:(generateContent|streamGenerateContent)\Z"),
        ),
    ),
    is_shaped=request.is_shaped,
    apart=request.without_ids,
    asked=request.asked,
    speaker=GenerateSpeaker,
    body=body,
    events=events,
    served=served,
    framing=lambda place: "sse" if "alt=sse" in place.partition("?")[2] else "array",
    refused=refused,
)
