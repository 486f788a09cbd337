"""Streams of OpenAI Agents: the answer at the end of one, and an answer as one.

A recorded answer is whole; a streaming program gets a stream made from it. Rules: CONTRACT.md
§17.3.
"""

from collections.abc import AsyncIterator
from typing import Any, Final

from agents.exceptions import ModelBehaviorError
from agents.items import ModelResponse, TResponseStreamEvent
from agents.usage import Usage
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseOutputItemAddedEvent,
    ResponseOutputItemDoneEvent,
    ResponseOutputMessage,
    ResponseTextDeltaEvent,
    ResponseUsage,
)


async def drained(stream: AsyncIterator[TResponseStreamEvent]) -> ModelResponse:
    """Return the answer at the end of a stream."""
    done: list[Any] = []
    last: Response | None = None
    async for event in stream:
        if isinstance(event, ResponseOutputItemDoneEvent):
            done.append(event.item)
        elif event.type in ("response.completed", "response.incomplete", "response.failed"):
            last = event.response
    if last is None or last.status in ("failed", "incomplete"):
        why = _unfinished(last)
        raise ModelBehaviorError(f"the stream ended without a completed response: {why}")
    return ModelResponse(
        output=last.output or done,
        usage=Usage(requests=1, **_tokens(last.usage)),
        response_id=last.id,
    )


def _unfinished(last: Response | None) -> str:
    """Return the provider's reason for an incomplete response."""
    if last is None:
        return "no answer"
    if last.error is not None:
        return last.error.message
    details = last.incomplete_details
    return f"{last.status}: {details.reason}" if details and details.reason else str(last.status)


_TOKENS: Final = (
    "input_tokens",
    "input_tokens_details",
    "output_tokens",
    "output_tokens_details",
    "total_tokens",
)


def _tokens(spent: Usage | ResponseUsage | None) -> dict[str, Any]:
    """Return the values of both kinds of usage."""
    return {} if spent is None else {name: getattr(spent, name) for name in _TOKENS}


def events_of(answer: ModelResponse, model: str, now: float) -> list[TResponseStreamEvent]:
    """Return an answer as a stream has it: each item and each text at once; `now` in seconds."""
    events: list[Any] = []

    def add(kind: Any, name: str, **members: Any) -> None:
        events.append(kind(type=f"response.{name}", sequence_number=len(events), **members))

    for index, item in enumerate(answer.output):
        place = {"output_index": index}
        add(ResponseOutputItemAddedEvent, "output_item.added", item=item, **place)
        for at, text in _texts(item):
            said: dict[str, Any] = {"content_index": at, "item_id": item.id, "logprobs": []}
            add(ResponseTextDeltaEvent, "output_text.delta", delta=text, **said, **place)
        add(ResponseOutputItemDoneEvent, "output_item.done", item=item, **place)
    response = _response(answer, model, now)
    add(ResponseCompletedEvent, "completed", response=response)
    return events


def _texts(item: Any) -> list[tuple[int, str]]:
    parts = item.content if isinstance(item, ResponseOutputMessage) else ()
    return [(at, part.text) for at, part in enumerate(parts) if part.type == "output_text"]


def _response(answer: ModelResponse, model: str, now: float) -> Response:
    return Response(
        id=answer.response_id or "",
        created_at=now,
        model=model,
        object="response",
        output=answer.output,
        parallel_tool_calls=True,
        status="completed",
        tool_choice="auto",
        tools=[],
        usage=ResponseUsage(**_tokens(answer.usage)),
    )
