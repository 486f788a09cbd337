"""What becomes of a child when its parent's run is resumed (CONTRACT.md §4.7).

A child whose log is sealed is not run again: its outcome is read from the log. One whose log breaks
off is resumed. One that never wrote a whole line starts afresh.
"""

import os
import time
from pathlib import Path
from typing import Any, Final

import attrs

from refold.engine.children.anchor import anchored, begun
from refold.engine.children.reply import outcome_of, reply_frame
from refold.engine.errors import LogLocked, UsageError
from refold.engine.events.codec import structure
from refold.engine.events.events import RunFinished
from refold.engine.events.outcome import ChildRef, Outcome
from refold.engine.log.lock import refuse_if_locked
from refold.engine.log.reader import Scan, read_entries
from refold.engine.ports.ports import CancelSignal, ChildRequest
from refold.engine.state.folding import Fold

_PATIENCE_SECONDS: Final = 5.0
"""For a child of the broken-off run that still writes: it leaves within 2 s of its parent."""
_POLL_SECONDS: Final = 0.05


def take_up(request: ChildRequest) -> Outcome | ChildRequest:
    """Return the outcome of a child that had ended, or how it is to be run now; may wait.

    Raises:
        LogLocked: its old process does not leave.
        LogError: its log cannot be read.
    """
    log = request.log
    if log is None or not os.path.lexists(log):
        return attrs.evolve(request, resume=None)
    await_writer(log, request.cancel)
    if (found := begun(log)) is None:
        return attrs.evolve(request, resume=None)
    _check_is_its(request)
    if found.sealed:
        return anchored(_outcome(request, found), request)
    return request


def _check_is_its(request: ChildRequest) -> None:
    """Refuse a log in the child's place that answers another start.

    Raises:
        UsageError: it does.
    """
    parent, log = request.identity.parent, request.log or ""
    named = next(iter(read_entries(log, torn_ok=True))).data.get("parent") or {}
    if parent is not None and named.get("hash") != parent.hash:
        raise UsageError(f"{log} belongs to a different run: move it elsewhere")


def await_writer(log: Path, cancel: CancelSignal) -> None:
    """Wait until nobody writes the child's log any more.

    Raises:
        LogLocked: somebody still does.
    """
    until = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            return refuse_if_locked(log)
        except LogLocked:
            if time.monotonic() > until or cancel.wait(_POLL_SECONDS):
                raise


def _outcome(request: ChildRequest, found: Scan) -> Outcome:
    """Return the outcome in a sealed log, capped as if the child had just returned it."""
    fold, finished, began, ended = Fold(), None, 0, 0
    for entry in read_entries(request.log or "", resolve=True):
        event: Any = structure(entry.kind, entry.data)
        began, ended = began or entry.meta["mono_us"], entry.meta["mono_us"]
        if isinstance(event, RunFinished):
            finished = event
        else:
            fold.apply(event, entry.call, entry.seq)
    if finished is None:
        raise EOFError  # a sealed log has one
    return outcome_of(
        reply_frame(finished, fold),
        request.policy,
        duration_ms=max(0, ended - began) // 1000,
        child=ChildRef(run=request.identity.run_id, head=found.head, events=found.entries),
    )
