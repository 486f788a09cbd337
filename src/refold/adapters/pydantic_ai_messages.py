"""Requests of Pydantic AI's agents as neutral ones.

A log holds, and a re-execution compares, the request as a provider sees it: texts, calls, results,
files, tools, settings. Times, ids of runs and conversations, and metadata are left out: they are
drawn anew each time and reach no provider. Answers are `engine.models.pydantic_ai`'s. Rules:
CONTRACT.md §17.2.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from pydantic import TypeAdapter
from pydantic_ai import messages as pai
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.settings import ModelSettings

from refold.adapters.foreign import message_of, plain_of, result_message, tool_definition
from refold.engine.encoding.canonical import Json
from refold.engine.encoding.plain import without_empty
from refold.engine.models.pydantic_ai import PROVIDER, neutral_answer
from refold.engine.ports.ports import ToolDefinition

_REQUEST: Final = TypeAdapter(pai.ModelRequest)
_PARAMETERS: Final = TypeAdapter(ModelRequestParameters)

_OUTPUT: Final = (
    "allow_image_output",
    "allow_text_output",
    "native_tools",
    "output_mode",
    "output_object",
    "prompted_output_template",
)
"""Parameters of a request that a provider sees, except tools and instructions."""


# -- requests ---------------------------------------------------------------------------------


def neutral_messages(
    messages: Sequence[pai.ModelMessage], parameters: ModelRequestParameters
) -> list[dict[str, Any]]:
    """Return a conversation, its instructions first, as `run.model` takes it."""
    found = [message_of("system", text)] if (text := _instructions(messages, parameters)) else []
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


def _request(message: pai.ModelRequest) -> Iterable[dict[str, Any]]:
    dumped = _REQUEST.dump_python(message, mode="json")["parts"]
    for part, plain in zip(message.parts, dumped, strict=True):
        yield _part(part, plain)


def _part(part: Any, plain: dict[str, Any]) -> dict[str, Any]:
    match part.part_kind:
        case "system-prompt":
            return message_of("system", part.content)
        case "user-prompt":
            return _user(part.content, plain["content"])
        case "tool-return":
            return _tool_result(part, plain)
        case "retry-prompt" if part.tool_name is not None:
            return _result(part, part.model_response(), is_error=True)
        case "retry-prompt" | "retry-feedback":
            return message_of("user", part.model_response())
        case _:
            kept = {name: value for name, value in plain.items() if name != "timestamp"}
            return {**message_of("system", ""), "provider": {PROVIDER: without_empty(kept)}}


def _user(content: Any, plain: Json) -> dict[str, Any]:
    if isinstance(content, str):
        return message_of("user", content)
    texts = "\n".join(item for item in content if isinstance(item, str))
    return {**message_of("user", texts), "provider": {PROVIDER: plain}}


def _tool_result(part: pai.ToolReturnPart, plain: dict[str, Any]) -> dict[str, Any]:
    is_error = part.outcome in ("failed", "retried")
    message = _result(part, part.model_response_str(wrap_if_error=False), is_error=is_error)
    if part.files:
        message["provider"] = {PROVIDER: plain["content"]}
    return message


def _result(part: Any, content: str, *, is_error: bool) -> dict[str, Any]:
    return result_message(part.tool_call_id, part.tool_name, content, is_error=is_error)


def neutral_tools(parameters: ModelRequestParameters) -> list[ToolDefinition]:
    """Return the tools that a model is offered, those that end a run among them."""
    return [
        tool_definition(tool.name, tool.description or "", tool.parameters_json_schema)
        for tool in (*parameters.function_tools, *parameters.output_tools)
    ]


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
