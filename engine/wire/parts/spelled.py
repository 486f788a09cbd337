"""Shared parts for encoding an answer that no server sent. Pure. Rules: CONTRACT.md §16.6."""

import json
from typing import Any, Final

from refold.engine.encoding.canonical import Json
from refold.engine.events.events import ModelAnswered

SpelledEvent = tuple[str, dict[str, Any] | str]
"""The name of an event (empty: none), and its data."""

ID: Final = "refold-fork"
CREATED: Final = 0
"""The time of an answer that nobody gave."""
SERVER_ERROR: Final = 500
"""The default status of an error answer."""


_OF_OPENAI: Final = {
    401: ("invalid_request_error", "invalid_api_key"),
    404: ("invalid_request_error", "model_not_found"),
    429: ("requests", "rate_limit_exceeded"),
}
"""By status: an error's type and code."""


def refused_as_openai(status: int, message: str) -> dict[str, Any]:
    """Return the body of a failure as OpenAI's servers spell it, and many that follow them."""
    usual = "server_error" if status >= SERVER_ERROR else "invalid_request_error"
    kind, code = _OF_OPENAI.get(status, (usual, None))
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def json_of(value: Json) -> str:
    """Return JSON text, members in their order."""
    return json.dumps(value, ensure_ascii=False)


def answer_text(answered: ModelAnswered) -> str:
    """Return the text of an answer."""
    content = (answered.message or {}).get("content") or ""
    return content if isinstance(content, str) else json_of(content)


def calls_in(answered: ModelAnswered) -> list[dict[str, Any]]:
    """Return the neutral tool calls of an answer."""
    return list((answered.message or {}).get("tool_calls") or ())


def arguments_in(call: dict[str, Any]) -> str:
    """Return a call's arguments as text; invalid JSON unchanged."""
    invalid = call.get("invalid")
    return invalid if isinstance(invalid, str) else json_of(call.get("arguments") or {})
