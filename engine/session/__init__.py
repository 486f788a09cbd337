"""Sessions: a run's memory, as typed slices that only events change.

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

from refold.engine.lazy import names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from refold.engine.session.bus import EventBus as EventBus
    from refold.engine.session.reducers import (
        append as append,
        append_all as append_all,
        replace_latest as replace_latest,
        upsert_by as upsert_by,
    )
    from refold.engine.session.session import (
        ReducerFailure as ReducerFailure,
        Session as Session,
        ToolInvoked as ToolInvoked,
    )
    from refold.engine.session.snapshot import (
        SCHEMA_VERSION as SCHEMA_VERSION,
        Snapshot as Snapshot,
    )
else:
    __getattr__, __dir__, __all__ = names(__name__)
