"""A stream of any length in bounded memory: head, tail, count, hash (CONTRACT.md §7.3)."""

import hashlib
from collections.abc import Callable

from refold.engine.process.bounds import Captured


class Capture:
    """Takes chunks; keeps the first `head_bytes` and the last `tail_bytes` of them.

    `on_chunk` is handed each as it comes.
    """

    def __init__(
        self,
        *,
        head_bytes: int,
        tail_bytes: int,
        on_chunk: Callable[[bytes], None] | None = None,
    ) -> None:
        self._on_chunk = on_chunk
        self.seen_bytes = 0
        self._head_bytes = head_bytes
        self._tail_bytes = tail_bytes
        self._head = bytearray()
        self._tail = bytearray()
        self._hash = hashlib.sha256()

    def feed(self, chunk: memoryview) -> None:
        """Take the next bytes; the caller may reuse the buffer."""
        self.seen_bytes += len(chunk)
        self._hash.update(chunk)
        if self._on_chunk is not None:
            self._on_chunk(bytes(chunk))
        room = self._head_bytes - len(self._head)
        self._head += chunk[:room]
        if self._tail_bytes:
            self._tail += chunk[room:][-self._tail_bytes :]
            self._trim(2 * self._tail_bytes)  # Rarely, so that trimming costs a copy per cap.

    def captured(self) -> Captured:
        """Return what there is so far."""
        self._trim(self._tail_bytes)
        return Captured(
            kept=bytes(self._head + self._tail),
            head_bytes=len(self._head),
            seen_bytes=self.seen_bytes,
            sha256=self._hash.hexdigest(),
        )

    def _trim(self, most: int) -> None:
        if len(self._tail) > most:
            del self._tail[: len(self._tail) - self._tail_bytes]


def head_and_tail(most_bytes: int) -> Capture:
    """Return a capture that keeps both ends of a stream, `most_bytes` together."""
    tail = most_bytes // 2
    return Capture(head_bytes=most_bytes - tail, tail_bytes=tail)
