"""Spells an answer that no server gave, such as an edited one, in the format of its request.

One JSON body, or a stream of events; or that the request failed.  Pure.  Rules: CONTRACT.md §16.6.
"""

from typing import Any

from refold.engine.encoding.canonical import Json
from refold.engine.events.events import ModelAnswered
from refold.engine.wire.apis import FORMATS
from refold.engine.wire.parts.exchange import Asked, Framing
from refold.engine.wire.parts.framing import FRAMES, frame_of
from refold.engine.wire.parts.kept_answers import body_of
from refold.engine.wire.parts.spelled import SERVER_ERROR, SpelledEvent, json_of, refused_as_openai


def spelled(asked: Asked, answered: ModelAnswered) -> dict[str, Json]:
    """Return the one part of the wire of an answer (CONTRACT.md §16.4)."""
    if answered.status == "error":
        message = str((answered.error or {}).get("message", ""))
        said = json_of(refused(asked, SERVER_ERROR, message))
        return _part(SERVER_ERROR, "application/json", said.encode())
    spells = FORMATS[asked.api]
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
    """Return the body that says that a request failed, in the format of the request."""
    spells = FORMATS.get(asked.api)
    return (spells.refused if spells else refused_as_openai)(status, message)


def _part(status: int, content_type: str, content: bytes) -> dict[str, Json]:
    headers: dict[str, Json] = {"content-type": content_type}
    if status == SERVER_ERROR:
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
