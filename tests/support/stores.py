"""Runs to be stored, stores in folders, and what happens to a process that talks to a store."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import obstore
import pytest

from refold.engine.errors import RefoldError
from refold.engine.ports.clock import FixedClock
from refold.engine.ports.ports import Delegation
from refold.engine.program.run import Run
from refold.engine.runners.recording import record
from refold.store.pull import pull
from refold.store.push import Moved, StoreOutcome, push

_CALLS = ("put", "get", "head")


async def measure(_: Run, text: str) -> int:
    """Return how long a text is."""
    return len(text)


async def leading(run: Run, given: list[Any]) -> Any:
    """Let a child measure a large text; return a number."""
    number, text = given
    child = await run.start(Delegation(program=measure, input=text, brief="measure it"))
    (outcome,) = await run.join(child)
    assert outcome.output == len(text)
    return number


def record_run(log: Path, number: int = 1, text: str = "y" * 40_000) -> Path:
    """Record a run with a child and a large text, which is the same in all of them."""
    log.parent.mkdir(exist_ok=True)
    recording = record(leading, [number, text], log=log, seed=number, clock=FixedClock())
    assert recording.ok
    return log


def folder_store(folder: Path) -> str:
    """Return the URL of a new store in a folder."""
    folder.mkdir(exist_ok=True)
    return folder.as_uri()


def content_of(folder: Path) -> dict[str, bytes]:
    """Return all files below a folder, by name."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def pushed(log: Path, url: str, **options: Any) -> Moved:
    """Push one run, and return what became of it; its refusal is raised."""
    return _only(outcome for _, outcome in push([log], url, **options))


def pulled(url: str, run: str, folder: Path, **options: Any) -> Moved:
    """Pull one run, and return what became of it; its refusal is raised."""
    return _only(outcome for _, outcome in pull(url, [run], folder, **options))


def _only(outcomes: Iterator[StoreOutcome]) -> Moved:
    (outcome,) = outcomes
    if isinstance(outcome, RefoldError):
        raise outcome
    return outcome


class Stopped(BaseException):
    """The process would have ended here."""


class Traffic:
    """Counts what is asked of stores, and stops at the request of one number."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.seen: list[tuple[str, str]] = []
        self.stop_before = self.stop_after = 0
        self._lock = threading.Lock()
        for name in _CALLS:
            patch.setattr(obstore, name, self._counted(name, getattr(obstore, name)))

    def reset(self, *, before: int = 0, after: int = 0) -> None:
        """Count from 0 on again, and stop before or after a request."""
        self.seen.clear()
        self.stop_before, self.stop_after = before, after

    def _counted(self, name: str, call: Any) -> Any:
        def counted(store: Any, path: str, *arguments: Any, **options: Any) -> Any:
            with self._lock:
                self.seen.append((name, path))
                number = len(self.seen)
            if number == self.stop_before:
                raise Stopped
            try:
                return call(store, path, *arguments, **options)
            finally:
                if number == self.stop_after:
                    raise Stopped

        return counted
