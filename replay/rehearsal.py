"""A kernel's world without a log: the record as a book, and a free hand in what comes next.

A rehearsal runs the program with its recorded outcomes, delivered in an order of the caller's
choosing (`replay.explore`), or with some of them altered (`replay.sensitivity`).  Nothing but the
program is executed and nothing is written.  What the book has no answer to ends the rehearsal as
*missing*: the program took a way that was never recorded.  Rules: CONTRACT.md §12.8.
"""

import contextvars
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Literal

import attrs

from refold.engine.canonical import Json, encode, loads
from refold.engine.effects import CallTool, RunChild
from refold.engine.errors import Diverged, UsageError
from refold.engine.events import (
    ChildFinished,
    ClockRead,
    Event,
    InputGiven,
    ModelAnswered,
    PatchMarked,
    RunFinished,
    SessionChanged,
    SessionSeeded,
    TimerFired,
    ToolCalled,
    ToolReturned,
    ValueDrawn,
)
from refold.engine.kernel import Kernel
from refold.engine.limits import Limits
from refold.engine.loop import Timer
from refold.engine.ports import Program, SessionPort, Tool
from refold.engine.run import faces_of
from refold.engine.state import Fold
from refold.engine.verdict import Verdict
from refold.engine.world import REQUESTS, RecordEnded
from refold.replay.book import Answer, Asked, Book, asked_of, end_of
from refold.replay.items import Item, scope_of
from refold.replay.pointer_diff import same
from refold.replay.world import RecordedModel, RecordedTool, identity_of, waiting_place

How = Literal["ended", "missing", "endless", "hung"]
"""`missing`: it waits for what was never recorded · `endless`: it asks and asks · `hung`: it left
the wall limit behind, inside one step."""

CHOICES_MAX: Final = 24
"""Outstanding completions of one step that are kept as its choices."""

_STEPS_MIN: Final = 2_000
_STEPS_PER_ENTRY: Final = 4
"""A rehearsal may take so many steps for each entry of its record."""

_WALL_SECONDS: Final = 10.0
_WALL_PER_ENTRY: Final = 0.002
"""Wall time that one rehearsal may take, and more for each entry of its record."""


@attrs.frozen(kw_only=True)
class Plan:
    """What one rehearsal does otherwise than the record."""

    order: tuple[str, ...] = ()
    """Keys of completions, first to last: of those outstanding the earliest here is delivered, and
    what is not listed after them, as recorded.  Empty for the recorded order."""
    free_timers: bool = False
    """Whether timers race with what was recorded before them."""
    answers: Mapping[str, Event] = attrs.field(factory=dict)
    """Events that take the place of recorded outcomes, by call key."""
    values: Mapping[str, Json] = attrs.field(factory=dict)
    """The same for values that were drawn."""
    seeds: frozenset[str] = frozenset()
    """Call keys of uuids and random streams that are drawn from another seed."""
    by_place: bool = False
    """Whether a request with other arguments is given what was recorded at its place."""
    before: Callable[[Kernel, str], None] | None = None
    """Is told of each key before it is delivered."""


@attrs.frozen(kw_only=True)
class Rehearsed:
    """What came of a rehearsal."""

    how: How
    end: dict[str, Json] = attrs.field(factory=dict)
    """{status, reason, output, error, summary, artifacts}, no nulls; empty unless `ended`."""
    place: tuple[str, int] | None = None
    """File and line of the program that raised, if it did; else where it waits, if `missing`."""
    missing: Item | None = None
    """What was asked for and never recorded."""
    delivered: tuple[str, ...] = ()
    """Keys of what was delivered, in order."""
    choices: tuple[tuple[str, ...], ...] = ()
    """Of each step the keys that could have been delivered, at most `CHOICES_MAX`; the one that
    was stands first."""
    asked: tuple[Asked, ...] = ()
    """In the order of asking."""
    children: tuple[RunChild, ...] = ()
    tools: Mapping[str, Tool] = attrs.field(factory=dict)
    """Leaf tools that were called, by call key."""

    def is_end(self, end: Mapping[str, Json]) -> bool:
        """Return whether the run ended so."""
        return self.how == "ended" and same(self.end, dict(end))


class Stage:
    """Where one recorded run is rehearsed, again and again.

    `looks` is learnt in the first rehearsal: which scope looked at the clock when.
    """

    def __init__(
        self,
        book: Book,
        program: Program,
        *,
        tools: Mapping[str, Tool],
        session: SessionPort | None = None,
    ) -> None:
        """Take the record and what it takes to run it again.

        Raises:
            UsageError: the run had a session, and none was passed.
        """
        if book.snapshot is not None and session is None:
            raise UsageError(
                "the run had a session: pass one with the same reducers, session=Session()"
            )
        self.book = book
        self.program = program
        self.tools = dict(tools_of(book, tools))
        self.session = session
        self.looks: dict[tuple[str, int], ClockRead] = {}
        self.is_learning = False

    def rehearse(self, plan: Plan) -> Rehearsed:
        """Run the program once, within a wall limit; it is left behind where it exceeds it.

        Raises:
            RefoldError: the program cannot be run: a tool has to be passed.
        """
        seconds = _WALL_SECONDS + _WALL_PER_ENTRY * self.book.entries
        return _within(seconds, lambda: Rehearsal(self, plan).run()) or Rehearsed(how="hung")

    def baseline(self, differs: Callable[[], Diverged | None]) -> Rehearsed:
        """Rehearse as recorded, twice; what follows is compared with it.

        `differs` names the difference where the program does not do what the record says.

        Raises:
            Diverged: it does not.
            UsageError: nor does it the second time, or no name is found for the difference.
        """
        self.is_learning = True
        first = self.rehearse(Plan())
        self.is_learning = False
        if first.how == "hung":
            raise UsageError("the program does not come to an end within the wall limit")
        if not self._is_recorded(first):
            raise differs() or UsageError(
                f"{self.book.log}: the program does not do what its log says, "
                f"and ends as {first.how}; see refold replay"
            )
        second = self.rehearse(Plan())
        if second.delivered != first.delivered or not second.is_end(first.end):
            raise UsageError(
                "run a second time in one process, the program ends otherwise: it keeps something "
                "between runs, in a global or a cache, and nothing else could be told from that"
            )
        return first

    def _is_recorded(self, found: Rehearsed) -> bool:
        book = self.book
        asked = {one.call: one.identity for one in found.asked}
        recorded = {one.call: one.identity for one in book.requests.values()}
        return found.is_end(book.end) and found.delivered == book.delivered and asked == recorded


def tools_of(book: Book, given: Mapping[str, Tool]) -> Iterator[tuple[str, Tool]]:
    """Yield the tools that the run knew by name; those that were not passed stand in."""
    for offer in book.started.tools:
        name = offer["name"]
        yield (
            name,
            given.get(name)
            or RecordedTool(
                name,
                offer["effect"],
                offer["schema"],
                bool(offer["typed"]),
                bool(offer.get("delegates")),
                offer.get("description", ""),
            ),
        )


def _within(seconds: float, work: Callable[[], Rehearsed]) -> Rehearsed | None:
    """Return what `work` returns; `None` where it takes longer and is left behind."""
    box: list[Any] = []
    context = contextvars.copy_context()

    def run() -> None:
        try:
            box.append(work())
        except BaseException as error:  # noqa: BLE001 - raised again below
            box.append(error)

    thread = threading.Thread(target=lambda: context.run(run), name="refold-rehearsal", daemon=True)
    thread.start()
    thread.join(seconds)
    if not box:
        return None
    if isinstance(box[0], BaseException):
        raise box[0]
    found: Rehearsed = box[0]
    return found


class _Kernel(Kernel):
    """A kernel whose draws can be made from another seed."""

    reseeded: frozenset[str] = frozenset()

    def _seed(self, purpose: str, place: str) -> str:
        name = f"{purpose.partition(chr(0))[0]} {purpose.partition(chr(0))[2]} {place}"
        return super()._seed(f"{purpose}\0altered" if name in self.reseeded else purpose, place)


@attrs.frozen
class _Choice:
    """Something that could be delivered now."""

    rank: tuple[int, int, int]
    key: str
    call: str | None
    event: Event


class Rehearsal:
    """The world of one rehearsal."""

    def __init__(self, stage: Stage, plan: Plan) -> None:
        book = stage.book
        started = book.started
        self.fold = Fold()
        self.fold.apply(started, None, 0)
        self._stage, self._plan, self._book = stage, plan, book
        self._order = {key: at for at, key in enumerate(plan.order)}
        self._steps_left = _STEPS_MIN + _STEPS_PER_ENTRY * book.entries
        self._over: How | None = None
        self._missing: Item | None = None
        self._place: tuple[str, int] | None = None
        self._asked: dict[str, Asked] = {}
        self._served: dict[str, str] = {}
        """By call key: the recorded key whose outcome answers it."""
        self._unused = dict(book.requests)
        self._alike: dict[str, dict[str, None]] = {}
        """By identity: recorded keys that nobody has been served with, as an ordered set."""
        for asked in book.requests.values():
            self._alike.setdefault(asked.identity, {})[asked.call] = None
        self._values = dict(book.values)
        self._looks: Counter[str] = Counter()
        self._looked = 0
        self._due: dict[str, int] = {}
        self._now_us = 0
        self._given: dict[str, None] = {}
        self._choices: list[tuple[str, ...]] = []
        self._children: list[RunChild] = []
        self._tools: dict[str, Tool] = {}
        self._placed = [one for one in book.answers.values() if one.call is None]
        self._kernel = _Kernel(
            self,
            identity=identity_of(started),
            limits=Limits.from_json(started.limits),
            tools=stage.tools,
            models={name: RecordedModel(full) for name, full in started.models.items()},
            session=stage.session,
        )
        self._kernel.reseeded = frozenset(_purposes(book, plan.seeds))

    def run(self) -> Rehearsed:
        """Run the program to its end, or to where nothing more can be given to it."""
        kernel = self._kernel
        faces = faces_of(kernel)
        verdict = kernel.execute(
            self._stage.program,
            (faces.asynchronous, faces.plain),
            loads(encode(self._book.started.input)),  # a copy: a program may change its own
        )
        ended = self._over is None
        return Rehearsed(
            how=self._over or "ended",
            end=_end(verdict) if ended else {},
            place=verdict.place if ended else self._place,
            missing=self._missing,
            delivered=tuple(self._given),
            choices=tuple(self._choices),
            asked=tuple(self._asked.values()),
            children=tuple(self._children),
            tools=self._tools,
        )

    # -- the kernel's side ----------------------------------------------------------------

    def emit(self, event: Event, call: str | None) -> None:
        """Take note of what the program asks for, and look up what will answer it."""
        self._step(event)
        self.fold.apply(event, call)
        if isinstance(event, REQUESTS):
            asked = asked_of(event, call or "")
            self._asked[asked.call] = asked
            if not (isinstance(event, ToolCalled) and event.delegates):
                self._serve(asked)

    def look(self) -> ClockRead:
        """Return the time that the same scope had at the same look."""
        self._step(None)
        kernel = self._kernel
        scope = kernel.loop.scope().path if kernel.loop.is_stepping() else kernel.loop.root.path
        self._looks[scope] += 1
        read = self._read((scope, self._looks[scope]))
        self.fold.apply(read, None)
        return read

    def arm(self, timer: Timer) -> None:
        """Remember when it is due, by a clock that only timers move."""
        self._due[timer.key] = self._now_us + timer.delay_us

    def draw(self, source: str, name: str, call: str, produce: Callable[[], Json]) -> Json:  # noqa: ARG002 - nothing is drawn anew
        """Return the value that was recorded under this key, or for the same draw elsewhere."""
        found = self._value(source, name, call)
        if found is None:
            self._end_as("missing", Item("value", f"{source} {name}".strip(), {"name": name}, call))
            raise RecordEnded
        key, drawn = found
        value = self._plan.values.get(key, drawn.value)
        self.emit(ValueDrawn(drawn.source, name, value), call)
        return value

    def patched(self, marker: str) -> bool:
        """Return whether the record has the marker."""
        is_there = marker in self._book.markers
        if is_there:
            self.emit(PatchMarked(marker), None)
        return is_there

    def seed(self, session: SessionPort) -> None:
        """Start the session as it was recorded."""
        if self._book.snapshot is not None:
            session.restore(self._book.snapshot)
        self.emit(SessionSeeded(session.snapshot().as_json()), None)

    def at_once(self, effect: CallTool) -> ToolReturned | None:
        """Return the result of a tool that runs alone, as replay does."""
        self._tools[effect.call] = effect.tool
        choice = self._of_call(effect.call)
        if choice is None or self._over is not None or not isinstance(choice.event, ToolReturned):
            return None
        if any(one.position < self._position(choice.key) for one in self._placed):
            return None
        self._note(choice, [choice])
        self.fold.apply(choice.event, effect.call)
        return choice.event

    def advance(self) -> bool:
        """Deliver what stands first in the order among what is outstanding."""
        kernel = self._kernel
        for effect in kernel.wanted:
            if isinstance(effect, RunChild):
                self._children.append(effect)
            elif isinstance(effect, CallTool):
                self._tools[effect.call] = effect.tool
        kernel.wanted.clear()
        if self._over is not None:
            return False
        choices = sorted(self._outstanding(), key=lambda choice: choice.rank)
        if not choices:
            if kernel.stopped is None and not kernel.has_returned():
                self._end_as("missing", self._first_unanswered())
            return False
        try:
            self._step(None)
        except RecordEnded:
            return False
        self._give(choices[0], choices)
        return True

    # -- what is asked --------------------------------------------------------------------

    def _step(self, event: Event | None) -> None:
        """Count a step; let go of a program that asks when the rehearsal is over.

        Raises:
            RecordEnded: it is.
        """
        self._steps_left -= 1
        if self._steps_left < 0 and self._over is None:
            self._end_as("endless", None)
        if self._over is not None and (event is None or isinstance(event, (*REQUESTS, ValueDrawn))):
            raise RecordEnded

    def _end_as(self, how: How, missing: Item | None) -> None:
        if self._over is None:
            self._over, self._missing = how, missing
            self._place = waiting_place(self._kernel)

    def _serve(self, asked: Asked) -> None:
        """Choose the recorded request whose outcome answers this one, if there is one."""
        match = self._match(asked)
        if match is not None:
            self._served[asked.call] = match.call
            del self._unused[match.call]
            self._alike[match.identity].pop(match.call)

    def _match(self, asked: Asked) -> Asked | None:
        """Return the same request: of the same key, else nearest in the scope, else elsewhere."""
        own = self._unused.get(asked.call)
        if own is not None and own.identity == asked.identity:
            return own
        alike = [self._unused[call] for call in self._alike.get(asked.identity, ())]
        if found := _nearest(asked, alike):
            return found
        if not self._plan.by_place:
            return None
        if own is not None and own.name == asked.name:
            return own
        scope = asked.item.scope
        named = [one for one in self._unused.values() if one.name == asked.name]
        return _nearest(asked, [one for one in named if one.item.scope == scope])

    def _value(self, source: str, name: str, call: str) -> tuple[str, ValueDrawn] | None:
        """Return the recorded draw of that name: of the same key, the same scope, or any."""
        alike = {
            key: drawn
            for key, drawn in self._values.items()
            if (drawn.source, drawn.name) == (source, name)
        }
        scope = scope_of(call)
        near = (key for key in alike if scope_of(key) == scope)
        key = call if call in alike else next(near, next(iter(alike), None))
        return None if key is None else (key, self._values.pop(key))

    def _read(self, key: tuple[str, int]) -> ClockRead:
        looks, known = self._book.looks, self._stage.looks
        if self._stage.is_learning:
            known[key] = looks[min(self._looked, len(looks) - 1)] if looks else ClockRead(0, 0)
            self._looked += 1
        elif key not in known:  # it saw the clock through another's look
            known = {key: looks[-1] if looks else ClockRead(0, 0)}
        return known[key]

    def _first_unanswered(self) -> Item | None:
        """Return the first request that the program waits for and that nothing answers."""
        kernel = self._kernel
        for call, asked in self._asked.items():
            if call in kernel.open or (call in kernel.children and kernel.wants_child(call)):
                return asked.item
        return None

    # -- what is delivered ----------------------------------------------------------------

    def _outstanding(self) -> Iterator[_Choice]:
        """Yield all that could be delivered now."""
        kernel = self._kernel
        calls = [*kernel.open, *(call for call in kernel.children if kernel.wants_child(call))]
        found = [choice for call in calls if (choice := self._of_call(call)) is not None]
        first = min((self._position(choice.key) for choice in found), default=_NEVER)
        yield from found
        timers = [self._of_timer(timer) for timer in kernel.loop.timers.values()]
        yield from self._timers(timers, first)
        if self._placed and self._placed[0].position < first and not self._is_early(timers):
            placed = self._placed[0]
            if kernel.can_deliver(placed.event, None) and self._has_child(placed):
                yield _Choice(self._rank(placed.key), placed.key, None, placed.event)

    def _of_call(self, call: str) -> _Choice | None:
        key = self._served.get(call)
        answer = self._book.answers.get(key) if key is not None else None
        if key is None or answer is None or not self._fits(call, answer.event):
            return None
        if isinstance(answer.event, ChildFinished) and self._has_changes(call):
            return None
        return _Choice(self._rank(key), key, call, self._plan.answers.get(key, answer.event))

    def _fits(self, call: str, event: Event) -> bool:
        pending = self._kernel.open.get(call)
        return isinstance(event, _COMPLETED_BY[pending.kind] if pending else ChildFinished)

    def _has_changes(self, call: str) -> bool:
        """Return whether a child has still to change the session that it shares."""
        path = self._kernel.child_path(call)
        return any(_is_by(one.event, path) for one in self._placed)

    def _has_child(self, placed: Answer) -> bool:
        """Return whether the child whose change this is runs; of all else, True."""
        if not isinstance(placed.event, SessionChanged):
            return True
        kernel = self._kernel
        return any(_is_by(placed.event, kernel.child_path(call)) for call in kernel.children)

    def _of_timer(self, timer: Timer) -> _Choice:
        answer = self._book.answers.get(timer.key)
        due = self._due.get(timer.key, 0)
        rank = self._order.get(timer.key)
        if answer is not None:
            return _Choice(self._rank(timer.key), timer.key, timer.key, answer.event)
        place = (0, rank, 0) if rank is not None else (_NEVER, due, timer.number)
        return _Choice(place, timer.key, timer.key, TimerFired(max(self._now_us, due)))

    def _timers(self, timers: list[_Choice], first: int) -> Iterable[_Choice]:
        """Yield the timers that may fire: those that nothing recorded before them is waited for.

        Among themselves, recorded ones keep their order, and the others fire as they are due.
        """
        if not timers:
            return
        recorded = [one for one in timers if one.key in self._book.answers]
        soonest = min(timers, key=lambda one: (self._due.get(one.key, 0), one.rank))
        earliest = min(recorded, key=lambda one: self._position(one.key), default=None)
        if self._plan.free_timers:
            yield soonest
            if earliest is not None and earliest is not soonest:
                yield earliest
        elif earliest is not None:
            if self._position(earliest.key) < first:
                yield earliest
        elif first == _NEVER:
            yield soonest

    def _is_early(self, timers: list[_Choice]) -> bool:
        """Return whether a timer was recorded before what keeps its place next."""
        return any(
            one.key in self._book.answers and self._position(one.key) < self._placed[0].position
            for one in timers
        )

    def _position(self, key: str) -> int:
        position = self._book.position(key)
        return _NEVER if position is None else position

    def _rank(self, key: str) -> tuple[int, int, int]:
        at = self._order.get(key)
        return (0, at, 0) if at is not None else (1, self._position(key), 0)

    def _give(self, choice: _Choice, choices: list[_Choice]) -> None:
        kernel = self._kernel
        if self._plan.before is not None:
            self._plan.before(kernel, choice.key)
        self._note(choice, choices)
        if isinstance(choice.event, TimerFired):
            self._now_us = max(self._now_us, self._due.pop(choice.key, 0))
        elif choice.call is None:
            del self._placed[0]
        self.fold.apply(choice.event, choice.call)
        kernel.deliver(choice.event, choice.call)

    def _note(self, choice: _Choice, choices: list[_Choice]) -> None:
        self._given[choice.key] = None
        keys = [choice.key, *(one.key for one in choices if one is not choice)]
        self._choices.append(tuple(keys[:CHOICES_MAX]))
        if choice.call is not None:
            self._served.pop(choice.call, None)


_NEVER: Final = 1 << 62
_COMPLETED_BY: Final = {"tool": ToolReturned, "model": ModelAnswered, "input": InputGiven}


def _nearest(asked: Asked, alike: list[Asked]) -> Asked | None:
    """Return the one that was asked nearest: in the same scope by its ordinal, else the first."""
    scope, ordinal = asked.item.scope, _ordinal(asked.call)
    own = [one for one in alike if one.item.scope == scope]
    if own:
        return min(own, key=lambda one: abs(_ordinal(one.call) - ordinal))
    return alike[0] if alike else None


def _ordinal(call: str) -> int:
    return int(call.rpartition("#")[2])


def _is_by(event: Event, path: str) -> bool:
    by = event.by if isinstance(event, SessionChanged) else ""
    return by == path or by.startswith(f"{path} > ")


def _purposes(book: Book, calls: Iterable[str]) -> Iterator[str]:
    """Yield what the kernel draws for, as `_Kernel` names it: a uuid by call, a stream by scope."""
    for call in calls:
        drawn = book.values[call]
        place = call if drawn.source == "uuid" else scope_of(call)
        yield f"{drawn.source} {drawn.name} {place}"


def _end(verdict: Verdict) -> dict[str, Json]:
    """Return how a run ended, as `replay.book.end_of` has it."""
    report = verdict.report
    finished = RunFinished(
        verdict.status,
        verdict.reason,
        verdict.output,
        verdict.error,
        [],
        report.summary if report else None,
        [attrs.asdict(artifact) for artifact in report.artifacts] if report else None,
    )
    end: dict[str, Json] = loads(encode(end_of(finished)))
    return end
