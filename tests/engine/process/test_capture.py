"""A capture keeps both ends of a stream, and counts and hashes all of it (CONTRACT.md §7.3)."""

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from refold.engine.process.bounded import Capture, head_and_tail
from tests.support.loops import for_each


@given(chunks=st.lists(st.binary(max_size=20)), head=st.integers(0, 30), tail=st.integers(0, 30))
def test_head_and_tail_are_those_of_the_whole(chunks: list[bytes], head: int, tail: int) -> None:
    """However the stream is cut into chunks."""
    capture = Capture(head_bytes=head, tail_bytes=tail)
    whole = b"".join(chunks)

    for chunk in chunks:
        capture.feed(memoryview(chunk))

    got = capture.captured()
    rest = whole[head:]
    assert got.kept == whole[:head] + rest[max(0, len(rest) - tail) :]
    assert got.head_bytes == min(head, len(whole))
    assert got.seen_bytes == len(whole)
    assert got.sha256 == hashlib.sha256(whole).hexdigest()
    assert got.truncated == (len(whole) > head + tail)


@for_each("most", [0, 1, 2, 7])
def test_both_ends_share_the_cap(most: int) -> None:
    capture = head_and_tail(most)

    capture.feed(memoryview(bytes(range(100))))

    assert len(capture.captured().kept) == most
