"""Which form an answer comes in, and how it fails: what all interfaces share."""

import json

import pytest

from refold.engine.events.events import ModelAnswered
from refold.engine.wire.apis import read_request, reader_of
from refold.engine.wire.parts.reading import BODY_BYTES_MAX, words_in
from tests.support.api_bodies import PATHS

BODY = b'{"choices": [{"message": {"content": "a"}, "finish_reason": "stop"}]}'
STREAM = b'data: {"choices": [{"delta": {"content": "a"}, "finish_reason": "stop"}]}\n\n'


def answered(
    *chunks: bytes, status: int = 200, kind: str = "", stream: bool = False
) -> ModelAnswered:
    body = json.dumps({"messages": [], "stream": stream}).encode()
    reader = reader_of(read_request("POST", PATHS["chat"], body), status, kind)
    for chunk in chunks:
        reader.feed(chunk)
    return reader.answered()


@pytest.mark.parametrize(
    ("content", "kind", "wanted"),
    [
        (STREAM, "text/event-stream", "body"),
        (STREAM, "Text/Event-Stream; charset=utf-8", "stream"),
        (BODY, "application/json", "body"),
        (BODY, "application/json; charset=utf-8", "stream"),
        (BODY, "application/problem+json", "stream"),
        (STREAM, "", "stream"),
        (BODY, "", "body"),
        (STREAM, "text/plain", "stream"),
        (BODY, "text/plain", "body"),
    ],
)
def test_the_content_type_says_how_to_read(content: bytes, kind: str, wanted: str) -> None:
    """Else what was asked for does."""
    found = answered(content, kind=kind, stream=wanted == "stream")

    assert found.message == {"role": "assistant", "content": "a"}


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (429, b'{"error": {"message": "slow  down", "type": "x"}}', "slow down"),
        (400, b'{"error": "bad"}', "bad"),
        (422, b'{"detail": [{"msg": "no"}]}', '[{"msg": "no"}]'),
        (500, b"<html>Oops</html>", "<html>Oops</html>"),
        (529, b'event: error\ndata: {"error": {"message": "busy"}}\n\n', "busy"),
        (502, b"", "no reason given"),
        (500, b"\xff", "\ufffd"),
        (401, b'{"error": {"message": "wrong key sk-abcdef123456"}}', "wrong key \u2026"),
        (302, b"", "no reason given"),
    ],
)
def test_a_status_that_is_no_success_is_an_error(status: int, body: bytes, message: str) -> None:
    """With the reason that the body gives, on one line and without keys."""
    for kind in ("application/json", "text/event-stream"):
        found = answered(body, status=status, kind=kind)

        assert found == ModelAnswered("error", error={"code": f"http_{status}", "message": message})


def test_a_long_reason_is_short() -> None:
    found = answered(*[b"x" * 1000] * 1000, status=500)

    assert len((found.error or {})["message"]) == 300


def test_a_body_that_is_too_large_is_not_read() -> None:
    """Nor kept."""
    chunk = b" " * (1024 * 1024)
    chunks = [chunk] * (BODY_BYTES_MAX // len(chunk) + 1)

    assert (answered(*chunks, BODY).error or {})["code"] == "malformed"


def test_an_event_that_is_too_large_makes_a_stream_malformed() -> None:
    """What else it says is kept."""
    large = b"data: " + b"x" * (17 * 1024 * 1024) + b"\n\n"

    found = answered(large, STREAM, kind="text/event-stream")

    assert (found.error or {})["code"] == "malformed"
    assert found.message == {"role": "assistant", "content": "a"}


def test_words_are_the_message_or_all_of_it() -> None:
    """However deep it stands."""
    assert words_in({"error": {"message": "a"}}) == "a"
    assert words_in({"message": "a"}) == "a"
    assert words_in({"error": {"code": 1}}) == '{"code": 1}'
    assert words_in(None) == "null"
