"""Items of OpenAI Agents as neutral messages, and answers back.

A log holds, and a re-execution compares, the request as a provider sees it: instructions, texts,
calls, results, tools, settings. The key under which the framework lets a provider cache is left
out: it is drawn anew each time and changes no answer. An answer is kept whole beside its neutral
shape, under `provider`, for the framework is given the same one again. The framework sends an
answer back as several items. If they belong to an answer of the same conversation, they become its
one message again, which is in the log already. Rules: CONTRACT.md §17.2, §17.3.
"""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, Final

import attrs
from agents.agent_output import AgentOutputSchemaBase
from agents.handoffs import Handoff
from agents.items import ModelResponse, TResponseInputItem
from agents.model_settings import ModelSettings
from agents.tool import FunctionTool, Tool
from agents.usage import Usage as AgentsUsage
from openai.types.responses import ResponseOutputItem
from pydantic import BaseModel, TypeAdapter

from refold.adapters.foreign import message_of, plain_of, result_message, tool_definition
from refold.engine.encoding.canonical import Json, encode_sorted
from refold.engine.encoding.plain import without_empty
from refold.engine.errors import ModelError
from refold.engine.events.outcome import Usage
from refold.engine.models import endpoint
from refold.engine.ports.ports import ModelReply, ToolDefinition
from refold.engine.wire.parts.notation import short

PROVIDER: Final = "openai_agents"
"""The name under which messages and parameters hold parts without a neutral form."""

_OUTPUT: Final = TypeAdapter[list[Any]](list[ResponseOutputItem])
_USAGE: Final = TypeAdapter(AgentsUsage)
_CACHE_KEY: Final = "prompt_cache_key"


class AnswersSoFar:
    """Answers that came, by the items that the framework makes of them."""

    def __init__(self) -> None:
        self._answers: dict[bytes, dict[str, Any]] = {}

    def came(self, answer: ModelResponse, message: dict[str, Any]) -> None:
        """Take note of an answer and of the message that the log has of it."""
        items = [plain_of(item) for item in answer.to_input_items()]
        self._answers[encode_sorted(items)] = message

    def messages(
        self, instructions: str | None, given: str | Sequence[TResponseInputItem]
    ) -> list[dict[str, Any]]:
        """Return a conversation, its instructions first, as `run.model` takes it."""
        found = [message_of("system", instructions)] if instructions else []
        if isinstance(given, str):
            return [*found, message_of("user", given)]
        names: dict[str, str] = {}
        for is_models, group in groupby(map(plain_of, given), _is_models):
            items = [*group]  # what one answer may have been together, or all else between two
            if is_models:
                names |= {item["call_id"]: item.get("name", "") for item in items if _is_call(item)}
                found.append(self._answers.get(encode_sorted(items)) or _answer(items))
            else:
                found += [_item(item, names) for item in items]
        return found


def _is_models(item: Mapping[str, Any]) -> bool:
    kind = str(item.get("type", "message"))
    return item.get("role") == "assistant" or (kind != "message" and not kind.endswith("_output"))


def _is_call(item: Mapping[str, Any]) -> bool:
    return item.get("type") == "function_call"


def _is_answer(item: Mapping[str, Any]) -> bool:
    return item.get("role") == "assistant" and isinstance(item.get("content"), list)


def _item(item: dict[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    if item.get("type") == "function_call_output" and isinstance(item.get("output"), str):
        call = item["call_id"]
        return result_message(call, names.get(call, ""), item["output"], is_error=False)
    content = item.get("content")
    role = "system" if item.get("role") in ("system", "developer") else "user"
    if item.get("role") == role and isinstance(content, str):
        return message_of(role, content)
    return {**message_of(role, _text_of(content)), "provider": {PROVIDER: item}}


def _text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = (part.get("text", part.get("refusal")) for part in parts)
    return "".join(text for text in texts if isinstance(text, str))


def neutral_tools(tools: Sequence[Tool], handoffs: Sequence[Handoff[Any, Any]]) -> list[Any]:
    """Return the tools offered to a model: functions, hosted tools and handoffs."""
    offered = [_tool(tool) for tool in tools]
    for handoff in handoffs:
        name, said = handoff.tool_name, handoff.tool_description
        offered.append(tool_definition(name, said, handoff.input_json_schema))
    return offered


def _tool(tool: Tool) -> ToolDefinition:
    if isinstance(tool, FunctionTool):
        return tool_definition(tool.name, tool.description, tool.params_json_schema)
    plain = plain_of(tool)
    said = without_empty(plain) if isinstance(plain, dict) else {}
    return tool_definition(tool.name, "", said)


def neutral_parameters(
    settings: ModelSettings, schema: AgentOutputSchemaBase | None, **more: Any
) -> dict[str, Json]:
    """Return settings by name; settings without a neutral form are under `openai_agents`.

    Of headers there are only the names: they may hold keys.
    """
    found = without_empty(plain_of(settings))
    if "extra_headers" in found:
        found["extra_headers"] = sorted(found["extra_headers"])
    if _CACHE_KEY in found.get("extra_args", {}):
        kept = {name: value for name, value in found["extra_args"].items() if name != _CACHE_KEY}
        found = without_empty({**found, "extra_args": kept})
    beside = without_empty(plain_of(more))
    if schema is not None and not schema.is_plain_text():
        beside["output"] = plain_of(schema.json_schema())
    return {**found, PROVIDER: beside} if beside else found


# -- answers ----------------------------------------------------------------------------------


def _answer(items: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return a model's answer as one message; under `provider`, all but texts and calls."""
    texts = [_text_of(item.get("content")) for item in items if item.get("role") == "assistant"]
    calls = [
        endpoint.call_of("", item["call_id"], item["name"], item["arguments"])
        for item in items
        if _is_call(item)
    ]
    message: dict[str, Any] = {"role": "assistant", "content": "".join(texts)}
    if calls:
        message["tool_calls"] = calls
    return {**message, "provider": {PROVIDER: {"output": list(items)}}}


def reply_of(model: str, answer: ModelResponse) -> ModelReply:
    """Return the log's form of an answer; why it ended, the framework tells of a refusal only.

    Raises:
        ModelError: `malformed`: a log cannot hold it.
    """
    output: list[Any] = answer.output
    items = [
        item.model_dump(mode="json", exclude_unset=True) if isinstance(item, BaseModel) else item
        for item in output
    ]
    message = _answer(items)
    message["provider"][PROVIDER] |= without_empty(
        {
            "usage": _USAGE.dump_python(answer.usage, mode="json"),
            "response_id": answer.response_id,
            "request_id": answer.request_id,
            "raw_usage": answer.raw_usage,
        }
    )
    spent = answer.usage
    usage = Usage(
        input_tokens=spent.input_tokens,
        output_tokens=spent.output_tokens,
        requests=spent.requests or 1,
        cache_read_tokens=spent.input_tokens_details.cached_tokens,
        reasoning_tokens=spent.output_tokens_details.reasoning_tokens,
        untold=None if spent.input_tokens or spent.output_tokens else 1,
    )
    parts = [part for item in items if _is_answer(item) for part in item["content"]]
    is_refusal = any(part.get("type") == "refusal" for part in parts)
    reply = endpoint.reply_of(model, message, usage, "refusal" if is_refusal else "stop")
    return attrs.evolve(reply, stop_reason="") if reply.stop_reason == "stop" else reply


def answer_of(model: str, reply: ModelReply) -> ModelResponse:
    """Return the answer in a log; for an edited one, built from its neutral shape.

    Raises:
        ModelError: `malformed`: another version of the framework wrote it.
    """
    kept = reply.message.get("provider", {}).get(PROVIDER)
    try:
        if kept is None:
            return ModelResponse(_OUTPUT.validate_python(_items_of(reply)), _usage(reply), None)
        return ModelResponse(
            output=_OUTPUT.validate_python(kept["output"]),
            usage=_USAGE.validate_python(kept["usage"]),
            response_id=kept.get("response_id"),
            request_id=kept.get("request_id"),
            raw_usage=kept.get("raw_usage"),
        )
    except (ValueError, TypeError, KeyError) as error:
        why = short(f"not an answer of OpenAI Agents: {error!r}")
    raise ModelError(model, why, "malformed")


def _items_of(reply: ModelReply) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    if text := reply.message["content"]:
        part = {"type": "output_text", "text": text, "annotations": []}
        members = {"id": "msg_edited", "type": "message", "status": "completed"}
        items.append({**members, "role": "assistant", "content": [part]})
    return items + [
        {
            "type": "function_call",
            "call_id": call["id"],
            "name": call["name"],
            "arguments": endpoint.arguments_text(call),
        }
        for call in reply.message.get("tool_calls", ())
    ]


def _usage(reply: ModelReply) -> AgentsUsage:
    spent = reply.usage
    return AgentsUsage(
        requests=spent.requests,
        input_tokens=spent.input_tokens,
        output_tokens=spent.output_tokens,
        total_tokens=spent.tokens,
    )
