"""Events out of bytes: the same whatever the chunking, bounded, and looked at once."""

import time
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.engine.wire.parts.sse import EventParser, ServerEvent
from tests.support.loops import for_each, some


def events(stream: bytes, *sizes: int, bytes_max: int = 1000) -> list[ServerEvent]:
    """Return the events of a stream that comes in chunks of these sizes, the rest as one."""
    parser = EventParser(bytes_max)
    found = []
    for size in (*sizes, len(stream)):
        found += parser.feed(stream[:size])
        stream = stream[size:]
    return found


@for_each(
    "stream, expected",
    [
        (b"data: a\n\n", [("", b"a")]),
        (b"data:a\n\n", [("", b"a")]),
        (b"data:  a\n\n", [("", b" a")]),
        (b"event: ping\ndata: {}\n\n", [("ping", b"{}")]),
        (b"data: a\ndata: b\n\n", [("", b"a\nb")]),
        (b"data: a\r\n\r\ndata: b\r\rdata: c\n\r\n", [("", b"a"), ("", b"b"), ("", b"c")]),
        (b"\xef\xbb\xbfdata: a\n\n", [("", b"a")]),
        (b": a comment\n\ndata: a\n: another\nid: 1\nretry: 3\n\n", [("", b"a")]),
        (b"event: lost\n\ndata: a\n\n", [("", b"a")]),
        (b"data\n\n", [("", b"")]),
        (b"nonsense\n\ndata: a\n\n", [("", b"a")]),
        (b"data: a\n\ndata: never ended\n", [("", b"a")]),
        (b"data: a\n\ndata: [DO", [("", b"a")]),
        (b"event: \xff\ndata: \xff\n\n", [("\ufffd", b"\xff")]),
        (b"", []),
    ],
)
def test_a_stream_reads_alike_in_any_chunking(
    stream: bytes, expected: list[tuple[str, bytes]]
) -> None:
    """Line ends of three kinds, comments, a BOM; what no empty line ends is no event."""
    wanted = [ServerEvent(name, data) for name, data in expected]

    assert events(stream) == wanted
    assert events(stream, *[1] * len(stream)) == wanted
    for at in range(len(stream)):
        assert events(stream, at) == wanted


@given(
    pieces=st.lists(
        st.sampled_from(
            [b"data: ", b"event: ", b"a", b"\r", b"\n", b"\r\n", b": ", b"\xef\xbb\xbf"]
        )
    ),
    sizes=st.lists(st.integers(0, 5)),
    bytes_max=st.sampled_from([3, 10, 1000]),
)
def test_no_chunking_changes_an_event(
    pieces: list[bytes], sizes: list[int], bytes_max: int
) -> None:
    """Not at the bound either."""
    stream = b"".join(pieces)

    assert events(stream, *sizes, bytes_max=bytes_max) == events(stream, bytes_max=bytes_max)


def test_an_event_beyond_the_bound_is_given_up_and_the_next_one_reads() -> None:
    """It is told, without its data; nothing of it is kept."""
    large = b"event: big\ndata: " + b"x" * 2000 + b"\ndata: more\n\n"

    found = events(large + b"data: a\n\n", *[100] * 30)

    assert [event.is_given_up for event in found] == [True, False]
    assert found[0].data == b""
    assert found[1] == ServerEvent("", b"a")


def test_a_line_end_right_behind_the_bound_is_one_and_no_more() -> None:
    """An event that is given up ends where it ends: not between two chunks of it."""
    large = b"data: " + b"x" * 2000

    found = events(large + b"\ndata: more\n\n", len(large))

    assert found == [ServerEvent("", b"", is_given_up=True)]


def test_no_more_than_the_bound_is_held() -> None:
    """Whoever sends lines without end takes no memory."""
    parser, chunk = EventParser(1000), b"data: x\n" * 100
    tracemalloc.start()
    for _ in range(1000):
        assert parser.feed(chunk) == []
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert most < 100_000


def test_many_small_lines_are_bounded_too() -> None:
    """The bound is of the event, not of a line."""
    assert [event.is_given_up for event in events(b"data:\n" * 1000 + b"\n")] == [True]


@pytest.mark.parametrize("chunk", some(1, [b"x", b"data:\n", b"\r\n", b"x" * 65536]))
def test_time_grows_with_the_bytes_and_no_faster(chunk: bytes) -> None:
    """100,000 chunks, bytes or lines; a quadratic parser would need minutes."""
    parser = EventParser()
    began = time.monotonic()

    parser.feed(b"data: ")
    for _ in range(min(8_000_000 // len(chunk), 100_000)):
        parser.feed(chunk)

    assert time.monotonic() - began < 60
