"""The OpenAI responses interface, read from outside: answers."""

import json
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.engine.events.outcome import Usage
from tests.engine.wire.responses.test_request import asked, call, said
from tests.support.api_answers import (
    RESPONSES_BODY,
    failure,
    id_of,
    read,
    read_body,
    read_stream,
    responses_events,
    sse,
)
from tests.support.later import Later
from tests.support.loops import for_each

if TYPE_CHECKING:
    import openai.types.responses
else:
    openai = Later("openai")


def called(call_id: str = "c") -> dict[str, Any]:
    return {"id": call_id, "name": "f", "arguments": {"a": 1}}


@pytest.mark.usefixtures("many_times")
@given(body=RESPONSES_BODY, random=st.randoms(use_true_random=False))
def test_a_stream_says_the_same_as_a_body(body: dict[str, Any], random: Random) -> None:
    """Whatever the pieces; cut before its end, it has said nearly the same."""
    events = list(responses_events(body, random))
    sizes = iter(lambda: random.randint(1, 40), 0)

    whole = read_body("responses", body)
    streamed = read("responses", sse(tuple(events)), streamed=True, sizes=sizes)
    cut = read_stream("responses", *events[:-1])

    assert streamed == whole
    assert whole.status == "ok"
    assert (cut.error or {})["code"] == "cut"
    assert cut.message == whole.message


@pytest.mark.usefixtures("many_times")
@given(body=RESPONSES_BODY)
def test_an_answer_equals_what_a_client_repeats(body: dict[str, Any]) -> None:
    """The items as they came, and as the SDK sends its objects."""
    answered = read_body("responses", body)
    items = openai.types.responses.Response.model_construct(**body).output
    sent = [item.model_dump(exclude_unset=True, mode="json") for item in items]

    assert asked(body["output"]) == [answered.message]
    assert asked(sent) == [answered.message]
    assert id_of("responses", json.dumps(body).encode(), streamed=False) == "resp_1"


def answer(*output: dict[str, Any], **members: Any) -> dict[str, Any]:
    return {"id": "resp_1", "status": "completed", "output": list(output), **members}


@for_each(
    "body, expected",
    [
        (answer(said("assistant", "a", "output_text")), "stop"),
        (answer(call()), "tool_calls"),
        (answer({"content": [{"type": "refusal", "refusal": "n"}]}), "refusal"),
        (answer(status="incomplete", incomplete_details={"reason": "max_output_tokens"}), "length"),
        (
            answer(status="incomplete", incomplete_details={"reason": "content_filter"}),
            "content_filter",
        ),
        (answer(status="queued"), "queued"),
    ],
)  # fmt: skip
def test_why_it_ended(body: dict[str, Any], expected: str) -> None:
    """In the words of §11.3."""
    answered = read_body("responses", body)

    assert answered.status == "ok"
    assert answered.stop_reason == expected


def test_usage_is_counted() -> None:
    answered = read_body("responses", answer(usage={"input_tokens": 3, "output_tokens": 4}))

    assert answered.usage == Usage(input_tokens=3, output_tokens=4, requests=1)


def test_a_response_that_failed_is_an_error() -> None:
    """Streamed or not, the same."""
    body = answer(status="failed", error={"code": "server_error", "message": "overloaded"})

    whole = read_body("responses", body)

    assert whole.error == {"code": "failed", "message": "overloaded"}
    assert read_stream("responses", {"type": "response.failed", "response": body}) == whole


BEGUN = {"type": "response.created", "response": {"id": "resp_1", "status": "in_progress"}}
ADDED = {
    "type": "response.output_item.added",
    "output_index": 0,
    "item": {"type": "message", "role": "assistant", "content": []},
}
DELTA = {"type": "response.output_text.delta", "output_index": 0, "delta": "a"}


@for_each(
    "events, code, content",
    [
        ([BEGUN, ADDED, DELTA, DELTA], "cut", "aa"),
        ([], "cut", None),
        ([BEGUN, ADDED, DELTA, {"type": "error", "message": "overloaded"}], "stream", "a"),
        ([BEGUN, {"type": "error", "error": {"message": "overloaded"}}], "stream", None),
        ([BEGUN, ADDED, "{", DELTA], "malformed", "a"),
        ([BEGUN, {"type": "response.completed", "response": {}}], "malformed", None),
    ],
)
def test_a_stream_that_fails_keeps_what_came(
    events: list[dict[str, Any] | str], code: str, content: str | None
) -> None:
    """The first reason is the error."""
    assert failure("responses", *events) == (code, content)


def test_an_end_without_its_output_is_filled_from_the_items() -> None:
    """Some servers leave it out."""
    done = {"type": "response.output_item.done", "output_index": 0, "item": call()}
    end = {"type": "response.completed", "response": answer()}

    found = read_stream("responses", BEGUN, done, end)

    assert found.error is None
    assert found.message == {"role": "assistant", "content": "", "tool_calls": [called()]}


def test_an_end_with_its_output_has_the_last_word() -> None:
    """Over the items that came before it."""
    done = {"type": "response.output_item.done", "output_index": 0, "item": call("first")}
    end = {"type": "response.completed", "response": answer(call("last"))}

    assert read_stream("responses", BEGUN, done, end).message == {
        "role": "assistant",
        "content": "",
        "tool_calls": [called("last")],
    }


def test_an_answer_that_was_cut_has_the_id_of_its_beginning() -> None:
    """The next request may name it."""
    begun = {"type": "response.created", "response": {"id": "resp_1", "status": "in_progress"}}

    assert id_of("responses", sse((begun, ADDED, DELTA)), streamed=True) == "resp_1"


@pytest.mark.long
def test_a_long_answer_is_cut_in_bounded_memory() -> None:
    """Of its deltas while it comes, and of the whole at its end."""
    piece = "x" * 65536
    deltas = sse(({**DELTA, "delta": piece},)) * 160
    end = {"type": "response.completed", "response": answer(said("assistant", piece * 160))}

    sizes = iter(lambda: 50_000, 0)
    cut = read("responses", sse((BEGUN, ADDED)) + deltas, streamed=True, sizes=sizes)
    whole = read_stream("responses", BEGUN, ADDED, end)

    for answered in (cut, whole):
        assert answered.message is not None
        assert len(answered.message["content"]) <= 4 * 1024 * 1024
        assert answered.message["truncated"]["seen_bytes"] >= 160 * 65536
