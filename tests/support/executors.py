"""Executors that do as a test says."""

from collections.abc import Callable
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any


class Losing(Executor):
    """Runs what it is given at once, and loses the chunks that it is told to."""

    def __init__(
        self, is_lost: Callable[[list[str]], bool], error: type[Exception] = OSError
    ) -> None:
        self._is_lost = is_lost
        self._error = error
        self.chunks: list[list[str]] = []

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Return a future that is done."""
        done: Future[Any] = Future()
        self.chunks.append([Path(log).name for log in args[0]["logs"]])
        if self._is_lost(self.chunks[-1]):
            done.set_exception(self._error("the worker is gone"))
        else:
            done.set_result(fn(*args, **kwargs))
        return done
