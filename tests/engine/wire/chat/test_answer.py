"""The chat-completions interface, read from outside: answers."""

import json
from itertools import repeat
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.engine.events.events import ModelAnswered
from refold.engine.events.outcome import Usage
from refold.engine.wire.chat import request as chat
from tests.support.api_answers import (
    CHAT_BODY,
    chat_events,
    failure,
    in_pieces,
    read,
    read_body,
    read_stream,
    sse,
)
from tests.support.later import Later
from tests.support.loops import for_each

if TYPE_CHECKING:
    import openai.types.chat
else:
    openai = Later("openai")


def message(said: dict[str, Any]) -> dict[str, Any]:
    """Return the neutral message that a message of a request is."""
    (found,) = chat.asked({"model": "m", "messages": [said]}).messages
    return found


def answer(said: dict[str, Any], finish: str = "stop") -> ModelAnswered:
    """Return what an answer with this message says."""
    return read_body("chat", {"choices": [{"index": 0, "message": said, "finish_reason": finish}]})


def delta(said: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    """Return a chunk of a stream."""
    return {"choices": [{"index": 0, "delta": said, "finish_reason": finish}]}


def call(call_id: str = "c", name: str = "f", arguments: Any = '{"a": 1}') -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {"id": call_id, "type": "function", "function": function}


CALLED = {"id": "c", "name": "f", "arguments": {"a": 1}}


@pytest.mark.usefixtures("many_times")
@given(body=CHAT_BODY, random=st.randoms(use_true_random=False))
def test_a_stream_says_the_same_as_a_body(body: dict[str, Any], random: Random) -> None:
    """Whatever the pieces; calls interleaved, arguments invalid, usage at the end."""
    whole = read_body("chat", body)

    assert in_pieces("chat", sse(chat_events(body, random)), random) == whole
    assert whole.status == "ok"
    assert whole.usage.requests == 1


@pytest.mark.usefixtures("many_times")
@given(body=CHAT_BODY)
def test_an_answer_equals_what_a_client_repeats(body: dict[str, Any]) -> None:
    """The SDK's own dump, with and without null members."""
    said = read_body("chat", body).message
    parsed = openai.types.chat.ChatCompletion.model_validate(body).choices[0].message

    assert message(parsed.model_dump(exclude_none=True)) == said
    assert message(parsed.model_dump()) == said
    assert message(json.loads(parsed.model_dump_json(exclude_unset=True))) == said


@for_each(
    "finish, said, expected",
    [
        ("stop", {"content": "a"}, "stop"),
        ("length", {"content": "a"}, "length"),
        ("content_filter", {"content": ""}, "content_filter"),
        ("stop", {"refusal": "no"}, "refusal"),
        ("stop", {"tool_calls": [call()]}, "tool_calls"),
        ("function_call", {"function_call": {"name": "f", "arguments": ""}}, "tool_calls"),
        ("", {"content": "a"}, "stop"),
    ],
)
def test_why_it_ended(finish: str, said: dict[str, Any], expected: str) -> None:
    """In the words of §11.3."""
    assert answer(said, finish).stop_reason == expected


def test_a_stream_has_usage_where_it_says_so() -> None:
    """A request is one, told or not."""
    said = delta({"content": "a"}, "stop")
    usage = {"prompt_tokens": 3, "completion_tokens": 2}

    assert read_stream("chat", said, "[DONE]").usage == Usage(requests=1, untold=1)
    assert read_stream("chat", said, {"choices": [], "usage": usage}, "[DONE]").usage == Usage(
        input_tokens=3, output_tokens=2, requests=1
    )


@for_each(
    "pieces",
    [
        [{"index": 0, **call("a")}, {"index": 1, **call("b")}],
        [{"index": 0, **call("a")}, {"index": 0, **call("b")}],
        [call("a"), call("b")],
        [{"index": 5, **call("b")}, {"index": 3, **call("a")}],
        [
            {"index": 0, **call("a", arguments="")},
            {"index": 1, **call("b", arguments="")},
            {"index": 1, "function": {"arguments": '{"a":'}},
            {"index": 0, "id": "a", "function": {"arguments": '{"a": 1}'}},
            {"index": 1, "id": "", "function": {"name": None, "arguments": "1}"}},
        ],
        [
            {"id": "a", "function": {"name": "f"}},
            {"function": {"arguments": '{"a": 1}'}},
            call("b"),
        ],
        [
            {"index": 0, **call("a", arguments="")},
            {"index": 1, "function": {"arguments": '{"a":'}},
            {"index": 2, "function": {"arguments": " 1}"}},
            {"index": 2, **call("b")},
        ],
        [
            {"index": 0, **call("a", arguments='{"a":')},
            {"index": 0, "id": "", "function": {"name": "f", "arguments": " 1}"}},
            {"index": 0, "id": "a", "function": {"name": "f", "arguments": ""}},
            {"index": 0, "id": "b", "function": {"name": "f", "arguments": '{"a": 1}'}},
            {"index": 0, "function": {"name": "f", "arguments": ""}},
        ],
    ],
)
def test_calls_come_in_pieces_of_several_manners(pieces: list[dict[str, Any]]) -> None:
    """By index, by id where a server gives each the same index, whole without an index."""
    chunks = [delta({"tool_calls": [piece]}) for piece in pieces]

    found = read_stream("chat", *chunks, delta({}, "tool_calls"), "[DONE]")

    assert found.message == {
        "role": "assistant",
        "content": "",
        "tool_calls": [{**CALLED, "id": "a"}, {**CALLED, "id": "b"}],
    }


_WITHOUT_IDS = [
    [{"function": {"name": name, "arguments": text}} for name, text in pieces]
    for pieces in (
        [("f", '{"a": 1}'), ("g", '{"a": 1}')],
        [("f", '{"a": 1}'), ("f", '{"a": 2}')],
        [("f", ""), ("f", '{"a":'), ("f", " 1}"), ("g", ""), ("g", '{"a": 1}')],
        [("f", ""), (None, '{"a": 1}'), ("f", ""), ("g", '{"a": 1}'), ("g", "")],
    )
]


@pytest.mark.parametrize("place", [{}, {"id": ""}, {"index": 0}, {"index": 0, "id": None}])
@pytest.mark.parametrize("pieces", _WITHOUT_IDS)
def test_calls_without_ids_begin_with_a_name(
    pieces: list[dict[str, Any]], place: dict[str, Any]
) -> None:
    """A repeated name is one name, unless the call before it is whole."""
    wanted = [("f", {"a": 1}), ("g", {"a": 1})]
    if pieces is _WITHOUT_IDS[1]:
        wanted = [("f", {"a": 1}), ("f", {"a": 2})]
    for chunks in (
        [[{**each, **place}] for each in pieces],
        [[{**each, **place} for each in pieces]],
    ):
        found = read_stream("chat", *(delta({"tool_calls": each}) for each in chunks), "[DONE]")

        calls = (found.message or {})["tool_calls"]
        assert [(each["name"], each["arguments"]) for each in calls] == wanted


@pytest.mark.parametrize(
    "said",
    [
        {"content": "a", "function_call": {"name": "", "arguments": ""}},
        {"content": "a", "tool_calls": [{"id": "x", "type": "function", "function": {}}]},
    ],
)
def test_a_call_without_a_name_is_none(said: dict[str, Any]) -> None:
    """Snowflake sends one beside each text."""
    found = answer(said), read_stream("chat", delta(said, "stop"), "[DONE]")

    for each in found:
        assert "tool_calls" not in (each.message or {})
        assert each.stop_reason == "stop"


_TOLD = {"prompt_tokens": 3, "completion_tokens": 2}


@for_each(
    "chunks",
    [
        [{**delta({}, "stop"), "x_groq": {"usage": _TOLD}}],
        [{"choices": [{"delta": {}, "finish_reason": "stop", "usage": _TOLD}]}],
        [{**delta({}, "stop"), "usage": {"prompt_tokens": 3.0, "completion_tokens": "2"}}],
        [{"choices": [], "usage": _TOLD}, {"choices": [], "usage": dict.fromkeys(_TOLD, 0)}],
        [{"choices": [], "usage": _TOLD}, {"choices": [], "usage": dict.fromkeys(_TOLD)}],
    ],
)
def test_usage_is_read_wherever_servers_put_it(chunks: list[dict[str, Any]]) -> None:
    """As whole numbers of any notation; zeros at the end take nothing back."""
    found = read_stream("chat", delta({"content": "a"}), *chunks, "[DONE]")

    assert found.usage == Usage(input_tokens=3, output_tokens=2, requests=1)


@for_each("count", [-1, 1.5, True, "3.0", "x", "9" * 30, 1e300, 2**53 + 1, [], {}])
def test_what_is_not_a_count_is_not_counted(count: Any) -> None:
    """Nothing of a server's numbers is trusted."""
    body = {"choices": [{"message": {"content": "a"}}], "usage": {"prompt_tokens": count}}

    assert read_body("chat", body).usage == Usage(requests=1, untold=1)


def test_usage_without_a_message_is_counted() -> None:
    """The tokens were spent."""
    found = read_body("chat", {"choices": [], "usage": _TOLD})

    assert (found.error or {})["code"] == "malformed"
    assert found.usage == Usage(input_tokens=3, output_tokens=2, requests=1)


def test_halves_of_a_character_are_put_together() -> None:
    """A delta may end between them."""
    found = read_stream(
        "chat", delta({"content": "a\ud83d"}), delta({"content": "\ude00"}, "stop"), "[DONE]"
    )

    assert found.message == {"role": "assistant", "content": "a\U0001f600"}


@for_each("places", [({"index": 1}, {"index": 0}), ({}, {}), ({}, {"index": "1"})])
def test_further_choices_stand_beside_the_first(places: tuple[dict[str, Any], ...]) -> None:
    """In order of their index; some servers leave it out, and then as they stand."""
    texts = "ba" if places[0] else "ab"
    choices = [
        {"message": {"role": "assistant", "content": text}, "finish_reason": "stop", **place}
        for text, place in zip(texts, places, strict=True)
    ]

    found = read_body("chat", {"choices": choices})

    other = {"role": "assistant", "content": "b"}
    assert found.message == {
        "role": "assistant", "content": "a", "provider": {"choices": [other]}
    }  # fmt: skip


@for_each(
    "events, code, content",
    [
        ([delta({"content": "a"})], "cut", "a"),
        ([], "cut", None),
        ([delta({"content": "a"}), {"error": {"message": "overloaded"}}], "stream", "a"),
        ([{"error": {"message": "overloaded"}}], "stream", None),
        ([delta({"content": "a"}), "{", delta({}, "stop"), "[DONE]"], "malformed", "a"),
        (["[DONE]"], "malformed", None),
        ([{"choices": []}, "[DONE]"], "malformed", None),
    ],
)
def test_a_stream_that_fails_keeps_what_came(
    events: list[dict[str, Any] | str], code: str, content: str | None
) -> None:
    """The first reason is the error."""
    assert failure("chat", *events) == (code, content)


def test_a_finish_reason_is_an_end_too() -> None:
    """Some servers send no end marker."""
    assert read_stream("chat", delta({"content": "a"}, "stop")).status == "ok"


@for_each(
    "body, code",
    [
        ({"error": {"message": "no credit"}}, "failed"),
        ({"choices": []}, "malformed"),
        ({"choices": [{"message": None}]}, "malformed"),
        ([], "malformed"),
    ],
)
def test_a_body_without_a_message_is_an_error(body: Any, code: str) -> None:
    """Whatever its status says."""
    found = read_body("chat", body)

    assert (found.status, (found.error or {})["code"], found.message) == ("error", code, None)


def test_a_long_answer_is_cut_in_bounded_memory() -> None:
    """It says how much of it there was; streamed or not, the same."""
    piece = "x" * 65536
    chunks = sse((delta({"content": piece}),)) * 160 + sse((delta({}, "stop"), "[DONE]"))

    found = read("chat", chunks, streamed=True, sizes=repeat(50_000))

    assert found.message is not None
    assert len(found.message["content"]) == 4 * 1024 * 1024
    assert found.message["truncated"] == {
        "kept_bytes": 4 * 1024 * 1024, "seen_bytes": 160 * 65536
    }  # fmt: skip
    assert found == answer({"role": "assistant", "content": piece * 160})
