"""Messages and tools in the shapes of OpenTelemetry's conventions for generative AI.

Neutral messages (CONTRACT.md §11.1) and definitions of tools as a log has them flow in; parts of
spans flow out. Pure. Rules: CONTRACT.md §14.19.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

VERSION: Final = "gen-ai/0.1.0"
"""The conventions: version 0.1.0 of open-telemetry/semantic-conventions-genai."""

_PARAMETERS: Final[dict[str, tuple[str, type[float] | type[bool]]]] = {
    **{
        name: (name, float)
        for name in ("temperature", "top_p", "frequency_penalty", "presence_penalty")
    },
    **{name: (name, int) for name in ("top_k", "max_tokens", "seed")},
    "max_output_tokens": ("max_tokens", int),
    "max_completion_tokens": ("max_tokens", int),
    "stream": ("stream", bool),
}
"""Parameters of requests, each with its name and type in the conventions."""

_REASONS: Final = {"refusal": "content_filter", "tool_calls": "tool_call"}
"""Stop reasons that the conventions call otherwise in a message; others have the same word."""
_REASONING: Final = ("thinking", "reasoning", "reasoning.text", "reasoning.summary")
_REASONING_TEXTS: Final = ("thinking", "text", "content", "summary")
_GIVEN: Final = ("args", "arguments", "function", "functionCall", "input")
"""Members with what a model gave a tool: any text may be in it."""
_SCHEMAS: Final = ("parameters", "input_schema", "parametersJsonSchema", "schema")


def request_parameters(given: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters of a request that have a name there; others, and odd ones, are left."""
    found: dict[str, Any] = {}
    for name in given.keys() & _PARAMETERS.keys():
        (known, kind), value = _PARAMETERS[name], given[name]
        if type(value) is kind or (kind is float and type(value) is int):
            found[f"gen_ai.request.{known}"] = kind(value)
    return found


def message_of(message: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return a message: its reasoning, its text, its calls."""
    content = message.get("content")
    if message.get("role") == "tool":
        call = {"type": "tool_call_response", "id": message.get("tool_call_id")}
        return {"role": "tool", "parts": [call | {"response": content}]}
    parts = [{"type": "reasoning", "content": text} for text in reasoning(message)]
    parts += [{"type": "text", "content": content}] if content else []
    parts += [{"type": "tool_call", **each} for each in message.get("tool_calls") or ()]
    role = message.get("role")
    return {"role": role if isinstance(role, str) else None, "parts": parts, **more}


def answer_of(message: dict[str, Any], stop_reason: str) -> dict[str, Any]:
    """Return an answer, with the reason for its end: null if the log has none."""
    return message_of(message, finish_reason=_REASONS.get(stop_reason, stop_reason) or None)


def reasoning(message: dict[str, Any]) -> Iterable[str]:
    """Return the texts in which a model reasoned, as any provider or framework keeps them."""
    return dict.fromkeys(_thoughts(message.get("provider")))


def _thoughts(kept: Any) -> Iterator[str]:
    if isinstance(kept, list):
        for each in kept:
            yield from _thoughts(each)
    elif isinstance(kept, dict):
        kind = kept.get("type", kept.get("part_kind"))
        if kind in _REASONING or kept.get("thought") is True:
            for name in _REASONING_TEXTS:
                yield from _texts(kept.get(name))
            return
        for name, each in kept.items():
            if name in ("reasoning", "reasoning_content") and isinstance(each, str):
                yield from _texts(each)
            elif name not in _GIVEN:
                yield from _thoughts(each)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for each in value:
            yield from _texts(each.get("text") if isinstance(each, dict) else each)
    elif isinstance(value, str) and value:
        yield value


def definitions_of(offered: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """Yield the definitions of tools; those that a server runs have a type and a name only."""
    for tool in offered:
        if not isinstance(tool, dict):
            continue
        declared = tool.get("functionDeclarations")
        for one in declared if isinstance(declared, list) else [tool.get("function", tool)]:
            said = one if isinstance(one, dict) else {}
            schema = next((said[name] for name in _SCHEMAS if name in said), None)
            kind = str(tool.get("type") or ("function" if "name" in said else next(iter(tool), "")))
            if schema is None and kind != "function":
                yield {"type": kind, "name": str(said.get("name") or kind)}
                continue
            more = {"description": said.get("description"), "parameters": schema}
            yield {"type": "function", "name": str(said.get("name")), **more}
