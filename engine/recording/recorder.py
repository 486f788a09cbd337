"""Records one run: a kernel, a log, a driver and the clocks between them (CONTRACT.md §9.2).

The recorder is the live `World` of a kernel. It appends the program's events, starts the wanted
effects, and waits; then it takes exactly one thing from the world, a due timer before an arrival,
appends it, and continues the kernel.
"""

import contextlib
import queue
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Literal

import attrs

from refold.engine import errors
from refold.engine.encoding.canonical import Json, loads
from refold.engine.encoding.plain import to_json
from refold.engine.events.events import (
    ChildFinished,
    ClockRead,
    EffectCancelled,
    EffectLate,
    Event,
    Extension,
    InputGiven,
    LimitHit,
    ModelAnswered,
    PatchMarked,
    RunFinished,
    RunStarted,
    SessionChanged,
    SessionSeeded,
    TimerFired,
    TokensGranted,
    ToolCalled,
    ToolReturned,
    ValueDrawn,
)
from refold.engine.events.limits import CEILINGS
from refold.engine.events.outcome import Outcome, failed
from refold.engine.kernel.kernel import Kernel
from refold.engine.kernel.unawaited import Slip, place_of
from refold.engine.kernel.verdict import Verdict
from refold.engine.kernel.world import Served, StraightEnd, World
from refold.engine.log import call_data
from refold.engine.log.line import plain
from refold.engine.log.names import child_path, tree
from refold.engine.log.reader import last_line
from refold.engine.log.writer import LogWriter
from refold.engine.loop.loop import Timer, microseconds
from refold.engine.ports.effects import AskModel, AskPerson, CallTool, Effect, GiveUp, RunChild
from refold.engine.ports.ports import (
    CallContext,
    ChildRequest,
    MoreTokens,
    Question,
    SessionPort,
    Stopped,
    Suspended,
    Tool,
)
from refold.engine.program.run import faces_of
from refold.engine.recording import blocked, interrupts
from refold.engine.recording.bookends import script_marks, started_of
from refold.engine.recording.driver import (
    Arrival,
    Arrivals,
    CancelRun,
    Driver,
    Flight,
    SharedChange,
    TokensAsked,
    model_failure,
    overdue,
    tool_failure,
)
from refold.engine.recording.host import Host
from refold.engine.recording.ledger import Handed, Ledger
from refold.engine.recording.run_request import RecordedRun, RunRequest, child_request
from refold.engine.recording.timers import Timers
from refold.engine.recording.workers import Mailbox
from refold.engine.secrets.redaction import without_hidden
from refold.engine.state.folding import Fold
from refold.engine.state.run_state import LimitCount

ENDS_SECONDS: Final = 60.0
"""The time that the tasks of a program have to end once it has returned."""
GRACE_SECONDS: Final = 2.0
"""The time for a stopped program, and for a tool that changes the world, to finish."""

_ONE_LIST: Final = (
    "one list of replies was asked by {} runs, and each began with its first: script by agent, "
    'ScriptedModel({{"lead": […], "worker": […]}}), and name the agent, Delegation(agent="worker")'
)
_IN_PLACE_SAFE: Final = sys.version_info < (3, 14)
# From 3.14 a thread knows one current task: a tool that calls asyncio.run inside a step would fail.


class Recorder(World):
    """The living world of one kernel."""

    _ledger: Ledger
    """From the first line on, or from where a record is taken over."""

    def __init__(self, request: RunRequest, host: Host, *, kernel: Kernel | None = None) -> None:
        """Make the log and write its first line.

        With the `kernel` of a re-execution, nothing is made: `take_over` comes later.
        """
        self._vault = request.vault
        self.request = request
        self.fold = Fold()
        self._arrivals: Arrivals = Mailbox()
        self._host = host
        is_root = request.identity.parent is None  # a child is cancelled, or ends in time
        self._driver = Driver(self._arrivals, host=host, may_wait=is_root)
        self._kernel = kernel or Kernel(
            self,
            identity=request.identity,
            limits=request.limits,
            tools=request.tools,
            models=request.models,
            session=request.session,
        )
        self._kernel.seals_interrupts = True
        self._kernel.more_tokens = self._more_tokens
        self._asked: dict[str, AskPerson] = {}
        self._unanswered: dict[str, str] = {}
        self._outcomes: dict[str, Outcome] = {}
        self._ended_us: dict[str, int] = {}
        self._changes_made: dict[tuple[str, str], int] = {}
        self._paused: dict[str, Suspended] = {}
        self._askers: dict[str, TokensAsked] = {}
        self._questions: tuple[Question, ...] = ()
        self._stop_us: int | None = None
        self._until_us: int | None = None  # for the tasks of a program that has returned
        self._launch_us = 0  # when effects are launched at the latest
        self._was_timer = False
        self._interrupted = False
        self.is_settling = False
        """Whether the program has ended while its remaining effects may still finish."""
        self._is_over = False
        self._verdict: Verdict | None = None
        identity = request.identity
        self._facts = CallContext(
            call="",
            run_id=identity.run_id,
            depth=identity.depth,
            origin=f"{identity.root_id}\0{identity.path}",
        )
        self._deadline_us = (
            None if (seconds := request.limits.timeout_seconds) is None else microseconds(seconds)
        )
        # A child's runner ends it from outside; nobody does so for a root.
        self._must_be_timely = self._deadline_us is not None and request.identity.parent is None
        self._has_place = _IN_PLACE_SAFE and not self._must_be_timely
        self._may_be_fenced = request.identity.parent is not None
        if kernel is None:
            self._begin()
        self.request.cancel.on_set(self._cancelled)
        # Time begins with the first line, by which a run that is resumed counts it: begun before,
        # the clock that a program sees would go back by what a busy machine took to get here.
        self._timers = Timers(request.clock)

    def _begin(self) -> None:
        request, started = self.request, self._run_started()
        if request.session is not None:
            request.session.check()  # while there is no log
        meta = {**request.meta, **script_marks(request.models)}
        writer = LogWriter.create(request.log, started, durability=request.durability, meta=meta)
        self._keep(Ledger.begun(writer, started))
        if started.input is not request.input:
            self.request = attrs.evolve(request, input=started.input)

    def take_over(self, handed: Handed) -> None:
        """Go on where the record ends, in the same log, as the world of the same kernel."""
        self._keep(handed.ledger)
        self._changes_made = dict(handed.changes)
        self._timers.go_on(handed.active_us, handed.virtual_us, handed.timers)
        self._ledger.append(handed.resumed, None, None)
        for arrival in handed.arrivals:
            self._arrivals.put(arrival)
        self._kernel.wanted = handed.effects
        self._kernel.world = self
        for name in self._kernel.secrets:
            self.secret_named(name)

    def _keep(self, ledger: Ledger) -> None:
        self._ledger, self.fold = ledger, ledger.fold

    def record(self) -> RecordedRun:
        """Run the program to its end and seal the log.

        Raises:
            LogPoisoned: the log cannot be written; appended entries stay.
            KeyboardInterrupt: a second Ctrl-C, while the first was being handled.
        """
        request = self.request
        try:
            argument = to_json(request.input)  # a copy: the program may change its own
            with interrupts.obeyed(self._interrupt), blocked.watched(self._kernel):
                verdict = self._kernel.execute(request.program, faces_of(self._kernel), argument)
                waits = RunFinished("suspended", "input")  # which is not logged
                finished = waits if self._questions else self._seal(verdict)
        except errors.SecondInterrupt as error:  # Python ends as interrupted by its own class
            raise KeyboardInterrupt().with_traceback(error.__traceback__) from None
        except Exception:
            self._give_up(is_lost=True)
            self._await_children()
            raise
        finally:
            self._give_up()
            self._driver.close()
            self._let_go()
        head, entries = self._stands()
        return RecordedRun(
            finished=finished,
            log=request.log,
            head=head,
            entries=entries,
            fold=self.fold,
            duration_ms=self._timers.virtual_us() // 1000,
            interrupted=self._interrupted or self._kernel.interrupt is not None,
            place=self._verdict.place if self._verdict is not None else None,
            raised=self._verdict.raised if self._verdict is not None else None,
            questions=self._questions,
            slips=self._kernel.slips,
            unheard=(
                *(slip.of(request.log) for slip in self._kernel.unheard),
                *self._asking_one_list(),
            ),
            types=self._kernel.types,
        )

    def _asking_one_list(self) -> Iterator[Slip]:
        """Yield a warning for each script without agents that several runs asked."""
        models = [*self.request.models.values()] if self.request.identity.parent is None else []
        names = Counter(model.name for model in models)
        lists = {model.name for model in models if getattr(model, "is_list", False)}
        if not lists or self.request.supply is not None:
            return
        lines = [last_line(path) for path in tree(self.request.log) if path.exists()]
        ends = [loads(line)["data"] for line in lines if line]
        asked = Counter(name for end in ends for name in end.get("models") or ())
        for count in (asked[name] for name in sorted(lists) if asked[name] > 1 == names[name]):
            yield Slip(_ONE_LIST.format(count), *place_of(self.request.program))

    def _give_up(self, *, is_lost: bool = False) -> None:
        self._is_over = True
        for call in list(self._driver.flights):
            self._driver.give_up(call, is_lost=is_lost)

    def _cancelled(self) -> None:
        """Handle the request of the run above to end, from its thread.

        If that run cannot continue, this one gets no end: sealed as cancelled, it could not be
        resumed with it.
        """
        if self.request.cancel.is_lost:
            self.fence()
        self._arrivals.put(CancelRun())

    def _await_children(self) -> None:
        """Let the children of a run that failed leave: they write, and the run may be resumed."""
        flights, until = self._driver.flights, self._timers.now_us() + _LEAVE_US
        while any(isinstance(flight.effect, ChildRequest) for flight in flights.values()):
            try:
                left = max(0, until - self._timers.now_us())
                arrival = self._arrivals.get(timeout=left / 1_000_000)
            except queue.Empty:
                return
            if isinstance(arrival, Arrival):
                flights.pop(arrival.call, None)

    def _let_go(self) -> None:
        self._ledger.close()

    def _stands(self) -> tuple[str, int]:
        """Return the log's head and entries."""
        return self._ledger.head, self._ledger.entries

    def _interrupt(self) -> None:
        """Ask for the end of the run; a tool that runs in place is left at once.

        Raises:
            KeyboardInterrupt: inside such a tool, whose failure it becomes; or for the second time.
        """
        is_second, self._interrupted = self._interrupted, True
        if is_second:
            raise errors.SecondInterrupt
        self._arrivals.put(CancelRun())
        if self._driver.is_in_place:
            raise KeyboardInterrupt

    def fence(self) -> tuple[str, int]:
        """Refuse everything that this run may still append; return its head and entries.

        Called from another thread, for a run that never yields (CONTRACT.md §7.3).
        """
        return self._ledger.close()

    # -- the kernel's side ----------------------------------------------------------------

    def emit(self, event: Event, call: str | None) -> None:
        """Append a line that follows from the program; its cause is the line before the step."""
        self._ledger.append(self._redacted(event, call), call, self._ledger.step)

    def read_clock(self) -> ClockRead:
        """Append and return the time."""
        read = self._timers.read(self._ledger.step)
        self.emit(read, None)
        return read

    def draw(self, source: str, name: str, call: str, produce: Callable[[], Json]) -> Json:
        """Ask for the value, append it and return it."""
        value = self._vault.scrubbed(to_json(produce()))
        self.emit(ValueDrawn(source, name, value), call)  # type: ignore[arg-type]  # a closed set
        return value

    def patched(self, marker: str) -> bool:
        """Append the marker: a run that is recorded goes the new way."""
        self.emit(PatchMarked(marker), None)
        return True

    def declare(self, measured: Extension) -> None:
        """Append it: names of places, and texts that the engine made."""
        self._ledger.append(measured, None, self._ledger.step)

    def secret_named(self, name: str) -> None:
        """Take the value out of all that comes from now on."""
        self._vault.value(name)

    def seed(self, session: SessionPort) -> None:
        """Append the session that the run starts with."""
        self.emit(SessionSeeded(session.snapshot().as_json()), None)

    def arm(self, timer: Timer) -> None:
        """Set a timer against monotonic time."""
        self._timers.arm(timer, len(self._kernel.loop.timers), self._ledger.step)

    def straight(
        self, tool: Tool, arguments: dict[str, Json], call: str, /
    ) -> Served | ToolReturned | StraightEnd:
        """Do the work of `emit` and `advance` for most calls, without unobserved events.

        Nothing else is live. Unusual cases use the general path: a value that is complicated to
        write, redaction, a tool that may not run in place.
        """
        data = call_data.called(tool.name, tool.effect, arguments)
        if data is None or self._vault.is_active or not self._has_place:
            return StraightEnd.NOTHING
        if tool.timeout_seconds is not None or self._stop_us is not None:
            return StraightEnd.NOTHING
        if tool.is_async and not self._driver.has_place(tool):
            return StraightEnd.NOTHING
        key, name = call.encode(), tool.name
        if len(key) > _KEY_MAX:  # then the line of the result might be too long
            return StraightEnd.NOTHING
        ledger = self._ledger
        append = ledger.append_fenced if self._may_be_fenced else ledger.writer.append_call
        seq = append(b"tool.called", key, ledger.step, data)
        returned = result = None
        if self._arrivals.empty():
            self._before(tool)
            returned = self._called_here(call, tool, arguments)
            if returned is not None and returned.status == "ok":
                result = call_data.returned(returned.result)
        if returned is None or result is None or self._interrupted or self._vault.is_active:
            ledger.called(call, seq, data, ToolCalled(name, arguments, tool.effect))
            if returned is None:
                return StraightEnd.REQUEST
            if self._interrupted:
                self._driver.arrived(CallTool(call, tool, arguments), returned)
                return StraightEnd.REQUEST
            returned = self._take_tool(call, returned)
        else:
            ledger.step = append(b"tool.returned", key, seq, result)
            ledger.served(key, name, data, result)
        self._after(tool)
        return returned

    def _called_here(
        self, call: str, tool: Tool, arguments: dict[str, Json]
    ) -> ToolReturned | None:
        self._kernel.in_tool = tool.name
        try:
            return self._driver.in_place(call, tool, arguments, self._context(tool, call))
        finally:
            self._kernel.in_tool = ""

    def _in_place(self, effect: CallTool) -> ToolReturned | None:
        """Run a tool in this thread; `None`: Ctrl-C ended it, and its result is late."""
        self._before(effect.tool)
        revealed = self._revealed(effect)
        if isinstance(revealed, ToolReturned):
            return revealed
        call, tool = effect.call, effect.tool
        returned = self._called_here(call, tool, revealed.arguments)
        if returned is None or not self._interrupted:
            return returned
        self._driver.arrived(revealed, returned)
        return None

    def advance(self) -> bool:
        """Start the wanted effects, then take one thing from the world."""
        if self._is_given_up():
            return False
        while True:
            alone = self._launch()
            if alone is not None and (returned := self._in_place(alone)) is not None:
                self._kernel.deliver(self._take_tool(alone.call, returned), alone.call)
                self._after(alone.tool)
                return True
            if self._take_turn() or self._give_tokens():
                return True
            is_there = not self._arrivals.empty()
            if not is_there and (self._is_given_up() or self._pauses()):
                return False
            arrival = self._arrival(0 if is_there else self._patience())
            if arrival is not None and self._receive(arrival):
                return True

    def _take_turn(self) -> bool:
        """Take what is due before anything that has arrived."""
        return self._take_due() or self._take_child()

    def _receive(self, arrival: Arrival | CancelRun | SharedChange | TokensAsked) -> bool:
        """Take what has arrived."""
        return self._take_arrival(arrival)

    def _arrival(
        self, seconds: float | None
    ) -> Arrival | CancelRun | SharedChange | TokensAsked | None:
        """Return what arrives next, if anything does in time; `None` seconds set no limit."""
        try:
            return self._arrivals.get(timeout=interrupts.at_a_stretch(seconds))
        except queue.Empty:
            return None
        except KeyboardInterrupt:  # of a handler that is not ours
            if self._interrupted:
                raise
            self._interrupted = True
            return CancelRun()

    # -- launching ------------------------------------------------------------------------

    def _launch(self) -> CallTool | None:
        """Hand wanted effects to the driver; return one that can run in place instead."""
        if not self._kernel.wanted or self._may_wait():
            return None
        wanted = self._wanted()
        if len(wanted) == 1 and self._runs_in_place(wanted[0]):
            return wanted[0]  # type: ignore[return-value]  # `_runs_in_place` says so
        flights = self._driver.flights
        for one in [one for one in wanted if one.call not in flights or isinstance(one, GiveUp)]:
            self._start(one)
        self._driver.launch()
        return None

    def _may_wait(self) -> bool:
        """Return whether wanted effects wait for those of later steps: for a millisecond at most.

        They do while outcomes are there to be delivered: to wake a thread costs more than all else
        of a call, and a thread that was woken takes the next jobs as well.
        """
        now = self._timers.now_us()
        if self._arrivals.empty() or now >= self._launch_us:
            self._launch_us = now + _LAUNCH_US
            return False
        return True

    def _wanted(self) -> list[Effect]:
        """Take the wanted effects, without ones cancelled in the same step; inform a child."""
        wanted, self._kernel.wanted = self._kernel.wanted, []
        given_up = {effect.call for effect in wanted if isinstance(effect, GiveUp)}
        return [
            effect
            for effect in wanted
            if effect.call not in given_up or isinstance(effect, GiveUp | RunChild)
        ]

    def _runs_in_place(self, effect: Effect) -> bool:
        return (
            isinstance(effect, CallTool)
            and self._driver.has_place(effect.tool)
            and effect.tool.timeout_seconds is None
            and not self._driver.flights
            and not self._kernel.loop.timers
            and not self._kernel.children
            and not self._must_be_timely
            and self._stop_us is None  # its grace ends by the clock, which nobody looks at here
            and self._arrivals.empty()
        )

    def _start(self, effect: Effect) -> None:
        match effect:
            case CallTool(call, tool):
                self._before(tool)
                revealed = self._revealed(effect)
                if isinstance(revealed, ToolReturned):
                    self._arrivals.put(Arrival(call, revealed))
                    return
                self._driver.call_tool(revealed, self._context(tool, call))
                self._timers.watch(effect)
            case AskModel():
                self._ledger.barrier()
                self._driver.ask_model(effect)
            case RunChild():
                self._start_child(effect)
            case AskPerson():
                self._ledger.barrier()
                self._ask(effect)
            case GiveUp(call) if call in self._paused:
                self._arrivals.put(Arrival(call, self._given_up(call, self._paused.pop(call))))
            case GiveUp(call):
                self._driver.give_up(call)

    def _ask(self, effect: AskPerson) -> None:
        """Answer at once with a given answer; else ask through the given function."""
        self._asked[effect.call] = effect
        people, question = self.request.people, self._question(effect.call)
        if question.key in people.answers:
            given = InputGiven(people.answers[question.key], people.by)
            self._arrivals.put(Arrival(effect.call, given))
        elif people.ask is not None:
            self._driver.ask_person(effect, question, people.ask)

    def _question(self, call: str) -> Question:
        asked = self._asked[call]
        return Question(
            key=self._kernel.child_path(call),
            question=asked.question,
            schema=asked.schema,
            problem=self._unanswered.get(call, ""),
        )

    def _pauses(self) -> bool:
        """Suspend the run if only people can make it continue (CONTRACT.md §9.9)."""
        kernel = self._kernel
        waits = all(pending.kind == "input" for pending in kernel.open.values())
        waits = waits and set(kernel.children) <= {*self._paused, *self._outcomes}
        if not waits or not (kernel.open or self._paused) or self._stop_us is not None:
            return False
        if self._driver.flights or kernel.loop.timers or not self._arrivals.empty():
            return False
        if kernel.is_closing:
            return False
        questions = [self._question(call) for call in kernel.open]
        for paused in self._paused.values():
            questions += paused.questions
        self._questions = tuple(sorted(questions, key=lambda question: question.place))
        self._ledger.barrier()
        kernel.world = World(self.fold)
        return True

    def _start_child(self, effect: RunChild) -> None:
        self._ledger.barrier()
        wanted = child_request(
            effect,
            self.request,
            path=self._kernel.child_path(effect.call),
            start_hash=self._ledger.hash_of_start(effect.call),
            session=self._session_for(effect),
            host=self._host,
            tokens=self._tokens_for(effect),
        )
        self._run_child(effect, wanted)

    def _run_child(self, effect: RunChild, wanted: ChildRequest) -> None:
        request = self.request
        name = effect.delegation.runner or request.runner
        runner = request.runners.get(name)
        if runner is None:
            known = ", ".join(sorted(request.runners)) or "none"
            code, message = "runner", f"no runner is named {name!r}; known: {known}"
        elif effect.delegation.shared and not getattr(runner, "shares_memory", False):
            message = f"a child on the runner {name!r} cannot share its parent's session"
            code = "session"
        else:
            return self._driver.run_child(effect.call, runner, wanted)
        return self._arrivals.put(Arrival(effect.call, failed("failed", code, message)))

    def _session_for(self, effect: RunChild) -> SessionPort | None:
        """Return the child's own session, or its face of this run's."""
        delegation, session = effect.delegation, self.request.session
        if not delegation.shared or session is None:
            return delegation.session  # type: ignore[no-any-return]  # a `SessionPort`
        from refold.engine.session.shared import share  # noqa: PLC0415 - few runs share one

        return share(session, self._kernel.child_path(effect.call), self._send_change)

    def _send_change(self, event: str, data: Json, by: str) -> None:
        """Have this run make a child's change; called in the child's thread, which waits."""
        if self._changes_made.get((by, event), 0) > 0:  # by a resumed child, before its break
            self._changes_made[by, event] -= 1
            return
        self._answered(SharedChange(event, data, by), lambda: False)

    def _answered(self, asked: SharedChange | TokensAsked, gives_up: Callable[[], bool]) -> int:
        """Return this run's answer to a child's waiting thread; 0 without one."""
        self._arrivals.put(asked)
        while not (self._is_over or gives_up()):
            with contextlib.suppress(TimeoutError):
                return asked.answer.result(_CHANGE_POLL_SECONDS)
        return 0

    # -- tokens: what children ask of this run, and this run of its parent ------------------

    def _tokens_for(self, effect: RunChild) -> MoreTokens | None:
        """Return how a child asks for more tokens; one that has a cap of its own may not."""
        own = effect.delegation.limits
        if effect.limits.model_tokens is None or (own and own.model_tokens is not None):
            return None
        return lambda has, wants, gives_up: self._answered(
            TokensAsked(effect.call, has, wants), gives_up
        )

    def _more_tokens(self, wants: int | None = None) -> int:
        """Ask the run above, until it answers, or this one is cancelled or out of time."""
        tokens, cancel, deadline = self.request.tokens, self.request.cancel, self._deadline_us
        if tokens is None:
            return 0
        return tokens(
            self.fold.limits.model_tokens or 0,
            wants,
            lambda: cancel.is_set() or (deadline is not None and self._timers.now_us() >= deadline),
        )

    def _give_tokens(self) -> bool:
        """Give waiting children the remaining tokens; none if no child can return any.

        A child whose log lacks what this one granted it, since the process ended between the two
        lines, is given that again, without a second line.
        """
        askers, is_over = self._askers, self._stop_us is not None or self._kernel.is_closing
        waiting = [call for call in self._kernel.children if call in askers]
        for call in [*askers]:
            owed = self._reserved(call) - askers[call].has
            if call not in waiting or is_over or owed > 0:
                askers.pop(call).answer.set_result(0 if is_over else max(0, owed))
                return self._give_tokens()
        waiting = self._next_askers(waiting)
        if not waiting:
            return False
        left = self._unspoken_for()
        for call in waiting:
            if 0 < (askers[call].wants or 1) <= left:
                return self._grant_tokens(call, askers[call].wants or left)
        if any(call not in askers for call in self._unfinished()):
            return False  # it may give back some of its own
        call = waiting[0]
        wants = askers[call].wants
        if more := self._more_tokens(wants and wants - max(0, left)):
            self._world(TokensGranted(more, ""), None, self._ledger.step)
            return True
        if left > 0:
            return self._grant_tokens(call, left)
        askers.pop(call).answer.set_result(0)
        return False

    def _next_askers(self, waiting: list[str]) -> list[str]:
        """Return the waiting children that may be given tokens now."""
        return waiting

    def _unfinished(self) -> list[str]:
        """Return the children that still run."""
        done = {*self._outcomes, *self._paused}
        return [call for call in self._kernel.children if call not in done]

    def _grant_tokens(self, call: str, tokens: int) -> bool:
        self._world(TokensGranted(tokens, call), None, self._ledger.step)
        self._askers.pop(call).answer.set_result(tokens)
        return True

    def _reserved(self, call: str) -> int:
        return self.fold.children[self.fold.places[call]].tokens_reserved

    def _unspoken_for(self) -> int:
        """Return the tokens that nobody has used or reserved, nor this run keeps for itself.

        What children did not use whose outcomes nobody has joined yet is free. What they used
        beyond theirs counts when they are joined: the log does not show when they ended.
        """
        fold = self.fold
        spoken_for = fold.tokens_used + fold.tokens_reserved + fold.margin.last.tokens
        for call, outcome in self._outcomes.items():
            used = outcome.usage.tokens
            spoken_for -= max(0, self._reserved(call) - used)
        return (fold.limits.model_tokens or 0) - spoken_for

    # -- taking one thing from the world --------------------------------------------------

    def _take_due(self) -> bool:
        """Take a due timer, a tool's deadline, or the end of the run's own time."""
        now = self._timers.now_us()
        if self._deadline_us is not None and now >= self._deadline_us and self._stop_us is None:
            self._stop_us = now
            allowed = self.request.limits.timeout_seconds or 0
            self._world(LimitHit("timeout_seconds", allowed, "run", now / 1_000_000), None, 0)
            return True
        if self._was_timer:  # one that is always due again would leave nothing else its turn
            self._was_timer = False
            if self._take_child():
                return True
            if self._askers or not self._arrivals.empty():
                return False
        while (due := self._timers.take(now)) is not None:
            if self._take_timer(due):
                self._was_timer = True
                return True
        return False

    def _take_timer(self, due: Timer | CallTool) -> bool:
        """Deliver a due timer or deadline, if something still waits for it."""
        if isinstance(due, CallTool):
            if due.call not in self._kernel.open:
                return False
            returned = overdue(due.tool.timeout_seconds or 0)
            self._kernel.deliver(self._take_tool(due.call, returned), due.call)
            self._driver.give_up(due.call)
            return True
        if due.key not in self._kernel.loop.timers:
            return False
        self._fire(due)
        return True

    def _fire(self, due: Timer, at_us: int | None = None) -> None:
        now = self._timers.now_us()
        virtual_us = self._timers.virtual_us(now) if at_us is None else at_us
        fired = TimerFired(virtual_us, due.length_us, nth=due.nth)
        self._world(fired, due.key, self._ledger.step)
        self._timers.begin(self._ledger.step, now)

    def _take_child(self) -> bool:
        """Take the outcome of a child that has ended and that somebody waits for now."""
        for call, outcome in self._outcomes.items():
            if self._kernel.wants_child(call):
                del self._outcomes[call]
                self._finish_child(call, outcome)
                return True
        return False

    def _finish_child(self, call: str, outcome: Outcome) -> None:
        if outcome.child is not None:
            self._ledger.joined(call, self._kernel.children[call].number, outcome.child)
        cause = self._ledger.cause_of(call)
        ended = self._ended_us.pop(call, None)
        meta = None if ended is None else {"ended_us": ended}
        try:
            self._kernel.children[call].read(self._redacted(ChildFinished(outcome), call).outcome)
            self._world(ChildFinished(outcome), call, cause, meta)
        except (errors.NotCanonical, errors.ValueRefused) as error:
            took, child = outcome.duration_ms, outcome.child
            refused = failed("malformed", "output", str(error), duration_ms=took, child=child)
            self._world(ChildFinished(refused), call, cause, meta)
        if self._kernel.stopped is not None and self._stop_us is None:
            self._stop_us = self._timers.now_us()  # the child lacked something: the run ends
        self._ledger.barrier()

    def _take_arrival(self, arrival: Arrival | CancelRun | SharedChange | TokensAsked) -> bool:
        """Append and deliver an arrival; False where it completes nothing yet."""
        if not isinstance(arrival, Arrival):
            return self._take_message(arrival)
        flight = self._driver.flights.pop(arrival.call, None)
        match arrival.event:
            case Suspended() | Outcome() as said:
                self._keep_reply(arrival.call, said, arrival.ended_us, flight)
                return False
            case errors.Unanswered():
                self._unanswered[arrival.call] = str(arrival.event)
                return False
            case Stopped(code=code, message=message):
                raise errors.ChildStopped(str(self.request.log), code, message)
            case event if arrival.call not in self._kernel.open:
                self._late(arrival.call, event)
                return False
            case ToolReturned():
                self._kernel.deliver(self._take_tool(arrival.call, arrival.event), arrival.call)
                if flight is not None and isinstance(flight.effect, CallTool):
                    self._after(flight.effect.tool)
            case ModelAnswered():
                self._kernel.deliver(self._take_answer(arrival.call, arrival.event), arrival.call)
                self._ledger.barrier()
            case InputGiven():
                self._world(arrival.event, arrival.call, self._ledger.cause_of(arrival.call))
                self._ledger.barrier()
        return True

    def _keep_reply(
        self, call: str, said: Suspended | Outcome, ended_us: int | None, flight: Flight | None
    ) -> None:
        """Keep what a child's runner said until somebody joins the child, or it continues.

        A child that began to wait for a person while it was being cancelled is cancelled.
        """
        if isinstance(said, Suspended) and flight is not None and flight.cancel.is_set():
            said = self._given_up(call, said)
        if isinstance(said, Suspended):
            self._paused[call] = said
            return
        self._outcomes[call] = said
        if ended_us is not None:
            self._ended_us[call] = ended_us

    def _given_up(self, call: str, paused: Suspended) -> Outcome:
        """Return the outcome of a child that was cancelled while it waited for a person."""
        from refold.engine.children.anchor import with_its_work  # noqa: PLC0415 - few runs need it

        message = "cancelled while it waited for a person"
        outcome = failed("cancelled", "cancelled", message, child=paused.child)
        number = self.fold.children[self.fold.places[call]].number
        return with_its_work(outcome, child_path(self.request.log, number)) if number else outcome

    def _take_message(self, message: CancelRun | SharedChange | TokensAsked) -> bool:
        """Append and deliver a message that is not an outcome; False if nothing is appended."""
        match message:
            case TokensAsked():
                self._askers[message.call] = message
                return False
            case SharedChange():
                change = SessionChanged(message.event, message.data, message.by)
                try:
                    self._world(change, None, self._ledger.step)
                except errors.NotCanonical as error:
                    message.answer.set_exception(error)
                    return False
                message.answer.set_result(0)
                return True
            case CancelRun():
                if self._stop_us is not None:
                    return False
                self._stop_us = self._timers.now_us()
                by: Literal["parent"] | None = "parent" if self.request.identity.parent else None
                self._world(EffectCancelled("run", by), None, self._ledger.step)
                return True

    def _take_tool(self, call: str, event: ToolReturned) -> ToolReturned:
        """Append a tool's result and return it as it was written, which is what replay will see."""
        cause, event = self._ledger.cause_of(call), self._redacted(event, call)
        try:
            self._ledger.open_step(event, call, cause)
        except errors.NotCanonical as error:
            event = tool_failure("result", str(error), "NotCanonical")
            self._ledger.open_step(event, call, cause)
        return event

    def _take_answer(self, call: str, event: ModelAnswered) -> ModelAnswered:
        cause = self._ledger.cause_of(call)
        try:
            event = attrs.evolve(event, message=to_json(event.message))
            event = self._redacted(event, call)
            self._ledger.open_step(event, call, cause)
        except errors.NotCanonical as error:
            event = model_failure("malformed", str(error))
            self._ledger.open_step(event, call, cause)
        return event

    def _world(
        self,
        event: Event,
        call: str | None,
        cause: int | None,
        meta: Mapping[str, int | str] | None = None,
    ) -> None:
        """Append a line from the world, which opens the next step, and deliver it."""
        event = self._redacted(event, call)
        self._ledger.open_step(event, call, cause, meta)
        self._kernel.deliver(event, call)

    def _late(self, call: str, event: ToolReturned | ModelAnswered | InputGiven | None) -> None:
        if event is None:  # it never began
            return
        kind = _KIND_OF_LATE[event.__class__]
        status = getattr(event, "status", "ok")  # an answer of a person has none
        self._ledger.append(EffectLate(kind, status), call, self._ledger.cause_of(call))  # type: ignore[arg-type]  # a closed set

    def _is_given_up(self) -> bool:
        """Leave a program that was stopped, or returned, and had its time to clean up."""
        if self._until_us is None and self._kernel.is_ending():
            self._until_us = self._timers.now_us() + round(ENDS_SECONDS * 1_000_000)
        until = self._until_us if self._stop_us is None else self._stop_us + _GRACE_US
        return until is not None and self._timers.now_us() > until and not self._kernel.leave()

    def _patience(self) -> float | None:
        """Return how long to wait for an arrival, in seconds; `None` for ever."""
        due = self._timers.next_us()
        moments = [] if due is None else [due]
        if self._until_us is not None:
            moments.append(self._until_us)
        if self._stop_us is not None:
            moments.append(self._stop_us + _GRACE_US)
        elif self._deadline_us is not None:
            moments.append(self._deadline_us)
        if not moments:
            return None
        seconds = max(0.0, (min(moments) - self._timers.now_us()) / 1_000_000)
        return min(seconds, threading.TIMEOUT_MAX)

    # -- the end --------------------------------------------------------------------------

    def _seal(self, verdict: Verdict) -> RunFinished:
        report = verdict.report
        said = RunFinished(
            verdict.status,
            verdict.reason,
            verdict.output,
            verdict.error,
            self._settle(),
            report.summary if report else None,
            report.logged_artifacts() if report else None,
            session_digest=self._kernel.session_digest,
        )
        finished = self._ledger.seal(
            self._redacted(said, None), _meta_of_end(verdict, self._ledger)
        )
        self._verdict = verdict
        return finished

    def _settle(self) -> list[str]:
        """Wait for cancelled effects that may change the world; return the running ones (§9.4).

        The program has ended, and with it the comparison: a replay would not take a line about a
        cancellation of the run now, or about a session change by a cancelled child.
        """
        self.is_settling = True
        self._driver.may_begin = False
        until = self._timers.now_us() + _GRACE_US
        while doubtful := self._doubtful():
            left = (until - self._timers.now_us()) / 1_000_000
            if left <= 0:
                return doubtful
            arrival = self._arrival(left)
            if isinstance(arrival, Arrival):
                self._take_arrival(arrival)
        return []

    def _doubtful(self) -> list[str]:
        return [
            call
            for call, flight in self._driver.flights.items()
            if isinstance(flight.effect, CallTool) and flight.effect.tool.effect == "changes"
        ]

    # -- lines ----------------------------------------------------------------------------

    def _redacted(self, event: Any, call: str | None) -> Any:
        """Return an event as it may be written, and delivered (CONTRACT.md §3.9)."""
        if not self._vault.is_active:
            return event
        pending = self._kernel.open.get(call or "")
        name = pending.name if pending is not None else ""
        return self._vault.scrubbed(without_hidden(self._vault.redaction, event, name))

    def _revealed(self, effect: CallTool) -> CallTool | ToolReturned:
        """Return the effect with secrets in the place of their handles, or the call's failure."""
        arguments, message = self._vault.revealed(effect.arguments, effect.secrets)
        if not message:
            return attrs.evolve(effect, arguments=arguments) if effect.secrets else effect
        return tool_failure("secret", message)

    def _before(self, tool: Tool) -> None:
        if tool.effect in _GUARDED:
            self._ledger.barrier()

    _after = _before

    def _context(self, tool: Tool, call: str) -> CallContext:
        """Return the facts about a call; to a tool that takes none, those of no call."""
        run = self._facts
        if not getattr(tool, "takes_context", True):
            return run
        return CallContext(call=call, run_id=run.run_id, depth=run.depth, origin=run.origin)

    def _run_started(self) -> RunStarted:
        started = started_of(self.request)
        if not self._vault.is_active:
            return started
        redacted = self._redacted(started, None)
        return attrs.evolve(started, input=redacted.input, labels=redacted.labels)


_KIND_OF_LATE: Final = {ToolReturned: "tool", ModelAnswered: "model", InputGiven: "input"}
_CHANGE_POLL_SECONDS: Final = 0.1
_LAUNCH_US: Final = 1000
_LEAVE_US: Final = 3_000_000
"""The time for children to leave, for example if the parent's log cannot be written."""
_GRACE_US: Final = round(GRACE_SECONDS * 1_000_000)
_KEY_MAX: Final = 4096
_GUARDED: Final = frozenset({"idempotent", "changes"})
"""Effect classes of tools before and after which the log is made durable."""


def _meta_of_end(verdict: Verdict, ledger: Ledger) -> dict[str, int | str]:
    """Return the end's `meta`: the exception's place, the outcome behind it, and counts."""
    told: dict[str, int | str] = {}
    if verdict.place is not None:
        file, line = verdict.place
        told |= {"error_file": plain(Path(file).name), "error_line": line}
    if (seq := ledger.failed.get(verdict.call)) is not None:
        told["error_seq"] = seq
    fold = ledger.fold
    fine = ("completed", "cancelled", None)  # a program cancels the losers of a race
    if failed := sum(child.status not in fine for child in fold.children):
        told["failed_children"] = failed
    return told | {f"refused_{hit.limit}": hit.count for hit in unset_hits(fold)}


def unset_hits(fold: Fold) -> Iterable[LimitCount]:
    """Return what ceilings refused that nobody set: those that every root has (§8.1)."""
    return (hit for hit in fold.hits.values() if getattr(CEILINGS, hit.limit, None) == hit.allowed)
