"""Bodies are read as they were sent, however the network cuts them."""

import asyncio
import itertools
import socket

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.proxy.http.connection import HEAD_BYTES_MAX, BrokenOff, Chunked, ServerConnection

_SIZES = st.sampled_from([b"%x\r\n", b"%X\r\n", b"0%x\r\n", b"%x;a=b\r\n", b'%x;q="1" \t\r\n'])
_TRAILERS = st.lists(st.sampled_from([b"a: 1\r\n", b"long-name: some words\r\n"]), max_size=2)


@st.composite
def _bodies(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """A content, and a chunked body with it."""
    chunks = draw(st.lists(st.binary(min_size=1, max_size=20)))
    sized = [draw(_SIZES) % len(chunk) + chunk + b"\r\n" for chunk in chunks]
    return b"".join(chunks), b"".join([*sized, b"0\r\n", *draw(_TRAILERS), b"\r\n"])


def _cut(draw: st.DataObject, whole: bytes) -> list[bytes]:
    places = sorted(draw.draw(st.lists(st.integers(0, len(whole)), max_size=8)))
    return [whole[a:b] for a, b in itertools.pairwise([0, *places, len(whole)])]


@given(_bodies(), st.binary(max_size=5), st.data())
def test_a_chunked_body_is_its_content_however_it_is_cut(
    body: tuple[bytes, bytes], after: bytes, data: st.DataObject
) -> None:
    """What follows it is kept; no content waits for bytes behind it."""
    content, sent = body
    chunked, found = Chunked(), b""
    for piece in _cut(data, sent):
        assert not chunked.is_over or not piece
        found += chunked.feed(piece) if piece else b""
        assert content.startswith(found)
    last = Chunked()

    assert (found, chunked.is_over, chunked.rest) == (content, True, b"")
    assert last.feed(sent + after) == content
    assert last.rest == after


@given(_bodies(), st.data())
def test_what_comes_of_a_body_that_ends_early_is_what_h11_reads(
    body: tuple[bytes, bytes], data: st.DataObject
) -> None:
    """The same bytes are there, and neither says that it is whole."""
    _, sent = body
    begun = sent[: data.draw(st.integers(0, len(sent) - 1))]
    chunked = Chunked()
    found = b"".join(chunked.feed(piece) for piece in _cut(data, begun))

    assert (found, chunked.is_over) == _read_by_h11(begun)


def _read_by_h11(body: bytes) -> tuple[bytes, bool]:
    machine = h11.Connection(h11.CLIENT)
    machine.send(h11.Request(method="GET", target="/", headers=[("host", "a")]))
    machine.receive_data(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + body)
    found = b""
    while not isinstance(event := machine.next_event(), h11.EndOfMessage):
        if event is h11.NEED_DATA:
            return found, False
        found += bytes(event.data) if isinstance(event, h11.Data) else b""
    return found, True


@pytest.mark.parametrize(
    "body",
    [
        b"nothing\r\n",
        b"\r\n",
        b"-1\r\nab",
        b"+1\r\na\r\n",
        b"1_0\r\n" + b"a" * 16,
        b"1" * 16 + b"\r\n",
        b"2\r\nabc\r\n",
        b"2\r\nab1\r\nc\r\n",
        b"2\nab\n",
        b"1;" + b"x" * HEAD_BYTES_MAX,
        b"0\r\n" + b"a: 1\r\n" * HEAD_BYTES_MAX,
    ],
)
def test_what_is_no_chunk_is_refused(body: bytes) -> None:
    """At once, or when too much of it came."""
    with pytest.raises(BrokenOff, match="chunk"):
        Chunked().feed(body)


@pytest.mark.parametrize(("length", "is_whole"), [(2, True), (3, False)])
def test_what_came_before_a_reset_is_read(*, length: int, is_whole: bool) -> None:
    """A server that wants no more of a request may reset its connection behind the answer."""
    request = h11.Request(method="GET", target="/", headers=[("host", "a")])

    async def read() -> bytes:
        one, other = socket.socketpair()
        _, writer = await asyncio.open_connection(sock=one)
        reader = asyncio.StreamReader()
        connection = ServerConnection(reader, writer)
        reader.feed_data(b"HTTP/1.1 413 Much\r\ncontent-length: %d\r\n\r\n{}" % length)
        reader.set_exception(ConnectionResetError(104, "reset"))
        answer = await connection.asked(request)
        found = b""
        try:
            async for content in connection.body("GET", answer):
                found += content
        except BrokenOff:
            assert not is_whole
        else:
            assert is_whole
        connection.abort()
        other.close()
        await asyncio.sleep(0)  # the loop closes it
        return found

    assert asyncio.run(read()) == b"{}"
