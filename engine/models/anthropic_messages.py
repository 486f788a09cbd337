"""Models behind the Anthropic messages protocol.

Translates neutral messages to that protocol and back. Uses the `anthropic` SDK (extra `anthropic`)
for HTTP, keys (`ANTHROPIC_API_KEY` and its other sources), retries, timeouts. Long answers come as
a stream, since the SDK demands that, and are read to their end. What both HTTP adapters share is in
`engine.models.endpoint`. Rules: CONTRACT.md §11.
"""

import re
from collections.abc import Callable
from typing import Any, Final

from refold.engine.errors import ModelError
from refold.engine.models import endpoint
from refold.engine.ports.ports import ModelReply, ModelRequest, ToolDefinition
from refold.engine.wire.messages.answer import COUNTS, STOPS, MessagesSpeaker
from refold.engine.wire.parts.notation import short, text_of
from refold.engine.wire.parts.reading import StreamReader
from refold.engine.wire.parts.sse import EventParser

_MOST: Final = (
    (re.compile(r"claude-3-(?:opus|sonnet|haiku)"), 4096),
    (re.compile(r"claude-3-5"), 8192),
    (re.compile(r"claude-(?:4-)?opus-4(?:-[01])?(?:-?@?20\d{6}.*|)\Z"), 32_000),
    (re.compile(r"claude-"), 64_000),
)
"""The most output tokens of models, by name; the first row that matches counts."""
MAX_TOKENS: Final = 8192
"""Of a model that is not in the table, such as one of a compatible server."""
_WHOLE_MAX: Final = 8192
"""Output tokens; the SDK refuses some requests for more, unless their answers are streamed."""

_CHOICES: Final = {"auto": "auto", "required": "any", "none": "none"}


class AnthropicModel(endpoint.HttpModel):
    """A model that answers `messages`."""

    provider = "anthropic"
    client_class = "Anthropic"
    key_variables = ("ANTHROPIC_API_KEY",)

    def _create_of(self, client: Any) -> Callable[..., Any]:
        return client.messages.with_raw_response.create  # type: ignore[no-any-return]  # of the SDK

    def _body(self, request: ModelRequest, extra: dict[str, Any]) -> dict[str, Any]:
        if isinstance(choice := extra.get("tool_choice"), str):
            extra["tool_choice"] = {"type": _CHOICES.get(choice, choice)}
        body: dict[str, Any] = {
            "model": self._model,
            "max_tokens": extra.pop("max_tokens", most_tokens(self._model)),
            "messages": _turns(request.messages),
            "extra_body": extra,
        }
        if system := _system(request.messages):
            body["system"] = system
        if request.tools:
            body["tools"] = [_tool(tool) for tool in request.tools]
        return body

    def _ask(self, create: Callable[..., Any], body: dict[str, Any]) -> Any:
        """Ask; a stream is read to its end."""
        if not _is_streamed(body):
            return create(**body)
        raw = create(**body, stream=True)
        try:
            raw.http_response.read()
        except Exception as error:
            sdk, request = endpoint.load_sdk("anthropic", "anthropic"), raw.http_response.request
            raise sdk.APIConnectionError(message=str(error), request=request) from error
        return raw

    def _read(self, content: bytes, body: dict[str, Any]) -> dict[str, Any]:
        """Return the body of an answer; some servers do not stream."""
        if not _is_streamed(body) or content.lstrip()[:1] == b"{":
            return endpoint.object_in(self.name, content)
        speaker = MessagesSpeaker()
        reader = StreamReader(speaker, EventParser())
        reader.feed(content)
        if error := reader.answered().error:
            code = "connection" if error["code"] == "cut" else "raised"
            raise ModelError(self.name, short(error["message"]), code)
        return speaker.body()

    def _reply(self, answer: dict[str, Any], request: ModelRequest) -> ModelReply:
        return _reply(self.name, answer, request)


def most_tokens(model: str) -> int:
    """Return the output tokens to ask for: the protocol insists on a number."""
    found = (most for name, most in _MOST if name.search(model))
    return next(found, MAX_TOKENS)


def _is_streamed(body: dict[str, Any]) -> bool:
    tokens = body["max_tokens"]
    return isinstance(tokens, int) and tokens > _WHOLE_MAX


def _tool(tool: ToolDefinition) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}


def _system(messages: tuple[dict[str, Any], ...]) -> str:
    """Return all system messages as the one text that the protocol has for them."""
    texts = [message["content"] for message in messages if message["role"] == "system"]
    return "\n\n".join(text for text in texts if text.strip())


def _turns(messages: tuple[dict[str, Any], ...]) -> list[dict[str, Any]]:
    """Return the conversation with neighbours of one side joined: results of parallel calls too."""
    turns: list[dict[str, Any]] = []
    for message in messages:
        role = "assistant" if message["role"] == "assistant" else "user"
        blocks = _blocks(message)
        if blocks and turns and turns[-1]["role"] == role:
            turns[-1]["content"] += blocks
        elif blocks:
            turns.append({"role": role, "content": [*blocks]})
    return turns


def _blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    match message["role"]:
        case "system":
            return []
        case "assistant":
            return _assistant(message)
        case "tool":
            return [_result(message)]
        case _:
            return _text_blocks(message["content"])


def _text_blocks(text: str) -> list[dict[str, Any]]:
    """Return a text block, or none: the protocol refuses blank ones."""
    return [{"type": "text", "text": text}] if text.strip() else []


def _result(message: dict[str, Any]) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": message["tool_call_id"]}
    if message["content"]:
        block["content"] = message["content"]
    if message.get("is_error"):
        block["is_error"] = True
    return block


def _assistant(message: dict[str, Any]) -> list[dict[str, Any]]:
    verbatim: list[dict[str, Any]] = message.get("provider", {}).get("anthropic", [])
    if verbatim:
        return verbatim
    return _text_blocks(message.get("content", "")) + [
        {
            "type": "tool_use",
            "id": call["id"],
            "name": call["name"],
            "input": endpoint.arguments_back(call),
        }
        for call in message.get("tool_calls", ())
    ]


def _reply(model: str, answer: dict[str, Any], request: ModelRequest) -> ModelReply:
    if "content" not in answer:
        raise endpoint.malformed(model, f"the answer holds {answer.get('error') or 'no content'}")
    blocks = endpoint.objects_in(model, answer["content"], "content")
    texts = [text_of(block.get("text")) for block in blocks if block.get("type") == "text"]
    message: dict[str, Any] = {"role": "assistant", "content": "".join(texts)}
    if calls := _calls(model, blocks, request):
        message["tool_calls"] = calls
    if not _neutral(blocks):
        message["provider"] = {"anthropic": blocks}
    stop = text_of(answer.get("stop_reason"))
    return endpoint.reply_of(
        model, message, COUNTS.usage(answer.get("usage")), STOPS.get(stop, stop)
    )


def _calls(model: str, blocks: list[dict[str, Any]], request: ModelRequest) -> list[dict[str, Any]]:
    taken: set[str] = set()
    uses = [block for block in blocks if block.get("type") == "tool_use"]
    for index, block in enumerate(uses):
        block["id"] = endpoint.distinct_id(block.get("id"), index, len(request.messages), taken)
    return [
        endpoint.call_of(model, block["id"], block.get("name"), block.get("input") or {})
        for block in uses
    ]


def _neutral(blocks: list[dict[str, Any]]) -> bool:
    """Return whether text and calls are everything: one text, then calls, and nothing beside them.

    Else (thinking and its signature, server tools, citations) the next request must show the
    blocks as they came, in their order.
    """
    kinds = [block.get("type") for block in blocks]
    shape = kinds[1:] if kinds[:1] == ["text"] else kinds
    return all(kind == "tool_use" for kind in shape) and all(map(_plain, blocks))


def _plain(block: dict[str, Any]) -> bool:
    """Return whether the neutral shape holds all of a text or a call; `direct` is the default."""
    beside = {name for name, value in block.items() if value}
    if block.get("caller") == {"type": "direct"}:
        beside.discard("caller")
    return beside <= {"type", "text"} or beside <= {"type", "id", "name", "input"}
