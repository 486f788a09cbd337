"""A child run in this process: own kernel, own log, a thread for itself (CONTRACT.md §7.3).

The deadline is cooperative, for Python threads cannot be killed: the child's kernel stops it when
it next yields.  A child that never yields is abandoned: its log is fenced, so that nothing it does
later is recorded as if it still counted.
"""

import contextlib
import time
from concurrent.futures import Future
from typing import Final

from refold.engine.children.anchor import anchored, with_last_words, written_here
from refold.engine.errors import RefoldError
from refold.engine.events.outcome import ChildRef, Outcome, Status, failed
from refold.engine.kernel.unawaited import tell_quietly
from refold.engine.ports.ports import ChildRequest, Suspended
from refold.engine.recording.host import Host
from refold.engine.recording.recorder import GRACE_SECONDS, Recorder
from refold.engine.recording.run_request import RecordedRun
from refold.engine.recording.workers import on_spare, on_thread
from refold.engine.runners.child_run import (
    outcome_of_recorded,
    recorder_of,
    stopped_or_failed,
    suspended,
)

_SLACK_SECONDS: Final = 0.2
"""Beyond the grace that the child's own kernel gives: it seals its log within that."""


class InProcess:
    """Runs children on threads of this process."""

    name = "in-process"
    shares_memory = True
    """Its children can act on their parent's session."""

    def run(self, request: ChildRequest, /) -> Outcome | Suspended:
        """Return how the child ended, or that it waits for a person; blocks."""
        began = time.monotonic()
        host = request.host or Host()
        try:
            recorder = recorder_of(request, host, runner_name=self.name)
        except RefoldError as error:
            return stopped_or_failed(error, request)

        def run() -> RecordedRun:
            with contextlib.ExitStack() as stack:
                if request.host is None:
                    stack.callback(host.close)
                return recorder.record()

        try:
            ended = on_thread(run, f"refold-run-{request.identity.run_id}", start=on_spare)
        except RuntimeError as error:  # the system has no more threads
            recorder.fence()
            return anchored(failed("failed", "runner", str(error)), request)
        why = _wait(ended, request, began, recorder)
        if why is None:
            return _outcome(ended, request)
        ended.cancel()  # the thread is used no more, should the program ever leave it
        head, entries = recorder.fence()
        abandoned = failed(
            *why,
            duration_ms=round((time.monotonic() - began) * 1000),
            child=ChildRef(run=request.identity.run_id, head=head, events=entries),
        )
        return with_last_words(abandoned, request)


def _wait(
    ended: Future[RecordedRun], request: ChildRequest, began: float, recorder: Recorder
) -> tuple[Status, str, str] | None:
    """Wait for the end; else return why the child has to be abandoned: status, code and message.

    Its program has its time to clean up, and what that leaves has as much again (§9.4).
    """
    seconds = request.limits.timeout_seconds
    patience = GRACE_SECONDS + _SLACK_SECONDS
    until = None if seconds is None else began + seconds + patience

    def ends(seconds: float = patience) -> bool:
        with contextlib.suppress(TimeoutError):
            ended.exception(seconds)
        return ended.done()

    while not ends(_POLL_SECONDS):
        if request.cancel.is_set():
            if ends() or (recorder.is_settling and ends()):
                return None
            return "cancelled", "cancelled", f"cancelled; {_DEAF}"
        if until is not None and time.monotonic() >= until:
            if recorder.is_settling and ends():
                return None
            return "timed_out", "timeout_seconds", f"no end within {seconds:g} s; {_DEAF}"
    return None


_DEAF: Final = "it never yielded, and its thread was abandoned"
_POLL_SECONDS: Final = 0.05


def _outcome(ended: Future[RecordedRun], request: ChildRequest) -> Outcome | Suspended:
    try:
        recorded = ended.result()
    except RefoldError as error:
        return anchored(stopped_or_failed(error, request), request)
    except BaseException as error:  # noqa: BLE001 - becomes the child's outcome
        return anchored(failed("failed", "crashed", f"{type(error).__name__}: {error}"), request)
    tell_quietly((*recorded.slips, *recorded.unheard))
    if recorded.questions:
        return suspended(recorded, request)
    starts = recorded.fold.children_started
    return written_here(outcome_of_recorded(recorded, request), request, starts)
