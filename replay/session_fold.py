"""A session made again of a log: the session part of a refold.

Executes reducers only: no program, no tool, no model.  The log names classes and never says where
they are; so whoever asks gives a session with the reducers that the run's had.  Rules: CONTRACT.md
§6.3; the state of the run itself is `replay.refold`.
"""

from os import PathLike, fspath

from refold.engine.errors import UsageError
from refold.engine.events import (
    RunFinished,
    SessionChanged,
    SessionRestored,
    SessionSeeded,
    ToolCalled,
    ToolReturned,
)
from refold.engine.log import read_entries
from refold.engine.session.session import Session


def refold_session(log: str | PathLike[str], session: Session) -> bool | None:
    """Bring `session` to where the run of `log` left its own; return whether the digests agree.

    `None`: not comparable, for the log is not sealed.

    Raises:
        SnapshotRestoreError: the session has not the slices that the run's had.
        UsageError: the run had no session of its own.
        LogDamaged: an entry does not verify.
    """
    path = fspath(log)
    called: dict[str, ToolCalled] = {}
    seeded, agrees = False, None
    for entry in read_entries(path, resolve=True, torn_ok=True):
        match event := entry.event:
            case SessionSeeded():
                seeded = True
                session.fold(event)
            case SessionChanged() | SessionRestored() if seeded:
                session.fold(event)
            case ToolCalled():
                called[entry.call or ""] = event
            case ToolReturned():
                asked = called.pop(entry.call or "")
                session.observe(asked.tool, asked.arguments, event.result, event.error)
            case RunFinished():
                agrees = event.session_digest == session.digest()
    if not seeded:
        raise UsageError(f"{path}: the run had no session of its own: there is nothing to refold")
    return agrees
