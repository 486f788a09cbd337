"""A child run in this process: own kernel, own log, a thread for itself (CONTRACT.md §7.3).

The deadline is cooperative, for Python threads cannot be killed: the child's kernel stops it when
it next yields.  A child that never yields is abandoned: its log is fenced, so that nothing it does
later is recorded as if it still counted.
"""

import contextlib
import functools
import math
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from types import CodeType
from typing import Any, Final

from refold.engine.children.anchor import anchored, with_last_words, written_here
from refold.engine.errors import RefoldError
from refold.engine.events.outcome import ChildRef, Outcome, Status, failed
from refold.engine.kernel.unawaited import Slip, place_of, tell_quietly
from refold.engine.ports.ports import ChildRequest, Suspended
from refold.engine.recording.host import Host
from refold.engine.recording.recorder import GRACE_SECONDS, Recorder
from refold.engine.recording.run_request import RecordedRun
from refold.engine.recording.workers import Lookout, on_thread
from refold.engine.runners.child_run import (
    outcome_of_recorded,
    recorder_of,
    stopped_or_failed,
    suspended,
)

_SHARED: Final = (
    "`{}` changed while a subagent ran that uses it: if the subagent did so, a replay, resume or "
    "fork does not. Pass values to a subagent as its input, and return them as its output"
)
_PATIENCE_SECONDS: Final = GRACE_SECONDS + 0.2
"""The grace that the child's own kernel gives, and some slack: it seals its log within that."""


class InProcess:
    """Runs children on threads of this process."""

    name = "in-process"
    shares_memory = True
    """Its children can act on their parent's session."""

    def run(self, request: ChildRequest, /) -> Outcome | Suspended:
        """Return how the child ended, or that it waits for a person; blocks."""
        abandoned: Future[Outcome | Suspended] = Future()
        name = f"refold-run-{request.identity.run_id}"
        try:
            ended = on_thread(lambda: self.run_here(abandoned.set_result, request), name)
        except RuntimeError as error:  # the system has no more threads
            return failed("failed", "runner", str(error))
        return wait([abandoned, ended], return_when=FIRST_COMPLETED).done.pop().result()

    def run_here(
        self, abandon: Callable[[Outcome], None], request: ChildRequest, /
    ) -> Outcome | Suspended:
        """Run the child in this thread, which is new, and return as `run` does.

        If the child has to be abandoned, another thread calls `abandon`; then its own end does not
        count.
        """
        began = time.monotonic()
        with contextlib.ExitStack() as stack:
            host = request.host or stack.enter_context(contextlib.closing(Host()))
            try:
                recorder = recorder_of(request, host, runner_name=self.name)
            except RefoldError as error:
                return stopped_or_failed(error, request)
            attended = _Attended(request, recorder, abandon, began)
            before = _outer_sizes(request.program)
            with _watch.over(attended):
                ended = _recorded(recorder)
            for name, size in _outer_sizes(request.program).items():
                if before.get(name, size) != size and callable(request.program):
                    _warn_once(name, *place_of(request.program))
            if attended.abandoned is not None:
                return attended.abandoned.result()
            return _outcome(ended, request)


def _outer_sizes(program: Any) -> dict[str, int]:
    """Return the sizes of the lists, sets and dicts outside of a program that it uses."""
    code = getattr(program, "__code__", None)
    if not isinstance(code, CodeType):
        return {}
    known = {name: program.__globals__.get(name) for name in code.co_names}
    for name, cell in zip(code.co_freevars, program.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # it has no value yet
            known[name] = cell.cell_contents
    return {name: len(each) for name, each in known.items() if isinstance(each, list | set | dict)}


@functools.lru_cache(maxsize=64)
def _warn_once(name: str, file: str = "", line: int = 0) -> None:
    """Warn that a variable which a child shares with other runs has changed."""
    tell_quietly([Slip(_SHARED.format(name), file, line)])


def _recorded(recorder: Recorder) -> RecordedRun | BaseException:
    try:
        return recorder.record()
    except BaseException as error:  # noqa: BLE001 - becomes the child's outcome
        return error


def _outcome(ended: RecordedRun | BaseException, request: ChildRequest) -> Outcome | Suspended:
    if isinstance(ended, RefoldError):
        return anchored(stopped_or_failed(ended, request), request)
    if isinstance(ended, BaseException):
        return anchored(failed("failed", "crashed", f"{type(ended).__name__}: {ended}"), request)
    tell_quietly((*ended.slips, *ended.unheard))
    if ended.questions:
        return suspended(ended, request)
    starts = ended.fold.children_started
    return written_here(outcome_of_recorded(ended, request), request, starts)


class _Attended:
    """A child that is abandoned if it does not end in time."""

    def __init__(
        self,
        request: ChildRequest,
        recorder: Recorder,
        abandon: Callable[[Outcome], None],
        began: float,
    ) -> None:
        self._request = request
        self._recorder = recorder
        self._abandon = abandon
        self._began = began
        self._seconds = request.limits.timeout_seconds
        self._until = began + _PATIENCE_SECONDS + (self._seconds or math.inf)
        self._was_cancelled = self._was_settling = False
        self.abandoned: Future[Outcome] | None = None
        """Its outcome, if it was abandoned."""

    def check(self) -> None:
        """Abandon it if its time is over.

        Its program has its time to clean up, and what that leaves has as much again (§9.4).
        """
        now = time.monotonic()
        if self._request.cancel.is_set() and not self._was_cancelled:
            self._was_cancelled, self._until = True, now + _PATIENCE_SECONDS
        if now < self._until or self.abandoned is not None:
            return
        if self._recorder.is_settling and not self._was_settling:
            self._was_settling, self._until = True, now + _PATIENCE_SECONDS
            return
        with contextlib.suppress(RuntimeError):  # no more threads: perhaps at the next look
            self.abandoned = on_thread(self._fenced)  # it may wait for the disk

    def _fenced(self) -> Outcome:
        head, entries = self._recorder.fence()
        why: tuple[Status, str, str] = (
            ("cancelled", "cancelled", "cancelled")
            if self._was_cancelled
            else (
                "timed_out",
                "timeout_seconds",
                f"the child did not end within {self._seconds:g} s",
            )
        )
        status, code, message = why
        outcome = failed(
            status,
            code,
            f"{message}; it never awaited anything, so its thread was abandoned",
            duration_ms=round((time.monotonic() - self._began) * 1000),
            child=ChildRef(run=self._request.identity.run_id, head=head, events=entries),
        )
        outcome = with_last_words(outcome, self._request)
        self._abandon(outcome)
        return outcome


_watch: Final = Lookout("refold-children", 0.05)
