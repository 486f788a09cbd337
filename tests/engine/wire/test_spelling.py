"""An edited answer is spelled so that who reads the interface reads just that answer."""

import json
from typing import Any, get_args

import pytest
from pydantic import TypeAdapter

from refold.engine.events.events import ModelAnswered
from refold.engine.events.outcome import Usage
from refold.engine.wire.apis import reader_of
from refold.engine.wire.parts.exchange import PLACE, Asked
from refold.engine.wire.parts.kept_answers import pieces
from refold.engine.wire.spelling import can_spell, refused, spelled
from tests.support.loops import for_each
from tests.support.watched import says

APIS = ("chat", "responses", "messages")
ANSWERS = {
    "text": says("Grey rain — grey sea."),
    "call": says("", ("c1", "look", {"for": ["fish", 3]})),
    "both": says("I look.", ("c1", "look", {"for": "fish"}), ("c2", "walk", {})),
}


FRAMED = "/model/anthropic.claude/invoke-with-response-stream"


def read(
    api: str, answer: dict[str, Any] | ModelAnswered, *, streamed: bool, place: str = ""
) -> Any:
    """Return what a reader makes of a spelled answer."""
    parameters: dict[str, Any] = {"stream": streamed}
    if place:
        parameters = {PLACE: place}
    elif streamed:
        parameters["stream_options"] = {"include_usage": True}
    asked = Asked(api=api, model="m", parameters=parameters)
    if isinstance(answer, dict):
        reason = "tool_calls" if answer.get("tool_calls") else "stop"
        usage = Usage(input_tokens=7, output_tokens=3)
        answer = ModelAnswered("ok", answer, usage, reason)
    part = spelled(asked, answer)
    reader = reader_of(asked, int(part["status"]), part["headers"]["content-type"])
    for _, chunk in pieces([part]):
        reader.feed(chunk)
    return reader.answered()


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("name", ANSWERS)
@pytest.mark.parametrize("api", APIS)
def test_a_spelled_answer_is_read_as_it_was_meant(api: str, name: str, streamed: bool) -> None:  # noqa: FBT001 - a parameter
    """Text, calls, usage and why it stopped; whole or streamed."""
    found = read(api, ANSWERS[name], streamed=streamed)

    message = {key: item for key, item in found.message.items() if key != "provider"}
    assert message == ANSWERS[name]
    assert found.status == "ok"
    assert found.stop_reason == ("stop" if name == "text" else "tool_calls")
    assert (found.usage.input_tokens, found.usage.output_tokens) == (7, 3)


@pytest.mark.long
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("name", ANSWERS)
@pytest.mark.parametrize("api", APIS)
def test_a_spelled_answer_is_what_the_sdk_of_its_provider_expects(
    api: str,
    name: str,
    streamed: bool,  # noqa: FBT001 - a parameter
) -> None:
    """Each member that a provider always sends."""
    chat = pytest.importorskip("openai.types.chat")
    anthropic = pytest.importorskip("anthropic.types")
    responses = pytest.importorskip("openai.types.responses")
    types = {
        "responses": (responses.Response, responses.ResponseStreamEvent),
        "chat": (chat.ChatCompletion, chat.ChatCompletionChunk),
        "messages": (anthropic.Message, anthropic.RawMessageStreamEvent),
    }
    expected: TypeAdapter[Any] = TypeAdapter(types[api][streamed])

    for each in said_of(api, name, streamed=streamed):
        expected.validate_json(each)


@pytest.mark.parametrize("name", ANSWERS)
def test_events_of_a_spelled_answer_have_names_that_the_sdk_knows(name: str) -> None:
    """Others it would pass over."""
    responses = pytest.importorskip("openai.types.responses")
    union = get_args(get_args(responses.ResponseStreamEvent)[0])
    known = {each for one in union for each in get_args(one.model_fields["type"].annotation)}

    events = [json.loads(each) for each in said_of("responses", name, streamed=True)]

    assert {event["type"] for event in events} <= known
    assert [event["type"] for event in events[:2]] == ["response.created", "response.in_progress"]


def said_of(api: str, name: str, *, streamed: bool) -> list[str]:
    """Return the JSON documents of a spelled answer: its body, or the data of its events."""
    answer = ModelAnswered("ok", ANSWERS[name], Usage(input_tokens=7, output_tokens=3), "stop")
    text = str(spelled(Asked(api=api, model="m", parameters={"stream": streamed}), answer)["text"])
    if not streamed:
        return [text]
    lines = [line.removeprefix("data: ") for line in text.splitlines() if line[:6] == "data: "]
    return [line for line in lines if line != "[DONE]"]


@for_each("name", ANSWERS)
def test_an_answer_in_frames_is_read_as_it_was_meant(name: str) -> None:
    """Bedrock's stream: the events are Anthropic's."""
    found = read("messages", ANSWERS[name], streamed=True, place=FRAMED)

    message = {key: item for key, item in found.message.items() if key != "provider"}
    assert (found.status, message) == ("ok", ANSWERS[name])
    assert (found.usage.input_tokens, found.usage.output_tokens) == (7, 3)


@for_each("api", APIS)
def test_an_error_is_one_of_the_server(api: str) -> None:
    """With its message, in the form of the interface, and not to be retried."""
    answer = ModelAnswered("error", error={"code": "raised", "message": "no more"})

    found = read(api, answer, streamed=False)

    assert (found.status, found.error["code"]) == ("error", "http_500")
    assert "no more" in found.error["message"]


@pytest.mark.parametrize("status", [400, 401, 429, 500, 503, 529])
@pytest.mark.parametrize(
    ("api", "form"),
    [
        ("chat", {429: {"type": "requests", "code": "rate_limit_exceeded"}}),
        ("responses", {401: {"code": "invalid_api_key"}}),
        ("messages", {429: {"type": "rate_limit_error"}, 529: {"type": "overloaded_error"}}),
        ("generate", {429: {"code": 429, "status": "RESOURCE_EXHAUSTED"}}),
    ],
)
def test_an_error_with_a_status_has_it_in_the_form_of_its_provider(
    api: str, form: dict[int, dict[str, Any]], status: int
) -> None:
    """Clients may ask again, as they would of the provider; nothing says that Refold refused."""
    asked = Asked(api=api, model="m")
    error = {"code": f"http_{status}", "message": "no more"}

    part = spelled(asked, ModelAnswered("error", error=error))
    body = json.loads(part["text"])

    assert (part["status"], part["headers"]) == (status, {"content-type": "application/json"})
    assert {**body["error"], **form.get(status, {}), "message": "no more"} == body["error"]
    assert "not_recorded" not in part["text"]
    assert read(api, ModelAnswered("error", error=error), streamed=True).error == error


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("api", [*APIS, "generate"])
def test_a_refusal_is_read_as_one(api: str, streamed: bool) -> None:  # noqa: FBT001 - a parameter
    """As the provider's own: with its text, and why it stopped; as its SDK expects it."""
    answer = ModelAnswered("ok", says("I cannot."), stop_reason="refusal")

    found = read(api, answer, streamed=streamed)

    assert (found.status, found.stop_reason) == ("ok", "refusal")
    assert found.message["content"] == "I cannot."
    if api == "responses" and streamed:
        responses = pytest.importorskip("openai.types.responses")
        expected: TypeAdapter[Any] = TypeAdapter(responses.ResponseStreamEvent)
        asked = Asked(api=api, model="m", parameters={"stream": True})
        lines = str(spelled(asked, answer)["text"]).splitlines()
        for line in (each for each in lines if each.startswith("data: ")):
            expected.validate_json(line.removeprefix("data: "))


def test_other_requests_have_no_spelling() -> None:
    """What they are answered is nobody's to guess."""
    assert not can_spell(Asked(api="other", model=""))


def test_a_failure_has_the_form_of_its_interface() -> None:
    """And that of chat where the interface is not known."""
    fault = {"type": "api_error", "message": "no"}

    assert refused(Asked(api="messages", model=""), 500, "no") == {"type": "error", "error": fault}
    assert "type" not in refused(Asked(api="chat", model=""), 500, "no")
    assert "type" not in refused(Asked(api="other", model=""), 500, "no")


def test_a_call_without_arguments_has_none() -> None:
    """An object without members, for no client reads a null."""
    message = {"role": "assistant", "content": "", "tool_calls": [{"id": "c", "name": "look"}]}

    found = read("chat", message, streamed=False).message

    assert found["tool_calls"] == [{"id": "c", "name": "look", "arguments": {}}]
