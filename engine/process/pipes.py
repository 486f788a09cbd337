"""The loop's ends of the pipes: feed the request, drain the rest, wake from another thread.

Non-blocking throughout: a child that reads nothing, and one that writes without end, cost the loop
neither time nor memory beyond the caps.  `bounded` interprets the bytes and decides when to end.
Rules: CONTRACT.md §7.3.
"""

import os
import selectors
import threading
from collections.abc import Callable
from functools import partial
from typing import Final, Self

from refold.engine.process.bounds import Bounds, How
from refold.engine.process.capture import Capture, head_and_tail
from refold.engine.process.start import Started

_CHUNK_BYTES: Final = 256 * 1024
_PIPE_BYTES_MOST: Final = 4 * 1024 * 1024  # more than any pipe of ours holds


class Pipes:
    """The request, the reply and the two streams of one child."""

    def __init__(
        self,
        child: Started,
        bounds: Bounds,
        selector: selectors.BaseSelector,
        on_reply: Callable[[bytes], None] | None = None,
    ) -> None:
        self.selector = selector
        self.stdout = head_and_tail(bounds.stream_bytes)
        self.stderr = head_and_tail(bounds.stream_bytes)
        kept = 0 if on_reply else bounds.frame_bytes
        self.reply = Capture(head_bytes=kept, tail_bytes=0, on_chunk=on_reply)
        self._bounds = bounds
        self._request_fd = child.request
        self._unsent = memoryview(b"")
        self._open = {
            child.reply: self.reply,
            child.stdout: self.stdout,
            child.stderr: self.stderr,
        }
        self._buffer = memoryview(bytearray(_CHUNK_BYTES))

    @property
    def any_open(self) -> bool:
        """Whether someone still holds the other end of a pipe that we read."""
        return bool(self._open)

    def open(self, request: bytes) -> None:
        """Let the selector serve them; each key's data is what to call."""
        for fd in self._open:
            self.selector.register(fd, selectors.EVENT_READ, partial(self._take, fd))
        self._unsent = memoryview(request)
        if request:
            self.selector.register(self._request_fd, selectors.EVENT_WRITE, self._send)

    def overflow(self) -> How | None:
        """Return the cap that the bytes so far have broken."""
        if self.reply.seen_bytes > self._bounds.frame_bytes:
            return "frame_overflow"
        seen = max(self.stdout.seen_bytes, self.stderr.seen_bytes)
        if self._bounds.streams == "kill" and seen > self._bounds.stream_bytes:
            return "stream_overflow"
        return None

    def drain_now(self) -> None:
        """Take what lies in the pipes, without waiting.

        Takes no more than a pipe can hold: a holder that writes on is not followed.
        """
        for fd, capture in list(self._open.items()):
            most = capture.seen_bytes + _PIPE_BYTES_MOST
            while self._take(fd) and capture.seen_bytes < most:
                pass

    def _take(self, fd: int) -> bool:
        """Read once; return whether there may be more at once."""
        try:
            count = os.readv(fd, [self._buffer])
        except BlockingIOError:
            return False
        if count:
            self._open[fd].feed(self._buffer[:count])
            return True
        self.selector.unregister(fd)
        del self._open[fd]
        return False

    def _send(self) -> None:
        try:
            self._unsent = self._unsent[os.write(self._request_fd, self._unsent) :]
        except BlockingIOError:
            return
        except BrokenPipeError:  # The child does not want it.  That is no failure of ours.
            self._unsent = memoryview(b"")
        if not self._unsent:
            self.selector.unregister(self._request_fd)  # and not closed: its end is the sign


class Waker:
    """A pipe that wakes the loop from another thread, and may be called after the loop is over."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._read, self._write = os.pipe()
        self._open = True

    def register(self, selector: selectors.BaseSelector, woken: Callable[[], None]) -> None:
        """Let `selector` report once that `wake` was called."""

        def once() -> None:
            selector.unregister(self._read)
            woken()

        selector.register(self._read, selectors.EVENT_READ, once)

    def wake(self) -> None:
        """Wake the loop; does nothing when it is over."""
        with self._lock:
            if self._open:
                os.write(self._write, b".")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._open = False
            os.close(self._write)
            os.close(self._read)
