"""OpenAI chat completions: the row of this format.  Pure.  Rules: CONTRACT.md §16."""

import re
from collections.abc import Iterator
from typing import Any, Final

from refold.engine.events.events import ModelAnswered
from refold.engine.wire.chat import request
from refold.engine.wire.chat.answer import ChatSpeaker
from refold.engine.wire.parts.exchange import Asked
from refold.engine.wire.parts.format import (
    CREATED,
    ID,
    OPENAI,
    AskedPaths,
    SpelledEvent,
    WireFormat,
    answer_text,
    arguments_in,
    calls_in,
)


def _base(asked: Asked, kind: str) -> dict[str, Any]:
    return {"id": ID, "object": kind, "created": CREATED, "model": asked.model}


def _call(call: dict[str, Any]) -> dict[str, Any]:
    function = {"name": call["name"], "arguments": arguments_in(call)}
    return {"id": call["id"], "type": "function", "function": function}


def _usage(answered: ModelAnswered) -> dict[str, int]:
    asked, said = answered.usage.input_tokens, answered.usage.output_tokens
    return {"prompt_tokens": asked, "completion_tokens": said, "total_tokens": asked + said}


def _choice(answered: ModelAnswered, holder: str, said: dict[str, Any]) -> dict[str, Any]:
    is_last = holder == "message" or not said
    stop = "stop" if answered.stop_reason == "refusal" else answered.stop_reason
    reason = stop if is_last else None
    return {"index": 0, holder: said, "logprobs": None, "finish_reason": reason}


def _content(answered: ModelAnswered) -> dict[str, Any]:
    text = answer_text(answered) or None
    is_refusal = answered.stop_reason == "refusal"
    return {"content": None if is_refusal else text, "refusal": text if is_refusal else None}


def body(asked: Asked, answered: ModelAnswered) -> dict[str, Any]:
    """Return the JSON body of an answer."""
    calls = [_call(call) for call in calls_in(answered)]
    message = {
        "role": "assistant",
        **_content(answered),
        **({"tool_calls": calls} if calls else {}),
    }
    return {
        **_base(asked, "chat.completion"),
        "choices": [_choice(answered, "message", message)],
        "usage": _usage(answered),
    }


def events(asked: Asked, answered: ModelAnswered) -> Iterator[SpelledEvent]:
    """Yield the events of an answer that is streamed."""
    base = _base(asked, "chat.completion.chunk")
    first = {"role": "assistant", **_content(answered)}
    calls = enumerate(calls_in(answered))
    more = [{"tool_calls": [{"index": at, **_call(call)}]} for at, call in calls]
    for delta in (first, *more, {}):
        yield "", {**base, "choices": [_choice(answered, "delta", delta)]}
    options = asked.parameters.get("stream_options")
    if isinstance(options, dict) and options.get("include_usage"):
        yield "", {**base, "choices": [], "usage": _usage(answered)}
    yield "", "[DONE]"


FORMAT: Final = WireFormat(
    name=request.API,
    route=OPENAI,
    places=(AskedPaths(re.compile(r"/chat/completions\Z")),),
    conversation="messages",
    is_shaped=request.is_shaped,
    asked=request.asked,
    speaker=lambda _asked: ChatSpeaker(),
    body=body,
    events=events,
)
