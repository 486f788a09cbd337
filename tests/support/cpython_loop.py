"""The kernel's loop with what CPython's own tests of asyncio need around it.

They run loops themselves, in slices, and look at what happened in between: so this one has a pump,
which goes pass by pass as asyncio's does, and a virtual clock, which goes on when nothing is ready.
Callbacks, tasks, futures, timers, generators and handlers of exceptions are the kernel's.
"""

import asyncio
import contextvars
import types
import unittest
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from refold.engine.loop import loop as kernels
from refold.engine.loop import stdlib


class PumpedLoop(kernels.Loop):
    """A loop of the kernel that pumps itself, with the time that its timers are due at."""

    _default_executor = None
    """What tests close after themselves."""
    slow_callback_duration = 0.1
    _current_handle = None

    def __init__(self, _moments: Any = None) -> None:
        """Make a loop; `_moments` is how asyncio's test loop would be told of the time."""
        stdlib.install()
        self.now = 0.0
        self._stopping = self._closed = self._up = False
        super().__init__(
            read_clock=lambda: self.now,
            peek_clock=lambda: self.now,
            arm=lambda _timer: None,
            hears=lambda: True,
        )
        self.passes = 1

    def run_forever(self) -> None:
        """Run pass by pass until somebody stops the loop.

        Raises:
            RuntimeError: it is closed, or runs already; or nothing could ever wake it.
        """
        if self._closed:
            raise RuntimeError("Event loop is closed")
        if self._up or asyncio._get_running_loop() is not None:
            raise RuntimeError("This event loop is already running")
        self._up = True
        try:
            while not self._passed():
                if not self._ready and not self._fire_next():
                    raise RuntimeError("the program waits for what can never come")
        finally:
            self._up = self._stopping = False

    def _passed(self) -> bool:
        if self._stopping and not self._ready:
            return True
        self.step()
        return self._stopping

    def _fire_next(self) -> bool:
        timer = min(self.timers.values(), default=None)
        if timer is None:
            return False
        self.now = max(self.now, timer._due)
        return self.fire(timer.key)

    def run_until_complete(self, future: Any) -> Any:
        """Run until a future is done, and return its result; as asyncio's loops do."""
        is_new = not asyncio.isfuture(future)
        future = asyncio.ensure_future(future, loop=self)
        future.add_done_callback(self._stop_after)
        try:
            self.run_forever()
        except BaseException:
            if is_new and future.done() and not future.cancelled():
                future.exception()
            raise
        finally:
            future.remove_done_callback(self._stop_after)
        if not future.done():
            raise RuntimeError("Event loop stopped before Future completed.")
        return future.result()

    def _stop_after(self, future: asyncio.Future[Any]) -> None:
        if future.cancelled() or not isinstance(
            future.exception(), (SystemExit, KeyboardInterrupt)
        ):
            self.stop()

    def stop(self) -> None:
        """Stop after this pass."""
        self._stopping = True

    def is_running(self) -> bool:
        """Return whether it is pumped."""
        return self._up

    def close(self) -> None:
        """Take nothing more."""
        self._closed = True
        self.forget_ready()

    def is_closed(self) -> bool:
        """Return whether it was closed."""
        return self._closed

    def _check_closed(self) -> None:
        if self._closed:
            raise RuntimeError("Event loop is closed")

    def _timer_handle_cancelled(self, _timer: Any) -> None:
        """Do nothing: tests replace it."""

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        """Log what nobody awaited, as asyncio does; the kernel makes warnings of it."""
        asyncio.BaseEventLoop.default_exception_handler(self, context)  # type: ignore[arg-type]  # all it needs is here

    def advance_time(self, seconds: float) -> None:
        """Let time go on: a test did something slow."""
        self.now += seconds

    def set_task_factory(self, factory: Any) -> None:
        """Pass over those that only make the tasks which this loop makes anyhow."""
        if factory is None or factory is getattr(asyncio, "eager_task_factory", None):
            super().set_task_factory(factory)


class PumpedTask(kernels.Task):
    """A task of the kernel that can be made as asyncio's can."""

    def __init__(
        self,
        coro: Coroutine[Any, Any, Any],
        *,
        loop: Any = None,
        scope: kernels.Scope | None = None,
        **options: Any,
    ) -> None:
        on: Any = asyncio.get_running_loop() if loop is None else loop
        super().__init__(coro, loop=on, scope=scope or on.scope().child(), **options)


PumpedTask.__name__ = PumpedTask.__qualname__ = "Task"  # as their texts show it


class PumpedFuture(kernels.Future):
    """A future of the kernel that can be made as asyncio's can."""

    def __init__(self, *, loop: Any = None) -> None:
        on: Any = asyncio.get_event_loop() if loop is None else loop
        super().__init__(loop=on)


PumpedFuture.__name__ = PumpedFuture.__qualname__ = "Future"


class PumpedRunner:
    """What an `IsolatedAsyncioTestCase` runs its methods by."""

    def __init__(self, **_options: Any) -> None:
        self._loop = PumpedLoop()  # type: ignore[abstract]  # what it lacks is refused, by name

    def get_loop(self) -> PumpedLoop:
        """Return the loop, which is the thread's from now on."""
        asyncio.set_event_loop(self._loop)
        return self._loop

    def run(self, coro: Any, *, context: contextvars.Context | None = None) -> Any:
        """Run a coroutine to its end."""
        return self._loop.run_until_complete(self._loop.create_task(coro, context=context))

    def close(self) -> None:
        """Cancel what is left; a case calls this once more when it is collected."""
        if self._loop.is_closed():
            return
        for task in list(self._loop.unfinished):
            task.cancel()
        self._loop.call_soon(self._loop.stop)
        self._loop.run_forever()
        self._loop.close()
        asyncio.set_event_loop(None)


@contextmanager
def on_kernels_loop(utils: types.ModuleType) -> Iterator[None]:
    """Make asyncio's tests run on loops of the kernel; `utils` is their module of that name."""
    with (
        mock.patch.object(utils, "TestLoop", PumpedLoop),
        mock.patch.object(asyncio, "new_event_loop", PumpedLoop),
        mock.patch.object(asyncio.events, "new_event_loop", PumpedLoop),
        mock.patch.object(asyncio, "Runner", PumpedRunner),
        mock.patch.object(kernels, "Task", PumpedTask),
    ):
        yield


def results_of(case: type[unittest.TestCase], without: frozenset[str]) -> unittest.TestResult:
    """Run the methods of a case, but for those named."""
    names = unittest.TestLoader().getTestCaseNames(case)
    result = unittest.TestResult()
    unittest.TestSuite(case(name) for name in names if name not in without).run(result)
    return result
