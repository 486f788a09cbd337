"""Rebuilds a session from a log: the session part of a refold.

Executes only reducers: no program, tool or model. The log has the names of classes but not their
modules, so the caller passes a session with the run's reducers. Rules: CONTRACT.md §6.3; the state
of the run itself is `replay.audit.refolding`.
"""

import contextlib
from collections.abc import Callable, Iterator
from itertools import islice
from os import PathLike, fspath
from pathlib import Path

from refold.engine.errors import LogDamaged, SessionNeeded, SnapshotRestoreError, UsageError
from refold.engine.events import events
from refold.engine.log.names import tree
from refold.engine.log.reader import Entry, read_entries
from refold.engine.session import slices
from refold.engine.session.session import ReducerFailure, Session, ToolInvoked
from refold.engine.session.snapshot import Snapshot
from refold.replay.index.malformed import explains_malformed


@explains_malformed
def refold_session(log: str | PathLike[str], session: Session) -> bool | None:
    """Bring `session` to where the run of `log` left its own; return whether the digests agree.

    `None`: not comparable, for the log is not sealed.

    Raises:
        SnapshotRestoreError: the session has not the slices that the run's had.
        UsageError: the run had no session of its own.
        LogDamaged: an entry does not verify.
    """
    path = fspath(log)
    called: dict[str, events.ToolCalled] = {}
    seeded, agrees = False, None
    for entry in read_entries(path, resolve=True, torn_ok=True):
        match event := entry.event:
            case events.SessionSeeded():
                seeded = True
                session.fold(event)
            case events.SessionChanged() | events.SessionRestored() if seeded:
                session.fold(event)
            case events.ToolCalled():
                called[entry.call or ""] = event
            case events.ToolReturned():
                asked = called.pop(entry.call or "")
                session.observe(asked.tool, asked.arguments, event.result, event.error)
            case events.RunFinished():
                agrees = event.session_digest == session.digest()
    if not seeded:
        raise UsageError(f"{path}: the run does not have a session of its own")
    return agrees


def had_session(log: str | PathLike[str]) -> bool:
    """Return whether the run of `log` had its own session."""
    return has_session(islice(read_entries(log, torn_ok=True), 1, None))


def has_session(entries: Iterator[Entry]) -> bool:
    """Return whether a run had its own session; `entries` begin with its second."""
    second = None
    with contextlib.suppress(LogDamaged):  # then there is nothing to go by
        second = next(entries, None)
    return second is not None and second.kind == "session.seeded"


def beyond(log: str | PathLike[str], make: Callable[[], Session]) -> str:
    """Return the content of a tree's sessions that a session of `make` cannot take.

    It is text; empty if such a session is enough for a re-execution.

    Raises:
        LogDamaged: an entry does not verify.
    """
    logs = [path for path in tree(Path(log)) if path.exists()]
    known = {slices.name_of(kind) for kind in (*make().slice_types, *make().event_types)}
    try:
        held = dict.fromkeys(name for path in logs for name in _held(path) if name not in known)
        if held:
            return ", ".join(held)
        ends = [refold_session(path, make()) for path in logs if had_session(path)]
    except SnapshotRestoreError as error:
        return str(error)
    return "what its reducers made of tools' results" if False in ends else ""


class StandIn(Session):
    """An empty session in place of one that held nothing.

    An event without a reducer is refused, because it would be lost silently if the program now
    sends one that it did not send before.
    """

    def dispatch(self, event: object) -> tuple[ReducerFailure, ...]:
        """Dispatch an event that some reducer takes.

        Raises:
            SessionNeeded: none does.
        """
        if type(event) not in self.event_types:
            raise SessionNeeded("", slices.name_of(type(event)))
        return super().dispatch(event)


def _held(log: Path) -> list[str]:
    """Return the names of the slices and events that a log's session lines have."""
    names: list[str] = []
    for entry in read_entries(log, resolve=True, torn_ok=True):
        match entry.event:
            case events.SessionSeeded(snapshot) | events.SessionRestored(snapshot):
                names += Snapshot.from_json(snapshot).slices
            case events.SessionChanged() as changed if changed.event != slices.name_of(ToolInvoked):
                names.append(changed.event)
    return names
