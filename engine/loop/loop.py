"""A deterministic asyncio event loop: callbacks, tasks, futures, timers, and nothing else.

Programs run on it (CONTRACT.md §9).  The same program, given the same completions in the same
order, runs its callbacks in the same order in every process:

- tasks hash to their scope and futures to the order of their first use, so that sets of them
  iterate alike, and an extra future elsewhere changes no order;
- a task's scope is its place in the tree of tasks, kept on the task and not in a context
  variable, which frameworks share between tasks;
- timers fire one at a time, when the pump decides; the clock moves only between steps;
- operations that would leave the loop are refused, with the place of the call.

Pure: reads no clock, opens nothing, starts nothing.  The kernel passes callables that arm a timer
in real time and that read the clock. `engine.loop.stdlib` has the functions of asyncio that need a
wrapper to be deterministic here.
"""

import asyncio
import contextvars
import functools
import gc
import itertools
import sys
import threading
import weakref
import zlib
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Iterator
from types import BuiltinFunctionType, FrameType
from typing import Any, Final, NoReturn

import attrs

import refold.engine
from refold.engine.encoding.plain import Moment
from refold.engine.errors import OutsideLoop
from refold.engine.events.flags import NOW, Flags
from refold.engine.loop.frameworks import adapter_for

_ASYNCIO_FILES: Final = asyncio.__file__.rpartition("/")[0]
_STDLIB: Final = _ASYNCIO_FILES.rpartition("/")[0]
_OURS: Final = refold.engine.__path__[0]
_TIMEOUTS_FILE: Final = sys.modules["asyncio.timeouts"].__file__

CALLBACKS_MAX: Final = 1_000_000
"""Callbacks that one step may run, about two seconds: a program that never waits ends there."""
PASSES_MAX: Final = 1000
"""Passes without a request of the program after which the world may deliver a line."""
_task_of: Any = asyncio.current_task
if sys.version_info < (3, 12):  # it is written in Python there: the same, without its call
    _task_of = vars(asyncio.tasks)["_current_tasks"].get
_FOR_EVER: Final = 1e12
"""Seconds, about thirty thousand years: no timer waits longer, `math.inf` included."""


def _programs_own(frame: FrameType | None) -> FrameType | None:
    """Return the innermost frame outside libraries, up to the step."""
    while frame is not None and frame.f_code is not Loop.step.__code__:
        if not is_librarys(frame.f_code.co_filename):
            return frame
        frame = frame.f_back
    return None


class _Collecting(threading.local):
    on = False
    loop: asyncio.AbstractEventLoop | None = None


_collecting = _Collecting()


def frames() -> dict[int, FrameType]:
    """Return the frame in which each thread is now, by the id of the thread.

    Python before 3.12 holds a lock meanwhile that each new thread needs: a collection of garbage
    in that moment, which may let another thread run, could hang the process for good.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        return sys._current_frames()  # noqa: SLF001 - there is no other way to other threads
    finally:
        if collects:
            gc.enable()


def is_engines(file: str) -> bool:
    """Return whether a source file belongs to the engine or to asyncio, and not to a program."""
    return file.startswith((_ASYNCIO_FILES, _OURS))


def is_librarys(file: str) -> bool:
    """Return whether a source file belongs to Refold, to Python or to an installed package."""
    return file.startswith((_STDLIB, _OURS, "<frozen ", "<attrs ")) or "-packages/" in file


def is_asyncios(file: str) -> bool:
    """Return whether a file of code belongs to asyncio."""
    return file.startswith(_ASYNCIO_FILES)


def _mark_collection(phase: str, _info: dict[str, int]) -> None:
    """Hide our loop from finalisers: OpenAI's clients create a task to close themselves.

    It would be among the program's tasks, at a time that varies between runs, and later tasks would
    have different scopes.
    """
    _collecting.on = phase == "start"
    if _collecting.on:
        running = asyncio._get_running_loop()  # noqa: SLF001 - exported for loops
        _collecting.loop = running if isinstance(running, Loop) else None
        if _collecting.loop is not None:
            asyncio._set_running_loop(None)  # noqa: SLF001 - the same
    elif _collecting.loop is not None:
        asyncio._set_running_loop(_collecting.loop)  # noqa: SLF001 - the same
        _collecting.loop = None


def inside_collector() -> bool:
    """Return whether this thread runs a finaliser on behalf of the garbage collector."""
    return _collecting.on


_SIBLING_BITS: Final = 24
"""The bits of a hash for the tasks of one scope; higher bits distinguish scopes."""


@attrs.define(eq=False)
class Scope:
    """A place in a program's tree of tasks, and the counters that name what happens there."""

    path: str
    hash: int = 0
    """Of its task.  Siblings have successive ones, so that small sets keep their order."""
    tasks: int = 0
    calls: int = 0
    timers: int = 0
    lengths: dict[int | None, int] = attrs.field(factory=dict)
    """How many of its timers have a length, by length in microseconds."""
    _below: int = attrs.field(default=-1, init=False)

    def child(self) -> "Scope":
        """Return the next scope below this one: `0/2` has `0/2/1`, then `0/2/2`."""
        if self._below < 0:
            # Not `hash`, which is salted in each process. The root's is 0, and its tasks have
            # 1, 2, …: a set of integers iterates in their order as long as it is small.
            self._below = zlib.crc32(self.path.encode()) << _SIBLING_BITS if self.hash else 0
        self.tasks += 1
        return Scope(f"{self.path}/{self.tasks}", self._below + self.tasks)

    def take_back(self) -> None:
        """Let the next call have the key of the last: nothing came of it, ordinals stay dense."""
        self.calls -= 1

    def next_call(self) -> str:
        """Return the next call key: `0/2#1`, then `0/2#2`."""
        self.calls += 1
        return f"{self.path}#{self.calls}"

    def next_timer(self) -> str:
        """Return the next timer key, counted apart from calls: `0/2@1`."""
        self.timers += 1
        return f"{self.path}@{self.timers}"

    def next_of_length(self, length_us: int | None) -> int:
        """Return which timer of its length the next one is, from 1."""
        nth = self.lengths[length_us] = self.lengths.get(length_us, 0) + 1
        return nth


_scope_of_context: contextvars.ContextVar[Scope] = contextvars.ContextVar("refold_scope")


_NO_CONTEXT: Final = contextvars.Context()


def _do_nothing(*_args: Any) -> None:
    """Replace the callback of a cancelled handle."""


@attrs.define(eq=False)
class Handle:
    """A callback that is due; the little of `asyncio.Handle` that anything uses."""

    callback: Callable[..., Any]
    args: tuple[Any, ...]
    context: contextvars.Context
    is_cancelled: bool = False

    def get_context(self) -> contextvars.Context:
        """Return the context of its call."""
        return self.context

    def cancel(self) -> None:
        """Make sure that the callback never runs, and release it.

        A kept handle must not keep the callback's objects alive; only the program may do that,
        because a generator is closed when its last reference is dropped.
        """
        self.is_cancelled = True
        self.callback, self.args, self.context = _do_nothing, (), _NO_CONTEXT

    def cancelled(self) -> bool:
        """Return whether `cancel` was called."""
        return self.is_cancelled


class _Since(Moment):
    """The last recorded time, from which `asyncio.timeout` makes a time that represents a delay."""

    __slots__ = ()


@functools.total_ordering
class Timer(Handle):
    """A callback that waits for virtual time, named by its scope and number there.

    Two runs of one program have the same timers by scope, length, and number among equal ones.

    Ordered by due time, as far as it is known without reading the clock.
    """

    __slots__ = (
        "_due", "_loop", "_when", "at_us", "delay_us", "key", "length_us", "nth", "number", "scope",
    )  # fmt: skip

    def __init__(
        self,
        loop: "Loop",
        delay: float,
        callback: Callable[..., Any],
        args: tuple[Any, ...],
        context: contextvars.Context,
        when: float | None,
    ) -> None:
        super().__init__(callback, args, context)
        self._loop = loop
        self._when = when
        self.delay_us = microseconds(delay)
        """From the last recorded time on."""
        self.at_us = None if when is None or isinstance(when, _Since) else microseconds(when)
        """In virtual time, if the program gave a time and not a delay."""
        added = delay if when is None else getattr(when, "added", None)
        self.length_us = None if added is None else microseconds(added)
        """The delay that the program gave; `None` for a time without a known delay."""
        scope = loop.scope()
        self.scope = scope.path
        self.key = scope.next_timer()
        self.nth = scope.next_of_length(self.length_us)
        self.number = loop.next_number()
        self._due = when if when is not None else loop.peek_clock() + delay

    @property
    def due_us(self) -> int:
        """When it is due in virtual time at the earliest, as the program last saw the time."""
        return microseconds(self._due)

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, Timer):
            return NotImplemented
        return (self._due, self.number) < (other._due, other.number)

    def __hash__(self) -> int:
        return self.number

    def cancel(self) -> None:
        """Disarm the timer; the log never mentions it."""
        if not self.is_cancelled:
            super().cancel()
            self._loop.timers.pop(self.key, None)

    def when(self) -> float:
        """Return the virtual time at which it is due, in seconds."""
        if self._when is None:
            self._when = self._loop.time() + self.delay_us / 1_000_000
        return self._when


def microseconds(seconds: float) -> int:
    """Convert seconds to microseconds, capped at `_FOR_EVER`."""
    return max(0, round(min(seconds, _FOR_EVER) * 1_000_000))


class Future(asyncio.Future[Any]):
    """A future that hashes to a number that it draws when it is first put into a set."""

    def __init__(self, *, loop: "Loop") -> None:
        self.number = 0
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        self.number = self.number or self.get_loop().next_hash()  # type: ignore[attr-defined]  # ours
        return self.number


class Task(asyncio.Task[Any]):
    """A task that knows its scope, and hashes to it."""

    def __init__(
        self, coro: Coroutine[Any, Any, Any], *, loop: "Loop", scope: Scope, **options: Any
    ) -> None:
        # Both before the base class: it adds the task to a set, and an eager start runs it.
        self.number = scope.hash
        self.scope = scope
        super().__init__(coro, loop=loop, **options)

    def __hash__(self) -> int:
        return self.number


class TasksInOrder(set[asyncio.Task[Any]]):
    """A set of tasks that iterates in the order in which it was made, regardless of its layout."""

    def __init__(self, tasks: list[asyncio.Task[Any]]) -> None:
        super().__init__(tasks)
        self._in_order = tasks

    def __iter__(self) -> Iterator[asyncio.Task[Any]]:
        """Iterate over the tasks that are still in it; added ones come last."""
        added = set(super().__iter__()).difference(self._in_order)
        return iter([*(task for task in self._in_order if task in self), *added])

    def __sub__(self, other: Any) -> "TasksInOrder":
        """Leave some out, most often `{asyncio.current_task()}`."""
        return TasksInOrder([task for task in self if task not in other])


class Loop(asyncio.AbstractEventLoop):
    """The kernel's loop.  `step` runs everything that is ready; the pump feeds it in between."""

    def __init__(
        self,
        *,
        read_clock: Callable[[], float],
        peek_clock: Callable[[], float],
        arm: Callable[[Timer], None],
        unheard: Callable[[str, BaseException | None], None] = lambda _message, _error: None,
        hears: Callable[[], bool] = lambda: False,
        flags: Flags = NOW,
    ) -> None:
        """Take the clock.

        `read_clock` records that the program saw the time, and `peek_clock` returns the last
        recorded time, both in seconds. `arm` gets every timer. `unheard` gets exceptions that the
        program never sees, each with asyncio's message. `hears` returns whether anything is in
        flight that the program may wait for. `flags` are the rules of the run's log.
        """
        self.flags = flags
        self.root = Scope("0")
        self.timers: dict[str, Timer] = {}
        self.unfinished: dict[asyncio.Task[Any], None] = {}
        self.refusal: OutsideLoop | None = None
        """The first attempt to leave; it ends the run even if the program swallows the error."""
        self.peek_clock = peek_clock
        self._read_clock = read_clock
        self._arm = arm
        self._unheard = unheard
        self._hears = hears
        self.idle_passes = 0
        """Passes in which the program has asked for nothing; who asks sets it back."""
        self.passes = PASSES_MAX
        self.left = 0
        """Callbacks that this step may still run."""
        self._failed: list[weakref.ref[asyncio.Task[Any]]] = []
        self._ready: deque[Handle] = deque()
        self.next_number = itertools.count(1).__next__
        """Returns the next number of a timer or generator."""
        self.next_hash = itertools.count(1).__next__
        """Returns the next hash of a future, drawn when somebody asks for it."""
        self._eager = False
        self._foreign: dict[asyncio.Task[Any], Scope] = {}
        self._generators: dict[int, tuple[int, weakref.ref[AsyncGenerator[Any, Any]]]] = {}
        self._dropped: dict[int, AsyncGenerator[Any, Any]] = {}
        self._exception_handler: Any = None
        self._done = asyncio.Future[Any](loop=self)
        self._done.set_result(None)
        self.thread = 0
        """The thread in which the loop steps; 0 while it does not."""
        self.moves = 0
        """Callbacks run, and calls of the program: shows whether it makes progress."""

    # -- what the pump calls --------------------------------------------------------------

    def step(self) -> bool:
        """Run callbacks until none is ready; False after `CALLBACKS_MAX` of them.

        It also stops if the program polls for something in flight: it made no request in the number
        of passes that `PASSES_MAX` sets.
        """
        ready = self._ready
        if not ready:
            return True
        # A run may be inside another loop's thread, such as a notebook's: both are put back.
        before = asyncio._get_running_loop()  # noqa: SLF001 - exported for loops, as uvloop uses it
        hooks = sys.get_asyncgen_hooks()
        asyncio._set_running_loop(self)  # noqa: SLF001 - the same
        sys.set_asyncgen_hooks(self._generator_started, self._generator_dropped)
        self.thread = threading.get_ident()
        try:
            return self._run_passes(ready)
        finally:
            self.thread = 0
            sys.set_asyncgen_hooks(*hooks)
            asyncio._set_running_loop(before)  # noqa: SLF001 - the same

    def _run_passes(self, ready: deque[Handle]) -> bool:
        self.left = CALLBACKS_MAX
        self.idle_passes = 0
        while ready:
            many = len(ready)
            self.left -= many
            for _ in range(many):
                self._run(ready.popleft())  # no name for it here: it would outlive the step
            self.idle_passes += 1
            if self.idle_passes >= self.passes:
                self.idle_passes = 0
                if self._hears():
                    return True
            if self.left <= 0:
                return False
        return True

    def _run(self, handle: Handle) -> None:
        self.moves += 1
        if handle.is_cancelled:
            return
        args = handle.args
        callback = handle.callback
        # A program's own function may have that name, too.
        if callback.__class__ is BuiltinFunctionType and callback.__name__ == "task_wakeup":
            args = handle.args = (self._outcome_alone(args[0]),)
        try:
            handle.context.run(callback, *args)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001 - as asyncio does
            self._callback_failed(handle, error)
        finally:
            # From Python 3.12 on, the traceback of a failed task leads to this frame, and from here
            # to the task: a cycle, which the collector would break at a time of its own.
            del handle, args, callback

    def _callback_failed(self, handle: Handle, error: BaseException) -> None:
        name = getattr(handle.callback, "__qualname__", type(handle.callback).__name__)
        message = f"Exception in callback {name}"
        self.call_exception_handler({"message": message, "exception": error, "handle": handle})

    def _outcome_alone(self, future: asyncio.Future[Any]) -> asyncio.Future[Any]:
        """Return a future that wakes a task as `future` does, without further references.

        The task holds it until it waits again, which is later in a replay, because tools end at
        once there. Objects that the program drops in between must be freed at the same moment.
        """
        if future.cancelled():
            return future
        error = future.exception()
        if error is None:
            return self._done
        failed = asyncio.Future[Any](loop=self)
        failed.set_exception(error)
        return failed

    def forget_ready(self) -> None:
        """Drop ready callbacks of a program that spins even while it is cancelled."""
        self._ready.clear()

    def is_idle(self) -> bool:
        """Return whether nothing at all is ready or timed."""
        return not self._ready and not self.timers

    def would_wait(self, frame: FrameType | None) -> bool:
        """Return whether waiting code in `frame` only yields to this loop.

        It does not if its task has a pending cancellation, which is raised there; if other code
        drives the coroutine and continues, such as an eager start of its task; or if a tool called
        in its place would see an exception that the program is handling, or have little stack left.
        Outside a step, a plain program waits, which has no task.
        """
        if not self.thread:
            return True
        task = _task_of(self)
        if getattr(task, "_must_cancel", True) or sys.exception() is not None:
            return False
        for _ in range(1, _FRAMES_MAX):  # the call's own is one of them
            if frame is None:
                return False
            code = frame.f_code  # asked once, as an audit hook has to be passed each time
            if not code.co_flags & _SUSPENDS:
                return code is _RUN
            frame = frame.f_back
        return False

    def is_stepping(self) -> bool:
        """Return whether this thread is inside `step`, and not in a finaliser of the collector."""
        return self.thread == threading.get_ident() and not _collecting.on

    def fire(self, key: str) -> bool:
        """Make the timer `key` ready; return whether it was armed."""
        timer = self.timers.pop(key, None)
        if timer is None:
            return False
        self._ready.append(timer)
        return True

    def scope(self) -> Scope:
        """Return the scope that the code running now belongs to; outside of steps, the root's."""
        task = _task_of(self)
        if task.__class__ is Task:
            return task.scope
        if task is not None:
            return self._scope_of_foreign(task)
        # A plain program may run in a context that a thread has from a task of another program.
        return _scope_of_context.get(self.root) if self.is_stepping() else self.root

    def stepping_scope(self) -> Scope | None:
        """Return the scope of the code running now; `None` where `is_stepping` would be False."""
        if self.thread != threading.get_ident() or _collecting.on:
            return None
        self.idle_passes = 0
        self.moves += 1
        task = _task_of(self)
        return task.scope if task.__class__ is Task else self.scope()

    def _scope_of_foreign(self, task: asyncio.Task[Any]) -> Scope:
        """Return the scope of a task that a framework made past `create_task`."""
        found = self._foreign.get(task)
        if found is None:
            found = self._foreign[task] = _scope_of_context.get(self.root).child()
            task.add_done_callback(lambda done: self._foreign.pop(done, None))
        return found

    def spawn(self, coro: Coroutine[Any, Any, Any], scope: Scope) -> Task:
        """Create a task with a scope of the kernel's choosing; it starts in the next step."""
        return self._new_task(coro, scope, name=None, context=None, eager=False)

    def open_generators(self) -> list[AsyncGenerator[Any, Any]]:
        """Return started and unclosed async generators, in the order of their start.

        This includes generators in reference cycles, collected or not, because the collector's
        timing must not affect the program. Whether an ended one is still in memory must not either.
        """
        if not (self._generators or self._dropped):
            return []
        begun = {number: found for number, ref in self._generators.values() if (found := ref())}
        begun.update(self._dropped)
        self._generators.clear()
        self._dropped.clear()
        in_order = (begun[number] for number in sorted(begun))
        return [one for one in in_order if _is_open(one)]

    def all_tasks(self, found: Iterable[asyncio.Task[Any]]) -> set[asyncio.Task[Any]]:
        """Return what `asyncio.all_tasks` found, out of a set of weak references, in order."""
        places = {task: place for place, task in enumerate(self.unfinished)}
        last = len(places)  # a task that starts eagerly is not among them yet
        in_order = sorted(found, key=lambda task: (places.get(task, last), hash(task)))
        return TasksInOrder(in_order)

    # -- asyncio's side -------------------------------------------------------------------

    def call_soon(  # type: ignore[override]  # our handle is a tenth of asyncio's cost
        self,
        callback: Callable[..., Any],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> Handle:
        """Make a callback ready."""
        if context is None:
            context = contextvars.copy_context()
        handle = Handle(callback, args, context)
        self._ready.append(handle)
        return handle

    def call_soon_threadsafe(self, callback: Any, *args: Any, **options: Any) -> Handle:  # type: ignore[override]  # the same
        """Make a callback ready, in the program's own thread; refuse any other."""
        if not self.is_stepping():
            self.refuse("loop.call_soon_threadsafe")
        return self.call_soon(callback, *args, **options)

    def call_later(  # type: ignore[override]  # the same
        self,
        delay: float,
        callback: Callable[..., Any],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> Timer:
        """Call back after `delay` seconds of virtual time."""
        return self._start_timer(delay, callback, args, context, None)

    def call_at(  # type: ignore[override]  # the same
        self,
        when: float,
        callback: Callable[..., Any],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> Timer:
        """Call back at the virtual time `when`, in seconds; it came from `time`."""
        return self._start_timer(when - self.peek_clock(), callback, args, context, when)

    def _start_timer(
        self,
        delay: float,
        callback: Callable[..., Any],
        args: tuple[Any, ...],
        context: contextvars.Context | None,
        when: float | None,
    ) -> Timer:
        if context is None:
            context = contextvars.copy_context()
        timer = Timer(self, delay, callback, args, context, when)
        self.timers[timer.key] = timer
        self._arm(timer)
        return timer

    def time(self) -> float:
        """Return virtual time in seconds. This reads the clock, and is recorded.

        `asyncio.timeout` only converts a delay to a time and back, so it gets the last recorded
        time, and nothing is recorded. Its result stays recognisable: a time that the program itself
        gives (`timeout_at`) is kept exactly. A value added to either is the length of a timer.
        """
        if sys._getframe(1).f_code.co_filename == _TIMEOUTS_FILE:  # noqa: SLF001 - no other way
            return _Since(self.peek_clock())
        return Moment(self._read_clock())

    def create_future(self) -> Future:
        """Return a future of this loop."""
        return Future(loop=self)

    def create_task(
        self,
        coro: Any,  # a coroutine; before Python 3.12 the type of asyncio's is a wider one
        *,
        name: str | None = None,
        context: contextvars.Context | None = None,
        eager_start: bool | None = None,
    ) -> Task:
        """Create a task with the next scope below the one that runs now.

        Raises:
            RuntimeError: a finaliser that kept this loop asks, at a time of the collector's own.
        """
        if _collecting.on:
            # Or Python would warn that it was never awaited, at a line of ours.
            coro.close()
            raise RuntimeError("the garbage collector makes no task of a program")
        self._refuse_unordered()
        eager = self._eager if eager_start is None else eager_start
        return self._new_task(coro, self.scope().child(), name=name, context=context, eager=eager)

    def _new_task(
        self,
        coro: Coroutine[Any, Any, Any],
        scope: Scope,
        *,
        name: str | None,
        context: contextvars.Context | None,
        eager: bool,
    ) -> Task:
        if context is None:
            context = contextvars.copy_context()
            context.run(_scope_of_context.set, scope)
        # asyncio numbers the tasks of the whole process: its default name differs between runs.
        options: dict[str, Any] = {"name": name or scope.path, "context": context}
        if eager:
            # Only then: Python before 3.12 does not know the option.
            options["eager_start"] = True
        task = Task(coro, loop=self, scope=scope, **options)
        if not task.done():
            # Strong: asyncio's own references are weak, and a lost task would be closed by the
            # collector, its clean-up at a random time.
            self.unfinished[task] = None
            task.add_done_callback(self._forget)
        return task

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self.unfinished.pop(task, None)
        # Tasks of all runs have the same hashes: in asyncio's set, each new one is compared with
        # those that ended and are not collected yet.
        asyncio._unregister_task(task)  # noqa: SLF001 - exported for loops, as uvloop uses it
        if _is_unheard(task):
            self._failed.append(weakref.ref(task))

    def report_failed_tasks(self) -> None:
        """Report failed tasks with unretrieved results; collected ones were reported before."""
        failed, self._failed = self._failed, []
        for task in [task for ref in failed if (task := ref()) is not None and _is_unheard(task)]:
            self._unheard("Task exception was never retrieved", task.exception())

    def keep_unfinished(self) -> None:
        """Never free tasks that ignored their cancellation.

        Python closes the coroutine of a freed task. One that catches `GeneratorExit`, and tries
        again outside of the loop, would not return from that: the process would hang at its exit.
        """
        if self.unfinished:
            import ctypes  # noqa: PLC0415 - few programs have such tasks

            ctypes.pythonapi.Py_IncRef(ctypes.py_object([*self.unfinished]))

    def _refuse_unordered(self) -> None:
        """Refuse `as_completed` imported before Refold wrapped it: its set has no fixed order."""
        frame: FrameType | None = sys._getframe(2)  # noqa: SLF001 - only the caller's code tells
        if frame is None or frame.f_code.co_name not in ("ensure_future", "_ensure_future"):
            return
        for _ in range(4):
            if frame is None:
                return
            code = frame.f_code
            if code.co_name == "as_completed" and code.co_filename.startswith(_ASYNCIO_FILES):
                self.refuse("asyncio.as_completed over bare coroutines, imported before Refold,")
            frame = frame.f_back

    def set_task_factory(self, factory: Any) -> None:
        """Accept asyncio's eager factory (by an option of our own tasks); refuse any other."""
        if factory is not None and factory is not getattr(asyncio, "eager_task_factory", None):
            self.refuse("set_task_factory")
        self._eager = factory is not None

    def get_task_factory(self) -> Any:
        """Return asyncio's eager factory where it was set."""
        return getattr(asyncio, "eager_task_factory", None) if self._eager else None

    def get_debug(self) -> bool:
        """Return False: debug mode reads clocks."""
        return False

    def set_debug(self, enabled: bool) -> None:  # noqa: FBT001 - asyncio's signature
        """Ignore it, for the same reason."""

    def is_running(self) -> bool:
        """Return whether a step is under way."""
        return self.thread != 0

    def is_closed(self) -> bool:
        """Return False; the loop ends with its run."""
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Pass an exception that nobody awaits to the program's handler, if it set one.

        The handler is not called from the collector, or after the end, when no program code may
        run.
        """
        handler = self._exception_handler
        if handler is None or not self.is_stepping():
            self.default_exception_handler(context)
            return
        thing: Any = context.get("task") or context.get("future") or context.get("handle")
        try:
            if hasattr(thing, "get_context"):
                thing.get_context().run(handler, self, context)
            else:
                handler(self, context)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001 - as asyncio does
            self.default_exception_handler(context)
            said = {"message": "Unhandled error in exception handler", "exception": error}
            self.default_exception_handler(said)

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        """Make a warning of it, because a recorded run must not print as asyncio would."""
        self._unheard(str(context.get("message", "")), context.get("exception"))

    def set_exception_handler(self, handler: Any) -> None:
        """Set what `call_exception_handler` calls."""
        self._exception_handler = handler

    def get_exception_handler(self) -> Any:
        """Return what `set_exception_handler` set."""
        return self._exception_handler

    async def shutdown_asyncgens(self) -> None:
        """Do nothing; the end of the run closes open generators in the order of their start."""

    async def shutdown_default_executor(
        self,
        timeout: float | None = None,  # noqa: ASYNC109 - asyncio's signature
    ) -> None:
        """Do nothing, because no executor exists."""

    # -- async generators -----------------------------------------------------------------

    def _generator_started(self, generator: AsyncGenerator[Any, Any]) -> None:
        self._generators[id(generator)] = self.next_number(), weakref.ref(generator)

    def _generator_dropped(self, generator: AsyncGenerator[Any, Any]) -> None:
        """Close a generator that lost its last reference, as asyncio does.

        Not one that the collector found, at a time of its own: that is kept for the end of the run.
        """
        number, _ = self._generators.pop(id(generator), (0, None))  # unknown: after the end
        if self.is_stepping():
            self.create_task(generator.aclose())
        else:
            self._dropped[number] = generator

    # -- refusals -------------------------------------------------------------------------

    def refuse(self, method: str, remedy: str = "") -> NoReturn:
        """Refuse to leave the loop, and remember it: a framework may swallow the error.

        `remedy` is the advice, if the answer is not to make it a tool.

        Raises:
            OutsideLoop: always; names the first caller outside asyncio and the engine; for a
                library, the program's line that calls it, if any.
        """
        frame = sys._getframe(1)  # noqa: SLF001 - the call site is the message
        while frame.f_back is not None and is_engines(frame.f_code.co_filename):
            name, is_theirs = frame.f_code.co_name, is_asyncios(frame.f_code.co_filename)
            if is_theirs and hasattr(asyncio, name) and " " not in method:
                method = f"asyncio.{name}"  # what the program called, not what that calls
            frame = frame.f_back
        place = _programs_own(frame) or frame
        adapter = adapter_for(frame)
        error = OutsideLoop(method, place.f_code.co_filename, place.f_lineno, adapter)
        if remedy:
            error = OutsideLoop(method, place.f_code.co_filename, place.f_lineno, "", remedy)
        if self.refusal is None:
            self.refusal = error
        raise error


def _is_unheard(task: asyncio.Task[Any]) -> bool:
    """Return whether a task has failed, and nobody has asked for its exception."""
    return bool(getattr(task, "_log_traceback", False))


def _is_open(generator: AsyncGenerator[Any, Any]) -> bool:
    """Return whether a generator has not ended; unknown types count as open."""
    return getattr(generator, "ag_frame", generator) is not None


def _refusing(name: str) -> Callable[..., NoReturn]:
    def refused(self: Loop, *_args: Any, **_options: Any) -> NoReturn:
        self.refuse(f"loop.{name}")

    refused.__name__ = name
    refused.__doc__ = f"Refuse `{name}`: it would leave the loop."
    return refused


_RUN: Final = Loop._run.__code__  # noqa: SLF001 - its own module
_SUSPENDS: Final = 0x3A0
"""Flags of code whose frame can suspend: `inspect.CO_COROUTINE` and similar."""
_FRAMES_MAX: Final = 64
"""Frames of a task at most, if it does not wait: a deep task has little stack left for a tool."""

for _name in dir(asyncio.AbstractEventLoop):
    if not _name.startswith("_") and _name not in vars(Loop):
        setattr(Loop, _name, _refusing(_name))

gc.callbacks.append(_mark_collection)  # last: it knows `Loop`, and importing collects, too
