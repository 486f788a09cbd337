"""How far a batch is, and its answers as lines, in any chunks (CONTRACT.md §16.10)."""

import json
from typing import Any, Final

from hypothesis import given
from hypothesis import strategies as st

from refold.engine.events.events import ModelAnswered
from refold.engine.wire.apis import followed, is_of_batch, read_request, reader_of
from tests.support.loops import for_each

_CHAT: Final = {
    "object": "chat.completion",
    "choices": [{"message": {"role": "assistant", "content": "one"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 5, "completion_tokens": 2},
}
_RESPONSE: Final = {
    "object": "response",
    "status": "completed",
    "output": [{"type": "message", "role": "assistant", "content": "two"}],
    "usage": {"input_tokens": 3, "output_tokens": 1},
}
_LINES: Final = [
    {"custom_id": "a", "response": {"status_code": 200, "body": _CHAT}, "error": None},
    {"custom_id": "b", "response": {"status_code": 200, "body": _RESPONSE}, "error": None},
    {"custom_id": "c", "response": {"status_code": 400, "body": {"error": {"message": "no"}}}},
    {"custom_id": "d", "result": {"type": "expired"}},
]
_ANSWERS: Final = b"\n".join(json.dumps(each).encode() for each in _LINES)


def _read(content: bytes, *ends: int, path: str = "/v1/files/f/content") -> tuple[Any, str]:
    reader = reader_of(read_request("GET", path, b""), 200, "application/octet-stream")
    for start, end in zip((0, *ends), (*ends, len(content)), strict=True):
        reader.feed(content[start:end])
    return reader.answered(), reader.answer_id


@given(st.lists(st.integers(0, len(_ANSWERS)), max_size=5).map(sorted))
def test_lines_are_answers_in_any_chunks(ends: list[int]) -> None:
    """What failed has no text and no tokens."""
    answered, _ = _read(_ANSWERS, *ends)

    assert answered.message == {"role": "assistant", "content": "one\ntwo\n"}
    assert (answered.usage.input_tokens, answered.usage.output_tokens) == (8, 3)
    assert answered.usage.requests == 2


def test_answers_without_texts_are_no_empty_text() -> None:
    """Of embeddings, for example."""
    body = {"object": "list", "data": [{"embedding": [0.1]}]}
    line = {"custom_id": "a", "response": {"status_code": 200, "body": body}, "error": None}
    answered, _ = _read(json.dumps(line).encode())

    assert (answered.status, answered.message) == ("ok", None)


@for_each("content", [b"", b"\n", b"{", b"a,b\n1,2\n", b'{"a": 1}\n{"a": 2}', b"\xff"])
def test_another_file_is_not_read(content: bytes) -> None:
    assert _read(content) == (ModelAnswered("ok"), "")


@for_each(
    "batch, stop, answer_id",
    [
        ({"type": "message_batch", "processing_status": "ended"}, "in_progress", "b"),
        ({"object": "batch", "status": "validating"}, "in_progress", "b"),
        ({"object": "batch", "status": "completed", "output_file_id": "f"}, "in_progress", "f"),
        ({"object": "batch", "status": "cancelled", "output_file_id": "f"}, "in_progress", "f"),
        ({"object": "batch", "status": "failed", "output_file_id": None}, "failed", "b"),
    ],
)
def test_a_batch_is_over_when_no_answers_come(
    batch: dict[str, Any], stop: str, answer_id: str
) -> None:
    """The id is that of the file of its answers, once there is one."""
    content = json.dumps({"id": "b", **batch}, indent=1).encode()
    answered, found = _read(content, path="/v1/batches/b")

    assert (answered.stop_reason, found, answered.message) == (stop, answer_id, None)


@for_each(
    "path, of",
    [
        ("/v1/batches", ""),
        ("/v1/messages/batches/b/results?a=1", "b"),
        ("/v1/batches/b/cancel", "b"),
        ("/v1/batches/b", "b"),
        ("/v1/files/f/content", "f"),
    ],
)
def test_paths_name_a_batch_or_the_file_of_its_answers(path: str, of: str) -> None:
    assert (followed(path), is_of_batch(path)) == (of, True)


@for_each("path", ["/v1/files/f", "/v1/batches/b/jobs", "/v1/models"])
def test_other_paths_are_not_read(path: str) -> None:
    assert (followed(path), is_of_batch(path)) == ("", False)
