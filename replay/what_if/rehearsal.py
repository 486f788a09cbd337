"""A kernel's world without a log: the record as an index, with a free choice of the next outcome.

A rehearsal runs the program with its recorded outcomes, delivered in an order that the caller
chooses (`replay.what_if.explore`), or with changes (`replay.what_if.sensitivity`). Only the program
is executed, and nothing is written. If the index has no answer, the rehearsal ends as `missing`:
the program took a path that was never recorded. `BookMatcher` chooses the answer, and
`replay.what_if.outstanding` the next outcome. Rules: CONTRACT.md §12.8.

A `Stage` rehearses one record many times, each with a wall-clock limit. A program that never yields
its thread cannot be ended and is abandoned.
"""

import contextlib
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import wait
from pathlib import Path
from typing import Final, Literal

import attrs

from refold.engine.encoding.canonical import Json, encode, loads
from refold.engine.errors import Diverged, OutsideLoop, SessionNeeded, UsageError
from refold.engine.events import events
from refold.engine.events.events import ClockRead, ValueDrawn, number_of, scope_of
from refold.engine.events.flags import Flags
from refold.engine.events.limits import Limits
from refold.engine.kernel.kernel import Kernel
from refold.engine.kernel.world import REQUESTS, RecordEnded, StraightEnd, World
from refold.engine.loop.loop import Timer
from refold.engine.ports.effects import CallTool, RunChild
from refold.engine.ports.ports import Program, Reference, SessionPort, Tool
from refold.engine.program.run import faces_of
from refold.engine.recording.workers import on_thread
from refold.engine.state.folding import Fold
from refold.replay.difference.excuses import KIND_ASKED, Excuses
from refold.replay.difference.pointer_diff import same
from refold.replay.index.asked_items import Item
from refold.replay.index.by_call import OUTSIDE, AskedCall, Book, asked_of
from refold.replay.index.run_end import end_of_verdict
from refold.replay.reexecute.network import program_watch
from refold.replay.reexecute.reexecute import reexecute
from refold.replay.reexecute.world import (
    LoggedModel,
    identity_of,
    known_tools,
    program_of,
    waiting_place,
)
from refold.replay.what_if.alter import stand_in
from refold.replay.what_if.outstanding import Choice, Outstanding

# --- the recorded request that answers one -----------------------------------------------------


Looks = dict[tuple[str, int], ClockRead]
"""The n-th clock reading of a scope."""


class BookMatcher:
    """Finds for each request the one of a book that answers it; each answers once.

    In a different order, a worker may take another worker's task and request it under its own key.
    So an outcome goes to the same request: under the same key, else nearest in the same scope, else
    anywhere. Runs that write a log match only in the same scope (`replay.partial.sources`).
    """

    def __init__(self, book: Book, *, by_place: bool, looks: Looks) -> None:
        """Take the book; `looks` is empty at first, and filled by the recorded order."""
        self._by_place = by_place
        self._recorded = book.requests
        self._excuses = Excuses(str(book.log), book.rules)
        self._requests = dict(book.requests)
        self._alike: dict[str, dict[str, None]] = {}
        """By identity: the keys that nobody has taken, as an ordered set."""
        for asked in book.requests.values():
            self._alike.setdefault(asked.identity, {})[asked.call] = None
        self._values = dict(book.values)
        self._recorded_looks = book.looks or [ClockRead(0, 0)]
        self._looks, self._is_learning = looks, not looks
        self._looked: Counter[str] = Counter()

    def recognised(self, asked: AskedCall) -> AskedCall:
        """Return a request as equal to the recorded one of its key, if rules ignore differences.

        These are values that the log's rules declare volatile, and redacted ones (§12.7).
        """
        own = self._recorded.get(asked.call)
        if own is None or not self._excuses.is_any or own.identity == asked.identity:
            return asked
        pair = (own.data, asked.data)
        is_same = self._excuses.excused(KIND_ASKED[own.item.kind], asked.call, 0, pair)
        return attrs.evolve(asked, identity=own.identity) if is_same else asked

    def take(self, asked: AskedCall) -> str | None:
        """Return the key of the recorded request that answers this one; `None` for none."""
        match = self._match(asked)
        if match is None:
            return None
        del self._requests[match.call]
        del self._alike[match.identity][match.call]
        return match.call

    def _match(self, asked: AskedCall) -> AskedCall | None:
        own = self._requests.get(asked.call)
        if own is not None and own.identity == asked.identity:
            return own
        alike = [self._requests[call] for call in self._alike.get(asked.identity, ())]
        if alike or not self._by_place:
            return _nearest(asked, alike)
        near = (one for one in self._requests.values() if one.item.scope == asked.item.scope)
        return _nearest(asked, [one for one in near if one.name == asked.name])

    def draw(self, source: str, name: str, call: str) -> tuple[str, ValueDrawn] | None:
        """Return the recorded draw of that name, and its key: the same key, its scope, or any."""
        alike = [
            key
            for key, drawn in self._values.items()
            if (drawn.source, drawn.name) == (source, name)
        ]
        if not alike:
            return None
        scope = scope_of(call)
        near = (key for key in alike if scope_of(key) == scope)
        key = call if call in alike else next(near, alike[0])
        return key, self._values.pop(key)

    def read_clock(self, scope: str) -> ClockRead:
        """Return the time that this scope had at this look.

        A scope that never looked by itself (it saw the clock through another's look) gets the
        last recorded time.
        """
        place = (scope, self._looked[scope])
        if self._is_learning:
            at = min(self._looked.total(), len(self._recorded_looks) - 1)
            self._looks[place] = self._recorded_looks[at]
        self._looked[scope] += 1
        return self._looks.get(place, self._recorded_looks[-1])


def _nearest(asked: AskedCall, alike: Sequence[AskedCall]) -> AskedCall | None:
    """Return the one that was asked nearest: in the same scope by its ordinal, else the first."""
    own = [one for one in alike if one.item.scope == asked.item.scope]
    if own:
        at = number_of(asked.call)
        return min(own, key=lambda one: abs(number_of(one.call) - at))
    return alike[0] if alike else None


# --- the rehearsal -----------------------------------------------------------------------------


How = Literal["ended", "missing", "endless", "hung"]
"""`missing`: it waits for an outcome that was never recorded.

`endless`: it makes requests without end.
`hung`: one step exceeded the wall-clock limit.
"""

_STEPS_MIN: Final = 2_000
_STEPS_PER_ENTRY: Final = 4
"""A rehearsal may take so many steps, and so many more for each entry of its record."""


@attrs.frozen(kw_only=True)
class RehearsalPlan:
    """What one rehearsal does otherwise than the record."""

    order: tuple[str, ...] = ()
    """Keys of completions, first to last: the earliest outstanding one is delivered, and unlisted
    ones come last, in recorded order. Empty for the recorded order."""
    free_timers: bool = False
    """Whether timers race with outcomes recorded before them."""
    answers: Mapping[str, events.Event] = attrs.field(factory=dict)
    """Events that take the place of recorded outcomes, by call key."""
    values: Mapping[str, Json] = attrs.field(factory=dict)
    """The same for values that were drawn."""
    seeds: frozenset[str] = frozenset()
    """Call keys of uuids and random streams that are drawn from another seed."""
    by_place: bool = False
    """Whether a request with changed arguments gets the outcome recorded at its place."""
    before: Callable[[Kernel, str], None] | None = None
    """Called with each key before it is delivered."""


@attrs.frozen(kw_only=True)
class Rehearsed:
    """What came of a rehearsal."""

    how: How
    end: dict[str, Json] = attrs.field(factory=dict)
    """{status, reason, output, error, summary, artifacts}, no nulls; empty unless `ended`."""
    place: tuple[str, int] | None = None
    """The file and line of the program that raised, or that waits for the `missing` outcome."""
    missing: Item | None = None
    """The request that was never recorded."""
    is_given_up: bool = False
    """Whether the record has the `missing` request but cancelled it: in this order its made-up
    outcome comes first, and the run does not end as recorded."""
    delivered: tuple[str, ...] = ()
    """The delivered keys, in order."""
    choices: tuple[tuple[str, ...], ...] = ()
    """For each step, the keys that could have been delivered; the delivered one is first."""
    asked: tuple[AskedCall, ...] = ()
    """In the order of asking."""
    children: tuple[RunChild, ...] = ()
    tools: Mapping[str, Tool] = attrs.field(factory=dict)
    """Leaf tools that were called, by call key."""
    timers: int = 0
    """How many were armed."""

    def is_end(self, end: Mapping[str, Json]) -> bool:
        """Return whether the run ended so."""
        return self.how == "ended" and same(self.end, dict(end))


class Rehearsal(World):
    """The world of one rehearsal."""

    def __init__(
        self,
        book: Book,
        plan: RehearsalPlan,
        *,
        tools: Mapping[str, Tool],
        session: SessionPort | None = None,
        looks: Looks,
    ) -> None:
        """Take the record and the changes; for `looks` see `BookMatcher`."""
        started = book.started
        self.fold = Fold()
        self.fold.apply(started, None, 0)
        self._book, self._plan = book, plan
        self._matcher = BookMatcher(book, by_place=plan.by_place, looks=looks)
        self._outstanding = Outstanding(book, plan.order, free_timers=plan.free_timers)
        self._steps_left = _STEPS_MIN + _STEPS_PER_ENTRY * book.entries
        self._over: How | None = None
        self._missing: Item | None = None
        self._made_up: Item | None = None
        """The first request whose outcome was made up."""
        self._place: tuple[str, int] | None = None
        self._asked: dict[str, AskedCall] = {}
        self._unknown: dict[str, None] = {}
        """Call keys of requests that were never recorded, as an ordered set."""
        self._given: list[tuple[str, ...]] = []
        """Of each step the choices there were, first the one that was delivered."""
        self._children: list[RunChild] = []
        self._tools: dict[str, Tool] = {}
        self._kernel = _Kernel(
            self,
            identity=identity_of(started),
            limits=Limits.from_json(started.limits),
            tools=tools,
            models={name: LoggedModel(full) for name, full in started.models.items()},
            session=session,
            flags=Flags.of_log(started.versions),
        )
        self._kernel.reseeded = frozenset(_purposes(book, plan.seeds))

    def run(self, program: Program) -> Rehearsed:
        """Run the program to its end, or to where nothing more can be given to it."""
        kernel = self._kernel
        argument = loads(encode(self._book.started.input))  # a copy: a program may change its own
        try:
            with program_watch(self._refuse):
                verdict = kernel.execute(program, faces_of(kernel), argument)
        finally:
            self._close()
        has_ended = self._over is None
        end = self._book.stable(end_of_verdict(verdict)) if has_ended else {}
        if self._made_up is not None and not (has_ended and same(end, self._book.end)):
            self._over, self._missing, has_ended, end = "missing", self._made_up, False, {}
        return Rehearsed(
            how=self._over or "ended",
            end=end,
            place=verdict.place if has_ended else self._place,
            missing=self._missing,
            is_given_up=self._missing is not None and self._missing is self._made_up,
            delivered=tuple(keys[0] for keys in self._given),
            choices=tuple(self._given),
            asked=tuple(self._asked.values()),
            children=tuple(self._children),
            tools=self._tools,
            timers=self._outstanding.timers,
        )

    def _refuse(self, error: OutsideLoop) -> None:
        """Let the run end as one that left the kernel (CONTRACT.md §12.13)."""
        loop = self._kernel.loop
        loop.refusal = loop.refusal or error

    def _close(self) -> None:
        """Close waiting coroutines here, and not in a finaliser, whose errors would be reported."""
        for task in list(self._kernel.loop.unfinished):
            coroutine = task.get_coro()
            if coroutine is not None:
                with contextlib.suppress(Exception):  # its clean-up asks for something, or waits
                    coroutine.close()

    # -- the kernel's side ----------------------------------------------------------------

    def emit(self, event: events.Event, call: str | None) -> None:
        """Note the program's request, and look up its answer."""
        is_asked = isinstance(event, REQUESTS)
        self._step(lets_go=is_asked or isinstance(event, events.ValueDrawn))
        self.fold.apply(event, call)
        if isinstance(event, events.EffectCancelled) and call is not None:
            self._outstanding.cancelled.add(call)
        if isinstance(event, REQUESTS):
            asked = self._matcher.recognised(asked_of(event, call or ""))
            self._asked[asked.call] = asked
            if not (isinstance(event, events.ToolCalled) and event.delegates):
                self._serve(asked)

    def read_clock(self) -> events.ClockRead:
        """Return the time that the same scope had at the same look."""
        self._step(lets_go=True)
        loop = self._kernel.loop
        read = self._matcher.read_clock(loop.scope().path if loop.is_stepping() else loop.root.path)
        self.fold.apply(read, None)
        return read

    def arm(self, timer: Timer) -> None:
        """Take note of a new timer."""
        self._outstanding.arm(timer)

    def draw(self, source: str, name: str, call: str, produce: Callable[[], Json]) -> Json:  # noqa: ARG002 - nothing is drawn anew
        """Return the value that was recorded for this draw, or for the same one elsewhere."""
        found = self._matcher.draw(source, name, call)
        if found is None:
            self._end_as("missing", Item("value", source, {"name": name}, call))
            raise RecordEnded
        key, drawn = found
        value = self._plan.values.get(key, drawn.value)
        self.emit(attrs.evolve(drawn, value=value), call)
        return value

    def patched(self, marker: str) -> bool:
        """Return whether the record has the marker."""
        is_there = marker in self._book.markers
        if is_there:
            self.emit(events.PatchMarked(marker), None)
        return is_there

    def seed(self, session: SessionPort) -> None:
        """Start the session as it was recorded."""
        if self._book.snapshot is not None:
            session.restore(self._book.snapshot)
        self.emit(events.SessionSeeded(session.snapshot().as_json()), None)

    def straight(
        self, tool: Tool, arguments: dict[str, Json], call: str, /
    ) -> events.ToolReturned | StraightEnd:
        """Take the request, and the result of a tool that runs alone, as replay does."""
        self.emit(events.ToolCalled(tool.name, arguments, tool.effect), call)
        self._tools[call] = tool
        choice = self._outstanding.alone(call)
        returned = choice.event if choice is not None and self._over is None else None
        if choice is None or not isinstance(returned, events.ToolReturned):
            return StraightEnd.REQUEST
        self._take(choice, [choice])
        return returned

    def advance(self) -> bool:
        """Deliver the first outstanding outcome in the order."""
        kernel = self._kernel
        self._note_wanted()
        if self._is_over():
            return False
        choices = self._outstanding.choices(kernel)
        if not choices:
            if kernel.stopped is None and not kernel.has_returned():
                self._end_as("missing", self._first_unanswered())
            return False
        chosen = choices[0]
        if chosen.is_new and not self._plan.free_timers and (asked := self._awaited_unknown()):
            self._end_as("missing", asked.item)  # else a timeout would stand in for its outcome
            return False
        if self._plan.before is not None:
            self._plan.before(kernel, chosen.key)
        if chosen.is_made_up and self._made_up is None:
            self._made_up = self._asked[chosen.call or ""].item
            self._place = waiting_place(kernel)
        self._take(chosen, choices)
        kernel.deliver(chosen.event, chosen.call)
        return True

    # -- inside ---------------------------------------------------------------------------

    def _is_over(self) -> bool:
        self._steps_left -= 1
        if self._steps_left < 0:
            self._end_as("endless", None)
        return self._over is not None

    def _step(self, *, lets_go: bool) -> None:
        """Count a step; let go of a program that asks for something when all is over.

        Raises:
            RecordEnded: it does.
        """
        if self._is_over() and lets_go:
            raise RecordEnded

    def _end_as(self, how: How, missing: Item | None) -> None:
        if self._over is None:
            self._over, self._missing = how, missing
            self._place = waiting_place(self._kernel)

    def _serve(self, asked: AskedCall) -> None:
        """Find the recorded outcome that answers a request, if there is one."""
        key = self._matcher.take(asked)
        if key is None:
            self._unknown[asked.call] = None
        answer = self._book.answers.get(key) if key is not None else None
        if answer is not None:
            event = self._plan.answers.get(answer.key, answer.event)
            self._outstanding.add(asked.call, answer.key, event)
        elif key in self._book.given_up_after and (made_up := self._stand_in(asked, key)):
            self._outstanding.add_made_up(asked.call, key, made_up)

    def _stand_in(self, asked: AskedCall, key: str) -> events.Event | None:
        """Return a substitute for the outcome of a call that the record cancelled.

        There is none if a timer cancelled it, unless timers race, or if an outside event ended the
        run.
        """
        after = self._book.given_up_after[key]
        is_late = "@" in after and not self._plan.free_timers
        if is_late or after in OUTSIDE:
            return None
        return stand_in(asked.item.kind, self._book.example(asked.item.name))

    def _first_unanswered(self) -> Item | None:
        """Return the awaited request that was never recorded or answered."""
        waits = (asked for call, asked in self._asked.items() if self._is_awaited(call))
        asked = self._awaited_unknown() or next(waits, None)
        return asked.item if asked is not None else None

    def _awaited_unknown(self) -> AskedCall | None:
        """Return the first request that is waited for and was never recorded."""
        found = (self._asked[call] for call in self._unknown if self._is_awaited(call))
        return next(found, None)

    def _is_awaited(self, call: str) -> bool:
        kernel = self._kernel
        return call in kernel.open or (call in kernel.children and kernel.wants_child(call))

    def _note_wanted(self) -> None:
        for effect in self._kernel.wanted:
            if isinstance(effect, RunChild):
                self._children.append(effect)
            elif isinstance(effect, CallTool):
                self._tools[effect.call] = effect.tool
        self._kernel.wanted.clear()

    def _take(self, choice: Choice, choices: list[Choice]) -> None:
        self._given.append((choice.key, *(one.key for one in choices if one is not choice)))
        self._outstanding.take(choice)
        self.fold.apply(choice.event, choice.call)


class _Kernel(Kernel):
    """A kernel that can draw uuids and random streams from a different seed."""

    reseeded: frozenset[str] = frozenset()

    def seed(self, purpose: str, place: str) -> str:
        is_other = f"{purpose}\0{place}" in self.reseeded
        return super().seed(f"{purpose}\0altered" if is_other else purpose, place)


def _purposes(book: Book, calls: Iterable[str]) -> Iterator[str]:
    """Yield the purposes of a kernel's draws: a uuid by its call, a stream by its scope."""
    for call in calls:
        drawn = book.values[call]
        is_uuid = drawn.source == "uuid"
        yield f"uuid\0{call}" if is_uuid else f"random\0{drawn.name}\0{scope_of(call)}"


WALL_SECONDS: Final = 10.0
_WALL_PER_ENTRY: Final = 0.002
"""Wall time that one rehearsal may take, and more for each entry of its record."""
_WALL_TIMES: Final = 10
"""… or this many times the recorded run's duration: on a busy machine, everything is slow."""


class Stage:
    """One record, with everything needed to run its program again."""

    def __init__(
        self,
        log: str | os.PathLike[str],
        program: Program | Reference | str | None = None,
        *,
        tools: Sequence[Tool] = (),
        session: SessionPort | None = None,
        wall_seconds: float = WALL_SECONDS,
    ) -> None:
        """Read the record of a root run or of a child, and keep the other arguments.

        Raises:
            LogError: the log is missing or damaged, or has no end.
            ProgramNotFound: no program was given, and Refold does not ship the log's.
            SessionNeeded: the run had a session, and none was passed.
        """
        self.book = book = Book(Path(log))
        self.program = program_of(program, book.started)
        if book.snapshot is not None and session is None:
            raise SessionNeeded(str(book.log), "of its own")
        self.tools = tools
        self._tools = known_tools(book.started, {tool.name: tool for tool in tools})
        self._session = session
        self._looks: Looks = {}
        self._wall_seconds = wall_seconds + _WALL_PER_ENTRY * book.entries

    def rehearse(self, plan: RehearsalPlan) -> Rehearsed:
        """Run the program once; left behind where it takes longer than the wall limit.

        Raises:
            RefoldError: the program cannot be run: a tool has to be passed.
        """
        rehearsal = Rehearsal(
            self.book, plan, tools=self._tools, session=self._session, looks=self._looks
        )
        found = on_thread(lambda: rehearsal.run(self.program), "refold-rehearsal")
        wait([found], self._wall_seconds)  # a program that comes to no end is left behind
        return found.result() if found.done() else Rehearsed(how="hung")

    def baseline(self) -> Rehearsed:
        """Rehearse twice as recorded; all other rehearsals are compared with the result.

        Raises:
            Diverged: the program does not match its log.
            UsageError: the second time differs, or it does not end.
        """
        began = time.monotonic()
        first = self.rehearse(RehearsalPlan())
        if first.how == "hung":
            raise UsageError(
                "even with the recorded results, the program does not end within the time limit"
            )
        took = time.monotonic() - began
        self._wall_seconds = max(self._wall_seconds, _WALL_TIMES * took)
        if not self._is_recorded(first):
            raise self._difference(first)
        self.check_again(first)
        return first

    def check_again(self, first: Rehearsed) -> None:
        """Rehearse as recorded once more, because conclusions from many rehearsals need that.

        Raises:
            UsageError: the run ends differently.
        """
        again = self.rehearse(RehearsalPlan())
        if again.delivered != first.delivered or not again.is_end(first.end):
            raise UsageError(
                "the program ends differently when it is run again in the same process "
                "and in the recorded order: it reads something that Refold does not "
                "record, or keeps state between runs in a global or a cache. The effect "
                "of an order or a result can therefore not be detected"
            )

    def _is_recorded(self, found: Rehearsed) -> bool:
        book = self.book
        asked = {one.call: one.identity for one in found.asked}
        recorded = {one.call: one.identity for one in book.requests.values()}
        if found.how != "ended" or found.delivered != book.delivered or asked != recorded:
            return False
        if found.is_end(book.end):
            return True
        excuses = Excuses(str(book.log), book.rules)
        return excuses.excused("run.finished", None, 0, (book.end, found.end))

    def _difference(self, found: Rehearsed) -> Diverged | UsageError:
        """Return the error for a program that does not match its record."""
        log, program = self.book.log, self.program
        report = reexecute(log, program, tools=self.tools, session=self._session)
        if report.divergences:
            return Diverged(report.divergences[0])
        return UsageError(
            f"{self.book.log}: the program matches its log, but ends differently "
            f"({found.how}) when only its results are replayed, so it cannot be "
            "rehearsed"
        )
