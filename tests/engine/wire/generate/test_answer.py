"""The Gemini generateContent interface, read from outside: answers."""

import json
from typing import Any

from refold.engine.events.events import ModelAnswered
from refold.engine.wire.apis import read_request, reader_of
from refold.engine.wire.spelling import spelled
from tests.support.loops import for_each

BODY = json.dumps({"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}).encode()
PATH = "/v1beta/models/gemini-2.5-flash:generateContent"
STREAM = "/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse"
COUNTS = {
    "promptTokenCount": 12,
    "candidatesTokenCount": 3,
    "thoughtsTokenCount": 4,
    "cachedContentTokenCount": 5,
}


def chunk(*parts: dict[str, Any], **members: Any) -> dict[str, Any]:
    return {"candidates": [{"content": {"role": "model", "parts": list(parts)}, **members}]}


def read(path: str, *bodies: dict[str, Any]) -> ModelAnswered:
    kind = "text/event-stream" if "stream" in path else "application/json"
    reader = reader_of(read_request("POST", path, BODY), 200, kind)
    for body in bodies:
        text = json.dumps(body)
        reader.feed((f"data: {text}\r\n\r\n" if "stream" in path else text).encode())
    return reader.answered()


def test_an_answer_says_the_same_streamed_or_not() -> None:
    """Text, calls, tokens and why it ended; a call has the id that the next request gives it."""
    use = {"functionCall": {"name": "look", "args": {"q": 1}}}
    whole = read(PATH, chunk({"text": "ab"}, use, finishReason="STOP") | {"usageMetadata": COUNTS})
    streamed = read(
        STREAM,
        chunk({"text": "a"}),
        chunk({"text": "b"}),
        chunk(use, finishReason="STOP") | {"usageMetadata": COUNTS},
    )
    assert whole == streamed
    assert whole.status == "ok"
    assert whole.stop_reason == "tool_calls"
    assert whole.message is not None
    assert whole.message["content"] == "ab"
    assert whole.message["tool_calls"] == [{"id": "look#1", "name": "look", "arguments": {"q": 1}}]
    usage = whole.usage
    assert (usage.input_tokens, usage.output_tokens) == (12, 7)
    assert (usage.cache_read_tokens, usage.reasoning_tokens) == (5, 4)


def test_a_stream_in_an_array_says_the_same() -> None:
    """What Gemini sends where it is not asked for `alt=sse`; a part of it, while it comes."""
    last = chunk({"text": "b"}, finishReason="STOP") | {"usageMetadata": COUNTS}
    bodies = [chunk({"text": "a"}), last]
    sent = json.dumps(bodies, indent=1).encode()
    place = STREAM.partition("?")[0]
    reader = reader_of(read_request("POST", place, BODY), 200, "application/json; charset=UTF-8")

    reader.feed(sent[:-9])
    part = reader.answered()
    reader.feed(sent[-9:])

    assert part.message == {"role": "assistant", "content": "a"}
    assert (part.error or {}).get("code") == "cut"
    assert reader.answered() == read(STREAM, *bodies)


def test_an_answer_without_its_end_is_cut() -> None:
    found = read(STREAM, chunk({"text": "a"}))
    assert found.error is not None
    assert found.error["code"] == "cut"
    assert found.message is not None


def test_a_blocked_prompt_is_a_refusal() -> None:
    found = read(PATH, {"promptFeedback": {"blockReason": "SAFETY"}})
    assert (found.status, found.stop_reason) == ("ok", "refusal")


def test_the_model_stands_in_the_path() -> None:
    """Of Google's own API and of Vertex; two models are not one."""
    place = "/v1/projects/p/locations/l/publishers/google/models/gemini-2.5-pro:generateContent"
    for path, name in ((PATH, "gemini-2.5-flash"), (place, "gemini-2.5-pro")):
        found = read_request("POST", path, BODY)
        assert (found.api, found.model) == ("generate", name)
    assert read_request("POST", STREAM, BODY).streamed
    assert not read_request("POST", PATH, BODY).streamed


def test_anthropic_on_vertex_is_read_as_anthropics() -> None:
    """Of its own publisher alone."""
    body = b'{"max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}'
    for action, is_stream in (("rawPredict", False), ("streamRawPredict", True)):
        path = f"/v1/publishers/anthropic/models/claude-sonnet-4-5@20250929:{action}"
        found = read_request("POST", path, body)
        assert (found.api, found.model) == ("messages", "claude-sonnet-4-5@20250929")
        assert found.streamed == is_stream
        other = path.replace("anthropic", "mistralai")
        assert read_request("POST", other, body).api == "other"


@for_each("path", [PATH, STREAM, STREAM.partition("?")[0]])
def test_an_answer_is_spelled_anew_as_it_reads(path: str) -> None:
    """For forks, and without a secret that a stream said in pieces."""
    asked = read_request("POST", path, BODY)
    call = {"id": "look#1", "name": "look", "arguments": {"q": 1}}
    message = {"role": "assistant", "content": "ab", "tool_calls": [call]}
    part: Any = spelled(asked, ModelAnswered("ok", message, stop_reason="tool_calls"))
    reader = reader_of(asked, 200, part["headers"]["content-type"])
    reader.feed(part["text"].encode())
    found = reader.answered()
    assert (found.status, found.stop_reason, found.message) == ("ok", "tool_calls", message)


def test_a_part_beyond_the_bound_is_not_kept() -> None:
    """Nor is what comes after it."""
    found = read(PATH, chunk({"text": "a"}, {"text": "b" * 5_000_000}, {"text": "c"}))

    assert found.message is not None
    assert found.message["content"] == "a"
