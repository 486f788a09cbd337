"""Chunks of logs on a user's executor: threads, processes, a cluster.

Only plain data crosses: paths, references, rows. At the worker, a process of our own judges the
chunk (`replay.bulk.processes`). So a log that ends its process, or takes too long, does not harm
the executor, whether its workers are threads, daemons or forks. A chunk is long enough to justify
starting that process. If a worker is lost, its chunk is split and repeated, down to the log that
its worker never survives. Rules: CONTRACT.md §14.13.
"""

import math
import os
import socket
import sys
import time
import uuid
from collections import Counter, deque
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from pathlib import Path
from pickle import PickleError
from typing import Any, Final

import attrs

from refold.engine.errors import ProgramNotFound, RefoldError, UsageError
from refold.engine.ports.ports import Reference
from refold.replay.bulk.processes import (
    PRINTED_MAX,
    NotBegun,
    OnRow,
    Row,
    Schedule,
    in_processes,
    pieces,
)
from refold.replay.bulk.report import BAD, LogResult, not_run

_FIRST: Final = 64
"""Logs of the first chunks, before it is known how long one takes."""
_LEAST: Final = 4
"""A chunk takes at least this many times its overhead, …"""
_MOST: Final = 20
"""… and at most so many times: its end is progress, and its loss is done again."""
_DEATHS_MAX: Final = 3
"""Of workers that had one log alone, until the log is named."""
_LOSSES_MAX: Final = 32
"""Chunks lost in a row, until the executor is taken to be gone."""
_REFUSED: Final = (PickleError, TypeError, AttributeError, ImportError)
"""Errors of a worker that cannot take a chunk: nothing was lost, and a retry cannot help."""


def slots(executor: Executor) -> int | None:
    """Return how many chunks the workers of `executor` take at a time; `None` if unknown.

    Python's pools have it in a private attribute, and Dask's executor in its client.
    """
    most = getattr(executor, "_max_workers", None)
    threads = getattr(getattr(executor, "_client", None), "nthreads", None)
    if most is None and threads is not None:
        most = sum(threads().values()) or None
    return most


class Spread:
    """Spreads logs over an executor, `schedule.jobs` chunks at a time.  Used once, by one thread.

    An executor that breaks (`BrokenExecutor`), or loses one chunk after the other, is left: the
    rest is done in processes here.
    """

    def __init__(
        self,
        logs: Sequence[Path],
        execute: Reference,
        on_row: OnRow,
        executor: Executor,
        schedule: Schedule,
    ) -> None:
        self._logs = logs
        self._execute = execute
        self._on_row = on_row
        self._executor = executor
        self._schedule = schedule
        self._jobs = schedule.jobs or 1
        self._waiting = deque(range(len(logs)))
        self._again: list[list[int]] = []
        """Pieces of chunks that were lost."""
        self._suspects: deque[int] = deque()
        """Lost though they were alone in their chunk: they go last, one at a time."""
        self._suspect: int | None = None
        """The only one that runs."""
        self._running: dict[Future[_Judged], list[int]] = {}
        self._pace = _Pace()
        self._deaths: Counter[int] = Counter()
        self._losses = 0
        """In a row."""
        self._is_gone = self._is_stopped = False
        self._printed = ""

    def run(self) -> str:
        """Have all logs judged; return their printed output.

        Raises:
            UsageError: the executor was shut down; its workers cannot import Refold, or do not see
                the folders of the logs.
            ProgramNotFound: its workers cannot import a program or a tool.
        """
        try:
            while self._start_more() or self._running:
                done, _ = wait(self._running, return_when=FIRST_COMPLETED)
                for future in done:
                    self._take(future, self._running.pop(future))
        finally:
            for future in self._running:
                future.cancel()
        parts = [self._waiting, self._suspects, *self._again]
        self._finish_here(sorted(index for part in parts for index in part))
        return self._printed

    def _start_more(self) -> bool:
        """Keep each worker busy, and a chunk ready for it; return whether there is more to come."""
        most = self._jobs * (2 if self._pace.is_known else 1)
        while not (self._is_stopped or self._is_gone) and len(self._running) < most:
            if not self._again and not self._waiting:
                break
            self._start(self._again.pop() if self._again else self._next())
        if self._suspects and not self._running and not (self._is_stopped or self._is_gone):
            self._suspect = self._suspects.popleft()
            self._start([self._suspect])
        if self._is_stopped:
            self._running, stopped = {}, self._running
            for future, part in stopped.items():
                future.cancel()  # one that runs comes to its end for nobody
                self._again.append(part)
        return bool(self._running)

    def _next(self) -> list[int]:
        count = self._pace.count(len(self._waiting), self._jobs)
        return [self._waiting.popleft() for _ in range(count)]

    def _start(self, part: list[int]) -> None:
        request = {
            "logs": [os.fspath(self._logs[index]) for index in part],
            "execute": attrs.asdict(self._execute),
            "schedule": attrs.asdict(attrs.evolve(self._schedule, jobs=1)),
            "cwd": str(Path.cwd()),
            "sys_path": [os.path.abspath(entry) for entry in sys.path],  # noqa: PTH100 - links stay as they were given
            "id": uuid.uuid4().hex,  # Dask takes equal calls for one, and its failure for theirs
        }
        try:
            self._running[self._executor.submit(judge, request)] = part
        except Exception as error:  # each executor has its own for what it cannot take
            # Before the first chunk came back the caller is told; later the executor is left, and
            # the chunk is judged here (§14.13).
            if not self._pace.is_known and not isinstance(error, BrokenExecutor):
                raise UsageError(f"executor: {error}") from error
            self._is_gone = True
            self._again.append(part)

    def _take(self, future: "Future[_Judged]", part: list[int]) -> None:
        try:
            judged = future.result()
        except RefoldError:
            raise
        except _REFUSED as error:
            raise UsageError(
                "executor: its workers cannot process a chunk of logs: "
                f"{type(error).__name__}: {error}; they need the same version of Refold"
            ) from error
        except Exception as error:  # noqa: BLE001 - each executor has its own for a lost worker
            self._lose(part, error)
            return
        self._losses = 0
        self._pace.note(judged)
        self._printed = (self._printed + judged.printed)[:PRINTED_MAX]
        for index, row in zip(part, judged.rows, strict=True):
            self._on_row(index, row)
            self._is_stopped |= self._schedule.fail_fast and row["result"] in BAD

    def _lose(self, part: list[int], error: Exception) -> None:
        """See to it that a lost chunk is done again; name the log that no worker survived."""
        self._losses += 1
        self._is_gone |= isinstance(error, BrokenExecutor) or self._losses >= _LOSSES_MAX
        (suspect, *others) = part
        if others or self._is_gone:
            self._again += reversed(pieces(part))
            return
        # Beside others, one of them may be to blame.
        self._deaths[suspect] += suspect == self._suspect
        if self._deaths[suspect] < _DEATHS_MAX:
            self._suspects.append(suspect)
            return
        why = " ".join(f"{type(error).__name__}: {error}".split())
        message = f"the executor lost a worker {_DEATHS_MAX} times: {why}"
        log = os.fspath(self._logs[suspect])
        self._on_row(suspect, LogResult(log=log, result="fault", message=message).as_json())

    def _finish_here(self, left: list[int]) -> None:
        """Answer for those that the executor does not."""
        logs = [self._logs[index] for index in left]
        if self._is_stopped:
            for index, log in zip(left, logs, strict=True):
                self._on_row(index, not_run(os.fspath(log)).as_json())
        elif left:
            told: OnRow = lambda at, row: self._on_row(left[at], row)  # noqa: E731 - one line
            self._printed += in_processes(logs, self._execute, told, self._schedule)


@attrs.frozen(kw_only=True)
class _Judged:
    """A worker's result for a chunk."""

    rows: list[Row]
    printed: str
    seconds: float
    """Of wall time, for all of it."""


class _Pace:
    """The time per log, and a chunk's overhead."""

    def __init__(self) -> None:
        self._chunks = self._logs = 0
        self._log_seconds = self._beside_seconds = 0.0

    @property
    def is_known(self) -> bool:
        return self._chunks > 0

    def note(self, judged: _Judged) -> None:
        of_logs = sum(row["seconds"] for row in judged.rows)
        self._chunks += 1
        self._logs += len(judged.rows)
        self._log_seconds += of_logs
        self._beside_seconds += max(0.0, judged.seconds - of_logs)

    def count(self, waiting: int, jobs: int) -> int:
        """Return how many logs the next chunk takes: a fair share, if that repays its cost."""
        fair = math.ceil(waiting / (2 * jobs))
        if not self.is_known:
            return min(fair, _FIRST)
        log_seconds = max(self._log_seconds / self._logs, 1e-6)
        repaid = self._beside_seconds / self._chunks / log_seconds
        most = max(1, round(_MOST * repaid))
        return min(waiting, most, max(fair, round(_LEAST * repaid)))


# --- where a chunk arrives -------------------------------------------------------------------


def judge(request: dict[str, Any]) -> _Judged:
    """Judge a chunk of logs, by a process of this machine; called by an executor's worker.

    What can be imported here comes before what could be where the chunk comes from.

    Raises:
        UsageError: the folder is not there, or none of the logs.
        ProgramNotFound: a program or a tool cannot be imported.
    """
    began = time.monotonic()
    cwd, logs = Path(request["cwd"]), [Path(log) for log in request["logs"]]
    if not cwd.is_dir() or (len(logs) > 1 and not any((cwd / log).exists() for log in logs)):
        raise UsageError(
            f"executor: the worker on {socket.gethostname()} cannot find "
            f"{cwd / logs[0]}: store logs in a folder with the same path on all "
            "machines, or audit them on the machine that has them"
        )
    rows: dict[int, Row] = {}
    execute = Reference(**request["execute"])
    try:
        printed = in_processes(
            logs,
            execute,
            rows.__setitem__,
            Schedule(**request["schedule"]),
            cwd=cwd,
            sys_path=list(dict.fromkeys([*sys.path, *request["sys_path"]])),
        )
    except NotBegun as error:
        raise ProgramNotFound(
            execute.name,
            f"a process on {socket.gethostname()} cannot import the programs and "
            "tools: install them there, or pass a file that exists there, as "
            f"file.py:name: {error}",
        ) from None
    told = [rows[index] for index in range(len(logs))]
    return _Judged(rows=told, printed=printed, seconds=time.monotonic() - began)
