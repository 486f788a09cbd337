"""The processes in which many logs are re-executed: one helper, forked for a few logs at a time.

The helper imports the programs once and has a single thread, so that forking it is safe.  A fork
re-executes one log after the other, and writes a row for each: a fork costs ten times what a short
log does.  No log is blamed for what another did: modules of the user's own are imported anew for
each, a fork whose environment, folder or threads are not as they were takes no more, and whatever
is not identical beside others is judged again as the first of a fork of its own.  Which logs is
`replay.bulk.bulk`'s to say, what a row says `replay.bulk.report`'s.  The helper is bounded as every
process of ours (CONTRACT.md §7.3): nothing of it is left when the caller is interrupted, and it
leaves when the caller is gone.
"""

import gc
import json
import os
import selectors
import signal
import sys
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NoReturn

import attrs
import psutil

from refold.engine.log.descriptors import write_all
from refold.engine.loop.loop import is_librarys
from refold.engine.ports.ports import CancelSignal, Reference
from refold.engine.ports.programs import load
from refold.engine.process import Bounds, Ended, run_bounded, take_protocol
from refold.engine.runners.in_subprocess import STUB
from refold.replay.bulk.report import LogResult, died, is_bad, not_run, timed_out

_ENTRY: Final = "refold.replay.bulk.processes:serve"
_BEGUN: Final = b'"begun"'
_FRAME_BYTES: Final = 1024 * 1024 * 1024
_CHUNK_BYTES: Final = 256 * 1024
_FAULT: Final = 70
_LOGS_MAX: Final = 128
"""So many logs a fork takes at most."""

Answer = tuple[tuple[LogResult, ...], str]
"""The rows, in the order of the logs, and what the programs printed."""


def in_processes(
    logs: Sequence[Path],
    execute: Reference,
    *,
    jobs: int,
    fail_fast: bool,
    timeout_seconds: float | None = None,
    tally: Path | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> Answer | None:
    """Re-execute `logs`, `jobs` at a time, in processes of their own.

    One that takes longer than `timeout_seconds` is killed.  `tally` gets a byte for each log that
    is done.  `None` where the helper could not import what `execute` names; nothing was
    re-executed then.  `env` and `cwd` are those of the processes; by default, as here.
    """
    here = cwd or Path.cwd()
    envelope = {
        "entry": _ENTRY,
        "execute": attrs.asdict(execute),
        "logs": [os.fspath(log) for log in logs],
        "jobs": jobs,
        "fail_fast": fail_fast,
        "timeout_seconds": timeout_seconds,
        "tally": os.path.abspath(tally) if tally is not None else None,  # noqa: PTH100 - as below
        "sys_path": [os.path.abspath(entry) for entry in sys.path],  # noqa: PTH100 - links stay as they were given
        "cwd": os.fspath(here),
    }
    ended = run_bounded(
        [sys.executable, "-P", os.fspath(STUB)],
        env=os.environ if env is None else env,  # what replaying one log here would see
        cwd=here,
        request=_line(envelope),
        bounds=Bounds(grace_seconds=0.5, frame_bytes=_FRAME_BYTES),
        cancel=CancelSignal(),
    )
    begun, _, rest = ended.reply.partition(b"\n")
    if begun != _BEGUN:
        return None
    answers = map(json.loads, rest.split(b"\n")[:-1])
    rows = {answer["index"]: LogResult.from_json(answer["row"]) for answer in answers}
    told = tuple(
        rows.get(index) or _unanswered(os.fspath(log), ended) for index, log in enumerate(logs)
    )
    return told, (ended.stdout.kept + ended.stderr.kept).decode(errors="replace")


def _unanswered(log: str, ended: Ended) -> LogResult:
    how = ended.how if ended.how != "exited" else f"exit code {ended.code}"
    return LogResult(log=log, result="fault", message=f"the process of the replays ended: {how}")


# --- the helper ------------------------------------------------------------------------------


def serve(line: bytes) -> NoReturn:
    """Be the helper: re-execute the logs that the envelope names, and write a row for each."""
    envelope: dict[str, Any] = json.loads(line)
    protocol = take_protocol()
    if protocol is None:
        raise SystemExit("only a replay of many logs starts this")
    reference = Reference(**envelope["execute"])
    execute = load(reference)
    import_module("refold.replay.reexecute.reexecute")  # or each fork would do it again
    write_all(protocol[1], _BEGUN + b"\n")
    gc.freeze()  # nothing that is imported by now is looked at in a fork, and so copied
    helper = _Helper(envelope, reference, execute, *protocol)
    helper.run()
    os._exit(0)


@attrs.define
class _Fork:
    """Logs that are being re-executed, one after the other."""

    waiting: deque[int]
    """Those without a row; the first is under way."""
    pid: int
    began: float
    """When it was begun."""
    is_fresh: bool = True
    """Whether no log was re-executed there before it."""
    answer: bytearray = attrs.field(factory=bytearray)


class _Helper:
    """Forks, listens, and answers.  Has one thread."""

    def __init__(
        self,
        envelope: dict[str, Any],
        reference: Reference,
        execute: Callable[[Path], LogResult],
        request: int,
        reply: int,
    ) -> None:
        self._logs: list[str] = envelope["logs"]
        self._jobs: int = envelope["jobs"]
        self._is_fail_fast: bool = envelope["fail_fast"]
        self._timeout_seconds: float | None = envelope["timeout_seconds"]
        self._tally: str | None = envelope["tally"]
        self._reference = reference
        self._execute = execute
        self._request = request
        self._reply = reply
        self._waiting = deque(range(len(self._logs)))
        self._stopped = False
        self._forks: dict[int, _Fork] = {}
        self._selector = selectors.DefaultSelector()
        self._selector.register(request, selectors.EVENT_READ, self._caller_is_gone)

    def run(self) -> None:
        """Answer for every log."""
        self._start_more()
        while self._forks:
            for key, _ in self._selector.select(self._patience()):
                if key.fd in self._forks or key.fd == self._request:
                    key.data(key.fd)
            self._end_overdue()
            self._start_more()
        for index in self._waiting:
            self._tell(index, not_run(self._logs[index]))

    def _patience(self) -> float | None:
        """Return how long to listen until a log has had its time; `None` for ever."""
        if self._timeout_seconds is None or not self._forks:
            return None
        first = min(fork.began for fork in self._forks.values())
        return max(0.0, first + self._timeout_seconds - time.monotonic())

    def _end_overdue(self) -> None:
        if self._timeout_seconds is None:
            return
        ended_by = time.monotonic() - self._timeout_seconds
        overdue = [reader for reader, fork in self._forks.items() if fork.began <= ended_by]
        for reader in overdue:
            if reader in self._forks:  # `--fail-fast` may have ended it with the one before
                fork = self._forks.pop(reader)
                self._kill(reader, fork)
                row = timed_out(self._logs[fork.waiting[0]], self._timeout_seconds)
                self._take_last(fork, row)

    def _kill(self, reader: int, fork: _Fork) -> None:
        self._selector.unregister(reader)
        os.kill(fork.pid, signal.SIGKILL)
        os.waitpid(fork.pid, 0)
        os.close(reader)

    def _start_more(self) -> None:
        while self._waiting and not self._stopped and len(self._forks) < self._jobs:
            fair = len(self._waiting) // (2 * self._jobs)  # the last ones are shared, too
            count = max(1, min(_LOGS_MAX, fair))
            self._start(deque(self._waiting.popleft() for _ in range(count)))

    def _start(self, logs: deque[int]) -> None:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()  # or a fork would print it again
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reader)
            self._be_fork(logs, writer)
        os.close(writer)
        self._forks[reader] = _Fork(logs, pid, time.monotonic())
        self._selector.register(reader, selectors.EVENT_READ, self._take)

    def _be_fork(self, logs: Iterable[int], writer: int) -> NoReturn:
        code = 0
        try:
            self._selector.close()
            os.close(self._request)
            os.close(self._reply)
            execute, before = self._execute, _surroundings()
            for place, index in enumerate(logs):
                if place:
                    if _surroundings() != before:
                        break
                    _forget_modules()
                    execute = load(self._reference)
                row = execute(Path(self._logs[index]))
                is_well = row.result in _WELL
                if place and not is_well:
                    break
                for stream in (sys.stdout, sys.stderr):
                    stream.flush()
                write_all(writer, _line(row.as_json()))
                if not is_well:
                    break
        except BaseException:  # noqa: BLE001 - whatever it is, it must not run the helper's loop
            traceback.print_exc()
            code = _FAULT
        finally:
            os._exit(code)  # the program may have left threads behind

    def _take(self, reader: int) -> None:
        chunk = os.read(reader, _CHUNK_BYTES)
        fork = self._forks[reader]
        fork.answer += chunk
        *rows, rest = bytes(fork.answer).split(b"\n") if b"\n" in chunk else [fork.answer]
        fork.answer = bytearray(rest)
        for row in rows:
            self._take_row(fork, LogResult.from_json(json.loads(row)))
            fork.is_fresh = False
            if self._stopped:
                return
        if chunk:
            return
        del self._forks[reader]
        self._selector.unregister(reader)
        os.close(reader)
        _, status = os.waitpid(fork.pid, 0)
        code = os.waitstatus_to_exitcode(status)
        how = f"exit code {code}" if code >= 0 else signal.Signals(-code).name
        if fork.waiting:
            self._take_last(fork, died(self._logs[fork.waiting[0]], how))

    def _take_row(self, fork: _Fork, row: LogResult) -> None:
        now = time.monotonic()
        self._tell(fork.waiting.popleft(), attrs.evolve(row, seconds=round(now - fork.began, 6)))
        fork.began = now
        if self._is_fail_fast and is_bad(row):
            self._stop()

    def _take_last(self, fork: _Fork, row: LogResult) -> None:
        """Take what became of the log that ended a fork, unless another may be to blame for it."""
        if fork.is_fresh:
            self._take_row(fork, row)
        self._waiting.extendleft(reversed(fork.waiting))

    def _stop(self) -> None:
        """End what still runs, and start nothing more."""
        self._stopped = True
        for reader, fork in self._forks.items():
            self._kill(reader, fork)
            self._waiting.extendleft(reversed(fork.waiting))
        self._forks.clear()

    def _tell(self, index: int, row: LogResult) -> None:
        write_all(self._reply, _line({"index": index, "row": row.as_json()}))
        if self._tally is not None:
            count(Path(self._tally))

    def _caller_is_gone(self, request: int) -> None:
        if not os.read(request, 1):
            os.killpg(os.getpgrp(), signal.SIGKILL)


_WELL: Final = ("identical", "command needed")


def _surroundings() -> tuple[object, ...]:
    """Return what a program may leave behind for the next that is no module of its own."""
    return dict(os.environ), Path.cwd(), psutil.Process().num_threads(), tuple(sys.path)


def _forget_modules() -> None:
    """Let modules of the user's own be imported anew; those that are installed stay."""
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        is_ours = name.partition(".")[0] in ("refold", "__main__")
        if file and not is_ours and not is_librarys(file):
            del sys.modules[name]


def count(tally: Path) -> None:
    """Note that one more log is done, for whoever looks at the size of the file."""
    with tally.open("ab") as file:
        file.write(b".")


def _line(document: dict[str, Any]) -> bytes:
    """Return one line of ASCII; paths that are no text come back as they were."""
    return json.dumps(document).encode() + b"\n"
