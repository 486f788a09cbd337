"""Run one process inside its bounds: one loop from the start to the end.

`run_bounded` starts it (`start`), feeds and drains its pipes, watches clock, cancellation, memory
and its end, and leaves nothing of it alive (`tree`).  The runner interprets the result for a run.
This file reads the monotonic clock.  Rules: CONTRACT.md §7.3.

The order at the end matters.  The group is killed while its leader is not reaped: until then no
other process can get its number.  Descendants outside the group are swept before the reaping too,
for the session's number is trusted in the sweep.
"""

import contextlib
import math
import selectors
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from refold.engine.ports.ports import CancelSignal
from refold.engine.process.bounds import Bounds, Ended, How
from refold.engine.process.capture import head_and_tail
from refold.engine.process.pipes import Pipes, Waker
from refold.engine.process.start import Started, start
from refold.engine.process.tree import Tree

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
