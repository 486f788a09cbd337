"""An answer is kept in bounded parts, and comes out chunk by chunk as it came in (§16.4)."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from refold.engine.observed.wire import PART_BYTES, Wire, after_redaction, kept_headers, pieces


def _kept(chunks: list[bytes], end: Any = "whole") -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = []
    wire = Wire(parts.append)
    wire.head(200, {"content-type": "text/event-stream"})
    for at, chunk in enumerate(chunks):
        wire.chunk(chunk, at)
    wire.end(end)
    return parts


@given(st.lists(st.binary(min_size=1, max_size=40)))
def test_chunks_come_out_as_they_came(chunks: list[bytes]) -> None:
    """Their bytes, their boundaries and their times; characters cut in the middle included."""
    parts = _kept(chunks)

    assert list(pieces(parts)) == list(enumerate(chunks))


def test_a_long_answer_is_kept_in_parts() -> None:
    """Of about `PART_BYTES`; the head is in the first, the end in the last."""
    chunk = b"x" * 10_000
    parts = _kept([chunk] * 100)

    assert len(parts) == 4
    assert [part.get("status") for part in parts] == [200, None, None, None]
    assert [part.get("end") for part in parts] == [None, None, None, "whole"]
    assert max(len(part["text"]) for part in parts) < PART_BYTES + len(chunk)
    assert b"".join(piece for _, piece in pieces(parts)) == chunk * 100


def test_what_is_no_text_is_kept_all_the_same() -> None:
    """As base64."""
    parts = _kept([b"\xff\xfe"])

    assert parts[0]["base64"] == "//4="
    assert list(pieces(parts)) == [(0, b"\xff\xfe")]


def test_an_empty_answer_has_one_part_that_says_so() -> None:
    """A 204, say."""
    assert _kept([]) == [
        {
            "status": 200,
            "headers": {"content-type": "text/event-stream"},
            "text": "",
            "sizes": [],
            "at_ms": [],
            "end": "whole",
        }
    ]


def test_what_redaction_changed_is_one_chunk() -> None:
    """The boundaries inside of it are no longer there."""
    part = _kept([b"my key is sk", b"-123"])[0]
    kept = {**part, "text": "my key is [redacted]"}

    assert list(pieces([after_redaction(part, kept)])) == [(1, b"my key is [redacted]")]


def test_only_a_few_headers_are_kept() -> None:
    """None that could hold a key or a cookie."""
    headers = [("Content-Type", "a"), ("Set-Cookie", "b"), ("X-Request-Id", "c"), ("Date", "d")]

    assert kept_headers(headers) == {"content-type": "a", "x-request-id": "c"}
