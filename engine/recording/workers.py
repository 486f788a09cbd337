"""Threads: for the tools and model requests of one run, for one piece of work, and for a watch.

A shell file.  What runs on them, and what becomes of it, is `engine.recording.driver`'s.
"""

import asyncio
import contextlib
import contextvars
import os
import queue
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from typing import Any, Final, Generic, Protocol, TypeVar

from refold.engine.recording import interrupts

T = TypeVar("T")

WORKERS_MAX: Final = 64
"""Threads of one run; more jobs than these wait their turn."""


class Mailbox(Generic[T]):
    """Things that any thread puts in, also in a signal's handler, and one thread takes in order.

    Not `queue.SimpleQueue`: in Python 3.11 and 3.12, it waits for ever if the time is over before
    it has begun to wait, which happens to a timeout of a millisecond on a busy machine.
    """

    def __init__(self) -> None:
        self._things: deque[T] = deque()
        self._nothing_new = threading.Lock()
        """Free once something was put in since the last wait."""
        self._nothing_new.acquire()

    def empty(self) -> bool:
        """Return whether there is nothing."""
        return not self._things

    def put(self, thing: T) -> None:
        """Put something in."""
        self._things.append(thing)
        try:  # noqa: SIM105 - a context manager takes longer than all else
            self._nothing_new.release()
        except RuntimeError:  # it is free already
            pass

    def get(self, timeout: float | None = None) -> T:
        """Take the first thing, and wait for it for so many seconds; `None` sets no limit.

        Raises:
            queue.Empty: nothing came in time.
        """
        while not self._things:  # what frees the lock may have been taken already
            if not self._nothing_new.acquire(timeout=-1 if timeout is None else timeout):
                raise queue.Empty
        return self._things.popleft()


class Workers:
    """Daemon threads that take jobs in order; they grow to a cap and end with the process.

    Not `ThreadPoolExecutor`: its threads are joined at exit, so a tool that hangs would keep the
    process from ending.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._jobs: deque[Callable[[], None]] = deque()
        self._calls: queue.SimpleQueue[int] = queue.SimpleQueue()
        """To threads that do nothing: 1 to work, 0 to end."""
        self._lock = threading.Lock()
        self._idle = self._threads = 0
        self._is_called = False
        """Whether a thread was called, or started, and has not looked for a job yet."""

    def submit(self, *jobs: Callable[[], None]) -> None:
        """Run jobs, each on a thread as soon as one is free; here if no thread can be started."""
        self._jobs.extend(jobs)
        self._call()

    def close(self) -> None:
        """Let idle threads end."""
        for _ in range(self._threads):
            self._calls.put(0)

    def _call(self) -> None:
        """Call one thread if jobs wait; before its first job, it calls the next one.

        So a few threads do the jobs that end at once, and one that waits for something lets go of
        the interpreter, with which the next one begins: jobs begin in their order.
        """
        with self._lock:
            is_full = not self._idle and self._threads == self._most
            if self._is_called or is_full or not self._jobs:
                return
            self._is_called = True
            if is_new := not self._idle:
                self._threads += 1
            else:
                self._idle -= 1
        try:
            if is_new:
                threading.Thread(target=self._work, name="refold-worker", daemon=True).start()
        except RuntimeError:  # the system has no more threads
            self._threads -= 1
            self._is_called = False
            if self._threads == 0:
                self._do_all()
        else:
            self._calls.put(1)

    def _work(self) -> None:
        while self._calls.get():
            self._is_called = False
            self._do_all()
            with self._lock:
                self._idle += 1
            self._call()  # for a job that came before this one was idle

    def _do_all(self) -> None:
        while True:
            try:
                job = self._jobs.popleft()
            except IndexError:  # none is left
                return
            self._call()
            job()
            del job


def on_thread(work: Callable[[], T], name: str = "refold-kernel") -> Future[T]:
    """Run `work` on a new daemon thread, in a copy of this context; return its future result."""
    ended: Future[T] = Future()
    context = contextvars.copy_context()

    def run() -> None:
        try:
            result = context.run(work)
        except BaseException as error:  # noqa: BLE001 - raised again by who asks for the result
            ended.set_exception(error)
        else:
            ended.set_result(result)

    threading.Thread(target=run, name=name, daemon=True).start()
    return ended


def on_spare(job: Callable[[], bool], name: str) -> None:
    """Do a job on an idle daemon thread, or on a new one; true: the thread may do another.

    Raises:
        RuntimeError: the system has no more threads.
    """
    try:
        thread = _spare.pop()
    except IndexError:
        thread = _Spare(daemon=True)
        thread.start()
    thread.name = name
    thread.jobs.put(job)


class _Spare(threading.Thread):
    """Does one job after another, until one returns false, or none comes for some time."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.jobs: Mailbox[Callable[[], bool]] = Mailbox()

    def run(self) -> None:
        """Take jobs."""
        is_sound = True
        while is_sound and (job := self._next()) is not None:
            is_sound = job()
            del job
            if is_sound:
                self.name = "refold-spare"
                _spare.append(self)

    def _next(self) -> Callable[[], bool] | None:
        try:
            return self.jobs.get(timeout=_IDLE_SECONDS)
        except queue.Empty:
            try:
                _spare.remove(self)
            except ValueError:  # it was chosen just now
                return self.jobs.get()
            return None


_IDLE_SECONDS: Final = 5.0
_spare: Final[list[_Spare]] = []
os.register_at_fork(after_in_child=_spare.clear)


def is_loop_here() -> bool:
    """Return whether an event loop runs in this thread: asyncio's, or another library's."""
    if asyncio._get_running_loop() is not None:  # noqa: SLF001 - None instead of an error
        return True
    sniffio = sys.modules.get("sniffio")  # trio names itself there; anyio goes by that name
    return sniffio is not None and sniffio.thread_local.name is not None


def beside_loop(work: Callable[[], T], cancel: Callable[[], None] = lambda: None) -> T:
    """Return what `work` does; on a new thread, as `in_thread`, if a loop runs in this one."""
    return in_thread(work, cancel) if is_loop_here() else work()


def in_thread(work: Callable[[], T], cancel: Callable[[], None] = lambda: None) -> T:
    """Run `work` on a new thread, in a copy of this context, and return its result.

    Ctrl-C calls `cancel`, waits for the end, and is then raised.
    """
    inside = threading.Event()

    def begun() -> T:
        inside.wait()  # for Ctrl-C before the `try` gives nothing up: then nothing begins
        return work()

    ended = on_thread(begun)
    try:
        inside.set()
        while not wait([ended], interrupts.at_a_stretch(None)).done:
            pass
    except KeyboardInterrupt:
        cancel()
        wait([ended])
        raise
    return ended.result()


class Looked(Protocol):
    """Something that has to be looked at now and then."""

    def check(self) -> None:
        """Look at it, without waiting."""
        ...


class Lookout:
    """One daemon thread that looks at some things again and again.

    It ends once it has found none: others may come soon after the last.
    """

    def __init__(self, name: str, seconds: float) -> None:
        self._name = name
        self._seconds = seconds
        self._begin_anew()
        os.register_at_fork(after_in_child=self._begin_anew)

    def _begin_anew(self) -> None:
        """Start again in a forked process, which lacks the thread and may have a held lock."""
        self._lock = threading.Lock()
        self._pause = threading.Event()  # never set
        self._looked: dict[int, Looked] = {}
        self._thread: threading.Thread | None = None

    @contextlib.contextmanager
    def over(self, one: Looked) -> Iterator[None]:
        """Look at this for as long as the context lasts."""
        with self._lock:
            self._looked[id(one)] = one
            if self._thread is None:
                thread = threading.Thread(target=self._watch, name=self._name, daemon=True)
                with contextlib.suppress(RuntimeError):  # no more threads: then nobody looks
                    thread.start()
                    self._thread = thread
        try:
            yield
        finally:
            with self._lock:
                self._looked.pop(id(one), None)

    def _watch(self) -> None:
        while self._pause.wait(self._seconds) or self._has_checked():
            pass

    def _has_checked(self) -> bool:
        """Look at each; False if there is none. Between two looks, nothing is held here."""
        with self._lock:
            all_ = [*self._looked.values()]
            if not all_:
                self._thread = None
        for one in all_:
            one.check()
        return bool(all_)
