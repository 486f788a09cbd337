"""A session: a run's memory, as typed slices that only events change.

A slice is the tuple of all items of one class.  An event is reduced by pure functions, in the order
in which they were registered; while a session is bound to a run, the run's log has the event before
the slices do.  So a session is a fold of that log: the same events make the same slices, and
re-executing the program makes the same events.

Pure: no clock, no file; what writes a line is a callable that the kernel hands in.  A session has
one writer, the run that it is bound to; reading from other threads is safe.  JSON and types are in
`slices`, the picture of it all in `snapshot`.  Rules: CONTRACT.md §6.3.
"""

import threading
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Self, TypeVar, assert_never

import attrs

from refold.engine.encoding.canonical import Json
from refold.engine.encoding.plain import to_json
from refold.engine.errors import (
    NotCanonical,
    SliceRefused,
    SnapshotRestoreError,
    SnapshotSerializationError,
    UsageError,
)
from refold.engine.events.events import SessionChanged, SessionRestored, SessionSeeded
from refold.engine.ports.ports import Draw, Reference
from refold.engine.session import slices
from refold.engine.session.bus import EventBus
from refold.engine.session.reducers import Reducer, append
from refold.engine.session.snapshot import Snapshot

S = TypeVar("S")

Line = SessionSeeded | SessionChanged | SessionRestored
"""The entries of a session in a log."""

FAILURES_MAX: Final = 100
"""So many failures of reducers are kept, the latest."""


@attrs.frozen
class ToolInvoked:
    """A tool returned.  Told to the session of the run that called it; the log has it anyway.

    A session is told of the tools of children that share it, too.
    """

    name: str
    arguments: dict[str, Json]
    result: Json
    """Its result; on failure, {code, message, type}."""
    success: bool
    by: str = ""
    """The path of the child that called it; empty for the session's own run."""


@attrs.frozen
class ReducerFailure:
    """A reducer raised, or did not return a slice; its slice is unchanged."""

    event: str
    slice: str
    reducer: str
    message: str


@attrs.frozen
class _Registered:
    event: type
    slice: type
    name: str
    reduce: Reducer[Any]


class Session:
    """Slices, the reducers that change them, and the bus that publishes events."""

    is_own = True

    def __init__(
        self,
        *,
        bus: EventBus | None = None,
        id: str = "session",  # noqa: A002 - the word of the domain
        parent: "Session | None" = None,
        factory: Reference | None = None,
    ) -> None:
        """Make an empty session without reducers.

        Args:
            bus: Its source and target of events; one of its own by default.
            id: Its name; those of clones are derived from it.
            parent: The session that it was cloned from.
            factory: How a subprocess makes an empty session with the same reducers; one that has
                none, or only plans, needs no factory.
        """
        self.id: Final = id
        self.parent: Final = parent
        self.factory = factory
        self.bus: Final = bus or EventBus()
        self._lock = threading.RLock()
        self._items: dict[type, tuple[Any, ...]] = {}
        self._readers: dict[type, slices.Read] = {}
        self._registered: list[_Registered] = []
        self._failures: deque[ReducerFailure] = deque(maxlen=FAILURES_MAX)
        self._failed: dict[str, tuple[ReducerFailure, ...]] = {}
        self._children: list[weakref.ref[Session]] = []
        self._clones = 0
        self._emit: Callable[[Line], object] | None = None
        self.bus.subscribe(object, self._receive)

    def __repr__(self) -> str:
        held = (f"{slices.name_of(kind)} {len(items)}" for kind, items in self._items.items())
        return f"<session {self.id}: {', '.join(held) or 'no slices'}>"

    @property
    def maker(self) -> Reference | None:
        """How another process makes an empty session with the same reducers; `None` if it cannot.

        The factory; one without reducers needs none.
        """
        if self.factory is None and not self._registered and type(self) is Session:
            return Reference(__name__, Session.__qualname__, {})
        return self.factory

    # -- reducers -------------------------------------------------------------------------

    def register(
        self,
        event: type,
        slice: type | None = None,  # noqa: A002 - the word of the domain
        reducer: Reducer[Any] = append,
        *,
        name: str | None = None,
    ) -> bool:
        """Have `reducer` change `slice` on each event of exactly the class `event`.

        Registering is idempotent: the same event, slice and name again change nothing, even with
        another function, and False is returned. `slice` is the event's class by default, and `name`
        the function's.

        Raises:
            SliceRefused: a class that is not an attrs class or dataclass, or whose name is taken.
        """
        added = _Registered(event, slice or event, name or _name_of(reducer), reducer)
        with self._lock:
            for one in self._registered:
                if (one.event, one.slice, one.name) == (added.event, added.slice, added.name):
                    return False
            for kind in (added.event, added.slice):
                self._know(kind)
            self._registered.append(added)
            self._items.setdefault(added.slice, ())
        return True

    def _know(self, kind: type) -> None:
        if kind in self._readers:
            return
        reader = slices.reader_of(kind)
        if slices.name_of(kind) in map(slices.name_of, self._readers):
            raise SliceRefused(slices.name_of(kind), "another class of this session has that name")
        self._readers[kind] = reader

    @property
    def slice_types(self) -> tuple[type, ...]:
        """The classes that have a slice, in the order of their registration."""
        return tuple(self._items)

    @property
    def event_types(self) -> tuple[type, ...]:
        """The classes of the events that some reducer takes, in the order of registration."""
        return tuple(dict.fromkeys(one.event for one in self._registered))

    @property
    def failures(self) -> tuple[ReducerFailure, ...]:
        """What reducers failed with, the latest 100, oldest first."""
        return tuple(self._failures)

    # -- reading --------------------------------------------------------------------------

    def select_all(self, slice: type[S]) -> tuple[S, ...]:  # noqa: A002 - the word of the domain
        """Return the items of a slice, oldest first; none for a class that has no slice."""
        return self._items.get(slice, ())

    def latest(self, slice: type[S]) -> S | None:  # noqa: A002 - the word of the domain
        """Return the last item of a slice, or None."""
        items = self.select_all(slice)
        return items[-1] if items else None

    def where(self, slice: type[S], accepts: Callable[[S], bool]) -> tuple[S, ...]:  # noqa: A002 - the word of the domain
        """Return the items of a slice that `accepts` takes, oldest first."""
        return tuple(item for item in self.select_all(slice) if accepts(item))

    # -- changing -------------------------------------------------------------------------

    def dispatch(self, event: object) -> tuple[ReducerFailure, ...]:
        """Write the event into the log of the run, reduce it, and publish it on the bus.

        Returns what reducers failed with; their slices are as they were.

        Raises:
            NotCanonical: a log cannot hold the event; nothing has happened.
            SnapshotSerializationError: it would not be read back as an equal one; likewise.
            Exception: raised by a subscriber of the bus; the change is made.
        """
        self._note(event)
        failed = self._reduce(event)
        self.bus.publish(event, but=self._receive)
        return failed

    def observe(
        self, tool: str, arguments: dict[str, Json], result: Json, error: dict[str, Json] | None, /
    ) -> None:
        """Reduce a tool's result, as `ToolInvoked`; it is in the log already.

        Nothing that a subscriber does raises here: it is in `failures`.
        """
        self._tell(ToolInvoked(tool, arguments, error or result, error is None))

    def _tell(self, event: object) -> tuple[ReducerFailure, ...]:
        failed: tuple[ReducerFailure, ...] = ()
        try:
            failed = self._reduce(event)
            self.bus.publish(event, but=self._receive)
        except Exception as error:  # noqa: BLE001 - the program is not there to take it
            failed += (self._unheard(slices.name_of(type(event)), error),)
        return failed

    def _unheard(self, event: str, error: Exception) -> ReducerFailure:
        message = f"{type(error).__name__}: {error}"
        failure = ReducerFailure(event, "", "a subscriber", message)
        self._failures.append(failure)
        return failure

    def _receive(self, event: object) -> None:
        """Take an event that was published on the bus, if any reducer knows it."""
        if any(one.event is type(event) for one in self._registered):
            self._note(event)
            self._reduce(event)

    def _note(self, event: object) -> None:
        data = self.data_of(event)
        if self._emit is not None:
            self._emit(SessionChanged(slices.name_of(type(event)), data))

    def data_of(self, event: object) -> Json:
        """Return an event as JSON, known to be read back as an equal one if its class is known.

        Raises:
            NotCanonical, SnapshotSerializationError: as `dispatch`.
        """
        read = self._readers.get(type(event))
        return to_json(event) if read is None else slices.dumped(type(event), event, read)

    def _reduce(self, event: object) -> tuple[ReducerFailure, ...]:
        with self._lock:
            found = [one for one in self._registered if one.event is type(event)]
            failed = tuple(failure for one in found if (failure := self._apply(one, event)))
            self._failures.extend(failed)
        for failure in failed:
            self.bus.publish(failure, but=self._receive)
        return failed

    def _apply(self, one: _Registered, event: object) -> ReducerFailure | None:
        try:
            items = one.reduce(self._items[one.slice], event)
        except Exception as error:  # noqa: BLE001 - a reducer's failure is data
            why = f"{type(error).__name__}: {error}"
        else:
            if type(items) is tuple and all(type(item) is one.slice for item in items):
                if not (why := self._misread(one.slice, items, event)):
                    self._items[one.slice] = items
                    return None
            else:
                why = f"expected a tuple of {slices.name_of(one.slice)}, found {items!r:.100}"
        names = (slices.name_of(one.event), slices.name_of(one.slice))
        return ReducerFailure(*names, one.name, why)

    def _misread(self, kind: type, items: tuple[Any, ...], event: object) -> str:
        """Return why the first new item would not be read back; the event was looked at."""
        held, read = {id(event), *map(id, self._items[kind])}, self._readers[kind]
        for item in items:
            if id(item) not in held:
                try:
                    slices.dumped(kind, item, read)
                except (NotCanonical, SnapshotSerializationError) as error:
                    return str(error)
        return ""

    # -- snapshots ------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """Return an immutable picture of all slices.

        Raises:
            SnapshotSerializationError: an item that could not be read back as an equal one.
        """
        with self._lock:
            items = dict(self._items)
        dumped = {
            slices.name_of(kind): slices.dump(kind, held, self._readers[kind])
            for kind, held in items.items()
        }
        return Snapshot.of(dumped)

    def digest(self) -> str:
        """Return the digest of all slices: 64 hex digits.

        Raises:
            SnapshotSerializationError: as `snapshot`.
        """
        return self.snapshot().digest

    def rollback(self, snapshot: Snapshot) -> None:
        """Replace all slices by those of a snapshot; slices that it does not have are emptied.

        No event is reduced or published.  In a run, the log has a `session.restored` first.

        Raises:
            SnapshotRestoreError: it does not fit this session, which is untouched then.
        """
        items = self._read(snapshot)
        if self._emit is not None:
            self._emit(SessionRestored(snapshot.as_json()))
        self._replace(items)

    def restore(self, snapshot: dict[str, Any], /) -> None:
        """Replace all slices by those of a snapshot in JSON; no events are emitted.

        Raises:
            SnapshotRestoreError: it does not fit this session, which is untouched then.
        """
        self._replace(self._read(Snapshot.from_json(snapshot)))

    def _read(self, snapshot: Snapshot) -> dict[type, tuple[Any, ...]]:
        known = {slices.name_of(kind): kind for kind in self._items}
        held = snapshot.slices
        if unknown := sorted(held.keys() - known.keys()):
            raise SnapshotRestoreError(f"Slice types not registered: {', '.join(unknown)}")
        return {
            known[name]: slices.load(known[name], items, self._readers[known[name]])
            for name, items in held.items()
        }

    def _replace(self, items: dict[type, tuple[Any, ...]]) -> None:
        with self._lock:
            self._items = {kind: items.get(kind, ()) for kind in self._items}

    # -- copies ---------------------------------------------------------------------------

    @property
    def children(self) -> "tuple[Session, ...]":
        """The sessions cloned from this one that still exist, oldest first."""
        return tuple(found for one in self._children if (found := one()) is not None)

    def empty(self, bus: EventBus | None = None, parent: "Session | None" = None) -> Self:
        """Return a new session with the same reducers and no items.

        Its id is derived: `session.1`, `session.2`, …
        """
        with self._lock:
            self._clones += 1
            made = type(self)(
                bus=bus, id=f"{self.id}.{self._clones}", parent=parent, factory=self.factory
            )
            for one in self._registered:
                made.register(one.event, one.slice, one.reduce, name=one.name)
            self._children = [one for one in self._children if one() is not None]
            self._children.append(weakref.ref(made))
        return made

    def clone(self, bus: EventBus | None = None, parent: "Session | None" = None) -> Self:
        """Return a new session with the same reducers and equal items; nothing is shared.

        Raises:
            SnapshotSerializationError: as `snapshot`.
        """
        snapshot = self.snapshot()
        made = self.empty(bus, parent)
        made.rollback(snapshot)
        return made

    # -- the run --------------------------------------------------------------------------

    def bind(self, emit: Callable[[Any], object], _draw: Draw | None = None, /) -> None:
        """Put every change into a log from now on, before it is made.

        Raises:
            UsageError: another run has the session; give each a clone.
        """
        self._check_free()
        self._emit = emit

    def check(self) -> None:
        """Refuse a session that a run cannot begin with.

        Raises:
            UsageError: another run has it; give each a clone.
            SnapshotSerializationError: as `snapshot`.
        """
        self._check_free()
        self.snapshot()

    def _check_free(self) -> None:
        if self._emit is not None:
            raise UsageError(
                f"session {self.id!r} is already used by another run: pass a clone of it"
            )

    def unbind(self) -> None:
        """Keep changes to oneself again."""
        self._emit = None

    def fold(self, line: Line) -> None:
        """Take a line of a log, as `dispatch` and `rollback` wrote it; nothing is emitted.

        Together with `observe` for what tools returned, this makes a session again of its log.

        Raises:
            SnapshotRestoreError: the line does not fit this session, which is untouched then.
        """
        match line:
            case SessionSeeded(snapshot) | SessionRestored(snapshot):
                self.restore(snapshot)
            case SessionChanged(name, data):
                for event in self._events(name, data):
                    self._reduce(event)
            case _:
                assert_never(line)

    def take(self, line: SessionChanged, /) -> None:
        """Apply a change of a child that shares the session: reduce it, publish it.

        It has to be of a class that a reducer takes, or that was subscribed to.
        """
        try:
            told = [self._tell(event) for event in self._events(line.event, line.data)]
        except (SliceRefused, SnapshotRestoreError) as error:
            told = [(self._unheard(line.event, error),)]
        self._failed[line.by] = tuple(failure for failed in told for failure in failed)

    def failed(self, by: str) -> tuple[ReducerFailure, ...]:
        """Return what reducers and subscribers failed with at the last change of that child."""
        return self._failed.get(by, ())

    def accepts(self, kind: type) -> bool:
        """Return whether a reducer or a subscriber takes events of that class."""
        return kind in self.event_types or self.bus.accepts(kind, but=self._receive)

    def _events(self, name: str, data: Json) -> tuple[object, ...]:
        for kind in (*self.event_types, *self.bus.kinds, ToolInvoked):
            if slices.name_of(kind) == name:
                read = self._readers.get(kind) or slices.reader_of(kind)
                return slices.load(kind, [data], read)
        return ()


def _name_of(reducer: Reducer[Any]) -> str:
    return str(getattr(reducer, "__qualname__", type(reducer).__qualname__))
