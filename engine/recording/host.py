"""The loops that asynchronous tools and models run on.

A run's tools share one loop, because clients keep connections that belong to it: the caller's under
`record_async`, else the run's own. The waiting thread runs the run's own loop while nothing else is
live, which saves a sequential program two thread switches per call. A separate thread takes over as
soon as something else is live, or a tool has left something on the loop that continues after its
call.

Models also run on the caller's loop, or on one that outlives the run. Rules: CONTRACT.md §9.7
(tools), §11.7 (models).
"""

import asyncio
import atexit
import contextvars
import os
import selectors
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVarTuple

from refold.engine.errors import SecondInterrupt
from refold.engine.recording import interrupts

_Ts = TypeVarTuple("_Ts")

_GRACE_SECONDS: Final = 2.0
"""What tasks may take to end that are cancelled with their loop."""

_LEFT_MAX: Final = 256
"""Tasks and timers of one call that are kept before it is looked which of them are over."""


class Host:
    """The loop of one run's asynchronous tools."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop | None = None, *, name: str = "refold-host"
    ) -> None:
        self._loop = loop
        self._name = name
        self._is_callers = loop is not None
        self._home = threading.get_ident()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def run(self, *jobs: Callable[[], Any], lasting: bool = False) -> None:
        """Run async callables as tasks there; call from any thread."""
        host = _lasting if lasting and not self._is_callers else self
        loop = host._running()  # noqa: SLF001 - another of this class

        def begin() -> None:
            for job in jobs:
                _keep(loop.create_task(job()))

        loop.call_soon_threadsafe(begin)

    def call(self, callback: Callable[[], Any]) -> None:
        """Call something in the loop's thread."""
        self._running().call_soon_threadsafe(callback)

    def is_here(self) -> bool:
        """Return whether `run_here` may be called: this thread made the host, and no other runs."""
        is_idle = self._thread is None and not self._is_callers
        return is_idle and threading.get_ident() == self._home

    def run_here(
        self, job: Coroutine[Any, Any, Any], context: contextvars.Context
    ) -> asyncio.Task[Any]:
        """Run a coroutine to its end in this thread, and return its task; only valid if `is_here`.

        If Ctrl-C interrupts the wait, the task is cancelled, continues in the loop's thread, and is
        returned unfinished.
        """
        loop = self._loop = self._loop or _made()
        task = loop.create_task(job, context=context)
        try:
            loop.run_until_complete(task)
        except SecondInterrupt:
            raise
        except BaseException as error:
            task.cancel()
            self._running()
            if not isinstance(error, KeyboardInterrupt):
                raise
        else:
            if not isinstance(loop, _Own) or loop.has_more():
                self._running()
        return task

    def _running(self) -> asyncio.AbstractEventLoop:
        """Return the loop, with a thread that runs it."""
        with self._lock:
            loop = self._loop = self._loop or _made()
            if self._thread is None and not self._is_callers:
                if isinstance(loop, _Own):
                    loop.is_watched = False
                thread = threading.Thread(target=loop.run_forever, name=self._name, daemon=True)
                thread.start()
                self._thread = thread  # only now: where none can be started, nobody waits for it
            return loop

    def close(self) -> None:
        """End the loop if it is ours; tasks that still run there are cancelled first.

        One that will not end keeps its loop, on a thread that ends with the process.
        """
        if self._is_callers or self._loop is None:
            return
        loop = self._loop
        if self._thread is not None:
            _end(loop, self._thread)
        elif self._is_rid_of_all(loop):
            loop.close()

    @staticmethod
    def _is_rid_of_all(loop: asyncio.AbstractEventLoop) -> bool:
        running = asyncio._get_running_loop()  # noqa: SLF001 - exported for loops, as uvloop uses it
        asyncio._set_running_loop(None)  # noqa: SLF001 - the same; `record` may be called inside one
        try:
            return loop.run_until_complete(_cancel_all())
        finally:
            asyncio._set_running_loop(running)  # noqa: SLF001 - the same


class _Selector(selectors.DefaultSelector):
    """Waits no longer than a signal may wait for its handler."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return the ready events, as the base class does."""
        return super().select(interrupts.at_a_stretch(timeout))


class _Own(asyncio.SelectorEventLoop):
    """A loop that knows whether a call has left something on it."""

    def __init__(self) -> None:
        self.is_watched = True
        """Whether tasks and timers are kept: while no thread runs the loop all the time."""
        self._left: list[asyncio.Task[Any] | asyncio.TimerHandle] = []
        self._chosen = _Selector()
        super().__init__(self._chosen)
        self._own_files = len(self._chosen.get_map())

    def create_task(self, coro: Any, **options: Any) -> asyncio.Task[Any]:
        """Make a task, as the base class does, and keep it."""
        task = super().create_task(coro, **options)
        self._keep(task)
        return task

    def call_at(
        self,
        when: float,
        callback: Callable[[*_Ts], object],
        *args: *_Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """Arm a timer, as the base class does, and keep it."""
        timer = super().call_at(when, callback, *args, context=context)
        self._keep(timer)
        return timer

    def _keep(self, made: asyncio.Task[Any] | asyncio.TimerHandle) -> None:
        if self.is_watched:
            self._left.append(made)
            if len(self._left) > _LEFT_MAX:
                self._left = [one for one in self._left if self._goes_on(one)]

    def _goes_on(self, made: asyncio.Task[Any] | asyncio.TimerHandle) -> bool:
        if isinstance(made, asyncio.TimerHandle):
            return not made.cancelled() and made.when() > self.time()
        return not made.done()

    def has_more(self) -> bool:
        """Return whether a task, a timer or a file of the calls so far is still waited for."""
        left, self._left = self._left, []
        return len(self._chosen.get_map()) != self._own_files or any(map(self._goes_on, left))


def _made() -> asyncio.AbstractEventLoop:
    """Return a new event loop, from the installed policy if there is one."""
    loop = asyncio.new_event_loop()
    if type(loop) is not asyncio.SelectorEventLoop:
        return loop
    loop.close()
    return _Own()


_lasting: Host
"""Of the whole process: made at need, closed at exit."""


def _begin_anew() -> None:
    """Start again in a forked process, in which threads are gone and a lock may be held."""
    global _lasting  # noqa: PLW0603 - one a process
    _lasting = Host(name="refold-models")
    atexit.register(_lasting.close)


_begin_anew()
os.register_at_fork(after_in_child=_begin_anew)

_kept: set[asyncio.Task[Any]] = set()


def _keep(task: asyncio.Task[Any]) -> None:
    _kept.add(task)
    task.add_done_callback(_kept.discard)


def _end(loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
    """End a loop that `thread` runs, unless something on it will not end."""
    if not thread.is_alive():  # in a forked process
        return
    try:
        is_over = asyncio.run_coroutine_threadsafe(_cancel_all(), loop).result(2 * _GRACE_SECONDS)
    except TimeoutError:  # something blocks the loop itself
        return
    if is_over:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _cancel_all() -> bool:
    """Cancel all other tasks; return whether they ended in time."""
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    left = (await asyncio.wait(others, timeout=_GRACE_SECONDS))[1] if others else ()
    return not left
