"""Run one process inside its bounds: one loop from the start to the end.

`run_bounded` starts it (`start`), feeds and drains its pipes, watches clock, cancellation, memory
and its end, and leaves nothing of it alive (`tree`).  Its pipes never block: a child that reads
nothing, and one that writes without end, cost the loop neither time nor memory beyond the caps.
The runner interprets the result for a run.  This file reads the monotonic clock.  Rules:
CONTRACT.md §7.3.

The order at the end matters.  The group is killed while its leader is not reaped: until then no
other process can get its number.  Descendants outside the group are swept before the reaping too,
for the session's number is trusted in the sweep.
"""

import contextlib
import hashlib
import math
import os
import selectors
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final, Self

from refold.engine.ports.ports import CancelSignal
from refold.engine.process.bounds import Bounds, Captured, Ended, How
from refold.engine.process.start import Started, start
from refold.engine.process.tree import Tree


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


_FIRST_LOOK_SECONDS: Final = 0.005  # doubles from look to look, up to
_LOOK_SECONDS: Final = 0.1
_SETTLE_SECONDS: Final = 0.05  # a helper that ends with its leader may end a little later
_DEATH_SECONDS: Final = 5.0  # KILL works at once, but for a process that sticks in the kernel
_SWEEP_SECONDS: Final = 1.0


def run_bounded(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path | str,
    request: bytes,
    bounds: Bounds,
    cancel: CancelSignal,
    pass_fds: Sequence[int] = (),
    on_reply: Callable[[bytes], None] | None = None,
) -> Ended:
    """Run `argv` to its end and return how it ended; blocks.

    Any thread may call it, any number at once.  No action of the child makes it raise.  `env` is
    the child's whole environment, but for three variables of ours.  `request` is written unchanged
    to the descriptor `REFOLD_REQUEST_FD`, which then stays open, so a request must mark its own
    end. `pass_fds` are inherited too, under their numbers. The reply is the child's output to
    `REFOLD_REPLY_FD`; with `on_reply`, it is passed on as it arrives, and not kept. An exception
    from outside (an interrupt, or from `on_reply`) still ends the child first.
    """
    began = time.monotonic()
    if cancel.is_set():
        return _never_ran("cancelled", "it was cancelled before it started", began)
    with contextlib.ExitStack() as stack:
        try:
            selector = stack.enter_context(selectors.DefaultSelector())
            waker = stack.enter_context(Waker())
            child = start(argv, env=env, cwd=cwd, pass_fds=pass_fds)
        except (OSError, ValueError, IndexError) as refused:
            return _never_ran("spawn_failed", str(refused), began)
        cancel.on_set(waker.wake)
        watch = _Watch(child, bounds, began, Pipes(child, bounds, selector, on_reply))
        return watch.to_the_end(request, waker)


def _never_ran(how: How, error: str, began: float) -> Ended:
    nothing = head_and_tail(0).captured()
    duration = time.monotonic() - began
    return Ended(how=how, error=error, stdout=nothing, stderr=nothing, duration_seconds=duration)


class _Watch:
    """One child from its start to its end.  Used once, by one thread."""

    def __init__(self, child: Started, bounds: Bounds, began: float, pipes: Pipes) -> None:
        self._child = child
        self._bounds = bounds
        self._began = began
        self._pipes = pipes
        self._selector = pipes.selector
        self._tree = Tree(child.pid, child.tag)
        self._pause = _FIRST_LOOK_SECONDS
        self._next_look = began
        self._resident_bytes = 0
        self._cancelled = False
        self._exited = False
        self._cause: How | None = None
        self._swept = 0
        self._status: int | None = None

    def to_the_end(self, request: bytes, waker: Waker) -> Ended:
        try:
            self._pipes.open(request)
            waker.register(self._selector, self._on_cancel)
            if self._child.pidfd is not None:
                self._selector.register(self._child.pidfd, selectors.EVENT_READ, self._on_exit)
            self._until_over()
            self._give_grace()
            self._until_exited()
            self._settle()
        finally:
            self._leave_nothing()
        return self._ended()

    def _until_over(self) -> None:
        """Wait until the child has ended by itself, or a bound requires it."""
        seconds = self._bounds.deadline_seconds
        deadline = math.inf if seconds is None else self._began + seconds
        # An end in the same moment as a bound is an end: what the child did is done.
        while not self._exited and (broken := self._broken(deadline)) is None:
            self._step(deadline)
        self._cause = None if self._exited else broken

    def _broken(self, deadline: float) -> How | None:
        most = self._bounds.memory_bytes
        if overflow := self._pipes.overflow():
            return overflow
        if most is not None and self._resident_bytes > most:
            return "memory"
        if self._cancelled:
            return "cancelled"
        return "timed_out" if time.monotonic() >= deadline else None

    def _give_grace(self) -> None:
        """Ask it to end, unless the cause is excess output or memory."""
        if self._cause in ("timed_out", "cancelled"):
            self._signal(signal.SIGTERM)
            self._signal(signal.SIGCONT)  # A stopped process takes no TERM.
            self._steps(self._bounds.grace_seconds, while_=lambda: not self._exited)

    def _until_exited(self) -> None:
        if not self._exited:
            self._signal(signal.SIGKILL)
            self._steps(_DEATH_SECONDS, while_=lambda: not self._exited)

    def _settle(self) -> None:
        """Read the rest of the pipes: a descendant may hold one open."""
        self._steps(_SETTLE_SECONDS, while_=lambda: self._pipes.any_open)
        self._pipes.drain_now()

    def _leave_nothing(self) -> None:
        try:
            self._signal(signal.SIGKILL)
            self._swept = self._tree.sweep(time.monotonic() + _SWEEP_SECONDS)
            self._pipes.drain_now()
        finally:
            self._status = self._child.reap(_DEATH_SECONDS)
            self._child.close()

    def _signal(self, number: int) -> None:
        # Whoever hangs below the child now may be cut loose by the signal: note it first.
        self._tree.find_descendants()
        self._child.signal_group(number)

    def _steps(self, seconds: float, *, while_: Callable[[], bool]) -> None:
        until = time.monotonic() + seconds
        while while_() and time.monotonic() < until:
            self._step(until)

    def _step(self, until: float) -> None:
        """Wait for the first event, `until` at the latest, and handle it."""
        wait = min(until, self._next_look) - time.monotonic()
        for key, _ in self._selector.select(max(0.0, wait)):
            key.data()
        if time.monotonic() >= self._next_look:
            self._measure()

    def _measure(self) -> None:
        self._tree.find_descendants()
        if self._bounds.memory_bytes is not None:
            self._resident_bytes = self._tree.resident_bytes()
        if self._child.pidfd is None:
            self._exited = self._tree.leader_ended()
        self._pause = min(2 * self._pause, _LOOK_SECONDS)
        self._next_look = time.monotonic() + self._pause

    def _on_exit(self) -> None:
        self._exited = True
        if self._child.pidfd is not None:
            self._selector.unregister(self._child.pidfd)

    def _on_cancel(self) -> None:
        self._cancelled = True

    def _ended(self) -> Ended:
        status = self._status
        natural: How = "signalled" if status is not None and status < 0 else "exited"
        return Ended(
            how=self._cause or self._pipes.overflow() or natural,
            code=status if status is not None and status >= 0 else None,
            signal=-status if status is not None and status < 0 else None,
            stdout=self._pipes.stdout.captured(),
            stderr=self._pipes.stderr.captured(),
            reply=self._pipes.reply.captured().kept,
            swept=self._swept,
            duration_seconds=time.monotonic() - self._began,
        )
