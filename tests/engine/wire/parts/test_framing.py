"""Streams in Bedrock's frames and in a JSON array give events, in whatever chunks they come."""

import json
import struct
import zlib
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.engine.wire.parts.framing import ArrayParser, FrameParser, frame_of
from refold.engine.wire.parts.sse import EVENT_BYTES_MAX, ServerEvent

VALUES = st.recursive(
    st.none() | st.integers() | st.text(st.sampled_from('ab{}[]"\\,é\n')),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text("k{"), below, max_size=3),
    max_leaves=6,
)
OBJECTS = st.lists(st.dictionaries(st.text("k}\\"), VALUES, max_size=3), max_size=4)


def fed(parser: FrameParser | ArrayParser, content: bytes, cuts: list[int]) -> list[ServerEvent]:
    """Return the events of content that comes in chunks."""
    places = sorted({0, len(content), *(cut % (len(content) + 1) for cut in cuts)})
    chunks = [content[a:b] for a, b in pairwise(places)]
    return [event for chunk in chunks for event in parser.feed(chunk)]


def frame(headers: dict[str, str], content: bytes, kind: int = 7) -> bytes:
    """Return a frame, written here a second time from its description."""
    head = b""
    for name, value in headers.items():
        head += struct.pack("!B", len(name)) + name.encode()
        head += struct.pack("!BH", kind, len(value)) + value.encode()
    lengths = struct.pack("!II", 16 + len(head) + len(content), len(head))
    made = lengths + struct.pack("!I", zlib.crc32(lengths)) + head + content
    return made + struct.pack("!I", zlib.crc32(made))


@given(OBJECTS, st.lists(st.integers(0), max_size=5))
def test_frames_are_read_whole_from_any_chunks(events: list[Any], cuts: list[int]) -> None:
    content = b"".join(map(frame_of, events))

    found = fed(FrameParser(), content, cuts)

    assert [json.loads(event.data) for event in found] == events


@given(OBJECTS, st.binary(max_size=40), st.lists(st.integers(0), max_size=5))
def test_frames_pass_scrubbed_and_whole(events: list[Any], torn: bytes, cuts: list[int]) -> None:
    """What has no secret to the byte; what follows the last frame as it came."""
    content = b"".join(map(frame_of, events)) + torn
    places = sorted({0, len(content), *(cut % (len(content) + 1) for cut in cuts)})
    parser, other = FrameParser(), FrameParser()
    chunks = [content[a:b] for a, b in pairwise(places)]
    passed = [parser.scrubbed(chunk, bytes) for chunk in chunks]
    changed = [
        other.scrubbed(chunk, lambda each: each.replace(b"b", b"[gone]")) for chunk in chunks
    ]

    assert b"".join(passed) + parser.rest() == content
    found = FrameParser().feed(b"".join(changed) + other.rest())
    said = [json.loads(event.data) for event in found[: len(events)]]
    assert said == json.loads(json.dumps(events).replace("b", "[gone]"))


@given(OBJECTS, st.lists(st.integers(0), max_size=5), st.sampled_from([None, 1]))
def test_an_array_is_read_whole_from_any_chunks(
    events: list[Any], cuts: list[int], indent: int | None
) -> None:
    """Braces, quotes and escapes in texts end nothing."""
    content = json.dumps(events, indent=indent, ensure_ascii=False).encode()

    found = fed(ArrayParser(), content, cuts)

    assert [json.loads(event.data) for event in found] == events


def test_an_exception_is_an_error_event() -> None:
    """As Anthropic's own streams say it."""
    headers = {":message-type": "exception", ":exception-type": "throttlingException"}

    (found,) = FrameParser().feed(frame(headers, b'{"message": "slow down"}'))

    assert found.name == "error"
    assert json.loads(found.data)["error"] == {
        "type": "throttlingException",
        "message": "slow down",
    }


def test_a_frame_without_an_event_says_nothing() -> None:
    """Later versions may send other kinds."""
    assert FrameParser().feed(frame({":message-type": "event"}, b'{"other": 1}')) == []


WHOLE = frame_of({"type": "message_stop"})


@pytest.mark.parametrize(
    "content",
    [
        b"data: {}\n\n        ",
        WHOLE[:-1] + bytes([WHOLE[-1] ^ 1]),
        struct.pack("!III", 8, 0, zlib.crc32(struct.pack("!II", 8, 0))),
        frame({":message-type": "event"}, b'{"bytes": "e30="}', kind=3),
        frame({":message-type": "event"}, b'{"bytes": "e"}'),
        struct.pack("!II", EVENT_BYTES_MAX + 1, 0)
        + struct.pack("!I", zlib.crc32(struct.pack("!II", EVENT_BYTES_MAX + 1, 0))),
    ],
    ids=["text", "sum", "size", "header", "base64", "large"],
)
def test_what_is_no_frame_is_told_once(content: bytes) -> None:
    """What came before it was read; nothing after it is."""
    parser = FrameParser()

    found = [*parser.feed(WHOLE + content), *parser.feed(WHOLE)]

    assert [event.is_given_up for event in found] == [False, True]


def test_an_object_of_an_array_is_bounded() -> None:
    parser = ArrayParser()
    found = [*parser.feed(b'[{"a": "'), *parser.feed(b"x" * EVENT_BYTES_MAX)]

    assert [event.is_given_up for event in found] == [True]
