"""A whole answer becomes a stream, and the end of a stream an answer."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any

import pytest
from agents.exceptions import ModelBehaviorError
from agents.items import ModelResponse
from agents.usage import Usage
from openai.types.responses import (
    ResponseError,
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)
from openai.types.responses.response import IncompleteDetails

from refold.adapters.openai_agents_stream import drained, events_of


def answer() -> ModelResponse:
    texts = [
        ResponseOutputText(type="output_text", text=text, annotations=[]) for text in ("one", "two")
    ]
    said = ResponseOutputMessage(
        id="m1", type="message", role="assistant", status="completed", content=list(texts)
    )
    call = ResponseFunctionToolCall(
        id="f1", call_id="c1", name="count", arguments="{}", type="function_call"
    )
    usage = Usage(requests=1, input_tokens=3, output_tokens=2, total_tokens=5)
    return ModelResponse([said, call], usage, response_id="resp_1")


async def streamed(events: Iterable[Any]) -> AsyncIterator[Any]:
    for event in events:
        yield event


def test_an_answer_is_told_item_by_item_and_text_by_text() -> None:
    """And then whole; what is drained of it is the answer again."""
    events = events_of(answer(), "small", 0.0)

    assert [event.type.removeprefix("response.") for event in events] == [
        "output_item.added",
        "output_text.delta",
        "output_text.delta",
        "output_item.done",
        "output_item.added",
        "output_item.done",
        "completed",
    ]
    assert [event.sequence_number for event in events] == list(range(7))
    assert asyncio.run(drained(streamed(events))) == answer()
    told = events[-1].response  # type: ignore[union-attr]  # the last has one
    assert (told.id, told.model, told.status) == ("resp_1", "small", "completed")
    assert told.created_at == 0
    assert (told.object, told.tool_choice, told.parallel_tool_calls) == ("response", "auto", True)
    assert told.usage is not None
    assert told.usage.total_tokens == 5


def test_the_end_of_a_stream_says_what_there_was() -> None:
    """Also where no item was told before; what has no id and no usage is an answer, too."""
    whole = answer()
    whole.response_id = None
    last = events_of(whole, "small", 0.0)[-1]
    last.response.usage = None  # type: ignore[union-attr]  # the last has one

    found = asyncio.run(drained(streamed([last])))

    assert last.response.id == ""  # type: ignore[union-attr]  # the same
    assert (found.output, found.usage) == (whole.output, Usage(requests=1))


def test_items_may_be_missing_at_the_end() -> None:
    """Some servers say them only as they are done."""
    events = events_of(answer(), "small", 0.0)
    events[-1].response.output = []  # type: ignore[union-attr]  # the last has one

    assert asyncio.run(drained(streamed(events))).output == answer().output


def test_a_stream_that_breaks_off_is_no_answer() -> None:
    """Whether it says so or not; if it does, the error says why."""
    events = events_of(answer(), "small", 0.0)

    with pytest.raises(ModelBehaviorError, match="without a completed response"):
        asyncio.run(drained(streamed(events[:-1])))
    last = events[-1].response  # type: ignore[union-attr]  # the last has one
    last.status, last.error = "failed", ResponseError(code="server_error", message="overloaded")
    with pytest.raises(ModelBehaviorError, match=r"response: overloaded\Z"):
        asyncio.run(drained(streamed(events)))
    last.status, last.error = "incomplete", None
    with pytest.raises(ModelBehaviorError, match=r"response: incomplete\Z"):
        asyncio.run(drained(streamed(events)))
    last.incomplete_details = IncompleteDetails(reason="max_output_tokens")
    with pytest.raises(ModelBehaviorError, match=r"response: incomplete: max_output_tokens\Z"):
        asyncio.run(drained(streamed(events)))
