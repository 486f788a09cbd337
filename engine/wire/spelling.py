"""Spells an answer that no server gave, such as an edited one, in the format of its request.

One JSON body, or a stream of events; or that the request failed.  Pure.  Rules: CONTRACT.md §16.6.
"""

import re
from typing import Any, Final

from refold.engine.encoding.canonical import Json
from refold.engine.events.events import ModelAnswered
from refold.engine.wire.apis import FORMATS
from refold.engine.wire.parts.exchange import Asked, Framing
from refold.engine.wire.parts.format import SERVER_ERROR, SpelledEvent, json_of, refused_as_openai
from refold.engine.wire.parts.framing import FRAMES, frame_of
from refold.engine.wire.parts.kept_answers import body_of

HTTP_ERROR: Final = re.compile(r"http_([45][0-9]{2})")
"""The code of an answer that failed with a status."""
_NOT_RECORDED: Final = {"type": "refold_not_recorded", "code": "not_recorded"}


def spelled(asked: Asked, answered: ModelAnswered) -> dict[str, Json]:
    """Return the one part of the wire of an answer (CONTRACT.md §16.4)."""
    spells = FORMATS[asked.api]
    if answered.status == "error":
        error = answered.error or {}
        found = HTTP_ERROR.fullmatch(str(error.get("code")))
        status = int(found[1]) if found is not None else SERVER_ERROR
        said = json_of(spells.refused(status, str(error.get("message", ""))))
        return _part(status, "application/json", said.encode(), may_retry=found is not None)
    if asked.streamed:
        return _streamed(spells.framing(asked.place), list(spells.events(asked, answered)))
    return _part(200, "application/json", json_of(spells.body(asked, answered)).encode())


def _streamed(framing: Framing, events: list[SpelledEvent]) -> dict[str, Json]:
    match framing:
        case "frames":
            return _part(200, FRAMES, b"".join(frame_of(data) for _, data in events))
        case "array":
            whole = json_of([data for _, data in events])
            return _part(200, "application/json", whole.encode())
        case "sse":
            return _part(200, "text/event-stream", "".join(map(_sse, events)).encode())


def can_spell(asked: Asked) -> bool:
    """Return whether the answer to a request can be spelled: not of `other`."""
    return asked.api in FORMATS


def refused(asked: Asked, status: int, message: str) -> dict[str, Any]:
    """Return the body of Refold's refusal of a request, in the format of the request."""
    spells = FORMATS.get(asked.api)
    body = (spells.refused if spells else refused_as_openai)(status, message)
    if "param" in (body.get("error") or ()):  # as OpenAI's
        body["error"] = {"message": message, **_NOT_RECORDED}
    return body


def _part(
    status: int, content_type: str, content: bytes, *, may_retry: bool = True
) -> dict[str, Json]:
    headers: dict[str, Json] = {"content-type": content_type}
    if not may_retry:
        headers["x-should-retry"] = "false"
    return {
        "status": status,
        "headers": headers,
        **body_of(content),
        "sizes": [len(content)],
        "at_ms": [0],
        "end": "whole",
    }


def _sse(event: SpelledEvent) -> str:
    name, data = event
    text = data if isinstance(data, str) else json_of(data)
    return (f"event: {name}\n" if name else "") + f"data: {text}\n\n"
