"""An answer is kept in bounded parts, and comes out chunk by chunk as it came in (§16.4)."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.engine.wire.parts.kept_answers import PART_BYTES, SEAM_BYTES, Wire, kept_headers, pieces


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
    assert max(len(part["text"]) for part in parts) <= PART_BYTES + len(chunk)
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


def test_a_secret_across_chunks_is_found_and_its_part_is_one_chunk() -> None:
    """The boundaries inside of it are no longer there."""
    parts: list[dict[str, Any]] = []
    wire = Wire(parts.append, lambda body: body.replace(b"sk-123", b"[redacted]"))
    wire.chunk(b"my key is sk", 1)
    wire.chunk(b"-123", 2)
    wire.end("whole")

    assert list(pieces(parts)) == [(2, b"my key is [redacted]")]


@pytest.mark.parametrize("size", [500, 8_000, 50_000])
@pytest.mark.parametrize("part", range(10))
def test_no_part_ends_inside_of_a_secret(size: int, part: int) -> None:
    """Wherever it lies, and though no chunk holds it whole."""
    secret = b"k" * size
    before = PART_BYTES - SEAM_BYTES - part * size // 10
    body = b"." * before + secret + b"." * 2 * SEAM_BYTES
    parts: list[dict[str, Any]] = []
    wire = Wire(parts.append, lambda body: body.replace(secret, b"[redacted]"))
    for at in range(0, len(body), 60):
        wire.chunk(body[at : at + 60], 0)
    wire.end("whole")

    expected = body.replace(secret, b"[redacted]")
    assert b"".join(piece for _, piece in pieces(parts)) == expected


def test_no_part_ends_inside_of_a_character() -> None:
    """So that text stays text, however it is cut."""
    body = "€".encode() * 200_000
    parts = _kept([body[at : at + 64] for at in range(0, len(body), 64)])

    assert len(parts) > 1
    assert all("text" in part for part in parts)


def test_only_a_few_headers_are_kept() -> None:
    """None that could hold a key or a cookie."""
    headers = [("Content-Type", "a"), ("Set-Cookie", "b"), ("X-Request-Id", "c"), ("Date", "d")]

    assert kept_headers(headers) == {"content-type": "a", "x-request-id": "c"}


def test_an_empty_chunk_is_none() -> None:
    """Its time is no time of anything."""
    assert list(pieces(_kept([b"a", b"", b"b"]))) == [(0, b"a"), (2, b"b")]
