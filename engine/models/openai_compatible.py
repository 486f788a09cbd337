"""Models behind the OpenAI chat-completions protocol: OpenAI's, and any server that speaks it.

Translates neutral messages to that protocol and back. Uses the `openai` SDK (extra `openai`) for
HTTP, keys (`OPENAI_API_KEY`), retries, timeouts. Not streamed. What both HTTP adapters share is in
`engine.models.endpoint`. Rules: CONTRACT.md §11.
"""

from collections.abc import Callable
from typing import Any, Final

from refold.engine.models import endpoint
from refold.engine.ports.ports import ModelReply, ModelRequest, ToolDefinition
from refold.engine.wire.chat.answer import COUNTS, STOPS
from refold.engine.wire.parts.notation import text_of

_KEPT: Final = ("reasoning_content", "reasoning_details")
"""Members of an answer that its server wants to see again in the next request."""
_KEPT_IN_CALL: Final = ("extra_content",)


class OpenAICompatibleModel(endpoint.HttpModel):
    """A model that answers `chat.completions`; of several choices, the first counts."""

    provider = "openai"
    client_class = "OpenAI"
    key_variables = ("OPENAI_API_KEY",)

    def _create_of(self, client: Any) -> Callable[..., Any]:
        return client.chat.completions.with_raw_response.create  # type: ignore[no-any-return]  # of the SDK

    def _body(self, request: ModelRequest, extra: dict[str, Any]) -> dict[str, Any]:
        messages = [_message(message) for message in request.messages]
        body = {"model": self._model, "messages": messages, "extra_body": extra}
        if request.tools:
            body["tools"] = [_tool(tool) for tool in request.tools]
        return body

    def _reply(self, answer: dict[str, Any], request: ModelRequest) -> ModelReply:
        return _reply(self.name, answer, request)


def _tool(tool: ToolDefinition) -> dict[str, Any]:
    function = {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
    }
    return {"type": "function", "function": function}


def _message(message: dict[str, Any]) -> dict[str, Any]:
    if message["role"] == "assistant":
        return _assistant(message)
    sent = ("role", "tool_call_id", "content") if message["role"] == "tool" else ("role", "content")
    return {name: message[name] for name in sent}


def _assistant(message: dict[str, Any]) -> dict[str, Any]:
    kept = message.get("provider", {}).get("openai", {})
    back = {"role": "assistant", "content": message.get("content", ""), **kept.get("message", {})}
    if calls := message.get("tool_calls"):
        in_calls = kept.get("tool_calls", {})
        back["tool_calls"] = [_call_back(call) | in_calls.get(call["id"], {}) for call in calls]
    return back


def _call_back(call: dict[str, Any]) -> dict[str, Any]:
    function = {"name": call["name"], "arguments": endpoint.arguments_text(call)}
    return {"id": call["id"], "type": "function", "function": function}


def _reply(model: str, answer: dict[str, Any], request: ModelRequest) -> ModelReply:
    choices = endpoint.objects_in(model, answer.get("choices"), "choices")
    if not choices or not isinstance(answered := choices[0].get("message"), dict):
        reason = answer.get("error") or "no choice with a message"
        raise endpoint.malformed(model, f"the answer holds {reason}")
    raw_calls = endpoint.objects_in(model, answered.get("tool_calls"), "tool_calls")
    refusal = text_of(answered.get("refusal"))
    message: dict[str, Any] = {
        "role": "assistant",
        "content": _content(answered.get("content")) or refusal,
    }
    if raw_calls:
        message["tool_calls"] = _calls(model, raw_calls, request)
    if kept := _kept(answered, raw_calls, message.get("tool_calls", [])):
        message["provider"] = {"openai": kept}
    stop = "refusal" if refusal else text_of(choices[0].get("finish_reason"))
    return endpoint.reply_of(
        model, message, COUNTS.usage(answer.get("usage")), STOPS.get(stop, stop)
    )


def _content(content: Any) -> str:
    """Return an answer's text; some servers give it as a list of parts."""
    if isinstance(content, list):
        return "".join(text_of(part.get("text")) for part in content if isinstance(part, dict))
    return text_of(content)


def _calls(
    model: str, raw_calls: list[dict[str, Any]], request: ModelRequest
) -> list[dict[str, Any]]:
    taken: set[str] = set()
    calls = []
    for index, raw in enumerate(raw_calls):
        call_id = endpoint.distinct_id(raw.get("id"), index, len(request.messages), taken)
        function = raw.get("function")
        if not isinstance(function, dict):
            raise endpoint.malformed(model, f"tool_calls/{index} is not a function call")
        calls.append(
            endpoint.call_of(model, call_id, function.get("name"), function.get("arguments") or "")
        )
    return calls


def _kept(
    answered: dict[str, Any], raw_calls: list[dict[str, Any]], calls: list[dict[str, Any]]
) -> dict[str, Any]:
    """Return the parts without a neutral form that the next request must repeat."""
    kept: dict[str, Any] = {}
    if members := {name: answered[name] for name in _KEPT if answered.get(name)}:
        kept["message"] = members
    in_calls = {
        call["id"]: members
        for call, raw in zip(calls, raw_calls, strict=True)
        if (members := {name: raw[name] for name in _KEPT_IN_CALL if raw.get(name)})
    }
    if in_calls:
        kept["tool_calls"] = in_calls
    return kept
