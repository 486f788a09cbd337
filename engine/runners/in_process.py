"""A child run in this process: own kernel, own log, a thread of its own (CONTRACT.md §7.3).

The deadline is cooperative, for Python threads cannot be killed: the child's kernel stops it when
it next yields.  A child that never yields is abandoned: its log is fenced, so that nothing it does
later is recorded as if it still counted.
"""

import threading
import time
from typing import Any, Final

from refold.engine.children.anchor import anchored
from refold.engine.errors import RefoldError
from refold.engine.events.outcome import ChildRef, Outcome, failed
from refold.engine.kernel.unawaited import tell_quietly
from refold.engine.ports.ports import ChildRequest, Suspended
from refold.engine.recording.host import Host
from refold.engine.recording.recorder import GRACE_SECONDS, Recorder
from refold.engine.recording.run_request import RecordedRun
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
        box: list[Any] = []
        ended = threading.Event()

        def run() -> None:
            try:
                box.append(recorder.record())
            except BaseException as error:  # noqa: BLE001 - becomes the child's outcome
                box.append(error)
            finally:
                if request.host is None:
                    host.close()
                ended.set()

        thread = threading.Thread(
            target=run, name=f"refold-run-{request.identity.run_id}", daemon=True
        )
        try:
            thread.start()
        except RuntimeError as error:  # the system has no more threads
            recorder.fence()
            return anchored(failed("failed", "runner", str(error)), request)
        status = _wait(ended, request, began, recorder)
        if status == "ended":
            return _outcome(box[0], request)
        return self._abandoned(recorder, request, status, began)

    @staticmethod
    def _abandoned(recorder: Recorder, request: ChildRequest, status: str, began: float) -> Outcome:
        head, entries = recorder.fence()
        child = ChildRef(run=request.identity.run_id, head=head, events=entries)
        duration_ms = round((time.monotonic() - began) * 1000)
        if status == "cancelled":
            message = "cancelled; it never yielded, and its thread was abandoned"
            return failed("cancelled", "cancelled", message, duration_ms=duration_ms, child=child)
        seconds = request.limits.timeout_seconds or 0
        message = f"no end within {seconds:g} s; it never yielded, and its thread was abandoned"
        return failed("timed_out", "timeout_seconds", message, duration_ms=duration_ms, child=child)


def _wait(ended: threading.Event, request: ChildRequest, began: float, recorder: Recorder) -> str:
    """Return `ended`, or why the child has to be abandoned: `timed_out` or `cancelled`.

    Its program has its time to clean up, and what that leaves has as much again (§9.4).
    """
    seconds = request.limits.timeout_seconds
    patience = GRACE_SECONDS + _SLACK_SECONDS
    while not ended.is_set():
        if request.cancel.is_set():
            has_ended = ended.wait(patience) or (recorder.is_settling and ended.wait(patience))
            return "ended" if has_ended else "cancelled"
        left = None if seconds is None else began + seconds + patience - time.monotonic()
        if left is not None and left <= 0:
            has_ended = recorder.is_settling and ended.wait(patience)
            return "ended" if has_ended else "timed_out"
        ended.wait(min(left, _POLL_SECONDS) if left is not None else _POLL_SECONDS)
    return "ended"


_POLL_SECONDS: Final = 0.05


def _outcome(result: Any, request: ChildRequest) -> Outcome | Suspended:
    if isinstance(result, RecordedRun):
        tell_quietly((*result.slips, *result.unheard))
    if isinstance(result, RecordedRun) and result.questions:
        return suspended(result, request)
    if isinstance(result, RefoldError):
        return anchored(stopped_or_failed(result, request), request)
    if isinstance(result, BaseException):
        message = f"{type(result).__name__}: {result}"
        return anchored(failed("failed", "crashed", message), request)
    return anchored(outcome_of_recorded(result, request), request)
