"""The Anthropic messages interface, read from outside: answers."""

from itertools import repeat
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.engine.events.outcome import Usage
from refold.engine.wire.messages import request as messages
from tests.support.api_answers import (
    MESSAGES_BODY,
    failure,
    in_pieces,
    messages_events,
    read,
    read_body,
    read_stream,
    sse,
)
from tests.support.loops import for_each


def asked(*turns: dict[str, Any], **members: Any) -> list[dict[str, Any]]:
    """Return the neutral messages of a request with these turns."""
    return list(messages.asked({"messages": list(turns), **members}).messages)


def text(said: str, **members: Any) -> dict[str, Any]:
    return {"type": "text", "text": said, **members}


def use(call_id: str = "c", **members: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": "f", "input": {"a": 1}, **members}


@pytest.mark.usefixtures("many_times")
@given(body=MESSAGES_BODY, random=st.randoms(use_true_random=False))
def test_a_stream_says_the_same_as_a_body(body: dict[str, Any], random: Random) -> None:
    """Whatever the pieces; inputs, thinking and signatures too."""
    whole = read_body("messages", body)

    assert in_pieces("messages", sse(messages_events(body, random)), random) == whole
    assert whole.status == "ok"


@pytest.mark.usefixtures("many_times")
@given(body=MESSAGES_BODY)
def test_an_answer_equals_what_a_client_repeats(body: dict[str, Any]) -> None:
    """The content of the answer as it came, and as the SDK sends its objects."""
    from anthropic.types import Message  # noqa: PLC0415 - takes seconds, and only this test needs it

    said = read_body("messages", body).message
    blocks = Message.model_validate(body).content
    sent = [block.model_dump(exclude_unset=True, mode="json") for block in blocks]

    assert asked({"role": "assistant", "content": body["content"]}) == [said]
    assert asked({"role": "assistant", "content": sent}) == [said]


def _answer(stop: str, *blocks: dict[str, Any]) -> dict[str, Any]:
    return {"type": "message", "content": list(blocks), "stop_reason": stop}


@for_each(
    "stop, expected",
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("refusal", "refusal"),
        ("pause_turn", "pause_turn"),
        ("tool_use", "tool_calls"),
    ],
)
def test_why_it_ended(stop: str, expected: str) -> None:
    """In the words of §11.3."""
    assert read_body("messages", _answer(stop, text("a"))).stop_reason == expected


def test_tokens_of_the_cache_are_counted() -> None:
    """What a stream says at its start, and what it says at its end."""
    start = {"input_tokens": 1, "cache_read_input_tokens": 20, "output_tokens": 1}
    begun = {"type": "message_start", "message": {"content": [], "usage": start}}
    ended = {
        "type": "message_delta",
        "delta": {"stop_reason": "end_turn"},
        "usage": {"input_tokens": None, "output_tokens": 7},
    }

    answered = read_stream("messages", begun, ended, {"type": "message_stop"})

    assert answered.usage == Usage(
        input_tokens=21, output_tokens=7, requests=1, cache_read_tokens=20
    )


def test_zeros_at_the_end_take_no_tokens_back() -> None:
    """Gateways send them; others put the usage of the end into its delta."""
    start = {"input_tokens": 11, "output_tokens": 1}
    begun = {"type": "message_start", "message": {"content": [], "usage": start}}
    delta = {"stop_reason": "end_turn", "usage": {"output_tokens": 7}}
    ended = {"type": "message_delta", "delta": delta, "usage": {"input_tokens": 0}}

    answered = read_stream("messages", begun, ended, {"type": "message_stop"})

    assert answered.usage == Usage(input_tokens=11, output_tokens=7, requests=1)


def test_blocks_with_one_index_are_several() -> None:
    """Gateways give each block the index 0; a delta is the last one's."""
    used = {"type": "tool_use", "id": "t", "name": "look", "input": {}}
    given = {"type": "input_json_delta", "partial_json": '{"a": 1}'}

    answered = read_stream(
        "messages",
        BEGUN,
        BLOCK,
        grown("a"),
        {"type": "content_block_start", "index": 0, "content_block": used},
        {"type": "content_block_delta", "index": 0, "delta": given},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
        {"type": "message_stop"},
    )

    assert answered.message == {
        "role": "assistant",
        "content": "a",
        "tool_calls": [{"id": "t", "name": "look", "arguments": {"a": 1}}],
    }


BEGUN = {"type": "message_start", "message": {"role": "assistant", "content": []}}
BLOCK = {"type": "content_block_start", "index": 0, "content_block": text("")}


def grown(said: str) -> dict[str, Any]:
    delta = {"type": "text_delta", "text": said}
    return {"type": "content_block_delta", "index": 0, "delta": delta}


@for_each(
    "events, code, content",
    [
        ([BEGUN, BLOCK, grown("a")], "cut", "a"),
        ([], "cut", None),
        (
            [BEGUN, BLOCK, grown("a"), {"type": "error", "error": {"message": "overloaded"}}],
            "stream",
            "a",
        ),
        ([{"type": "error", "error": {"message": "overloaded"}}], "stream", None),
        ([BEGUN, "[1]", BLOCK, grown("a"), {"type": "message_stop"}], "malformed", "a"),
        ([{"type": "message_stop"}], "malformed", None),
    ],
)
def test_a_stream_that_fails_keeps_what_came(
    events: list[dict[str, Any] | str], code: str, content: str | None
) -> None:
    """The first reason is the error."""
    assert failure("messages", *events) == (code, content)


def test_input_that_is_cut_is_kept_as_text() -> None:
    """As arguments that are no object are (§11.2)."""
    start = {"type": "content_block_start", "index": 0, "content_block": use(input={})}
    delta = {"type": "input_json_delta", "partial_json": '{"a": '}

    answered = read_stream(
        "messages", BEGUN, start, {"type": "content_block_delta", "index": 0, "delta": delta}
    )

    assert answered.message is not None
    (call,) = answered.message["tool_calls"]
    assert call == {"id": "c", "name": "f", "arguments": {}, "invalid": '{"a":'}


@for_each("body", [{"content": "a"}, {}, [], {"choices": []}])
def test_a_body_without_content_is_malformed(body: Any) -> None:
    assert (read_body("messages", body).error or {})["code"] == "malformed"


def test_an_error_in_a_body_that_claims_success_is_one() -> None:
    answered = read_body("messages", {"type": "error", "error": {"message": "no credit"}})

    assert answered.error == {"code": "failed", "message": "no credit"}


@pytest.mark.long
def test_a_long_answer_is_cut_in_bounded_memory() -> None:
    """It says how much of it there was; streamed or not, the same."""
    piece = "x" * 65536
    stream = sse((BEGUN, BLOCK)) + sse((grown(piece),)) * 160
    end = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}
    stream += sse((end, {"type": "message_stop"}))

    answered = read("messages", stream, streamed=True, sizes=repeat(50_000))

    assert answered.message is not None
    assert len(answered.message["content"]) <= 4 * 1024 * 1024
    assert answered.message["truncated"]["seen_bytes"] >= 160 * 65536
    assert answered == read_body("messages", _answer("end_turn", text(piece * 160)))
