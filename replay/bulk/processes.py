"""The processes for many logs: one helper, forked for many logs at a time.

The helper imports the programs once and has a single thread, so forking it is safe. A fork
re-executes one log after the other and writes a row for each, because a fork costs ten times as
much as a short log. One log's program cannot affect the result of a different log: user modules are
imported again for each log, a fork whose environment, folder or threads changed takes no more logs,
and a log that was not identical after others is judged again as the first of its own fork.
`replay.bulk.bulk` chooses the logs; `replay.bulk.report` defines the rows. The helper has the
limits of all our processes (CONTRACT.md §7.3): it ends when the caller is interrupted or gone.
"""

import gc
import importlib.util
import itertools
import json
import math
import os
import selectors
import signal
import sys
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Final, NoReturn

import attrs
import psutil

from refold.engine.errors import UsageError
from refold.engine.log.descriptors import write_all
from refold.engine.loop.loop import is_librarys
from refold.engine.ports.ports import CancelSignal, Reference
from refold.engine.ports.programs import load
from refold.engine.process.bounded import run_bounded
from refold.engine.process.bounds import Bounds, Ended
from refold.engine.process.watchdog import take_protocol
from refold.engine.runners.in_subprocess import STUB
from refold.replay.bulk.report import BAD, LogResult, died, not_run, timed_out

_ENTRY: Final = "refold.replay.bulk.processes:serve"
_BEGUN: Final = b'"begun"'
_CHUNK_BYTES: Final = 256 * 1024
_FAULT: Final = 70
_LOGS_MAX: Final = 512
"""So many logs a fork takes at most."""
_HELPER_LOGS_MAX: Final = 16_384
"""The maximum number of logs per helper, so that its memory does not grow with their number."""
PRINTED_MAX: Final = 4 * 1024 * 1024
_PATIENCE_SECONDS: Final = 3600.0
"""So long the helper listens at most: `epoll` takes no more than 24 days, and no infinity."""
_PIECES: Final = 8
"""The number of parts in which a dead helper's logs are repeated, down to the fatal log."""

VERIFIED: Final = "verified"
"""The result of a log of which nothing but whether it is sound was asked."""

Row = dict[str, Any]
"""What became of one log, as JSON: it has a `result`, the `log` as it was given, and `seconds`."""

OnRow = Callable[[int, Row], None]
"""Called with each log's index and result as soon as it is known."""


@attrs.frozen(kw_only=True)
class Schedule:
    """How many logs are judged at a time, and until when.

    Raises:
        UsageError: `jobs` is less than 1, or `timeout_seconds` not more than 0.
    """

    jobs: int | None = None
    """By default as many as there are processors."""
    fail_fast: bool = False
    """Whether none is started after the first that is not identical, and those that run end."""
    timeout_seconds: float | None = None
    """Wall time that one log may take, in a process of its own; by default it has no end."""

    def __attrs_post_init__(self) -> None:
        jobs, seconds = self.jobs, self.timeout_seconds
        if jobs is not None and (type(jobs) is not int or jobs < 1):
            raise UsageError(f"jobs: expected 1 or more, found {jobs!r}")
        if seconds is not None and not (type(seconds) in (int, float) and seconds > 0):  # no nan
            raise UsageError(f"timeout_seconds: expected more than 0, found {seconds!r}")


class NotBegun(Exception):
    """A helper could not import the function; has the reason, in one line."""


def in_processes(
    logs: Sequence[Path],
    execute: Reference,
    on_row: OnRow,
    schedule: Schedule,
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> str:
    """Re-execute `logs` in separate processes; return their printed output.

    A process that exceeds its time limit is killed. A log that ends the helper itself is reported,
    and the rest continues in a new one. `env` and `cwd` apply to the processes; the default is
    this process's.

    Raises:
        NotBegun: the helper could not import `execute`; nothing was re-executed.
    """
    envelope: dict[str, Any] = {
        "entry": _ENTRY,
        "execute": attrs.asdict(execute),
        "schedule": attrs.asdict(schedule),
        "sys_path": [os.path.abspath(entry) for entry in sys.path],  # noqa: PTH100 - links stay as they were given
        "cwd": os.fspath(cwd or Path.cwd()),
    }
    indexes = list(range(len(logs)))
    parts = [indexes[at : at + _HELPER_LOGS_MAX] for at in indexes[::_HELPER_LOGS_MAX]][::-1]
    printed, is_begun = "", False
    while parts:
        part = parts.pop()
        answers = _Answers(part, on_row)
        request = _line({**envelope, "logs": [os.fspath(logs[index]) for index in part]})
        ended = run_bounded(
            [sys.executable, "-P", os.fspath(STUB)],
            env=os.environ if env is None else env,  # what replaying one log here would see
            cwd=envelope["cwd"],
            request=request,
            bounds=Bounds(grace_seconds=0.5, frame_bytes=sys.maxsize),
            cancel=CancelSignal(),
            on_reply=answers.feed,
        )
        is_begun = is_begun or answers.is_begun
        said = (ended.stdout.kept + ended.stderr.kept).decode(errors="replace")
        if not is_begun:
            raise NotBegun((said.strip() or ended.error or ended.how).splitlines()[-1])
        printed, left = (printed + said)[:PRINTED_MAX], [*answers.waiting]
        if len(part) == 1 and left:
            on_row(part[0], _unanswered(os.fspath(logs[part[0]]), ended).as_json())
        elif schedule.fail_fast and answers.is_bad:
            for index in sorted(itertools.chain(left, *parts)):
                on_row(index, not_run(os.fspath(logs[index])).as_json())
            break
        else:
            parts += reversed(pieces(left))
    return printed


def pieces(lost: Sequence[int]) -> list[list[int]]:
    """Split the logs that the end of a process left undone into parts."""
    size = max(1, math.ceil(len(lost) / _PIECES))
    return [list(lost[at : at + size]) for at in range(0, len(lost), size)]


def _unanswered(log: str, ended: Ended) -> LogResult:
    """Return the row of a log that was alone in a helper, and ended it."""
    if ended.how == "exited":
        return died(log, f"exit code {ended.code}")
    if ended.how == "signalled" and ended.signal is not None:
        return died(log, signal.Signals(ended.signal).name)
    message = f"the process of the replays ended: {ended.error or ended.how}"
    return LogResult(log=log, result="fault", message=message)


class _Answers:
    """The helper's results, taken as they arrive."""

    def __init__(self, part: list[int], on_row: OnRow) -> None:
        self.is_begun = False
        self.is_bad = False
        """Whether a log is known to be not identical."""
        self.waiting = dict.fromkeys(part)
        """The logs without a result, as an ordered set."""
        self._part, self._on_row, self._lines = part, on_row, _Lines()

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes, and hand on the rows that are whole."""
        for line in self._lines.feed(chunk):
            if not self.is_begun:
                self.is_begun = line == _BEGUN
                continue
            index, row = json.loads(line)
            del self.waiting[self._part[index]]
            self.is_bad = self.is_bad or row["result"] in BAD
            self._on_row(self._part[index], row)


class _Lines:
    """Lines of a stream that comes in pieces."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return those that are whole by now."""
        self._rest += chunk
        if b"\n" not in chunk:
            return []
        *lines, rest = bytes(self._rest).split(b"\n")
        self._rest = bytearray(rest)
        return lines


# --- the helper ------------------------------------------------------------------------------


def serve(line: bytes) -> NoReturn:
    """Be the helper: re-execute the logs that the envelope names, and write a row for each."""
    envelope: dict[str, Any] = json.loads(line)
    protocol = take_protocol()
    if protocol is None:
        raise SystemExit("this module is started by a replay of many logs")
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
    lines: _Lines = attrs.field(factory=_Lines)


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
        self._schedule = schedule = Schedule(**envelope["schedule"])
        self._jobs, self._timeout_seconds = schedule.jobs or 1, schedule.timeout_seconds
        self._reference, self._execute = reference, execute
        self._request, self._reply = request, reply
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

    def _patience(self) -> float | None:
        """Return how long to listen until a log has had its time; `None` for ever."""
        if self._timeout_seconds is None or not self._forks:
            return None
        first = min(fork.began for fork in self._forks.values())
        return min(max(0.0, first + self._timeout_seconds - time.monotonic()), _PATIENCE_SECONDS)

    def _end_overdue(self) -> None:
        if self._timeout_seconds is None:
            return
        ended_by = time.monotonic() - self._timeout_seconds
        overdue = [reader for reader, fork in self._forks.items() if fork.began <= ended_by]
        for reader in overdue:
            if reader in self._forks:  # `fail_fast` may have ended it with the one before
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
            execute, modules = self._execute, OwnModules()
            process = psutil.Process()
            before = _surroundings(process)
            for place, index in enumerate(logs):
                began = time.monotonic()
                if place:
                    if _surroundings(process) != before:
                        break
                    modules.forget()
                    execute = load(self._reference)
                row = execute(Path(self._logs[index])).as_json()
                is_well = row["result"] not in BAD
                if place and not is_well:
                    break
                row["seconds"] = round(time.monotonic() - began, 6)
                for stream in (sys.stdout, sys.stderr):
                    stream.flush()
                write_all(writer, (b"+" if is_well else b"-") + json.dumps(row).encode() + b"\n")
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
        for line in fork.lines.feed(chunk):
            self._take_row(fork, line[1:], is_bad=line.startswith(b"-"))
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

    def _take_row(self, fork: _Fork, row: bytes, *, is_bad: bool) -> None:
        fork.began = time.monotonic()
        self._tell(fork.waiting.popleft(), row)
        if self._schedule.fail_fast and is_bad:
            self._stop()

    def _take_last(self, fork: _Fork, row: LogResult) -> None:
        """Take what became of the log that ended a fork, unless another may be to blame for it."""
        if fork.is_fresh:
            row = attrs.evolve(row, seconds=round(time.monotonic() - fork.began, 6))
            self._take_row(fork, json.dumps(row.as_json()).encode(), is_bad=True)
        self._waiting.extendleft(reversed(fork.waiting))

    def _stop(self) -> None:
        """End what still runs, and start nothing more: the caller reports what has no row."""
        self._stopped = True
        for reader, fork in self._forks.items():
            self._kill(reader, fork)
        self._forks.clear()

    def _tell(self, index: int, row: bytes) -> None:
        write_all(self._reply, b"[%d, %b]\n" % (index, row))

    def _caller_is_gone(self, request: int) -> None:
        if not os.read(request, 1):
            os.killpg(os.getpgrp(), signal.SIGKILL)


def _surroundings(process: psutil.Process) -> tuple[object, ...]:
    """Return the global state that a program may change for the next, other than its modules."""
    return dict(os.environ), os.getcwd(), process.num_threads(), tuple(sys.path)  # noqa: PTH109 - the text


def _line(document: dict[str, Any]) -> bytes:
    """Return one line of ASCII; paths that are not valid text are preserved."""
    return json.dumps(document).encode() + b"\n"


# --- the user's own modules --------------------------------------------------------------------


class OwnModules:
    """Forgets the modules of the user's own, and finds them again when they are imported.

    They are executed again for each log, so no state stays in them. They are found and compiled
    once, because code does not change.
    """

    def __init__(self) -> None:
        self._staying: dict[str, ModuleType] = {}
        self._found: dict[str, tuple[_CompiledOnce, list[str] | None]] = {}
        sys.meta_path.insert(0, self)

    def forget(self) -> None:
        """Let them be imported anew.

        Only those are looked at that came since: there are hundreds that stay.
        """
        for name, module in list(sys.modules.items()):
            if self._staying.get(name) is module:
                continue
            if _is_own(name, module):
                self._remember(name, getattr(module, "__spec__", None))
                del sys.modules[name]
            else:
                self._staying[name] = module

    def _remember(self, name: str, spec: Any) -> None:
        loader = getattr(spec, "loader", None)
        if type(loader) is SourceFileLoader and spec.name == name:
            found = _CompiledOnce(name, loader.path)
            self._found[name] = found, spec.submodule_search_locations

    def find_spec(
        self, name: str, _path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return how a module is imported that was forgotten here; `None` of any other."""
        if name not in self._found:
            return None
        loader, places = self._found[name]
        return importlib.util.spec_from_file_location(
            name,
            loader.path,
            loader=loader,
            submodule_search_locations=None if places is None else list(places),
        )


class _CompiledOnce(SourceFileLoader):
    """Reads and compiles a module once, however often it is executed."""

    _code: CodeType | None = None

    def get_code(self, fullname: str) -> CodeType | None:
        if self._code is None:
            self._code = super().get_code(fullname)
        return self._code


def _is_own(name: str, module: object) -> bool:
    file = getattr(module, "__file__", None)
    is_refolds = name.partition(".")[0] in ("refold", "__main__")
    return bool(file) and not is_refolds and not is_librarys(str(file))
