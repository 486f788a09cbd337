"""Threads: for the synchronous tools and model requests of one run, and for one piece of work.

A shell file.  What runs on them, and what becomes of it, is `engine.recording.driver`'s.
"""

import contextvars
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Final, TypeVar

from refold.engine.recording import interrupts

T = TypeVar("T")

WORKERS_MAX: Final = 64
"""Threads of one run; more jobs than these wait their turn."""


class Workers:
    """Daemon threads that take jobs in order; they grow to a cap and end with the process.

    Not `ThreadPoolExecutor`: its threads are joined at exit, so a tool that hangs would keep the
    process from ending.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._threads = 0

    def submit(self, job: Callable[[], None]) -> None:
        """Run `job` on a thread, as soon as one is free; here, where not one can be started."""
        if not self._idle.acquire(blocking=False) and self._threads < self._most:
            try:
                threading.Thread(target=self._work, name="refold-worker", daemon=True).start()
            except RuntimeError:  # the system has no more threads
                if self._threads == 0:
                    return job()
            else:
                self._threads += 1
        return self._jobs.put(job)

    def close(self) -> None:
        """Let idle threads end."""
        for _ in range(self._threads):
            self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
            del job
            self._idle.release()


def on_thread(work: Callable[[], T], name: str = "refold-kernel") -> Future[T]:
    """Run `work` on a daemon thread of its own, in a copy of this context; return what it will."""
    ended: Future[T] = Future()
    context = contextvars.copy_context()

    def run() -> None:
        try:
            ended.set_result(context.run(work))
        except BaseException as error:  # noqa: BLE001 - raised again by who asks for the result
            ended.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return ended


def in_thread(work: Callable[[], T], cancel: Callable[[], None] = lambda: None) -> T:
    """Run `work` on a thread of its own, in a copy of this context, and return what it returns.

    Ctrl-C calls `cancel` and waits for the end all the same, before it goes on.
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
