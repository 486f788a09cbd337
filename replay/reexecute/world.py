"""A kernel's world that reads a log: it compares every request, and takes every outcome from it.

Replay is a comparison line by line (CONTRACT.md §12.1): the program's event must equal the next
line, and the world delivers the line's outcome. Only the program is executed. At the first line
that differs the comparison ends, and `replay.explain.run_on` takes over the kernel: it continues
the program, to find the category of the difference.
"""

import asyncio
import contextlib
import platform
import sys
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from itertools import takewhile
from pathlib import Path
from traceback import walk_stack
from types import FrameType
from typing import Any, Final, NoReturn

import attrs

import refold.engine
from refold.engine import errors
from refold.engine.encoding.canonical import Json, encode, loads
from refold.engine.events.codec import kind_of, structure, unstructure
from refold.engine.events.events import (
    FROM_WORLD,
    KIND_BYTES,
    ChildFinished,
    ChildStarted,
    ClockRead,
    EffectClass,
    Event,
    Extension,
    RunStarted,
    SessionSeeded,
    TimerFired,
    ToolCalled,
    ToolReturned,
    ValueDrawn,
)
from refold.engine.events.flags import Flags
from refold.engine.events.limits import Limits
from refold.engine.events.outcome import ChildRef
from refold.engine.kernel.kernel import Kernel
from refold.engine.kernel.world import REQUESTS, RecordEnded, Served, StraightEnd, World
from refold.engine.log import call_data
from refold.engine.log.blobs import DOLLAR, encode_data, is_marked
from refold.engine.log.damage import without_lines
from refold.engine.log.reader import Entry
from refold.engine.loop.loop import Timer
from refold.engine.ports.effects import Effect, GiveUp, RunChild
from refold.engine.ports.ports import (
    Identity,
    Model,
    ModelReply,
    ModelRequest,
    Parentage,
    Program,
    Reference,
    SessionPort,
    Tool,
)
from refold.engine.ports.programs import load_program, names_shipped, program_needed
from refold.engine.secrets.redaction import MARKER
from refold.engine.state.folding import Fold, tool_served
from refold.replay.difference.excuses import Excuses
from refold.replay.difference.pointer_diff import same
from refold.replay.explain.run_on import Explorer, Mismatch
from refold.replay.index.armed_timers import ArmedTimers
from refold.replay.index.cursor import Cursor, Unparsed, mono_us_of
from refold.replay.index.guarantee import refuse_observed, refuse_other_rules
from refold.replay.reexecute.network import OUTERMOST


class Replayed(World):
    """The world of one re-executed run."""

    def __init__(
        self,
        log: Path,
        *,
        tools: Mapping[str, Tool],
        session: SessionPort | None = None,
        seed: Json = None,
        on_end: Callable[[], None] | None = None,
        successor: Callable[[], World] | None = None,
        verified: bool = False,
        volatile: Iterable[str] = (),
    ) -> None:
        """Open the log and take its first line; `on_end` is called when the last one is taken.

        `seed` is the snapshot of the session that the run's parent gives it now, if it is known.
        `successor` is called when the program continues after the last line; the returned world
        takes over. Without one, the program is stopped there.

        Raises:
            LogError: the log is damaged, is not a log, or has different scheduling rules.
        """
        self.fold = Fold()
        self._seed = seed
        self._on_end = on_end
        self._successor = successor
        self.hears_slips = successor is not None
        self.effects: dict[str, Effect] = {}
        """By call: requested effects that a successor must start."""
        self.given_up: set[str] = set()
        """Effects that the program gave up on."""
        self.timers = 0
        """How many the program armed before its record ended, and no length was compared with."""
        self.armed: dict[str, int] = {}
        """By key: the number of entries when the entry that a timer counts from was the last."""
        self.logged: dict[str, ChildRef] = {}
        """The heads of ended children's logs, by call, from their outcomes."""
        self.on_mismatch: Callable[[Mismatch], None] | None = None
        """Called with the first difference before the program continues."""
        self.cursor = Cursor(log, verified=verified)
        self._step = 0
        """The last line that the world delivered: the cause of the program's next event."""
        self._emitted = 0
        """Of the line last taken."""
        self._first = self.cursor.peek()
        started = refuse_other_rules(log, refuse_observed(log, _started(self.cursor)))
        self.started = started
        self.excuses = Excuses(str(log), started.rules, volatile)
        self._is_other_python = started.versions.get("python") != _PYTHON
        self.fold.apply(started, None, 0)
        self.kernel = Kernel(
            self,
            identity=identity_of(started),
            limits=Limits.from_json(started.limits),
            tools=known_tools(started, tools),
            models=LoggedModels(self.cursor, started.models, self._model),
            session=session,
            flags=Flags.of_log(started.versions),
        )
        self.due = ArmedTimers(
            self.kernel.loop.timers,
            in_order=not started.untimed,
        )
        self.explorer: Explorer | None = None
        self.children: list[RunChild] = []
        """Children that the program started, in the order of starts."""
        self.starts: dict[str, int] = {}
        """By a child's call: the entry that started it."""
        self.seeds: dict[str, Json] = {}
        """By a child's call: the snapshot of its session."""
        self.seed_is_redacted = False
        """Whether the session started with markers in place of texts that it had when recorded."""
        self._last: deque[Entry | Unparsed] = deque(maxlen=_LAST_SHOWN)
        self.has_ended = False
        """Whether the record ended before the program did."""
        self._tell_end()

    # -- the kernel's side ----------------------------------------------------------------

    def emit(self, event: Event, call: str | None) -> None:
        """Compare the program's event with the next line, and take it."""
        data = encode_data(unstructure(event))
        if call is not None:  # the rule: the next line is, byte by byte, what is emitted
            line = self.cursor.take_if(KIND_BYTES[event.__class__], call, self._step, data)
            if line is not None:
                self._apply_line(line, line[1], event, call)
                return
        entry = self.cursor.peek()
        if entry is None:
            self._record_ended(event, call)
            return
        if _is_of(entry, event, call, data):
            self._take(event, call)
        elif (other := self._elsewhere(event, call, data)) is not None:
            self.cursor.take_out(other)
            self._apply_line(other, other.seq, event, call)
        elif self._is_excused(entry, event, call):
            self._take(event, call)
        else:
            self._check_program(event, call, entry)
            self._differs(event, call, loads(encode(unstructure(event))), entry)

    def _check_program(self, event: Event, call: str | None, entry: Entry) -> None:
        """Refuse to compare the child of a stand-in tool with a child that has its own program.

        Raises:
            ProgramNeeded: the tool must be passed.
        """
        if not isinstance(event, ChildStarted) or entry.kind != "child.started":
            return
        ran, now = self.cursor.data(entry)["delegation"], event.delegation
        tool = self.kernel.tools.get(now.get("tool", ""))
        if getattr(tool, "stands_in", False) and ran["program"] != now["program"]:
            raise errors.ProgramNeeded(now["tool"], call or "", ran["program"])

    def _is_excused(self, entry: Entry, event: Event, call: str | None) -> bool:
        """Return whether all that differs is volatile, or was taken out of the record (§12.7)."""
        if not self.excuses.is_any or entry.kind != kind_of(event) or entry.call != call:
            return False
        pair = (self.cursor.data(entry), loads(encode(unstructure(event))))
        return self.excuses.excused(entry.kind, call, entry.seq, pair)

    def _elsewhere(self, event: Event, call: str | None, data: bytes) -> Entry | None:
        """Return the same line later in this step, if a different Python version made the record.

        Versions of asyncio differ in the order of tasks within a step, which is not observable.
        """
        if not self._is_other_python:
            return None
        return next((one for one in self.cursor.step() if _is_of(one, event, call, data)), None)

    def read_clock(self) -> ClockRead:
        """Return the time that the record has at this place."""
        entry = self.cursor.peek()
        if entry is None:
            return self._continue_run().read_clock()
        if entry.kind != "clock.read":
            self._differs(ClockRead(0, 0), None, None, entry)
            return ClockRead(0, 0)
        event = self.cursor.event(entry)
        self._take(event, None)
        self.due.saw(self._step, event.virtual_us)  # type: ignore[union-attr]  # the same
        return event  # type: ignore[return-value]  # its kind says so

    def draw(self, source: str, name: str, call: str, produce: Callable[[], Json]) -> Json:
        """Return the value that the record has at this place."""
        entry = self.cursor.peek()
        if entry is None:
            return self._continue_run().draw(source, name, call, produce)
        data = self.cursor.data(entry)
        value = data.get("value")
        self.emit(ValueDrawn(source, name, value), call)  # type: ignore[arg-type]  # a closed set
        return value

    def patched(self, marker: str) -> bool:
        """Return whether the record has the marker up to here; it takes no line of its own."""
        if self.cursor.peek() is None and self._successor is not None:
            return marker in self.cursor.markers or self._continue_run().patched(marker)
        return marker in self.cursor.markers

    def declare(self, measured: Extension) -> None:
        """Compare nothing; after the record's end, pass missing declarations to the successor."""
        is_behind = self._successor is not None and self.cursor.peek() is None
        if is_behind and measured.data["call"] not in self.cursor.declared:
            self._continue_run().declare(measured)

    def secret_named(self, name: str) -> None:  # noqa: ARG002 - the record has no value
        """Expect markers in the record: a tool may have output the value before it was known."""
        self.excuses.expect_markers()

    def seed(self, session: SessionPort) -> None:
        """Start the session as the parent gives it now, or as it was recorded."""
        entry = self.cursor.peek()
        if entry is None and self._successor is not None:
            return self._continue_run().seed(session)
        if self._seed is not None:
            session.restore(self._seed)
        elif entry is not None and entry.kind == "session.seeded":
            session.restore(self.cursor.data(entry)["snapshot"])
        snapshot = session.snapshot().as_json()
        self.seed_is_redacted = MARKER.search(encode(snapshot).decode()) is not None
        return self.emit(SessionSeeded(snapshot), None)

    def arm(self, timer: Timer) -> None:
        """Remember when it was armed, for a successor; the record decides when it fires."""
        self.timers += 1
        last = self._last[-1] if self._last else self._first
        self.due.arm(timer, self._step, mono_us_of(last))
        if self._successor is not None:
            self.armed[timer.key] = self._step + 1

    def straight(
        self, tool: Tool, arguments: dict[str, Json], call: str, /
    ) -> Served | ToolReturned | StraightEnd:
        """Take the request and its result where they are the next two lines, byte by byte."""
        if self._on_end is not None:
            return StraightEnd.NOTHING
        data = call_data.called(tool.name, tool.effect, arguments)
        if data is None:
            return StraightEnd.NOTHING
        line = self.cursor.take_if(_CALLED, call, self._step, data)
        if line is None:
            return StraightEnd.NOTHING
        self._last.append(line)
        self._emitted = seq = line[1]
        returned = self._next_result(call)
        if returned.__class__ is tuple:
            self._last.append(self.cursor.take_line())
            self._step = self._emitted = seq + 1
            tool_served(self.fold, tool.name)
            return returned
        self.fold.apply(ToolCalled(tool.name, arguments, tool.effect), call, seq)
        if not isinstance(returned, ToolReturned):
            return StraightEnd.REQUEST
        line = self.cursor.take_line()
        self._apply_line(line, line[1], returned, call)
        self._step = self._emitted
        return returned

    def _next_result(self, call: str) -> Served | ToolReturned | None:
        """Return the next line's data if it is the result of the call just emitted.

        Only its result is parsed. `None` if it is not, or in any unusual case, such as members
        after the result: then the line is handled like any other.
        """
        data = self.cursor.data_if(b"tool.returned", call, self._emitted)
        if data is None or (DOLLAR in data and is_marked(data)):
            return None
        try:
            if data.startswith(_RESULT) and data.endswith(b"}"):
                return (loads(data[_AFTER]),)
            return structure("tool.returned", loads(data))  # type: ignore[return-value]  # of this kind
        except (ValueError, errors.EventMalformed):
            return None

    @property
    def last(self) -> tuple[Entry, ...]:
        """The lines last taken."""
        parsed = self.cursor.parsed
        return tuple(one if isinstance(one, Entry) else parsed(one) for one in self._last)

    def check_session(self) -> None:
        """Raise if the run had a session and none was given.

        Raises:
            SessionNeeded: names the missing session.
        """
        if self.kernel.session is None and self.cursor.next_kind() == "session.seeded":
            raise errors.SessionNeeded(self.cursor.path, "of its own")

    def advance(self) -> bool:
        """Deliver the next line; it has to be one that the program waits for."""
        self._note_children()
        entry = self.cursor.peek()
        if entry is None:
            self.has_ended = True
            return self._continue_run().advance() if self._successor is not None else False
        event = self.cursor.event(entry)
        if self.cursor.has_resumed:
            self.due.in_order = False
        elif entry.kind in FROM_WORLD:
            self.due.pass_by(mono_us_of(entry))
        if isinstance(event, TimerFired):
            return self._fire(event, entry)
        if self.kernel.can_deliver(event, entry.call):  # type: ignore[arg-type]  # extensions were passed over
            self._take(event, entry.call)
            self._step = self._emitted
            self.kernel.deliver(event, entry.call)  # type: ignore[arg-type]  # the same
            return True
        is_over = self.kernel.stopped is not None or self.kernel.is_ending()
        if is_over and entry.kind not in FROM_WORLD:
            return self.kernel.leave()  # given up after its grace: what it asked for is cancelled
        self._differs(None, None, None, entry)
        return True

    def _fire(self, event: TimerFired, entry: Entry) -> bool:
        """Fire a line's timer, unless it does not exist or a different one is due before."""
        timer = self.due.of(entry.call or "", event)
        early = timer and self.due.before(timer, event.virtual_us)
        if timer is None or early is not None:
            self._differs(None, None, None, entry, early.key if early else "")
            return True
        self._take(event, entry.call)
        self.timers -= event.length_us is not None
        self._step = self._emitted
        self.due.saw(self._step, event.virtual_us)
        self.kernel.deliver(event, timer.key)
        return True

    # -- inside ---------------------------------------------------------------------------

    def _take(self, event: Any, call: str | None) -> None:
        entry = self.cursor.take()
        self._apply_line(entry, entry.seq, event, call)

    def _apply_line(self, line: Entry | Unparsed, seq: int, event: Any, call: str | None) -> None:
        self._last.append(line)
        self._emitted = seq
        if isinstance(event, ChildFinished) and event.outcome.child and event.outcome.child.events:
            self.logged[call or ""] = event.outcome.child
        self.fold.apply(event, call, seq)
        if self._on_end is not None:
            self._tell_end()

    def _tell_end(self) -> None:
        if self._on_end is not None and self.cursor.peek() is None:
            self._on_end()

    def _note_children(self) -> None:
        """Keep the children that the program starts: each is re-executed against its own log."""
        for effect in self.kernel.wanted:
            if isinstance(effect, RunChild):
                session = effect.delegation.session
                if session is not None and not effect.delegation.shared:
                    with contextlib.suppress(errors.RefoldError):
                        self.seeds[effect.call] = session.snapshot().as_json()
                self.children.append(effect)
                _, _, self.starts[effect.call] = self.fold.open.get(effect.call, ("", "", 0))
            if self._successor is not None:
                self.keep(effect)
        self.kernel.wanted.clear()

    def keep(self, effect: Effect) -> None:
        """Keep an effect for a successor."""
        if isinstance(effect, GiveUp):
            self.given_up.add(effect.call)
        else:
            self.effects[effect.call] = effect

    def _record_ended(self, event: Event, call: str | None) -> None:
        if self._successor is not None:
            return self._continue_run().emit(event, call)
        self.has_ended = True
        if isinstance(event, REQUESTS):
            raise RecordEnded
        return None

    def _model(self, name: str) -> Model | None:
        """Return a model of the successor if the record has ended; otherwise `None`."""
        is_here = self._successor is not None and self.kernel.world is self
        if not is_here or self.cursor.peek() is not None:
            return None
        self._continue_run()
        return self.kernel.models.get(name)

    def _continue_run(self) -> World:
        """Return the world that continues after the last line.

        Raises:
            RecordEnded: no successor was given.
        """
        self.has_ended = True
        if self._successor is None:
            raise RecordEnded
        self._note_children()
        return self._successor()

    def _differs(
        self, event: Event | None, call: str | None, now: Json, entry: Entry, early: str = ""
    ) -> None:
        """Keep the first difference, and let the program run on to name it."""
        at_end = event is None and now is not None
        mismatch = Mismatch(
            event_kind=kind_of(event) if event is not None else "",
            call=call,
            now=now,
            recorded=entry,
            recorded_data=self.cursor.data(entry),
            last=self.last,
            place=None if at_end else asking_place(self.kernel),
            has_ended=at_end or self.kernel.has_returned(),
            early=early,
        )
        self.explorer = Explorer(mismatch, self.cursor, self.kernel, self.excuses)
        self.kernel.world = self.explorer
        if self.on_mismatch is not None:
            self.on_mismatch(mismatch)
        if isinstance(event, ClockRead):
            self.explorer.read_clock()
        elif event is not None:
            self.explorer.emit(event, call)

    def finish(self, data: Json) -> Entry | None:
        """Return the last line if the record has it next; else the rest is a difference."""
        entry = self.cursor.peek()
        if entry is None:
            return None
        if entry.kind != "run.finished":
            self._differs(None, None, data, entry)
            return None
        return self.cursor.take()


_LAST_SHOWN: Final = 5
_PYTHON: Final = ".".join(platform.python_version_tuple()[:2])
_CALLED: Final = b"tool.called"
_RESULT: Final = call_data.RESULT
_AFTER: Final = slice(len(_RESULT), -1)
"""The result in data that begins so."""


def _is_of(entry: Entry, event: Event, call: str | None, data: bytes) -> bool:
    """Return whether a recorded line is the one that was emitted, in any order of members."""
    if entry.kind != kind_of(event) or entry.call != call:
        return False
    return entry.data_bytes == data or same(entry.data, loads(data))


def first_event(log: Path) -> RunStarted:
    """Return the first event of a log.

    Raises:
        LogError: the log is damaged, or no log.
        LogObserved: it is a watched command's.
    """
    return refuse_observed(log, _started(Cursor(log)))


def _started(cursor: Cursor) -> RunStarted:
    if cursor.peek() is None:
        raise without_lines(cursor.path)
    started = cursor.event(cursor.take())
    if not isinstance(started, RunStarted):
        raise TypeError("the reader accepted a log that does not start with run.started")
    return started


@attrs.frozen
class LoggedTool:
    """A tool that the log names and that nobody passed: enough to ask for it, not to run it."""

    name: str
    effect: EffectClass
    parameters: dict[str, Any]
    typed: bool
    delegates: bool = False
    description: str = ""
    is_async: bool = False
    timeout_seconds: float | None = None
    reference: Reference | None = None
    approval: bool = False

    def call(self, _arguments: Any, context: Any, /) -> NoReturn:
        """Refuse: replay executes no tool."""
        raise errors.ToolNeeded(self.name, context.call)

    async def delegate(self, run: Any, arguments: Any, /) -> Json:  # noqa: ARG002 - the port's
        """Refuse: a delegation tool is program code, and has to be passed."""
        raise errors.DelegationNeeded(self.name, self.name)

    def dump(self, result: Any, /) -> Json:
        """Return it as it is."""
        return result

    def load(self, result: Json, /) -> Any:  # noqa: ARG002 - the port's
        """Refuse: the types of the result are not in the log."""
        raise errors.ToolNeeded(self.name, self.name)


@attrs.frozen
class LoggedModel:
    """A model that the log names: it is never asked."""

    name: str
    reference: Reference | None = None
    is_script: bool = False

    def complete(self, request: ModelRequest, /) -> ModelReply:
        """Refuse: replay asks no model."""
        raise errors.UsageError(f"replay asks no model: {self.name}, {len(request.messages)}")


class LoggedModels(dict[str, Model]):
    """The models of a log by name; a later attempt may have had others under the same names."""

    def __init__(
        self,
        cursor: Cursor,
        models: Mapping[str, str],
        after: Callable[[str], Model | None],
    ) -> None:
        super().__init__({name: LoggedModel(full) for name, full in models.items()})
        self._cursor = cursor
        self._after = after

    def get(self, name: str, default: Any = None) -> Any:
        """Return the model of the attempt that the next line belongs to."""
        found = self._after(name)
        if found is not None:
            return found
        for each, full in self._cursor.models_now().items():
            self[each] = LoggedModel(full)
        return super().get(name, default)


def identity_of(started: RunStarted) -> Identity:
    """Return who the recorded run was."""
    return Identity(
        run_id=started.run_id,
        root_id=started.root_id,
        path=started.path,
        depth=started.depth,
        seed=started.seed,
        parent=Parentage(**started.parent) if started.parent else None,
        agent=started.agent or "",
    )


def known_tools(started: RunStarted, given: Mapping[str, Tool]) -> dict[str, Tool]:
    """Return the tools that the run knew by name, with stand-ins for those not passed."""
    return {
        offer["name"]: given.get(offer["name"])
        or LoggedTool(
            offer["name"],
            offer["effect"],
            offer["schema"],
            bool(offer["typed"]),
            bool(offer.get("delegates")),
            offer.get("description", ""),
            approval=bool(offer.get("approval")),
        )
        for offer in started.tools
    }


def program_of(program: Program | Reference | str | None, started: RunStarted) -> Program:
    """Return the program that was given, or the shipped one whose log begins with `started`.

    Raises:
        ProgramNotFound: it is neither.
    """
    if program is not None:
        return load_program(program)
    if names_shipped(started):
        return load_program(started.program)
    raise program_needed(started.program)


_STDLIB: Final = asyncio.__file__.rpartition("/")[0]
_ENGINE: Final = Path(refold.engine.__path__[0])
_OURS: Final = tuple(str(folder.resolve()) for folder in (_ENGINE, _ENGINE.with_name("replay")))


_BESIDE: Final = ("/site-packages/", "/dist-packages/", "/refold/adapters/")
"""Files of frameworks: they are named only where no file of the program's own can be."""


def asking_place(kernel: Kernel) -> tuple[str, int] | None:
    """Return where the program asks; where a framework does, in a task of its, who waits for it."""
    places = program_place(), waiting_place(kernel)
    own = (place for place in places if place is not None and not _is_beside(place[0]))
    return next(own, places[0] or places[1])


def program_place() -> tuple[str, int] | None:
    """Return the file and line of the program's innermost frame; `None` where it does not run."""
    stack = walk_stack(sys._getframe(1))  # noqa: SLF001 - the call site is what is asked for
    return _innermost(
        frame for frame, _ in takewhile(lambda each: each[0].f_code not in OUTERMOST, stack)
    )


def _innermost(frames: Iterable[FrameType]) -> tuple[str, int] | None:
    """Return the file and line of the first frame of the program's own, else of a framework's."""
    beside = None
    for frame in frames:
        name = frame.f_code.co_filename
        if not name.startswith(_STDLIB) and not _is_ours(name):
            if not _is_beside(name):
                return name, frame.f_lineno
            beside = beside or (name, frame.f_lineno)
    return beside


def _is_beside(name: str) -> bool:
    return any(folder in name for folder in _BESIDE)


def _is_ours(name: str) -> bool:
    return name.startswith(_OURS) or str(Path(name).resolve()).startswith(_OURS)


def waiting_place(kernel: Kernel) -> tuple[str, int] | None:
    """Return the file and line where the program's first unfinished task waits."""
    places = (task_place(task) for task in kernel.loop.unfinished)
    return next((place for place in places if place is not None), None)


def task_place(task: asyncio.Task[Any]) -> tuple[str, int] | None:
    """Return the file and line of the program where a task waits: its innermost frame."""
    waiting: Any = task.get_coro()
    frames = []
    while (frame := getattr(waiting, "cr_frame", None)) is not None:
        frames.append(frame)
        waiting = getattr(waiting, "cr_await", None)
    return _innermost(reversed(frames))
