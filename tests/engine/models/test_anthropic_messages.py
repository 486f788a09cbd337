"""The Anthropic adapter: through the real client, against a server on this machine."""

import json
from pathlib import Path
from random import Random
from typing import Any

import attrs
import pytest

from refold.engine.errors import ModelError
from refold.engine.models import AnthropicModel
from refold.engine.models.anthropic_messages import most_tokens
from refold.engine.ports.ports import ModelReply, ModelRequest, ToolDefinition
from tests.support.api_answers import messages_events, sse
from tests.support.corpus import Recorded, corpus, recorded_answers
from tests.support.loops import for_each
from tests.support.model_server import ANTHROPIC_PATH, Answer, ModelServer, answers_in
from tests.support.reading import read, served, told

FIXTURES = Path(__file__).parents[3] / "fixtures" / "models" / "anthropic"
ASKED = ModelRequest(messages=({"role": "user", "content": "Tides?"},))
STOPS = {"end_turn": "stop", "tool_use": "tool_calls", "max_tokens": "length"}


def cases(member: str) -> list[str]:
    """Return the names of the fixtures that must read back as a reply, or as an error."""
    return [path.stem for path in sorted(FIXTURES.glob("*.json")) if member in expected(path.stem)]


def expected(name: str) -> dict[str, Any]:
    whole: dict[str, Any] = json.loads((FIXTURES / f"{name}.json").read_text())
    return whole


def complete(answers: list[Answer], request: ModelRequest) -> tuple[ModelReply, Any]:
    """Return the reply, and the body of the request as the server saw it."""
    with ModelServer({ANTHROPIC_PATH: answers}) as server:
        model = AnthropicModel("large-1", base_url=server.url)
        try:
            reply = model.complete(request)
        finally:
            model.close()
        return reply, server.received[-1].body


def sent(*messages: dict[str, Any], **parameters: Any) -> Any:
    """Return the body of a request with these messages."""
    request = ModelRequest(messages=messages, parameters=parameters)
    return complete(answers_in(FIXTURES / "text.json"), request)[1]


@for_each("name", cases("reply"))
def test_a_recorded_answer_reads_back(name: str) -> None:
    """Text, calls, usage and stop reason are what the fixture says, after the client's retries."""
    reply, _ = complete(answers_in(FIXTURES / f"{name}.json"), ASKED)

    assert told(reply, expected(name)["reply"]) == expected(name)["reply"]


@for_each("name", cases("error"))
def test_a_failure_is_a_model_error(name: str) -> None:
    """Its code says which kind, its message is short."""
    with pytest.raises(ModelError) as caught:
        complete(answers_in(FIXTURES / f"{name}.json"), ASKED)

    error = expected(name)["error"]
    assert (caught.value.model, caught.value.code) == ("anthropic:large-1", error["code"])
    assert error["says"] in caught.value.message
    assert len(caught.value.message) <= 300


def test_the_fixtures_are_there() -> None:
    """An empty folder would let the two tests above pass for nothing."""
    assert len(cases("reply")) >= 8
    assert len(cases("error")) >= 3


def test_a_conversation_is_sent_as_the_protocol_has_it() -> None:
    """System texts stand apart; results of parallel calls share one user message, in order."""
    body = sent(
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Tides?"},
        {
            "role": "assistant",
            "content": "Let me look.",
            "tool_calls": [
                {"id": "a", "name": "search", "arguments": {"query": "☾"}},
                {"id": "b", "name": "search", "arguments": {}, "invalid": '{"query'},
            ],
        },
        {"role": "tool", "tool_call_id": "a", "name": "search", "content": ""},
        {"role": "tool", "tool_call_id": "b", "name": "search", "content": "bad", "is_error": True},
        {"role": "system", "content": "Hurry."},
        {"role": "user", "content": "Well?"},
    )

    assert body == {
        "model": "large-1",
        "max_tokens": 8192,
        "system": "Be brief.\n\nHurry.",
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Tides?"}]},
            {
                "role": "assistant",
                "content": [
                    {"type": "text", "text": "Let me look."},
                    {"type": "tool_use", "id": "a", "name": "search", "input": {"query": "☾"}},
                    {
                        "type": "tool_use",
                        "id": "b",
                        "name": "search",
                        "input": {"invalid_json": '{"query'},
                    },
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "a"},
                    {
                        "type": "tool_result",
                        "tool_use_id": "b",
                        "content": "bad",
                        "is_error": True,
                    },
                    {"type": "text", "text": "Well?"},
                ],
            },
        ],
    }


def test_blank_text_is_not_sent() -> None:
    """The protocol refuses blank blocks: an assistant who said nothing leaves no message."""
    body = sent(
        {"role": "user", "content": "Tides?"},
        {"role": "assistant", "content": " \n"},
        {"role": "user", "content": "Well?"},
    )

    texts = [{"type": "text", "text": "Tides?"}, {"type": "text", "text": "Well?"}]
    assert body["messages"] == [{"role": "user", "content": texts}]


def test_thinking_goes_back_with_its_signature() -> None:
    """What the neutral message has no place for is sent back as it came, and stays unchanged."""
    reply, _ = complete(answers_in(FIXTURES / "thinking.json"), ASKED)
    kept = json.dumps(reply.message)

    body = sent(*ASKED.messages, reply.message, {"role": "assistant", "content": "More."})

    blocks = expected("thinking")["answers"][0]["body"]["content"]
    assert body["messages"][1]["content"] == [*blocks, {"type": "text", "text": "More."}]
    assert json.dumps(reply.message) == kept


def test_tools_and_parameters_are_sent_by_name() -> None:
    """Schemas go as they are; the common words for `tool_choice` are translated."""
    request = ModelRequest(
        messages=ASKED.messages,
        tools=(ToolDefinition(name="search", description="Look.", parameters={"type": "object"}),),
        parameters={"max_tokens": 9, "temperature": 0, "tool_choice": "required", "agent": "root"},
    )

    _, body = complete(answers_in(FIXTURES / "text.json"), request)

    del body["messages"], body["model"]
    assert body == {
        "max_tokens": 9,
        "temperature": 0,
        "tool_choice": {"type": "any"},
        "tools": [
            {"name": "search", "description": "Look.", "input_schema": {"type": "object"}},
        ],
    }


LONG = attrs.evolve(ASKED, parameters={"max_tokens": 1_000_000})


@for_each("name", cases("reply"))
def test_a_long_answer_is_asked_for_as_a_stream_and_reads_back_the_same(name: str) -> None:
    """The SDK refuses to wait for it otherwise; a server may answer at once all the same."""
    whole = answers_in(FIXTURES / f"{name}.json")
    streamed = [
        attrs.evolve(
            each,
            headers={**each.headers, "content-type": "text/event-stream"},
            body=sse(tuple(messages_events(each.body, Random(1)))),
        )
        if each.status == 200
        else each
        for each in whole
    ]

    (one, body), (other, _) = complete(streamed, LONG), complete(whole, LONG)

    assert one == other == complete(whole, ASKED)[0]
    assert (body["stream"], body["max_tokens"]) == (True, 1_000_000)


@pytest.mark.parametrize(
    ("event", "code"),
    [({"type": "ping"}, "connection"), ({"type": "error", "error": {"message": "busy"}}, "raised")],
)
def test_a_stream_without_its_end_is_a_model_error(event: dict[str, Any], code: str) -> None:
    """Half an answer is none."""
    (answer,) = answers_in(FIXTURES / "text.json")
    *events, _ = messages_events(answer.body, Random(1))
    cut = Answer(body=sse((*events, event)), headers={"content-type": "text/event-stream"})

    with pytest.raises(ModelError) as caught:
        complete([cut], LONG)

    assert caught.value.code == code


@for_each(
    "model, most",
    [
        ("claude-3-haiku-20240307", 4096),
        ("claude-3-5-sonnet-latest", 8192),
        ("claude-3-7-sonnet-latest", 64_000),
        ("claude-opus-4-0", 32_000),
        ("claude-opus-4-1-20250805", 32_000),
        ("claude-opus-4-20250514", 32_000),
        ("anthropic.claude-opus-4-1-20250805-v1:0", 32_000),
        ("claude-opus-4-5", 64_000),
        ("claude-sonnet-4-5", 64_000),
        ("claude-haiku-4-5@20251001", 64_000),
        ("large-1", 8192),
    ],
)
def test_a_model_is_asked_for_as_much_as_it_can_say(model: str, most: int) -> None:
    """A request names its own number; without one, no answer is cut that need not be."""
    assert most_tokens(model) == most


def test_every_recorded_answer_of_others_reads_back() -> None:
    """Real answers give the text, calls and usage that their JSON holds."""
    recorded = list(recorded_answers(corpus(), "anthropic"))
    assert recorded

    with ModelServer({ANTHROPIC_PATH: served(recorded)}) as server:
        model = AnthropicModel("large-1", base_url=server.url, max_retries=0)
        for answer in recorded:
            assert read(model, ASKED) == independently_read(answer), answer.source
        model.close()


def independently_read(answer: Recorded) -> Any:
    if answer.status != 200:
        return f"http_{answer.status}"
    body = answer.body
    text = "".join(block["text"] for block in body["content"] if block["type"] == "text")
    told = [
        (block["id"], block["name"], block["input"])
        for block in body["content"]
        if block["type"] == "tool_use"
    ]
    usage = body["usage"]
    cached = (usage.get(f"cache_{kind}_input_tokens") or 0 for kind in ("creation", "read"))
    tokens = (usage["input_tokens"] + sum(cached), usage["output_tokens"])
    return text, told, tokens, STOPS[body["stop_reason"]]
