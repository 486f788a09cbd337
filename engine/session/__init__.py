"""Sessions: what a run keeps in mind, as typed slices that only events change.

Events of a program flow in and are in the log before a slice changes; immutable snapshots flow
out.  Imports `ports`, `events`, `encoding` and `errors`.  Names load on first use: a run without a
session pays for none of it.  Rules: CONTRACT.md §6.3, §6.4.

    session     the session
    slices      which classes can be slices, and their items to JSON and back
    reducers    the reducers that most slices need
    snapshot    an immutable picture of a session
    shared      a session seen from a child that shares its parent's
    bus         who is told of what happens in one run
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from refold.engine.session.bus import EventBus
    from refold.engine.session.reducers import append, append_all, replace_latest, upsert_by
    from refold.engine.session.session import ReducerFailure, Session, ToolInvoked
    from refold.engine.session.snapshot import SCHEMA_VERSION, Snapshot

__all__ = [
    "SCHEMA_VERSION",
    "EventBus",
    "ReducerFailure",
    "Session",
    "Snapshot",
    "ToolInvoked",
    "append",
    "append_all",
    "replace_latest",
    "upsert_by",
]

_HOMES: Final = {
    "EventBus": "bus",
    "append": "reducers",
    "append_all": "reducers",
    "replace_latest": "reducers",
    "upsert_by": "reducers",
    "ReducerFailure": "session",
    "Session": "session",
    "ToolInvoked": "session",
    "SCHEMA_VERSION": "snapshot",
    "Snapshot": "snapshot",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
