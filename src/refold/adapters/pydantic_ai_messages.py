"""Messages of Pydantic AI as neutral ones, and answers back.

What a log holds, and a re-execution compares, is what a provider is shown: texts, calls, results,
files, tools, settings.  Times, ids of runs and conversations, and metadata are left out: they are
drawn anew each time and reach no provider.  An answer is kept whole beside its neutral shape, under
`provider`, for the framework is given the same one again.  Rules: CONTRACT.md §17.2, §17.3.
"""

import dataclasses
import datetime as dt
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import pydantic_core
from pydantic import TypeAdapter
from pydantic_ai import messages as pai
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition as PydanticTool

from refold.adapters.foreign import plain_of, without_empty
from refold.engine.encoding.canonical import Json
from refold.engine.errors import ModelError
from refold.engine.events.outcome import Usage
from refold.engine.models import endpoint
from refold.engine.ports.ports import ModelReply, ToolDefinition
from refold.engine.wire.parts.texts import short

PROVIDER: Final = "pydantic_ai"
"""Under which name messages and parameters hold what the neutral shape has no place for."""

_DRAWN: Final = re.compile(r"pyd_ai_[0-9a-f]{32}")
_RESPONSE: Final = TypeAdapter(pai.ModelResponse)
_REQUEST: Final = TypeAdapter(pai.ModelRequest)
_PARAMETERS: Final = TypeAdapter(ModelRequestParameters)

_OUTSIDE: Final = frozenset(
    {
        "canonical_system",
        "conversation_id",
        "kind",
        "metadata",
        "model_id",
        "run_id",
        "timestamp",
        "workspace_ref",
    }
)
"""Of an answer: the moment, and what the framework itself writes on it afterwards."""

_OUTPUT: Final = (
    "allow_image_output",
    "allow_text_output",
    "native_tools",
    "output_mode",
    "output_object",
    "prompted_output_template",
)
"""Of a request's parameters: what a provider is told beside tools and instructions."""

_STOPS: Final = {
    "content_filter": "refusal",
    "length": "length",
    "stop": "stop",
    "tool_call": "tool_calls",
}


# -- requests ---------------------------------------------------------------------------------


def neutral_messages(
    messages: Sequence[pai.ModelMessage], parameters: ModelRequestParameters
) -> list[dict[str, Any]]:
    """Return a conversation, its instructions first, as `run.model` takes it."""
    found = [_said("system", text)] if (text := _instructions(messages, parameters)) else []
    for message in messages:
        if isinstance(message, pai.ModelResponse):
            found.append(neutral_answer(message))
        else:
            found.extend(_request(message))
    return found


def _instructions(messages: Sequence[pai.ModelMessage], parameters: ModelRequestParameters) -> str:
    if parameters.instruction_parts:
        return "\n\n".join(part.content for part in parameters.instruction_parts)
    last = next((each for each in reversed(messages) if isinstance(each, pai.ModelRequest)), None)
    return last.instructions or "" if last is not None else ""


def _said(role: str, content: str) -> dict[str, Any]:
    return {"role": role, "content": content}


def _request(message: pai.ModelRequest) -> Iterable[dict[str, Any]]:
    dumped = _REQUEST.dump_python(message, mode="json")["parts"]
    for part, plain in zip(message.parts, dumped, strict=True):
        yield _part(part, plain)


def _part(part: Any, plain: dict[str, Any]) -> dict[str, Any]:
    match part.part_kind:
        case "system-prompt":
            return _said("system", part.content)
        case "user-prompt":
            return _user(part.content, plain["content"])
        case "tool-return":
            return _tool_result(part, plain)
        case "retry-prompt" if part.tool_name is not None:
            return _result(part, part.model_response(), is_error=True)
        case "retry-prompt" | "retry-feedback":
            return _said("user", part.model_response())
        case _:
            kept = {name: value for name, value in plain.items() if name != "timestamp"}
            return {**_said("system", ""), "provider": {PROVIDER: without_empty(kept)}}


def _user(content: Any, plain: Json) -> dict[str, Any]:
    if isinstance(content, str):
        return _said("user", content)
    texts = "\n".join(item for item in content if isinstance(item, str))
    return {**_said("user", texts), "provider": {PROVIDER: plain}}


def _tool_result(part: pai.ToolReturnPart, plain: dict[str, Any]) -> dict[str, Any]:
    is_error = part.outcome in ("failed", "retried")
    message = _result(part, part.model_response_str(wrap_if_error=False), is_error=is_error)
    if part.files:
        message["provider"] = {PROVIDER: plain["content"]}
    return message


def _result(part: Any, content: str, *, is_error: bool) -> dict[str, Any]:
    return {
        "role": "tool",
        "tool_call_id": part.tool_call_id,
        "name": part.tool_name,
        "content": content,
        "is_error": is_error,
    }


def neutral_tools(parameters: ModelRequestParameters) -> list[ToolDefinition]:
    """Return the tools that a model is offered, those that end a run among them."""
    return [_tool(tool) for tool in (*parameters.function_tools, *parameters.output_tools)]


def _tool(tool: PydanticTool) -> ToolDefinition:
    parameters = pydantic_core.to_jsonable_python(tool.parameters_json_schema)
    return ToolDefinition(name=tool.name, description=tool.description or "", parameters=parameters)


def neutral_parameters(
    settings: ModelSettings | None, parameters: ModelRequestParameters
) -> dict[str, Json]:
    """Return settings by name, and under `pydantic_ai` how the output is asked for.

    Of headers there are only the names: they may hold keys.
    """
    found: dict[str, Json] = {
        name: sorted(value) if name == "extra_headers" else plain_of(value)  # type: ignore[call-overload]  # a dict of headers
        for name, value in (settings or {}).items()
        if value is not None
    }
    plain = _PARAMETERS.dump_python(parameters, mode="json", include=set(_OUTPUT))
    usual = _PARAMETERS.dump_python(ModelRequestParameters(), mode="json", include=set(_OUTPUT))
    odd = {name: plain[name] for name in _OUTPUT if plain.get(name) != usual.get(name)}
    return {**found, PROVIDER: odd} if odd else found


# -- answers ----------------------------------------------------------------------------------


def neutral_answer(response: pai.ModelResponse) -> dict[str, Any]:
    """Return an answer as a neutral message with all of it under `provider`."""
    texts = [part.content for part in response.parts if isinstance(part, pai.TextPart)]
    calls = [
        endpoint.call_of("", part.tool_call_id, part.tool_name, part.args or {})
        for part in response.parts
        if isinstance(part, pai.ToolCallPart)
    ]
    message: dict[str, Any] = {"role": "assistant", "content": "".join(texts)}
    if calls:
        message["tool_calls"] = calls
    plain = _RESPONSE.dump_python(response, mode="json")
    kept = {name: value for name, value in plain.items() if name not in _OUTSIDE}
    kept["parts"] = [without_empty(part) for part in plain["parts"]]
    kept["usage"] = {name: value for name, value in plain["usage"].items() if value}
    if kept["parts"] == [without_empty(part) for part in _parts_of(message)]:
        del kept["parts"]  # the neutral shape says it all
    return {**message, "provider": {PROVIDER: without_empty(kept)}}


def _parts_of(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the parts of an answer that is a text, then calls, and nothing beside them."""
    text = message["content"]
    parts = [{"content": text, "part_kind": "text"}] if text else []
    return parts + [
        {
            "tool_name": call["name"],
            "args": call["arguments"],
            "tool_call_id": call["id"],
            "part_kind": "tool-call",
        }
        for call in message.get("tool_calls", ())
    ]


def reply_of(model: str, response: pai.ModelResponse, messages: int) -> ModelReply:
    """Return what the log holds of the answer to so many messages.

    Raises:
        ModelError: `malformed`: a log cannot hold it.
    """
    response = dataclasses.replace(response, parts=_with_ids(response.parts, messages))
    spent = response.usage
    usage = Usage(
        input_tokens=spent.input_tokens,
        output_tokens=spent.output_tokens,
        requests=1,
        cache_read_tokens=spent.cache_read_tokens,
        cache_write_tokens=spent.cache_write_tokens,
    )
    stop = _STOPS.get(response.finish_reason or "stop", response.finish_reason or "stop")
    return endpoint.reply_of(model, neutral_answer(response), usage, stop)


def _with_ids(parts: Sequence[Any], messages: int) -> list[Any]:
    """Give calls without an id of their model's one by their place (§11.2), and not a drawn one."""
    drawn = (part for part in parts if _DRAWN.fullmatch(getattr(part, "tool_call_id", None) or ""))
    ids = {part.tool_call_id: f"call_{messages}_{at}" for at, part in enumerate(drawn)}
    return [
        dataclasses.replace(part, tool_call_id=ids[part.tool_call_id])
        if getattr(part, "tool_call_id", None) in ids
        else part
        for part in parts
    ]


def answer_of(model: str, reply: ModelReply, when: dt.datetime) -> pai.ModelResponse:
    """Return the answer that a log holds, with the time at which the program got it.

    Of an edited one, it is what its neutral shape says.

    Raises:
        ModelError: `malformed`: another version of the framework wrote it.
    """
    spent = {
        "input_tokens": reply.usage.input_tokens,
        "output_tokens": reply.usage.output_tokens,
    }
    kept = reply.message.get("provider", {}).get(PROVIDER, {"usage": spent})
    try:
        plain = {"parts": _parts_of(reply.message), **kept, "timestamp": when}
        return _RESPONSE.validate_python(plain)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        why = short(f"this is no answer of Pydantic AI: {error}")
    raise ModelError(model, why, "malformed")
