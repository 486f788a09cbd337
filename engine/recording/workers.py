"""Threads for the synchronous tools and model requests of one run.

A shell file.  What runs on them, and what becomes of it, is `engine.recording.driver`'s.
"""

import queue
import threading
from collections.abc import Callable
from typing import Final

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
