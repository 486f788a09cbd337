"""The OpenAI-compatible adapter: through the real client, against a server on this machine."""

import json
from pathlib import Path
from typing import Any

import pytest

from refold.engine.errors import ModelError
from refold.engine.models import OpenAICompatibleModel
from refold.engine.ports.ports import ModelReply, ModelRequest, ToolDefinition
from tests.support.corpus import Recorded, corpus, recorded_answers
from tests.support.loops import for_each
from tests.support.model_server import OPENAI_PATH, Answer, ModelServer, answers_in
from tests.support.reading import read, served, told

FIXTURES = Path(__file__).parents[3] / "fixtures" / "models" / "openai"
ASKED = ModelRequest(messages=({"role": "user", "content": "Tides?"},))


def cases(member: str) -> list[str]:
    """Return the names of the fixtures that must read back as a reply, or as an error."""
    return [path.stem for path in sorted(FIXTURES.glob("*.json")) if member in expected(path.stem)]


def expected(name: str) -> dict[str, Any]:
    whole: dict[str, Any] = json.loads((FIXTURES / f"{name}.json").read_text())
    return whole


def complete(answers: list[Answer], *requests: ModelRequest) -> tuple[list[ModelReply], Any]:
    """Return the replies to the requests, and the body of the last one as the server saw it."""
    with ModelServer({OPENAI_PATH: answers}) as server:
        model = OpenAICompatibleModel("small-1", base_url=server.openai_url)
        try:
            replies = [model.complete(request) for request in requests]
        finally:
            model.close()
        return replies, server.received[-1].body


@for_each("name", cases("reply"))
def test_a_recorded_answer_reads_back(name: str) -> None:
    """Text, calls, usage and stop reason are what the fixture says, after the client's retries."""
    [reply], _ = complete(answers_in(FIXTURES / f"{name}.json"), ASKED)

    assert told(reply, expected(name)["reply"]) == expected(name)["reply"]


@for_each("name", cases("error"))
def test_a_failure_is_a_model_error(name: str) -> None:
    """Its code says which kind, its message is short and holds no key."""
    with pytest.raises(ModelError) as caught:
        complete(answers_in(FIXTURES / f"{name}.json"), ASKED)

    error = expected(name)["error"]
    assert (caught.value.model, caught.value.code) == ("openai:small-1", error["code"])
    assert error["says"] in caught.value.message
    assert len(caught.value.message) <= 300
    assert "\n" not in caught.value.message


def test_the_fixtures_are_there() -> None:
    """An empty folder would let the two tests above pass for nothing."""
    assert len(cases("reply")) >= 8
    assert len(cases("error")) >= 3


def test_messages_tools_and_parameters_are_sent_as_the_protocol_has_them() -> None:
    """Each neutral message has one form; parameters go by name, those for scripts not at all."""
    request = ModelRequest(
        messages=(
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Tides?"},
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [
                    {"id": "a", "name": "search", "arguments": {"query": "☾"}},
                    {"id": "b", "name": "search", "arguments": {}, "invalid": '{"query'},
                ],
            },
            {"role": "tool", "tool_call_id": "a", "name": "search", "content": "none"},
            {
                "role": "tool",
                "tool_call_id": "b",
                "name": "search",
                "content": "bad",
                "is_error": True,
            },
        ),
        tools=(ToolDefinition(name="search", description="Look.", parameters={"type": "object"}),),
        parameters={"temperature": 0, "min_p": 0.1, "agent": "root", "inherited": 0},
    )

    _, body = complete([Answer(body=plain_answer())], request)

    assert body == {
        "model": "small-1",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Tides?"},
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [
                    call_back("a", "search", '{"query":"☾"}'),
                    call_back("b", "search", '{"invalid_json":"{\\"query"}'),
                ],
            },
            {"role": "tool", "tool_call_id": "a", "content": "none"},
            {"role": "tool", "tool_call_id": "b", "content": "bad"},
        ],
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "search",
                    "description": "Look.",
                    "parameters": {"type": "object"},
                },
            }
        ],
        "temperature": 0,
        "min_p": 0.1,
    }


def test_what_a_server_wants_back_goes_back() -> None:
    """Members kept under `provider` stand in the next request where they stood in the answer."""
    [reply], _ = complete(answers_in(FIXTURES / "kept.json"), ASKED)
    result = {"role": "tool", "tool_call_id": "call_a", "name": "search", "content": "none"}
    followed = ModelRequest(messages=(*ASKED.messages, reply.message, result))

    _, body = complete([Answer(body=plain_answer())], followed)

    assert body["messages"][1] == {
        "role": "assistant",
        "content": "",
        "reasoning_content": "The moon pulls.",
        "tool_calls": [
            call_back("call_a", "search", "{}")
            | {"extra_content": {"google": {"thought_signature": "c2ln"}}}
        ],
    }


def test_text_in_parts_is_one_text() -> None:
    """Some servers give an answer's content as a list."""
    answer = plain_answer()
    answer["choices"][0]["message"]["content"] = [
        {"type": "text", "text": "The "},
        {"type": "thinking", "thinking": []},
        {"type": "text", "text": "moon."},
    ]

    [reply], _ = complete([Answer(body=answer)], ASKED)

    assert reply.message == {"role": "assistant", "content": "The moon."}


def test_every_recorded_answer_of_others_reads_back() -> None:
    """Real answers give the text, calls and usage that their JSON holds."""
    recorded = list(recorded_answers(corpus(), "openai"))
    assert recorded

    with ModelServer({OPENAI_PATH: served(recorded)}) as server:
        model = OpenAICompatibleModel("small-1", base_url=server.openai_url, max_retries=0)
        for answer in recorded:
            assert read(model, ASKED) == independently_read(answer), answer.source
        model.close()


def independently_read(answer: Recorded) -> Any:
    if answer.status != 200:
        return f"http_{answer.status}"
    choice, usage = answer.body["choices"][0], answer.body["usage"]
    told = [
        (call["id"], call["function"]["name"], json.loads(call["function"]["arguments"]))
        for call in choice["message"].get("tool_calls") or []
    ]
    tokens = (usage["prompt_tokens"], usage["completion_tokens"])
    return choice["message"]["content"] or "", told, tokens, choice["finish_reason"]


def call_back(call_id: str, name: str, arguments: str) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {"id": call_id, "type": "function", "function": function}


def plain_answer() -> dict[str, Any]:
    answer: dict[str, Any] = expected("text")["answers"][0]["body"]
    return answer
