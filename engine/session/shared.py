"""A session seen from a child that shares its parent's: reads are drawn, changes are the parent's.

There is one session and one writer of it, the parent's run. A child's change goes there, tagged
with the child's path, and is made when it is in the parent's log; the order of arrival is data.
What a child reads, and what came of its change, depends on the earlier actions of its siblings, so
each is a line of the child's own log: replay serves it from there (CONTRACT.md §6.4).
"""

from collections.abc import Callable
from typing import Any, Final, NoReturn, TypeVar

from refold.engine.encoding.canonical import Json
from refold.engine.encoding.plain import to_json
from refold.engine.errors import NotCanonical, UsageError
from refold.engine.events.events import SessionChanged
from refold.engine.ports.ports import Draw
from refold.engine.session import slices
from refold.engine.session.session import ReducerFailure, Session, ToolInvoked
from refold.engine.session.snapshot import Snapshot

S = TypeVar("S")
_FAILURES: Final = "failures"
"""The name of a drawn value: what came of a change."""

Send = Callable[[str, Json, str], None]
"""Event name, its data, the child's path: has the owner of the session make the change."""


def share(session: Any, by: str, send: Send | None) -> "SharedSession":
    """Return the face of `session` for the child of path `by`; a face is shared on as it is."""
    if isinstance(session, SharedSession):
        return SharedSession(session.session, by, session.send)
    return SharedSession(session, by, send)


def _owners(name: str) -> NoReturn:
    raise UsageError(
        f"session.{name} is for the run that owns the session; a child that shares it can use a "
        "copy: run.session.clone()"
    )


class SharedSession:
    """A child's face of its parent's session; the same calls, as far as a child may make them."""

    is_own = False

    def __init__(self, session: Session, by: str, send: Send | None) -> None:
        """Share `session` with the child of path `by`.

        `send` hands a change to its writer and returns when it is made; in replay it is `None`.
        """
        self.session = session
        self._by = by
        self.send = send
        self._emit: Callable[[Any], object] | None = None
        self._draw: Draw | None = None

    @property
    def bus(self) -> Any:
        """The bus of the shared session."""
        return self.session.bus

    id = property(lambda self: self.session.id)
    parent = property(lambda self: self.session.parent)
    factory = property(lambda self: self.session.factory)
    maker = property(lambda self: self.session.maker)
    slice_types = property(lambda self: self.session.slice_types)
    event_types = property(lambda self: self.session.event_types)
    data_of = property(lambda self: self.session.data_of)
    accepts = property(lambda self: self.session.accepts)
    failed = property(lambda self: self.session.failed)
    children = property(lambda _: _owners("children"))
    failures = property(lambda _: _owners("failures"))

    def rollback(self, _snapshot: Snapshot, /) -> None:
        """Refuse: siblings act on the session, too. A fork can be rolled back (`clone`).

        Raises:
            UsageError: always.
        """
        _owners("rollback")

    def fold(self, _line: Any, /) -> None:
        """Refuse: the session is made of its owner's log.

        Raises:
            UsageError: always.
        """
        _owners("fold")

    def bind(self, emit: Callable[[Any], object], draw: Draw, /) -> None:
        """Put every change and every read into the child's log from now on."""
        self._emit, self._draw = emit, draw

    def check(self) -> None:
        """Do nothing: the session is the parent's."""

    def unbind(self) -> None:
        """Refuse everything from now on: the child's run has ended."""
        self._emit = self._draw = None

    def select_all(self, slice: type[S]) -> tuple[S, ...]:  # noqa: A002 - the word of the domain
        """Return the current items of a slice, oldest first; a line of the log."""
        reader = slices.reader_of(slice)
        held = self.session.select_all
        drawn = self._drawn(slices.name_of(slice), lambda: slices.dump(slice, held(slice), reader))
        return slices.load(slice, drawn, reader)

    def latest(self, slice: type[S]) -> S | None:  # noqa: A002 - the word of the domain
        """Return the last item of a slice, or None; a line of the log."""
        items = self.select_all(slice)
        return items[-1] if items else None

    def where(self, slice: type[S], accepts: Callable[[S], bool]) -> tuple[S, ...]:  # noqa: A002 - the word of the domain
        """Return the items of a slice that `accepts` takes; a line of the log."""
        return tuple(item for item in self.select_all(slice) if accepts(item))

    def snapshot(self) -> Snapshot:
        """Return a picture of all slices; in a run, a line of the log."""
        if self._draw is None:
            return self.session.snapshot()
        return Snapshot.from_json(self._drawn("", lambda: self.session.snapshot().as_json()))

    def dispatch(self, event: object) -> tuple[ReducerFailure, ...]:
        """Write the event into the child's log, and have the parent's run make the change.

        Returns what reducers and subscribers of the parent's failed with; a line of the log.

        Raises:
            NotCanonical: a log cannot hold the event; nothing has happened.
            SnapshotSerializationError: it would not be read back as an equal one; likewise.
            UsageError: the child's run has ended.
        """
        if self._emit is None:
            raise UsageError("a shared session can only be used while its child runs")
        name, data = slices.name_of(type(event)), self.session.data_of(event)
        self._emit(SessionChanged(name, data))
        if self.send is not None:
            self.send(name, data, self._by)
        told: Any = self._drawn(_FAILURES, lambda: to_json(self.session.failed(self._by)))
        return tuple(ReducerFailure(**each) for each in told)

    def register(self, *arguments: Any, **options: Any) -> bool:
        """Register a reducer with the shared session; see `Session.register`."""
        return self.session.register(*arguments, **options)

    def empty(self, bus: Any = None, parent: Any = None) -> Session:
        """Return a new session with the same reducers and no items: no face, a child's own."""
        return self.session.empty(bus, parent)

    def clone(self, bus: Any = None, parent: Any = None) -> Session:
        """Return a separate session with the current items; a line of the log."""
        made = self.empty(bus, parent)
        made.rollback(self.snapshot())
        return made

    def take(self, line: SessionChanged, /) -> None:
        """Pass on a change of a grandchild, which shares the session too."""
        self.session.take(line)

    def restore(self, snapshot: dict[str, Any], /) -> None:
        """Do nothing: the session is the parent's to restore."""

    def observe(
        self, tool: str, arguments: dict[str, Json], result: Json, error: dict[str, Json] | None, /
    ) -> None:
        """Have the parent's run tell its session that a tool returned, if anybody there listens."""
        if self.send is None or not self.session.accepts(ToolInvoked):
            return
        name, success = slices.name_of(ToolInvoked), error is None
        told = ToolInvoked(tool, arguments, error or result, success, self._by)
        try:
            self.send(name, to_json(told), self._by)
        except NotCanonical as refused:  # too long for one line
            fault = {"code": "result", "message": str(refused), "type": "NotCanonical"}
            self.send(name, to_json(ToolInvoked(tool, {}, fault, success, self._by)), self._by)

    def digest(self) -> str:
        """Return nothing: the session's digest is in its owner's log."""
        return ""

    def _drawn(self, name: str, produce: Callable[[], Json]) -> Json:
        if self._draw is None:
            raise UsageError("a shared session can only be used while its child runs")
        return self._draw("session", name, produce)
