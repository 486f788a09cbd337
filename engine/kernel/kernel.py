"""The kernel: one program, its open effects, and one completion at a time (CONTRACT.md §9).

The kernel gives every effect its call key, puts its request into the log *before* it reaches the
driver, and resolves one future for each line that the world delivers.  It works the same way with a
live `World` (`engine.recording.recorder`) and with a log (`replay`).

Pure: no clock, no file, no thread.  `engine.program.run` is its interface for programs,
`engine.loop.loop` their event loop, and `engine.kernel.decide` checks requests against limits.
"""

import asyncio
import contextlib
import inspect
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from types import FrameType
from typing import Any, Final

import attrs

from refold.engine.encoding import digest
from refold.engine.encoding.canonical import Json, kind_of
from refold.engine.encoding.conversation import Conversations
from refold.engine.encoding.plain import members_to_json, to_json
from refold.engine.encoding.secret import handles_in, refuse_handles
from refold.engine.errors import (
    ChildFailed,
    Diverged,
    LimitReached,
    ModelError,
    NotCanonical,
    RefoldError,
    SecondInterrupt,
    ToolError,
    ToolNeeded,
    ToolUnknown,
    UsageError,
    ValueRefused,
)
from refold.engine.events.events import (
    MEASURED,
    ChildFinished,
    ChildStarted,
    ClockRead,
    EffectCancelled,
    EffectLate,
    Event,
    Extension,
    InputAsked,
    InputGiven,
    LimitHit,
    ModelAnswered,
    ModelAsked,
    SessionChanged,
    TimerFired,
    TokensGranted,
    ToolCalled,
    ToolReturned,
    key_in,
)
from refold.engine.events.flags import NOW, Flags
from refold.engine.events.limits import Limits
from refold.engine.events.outcome import Fault, Outcome
from refold.engine.kernel.decide import RequestChild, decide, lacks_tokens, tokens_to_give
from refold.engine.kernel.pending import Child, Join, Pending
from refold.engine.kernel.unawaited import Neglected, Slip, Unawaited
from refold.engine.kernel.verdict import (
    ProgramResult,
    Verdict,
    cancelled,
    causes_of,
    failed,
    fault_of,
    place_of,
    refused,
    result_of,
    spinning,
    stuck,
    text_of,
    timed_out,
    tool_error,
    unending,
    verdict_of_error,
    verdict_of_value,
)
from refold.engine.kernel.world import Served, StraightEnd, World
from refold.engine.loop import stdlib
from refold.engine.loop.loop import CALLBACKS_MAX, Loop, Scope, Task, Timer, inside_collector
from refold.engine.ports.effects import AskModel, AskPerson, CallTool, Effect, GiveUp, RunChild
from refold.engine.ports.people import check_question
from refold.engine.ports.ports import (
    Delegation,
    Identity,
    Model,
    ModelReply,
    ModelRequest,
    SessionPort,
    Tool,
)
from refold.engine.ports.program_types import PLAIN, ProgramTypes, types_of
from refold.engine.ports.programs import found_program, load_program, program_name

_LACKS: Final = ("ProgramNotFound", "ProgramRefused", "ToolRefused", "UsageError", "ExtraMissing")
"""Error codes of a child whose host lacks something it needs: a model cannot fix it."""
_UNHEARD_MAX: Final = 100
"""The maximum number of reported exceptions that were never awaited."""


class Kernel:
    """One run of one program."""

    types: ProgramTypes = PLAIN
    """Of the program, once it executes."""
    in_tool = ""
    """The tool that this thread calls now, inside a step of the program; empty for none."""
    session_digest: str | None = None
    """Of the session, once the program has ended; `None` if no snapshot can hold it."""

    def __init__(
        self,
        world: World,
        *,
        identity: Identity,
        limits: Limits,
        tools: Mapping[str, Tool],
        models: Mapping[str, Model] | None = None,
        session: SessionPort | None = None,
        flags: Flags = NOW,
    ) -> None:
        # Here and not at import: a process that only reads logs keeps asyncio as it is.
        stdlib.install()
        self.world = world
        self.identity = identity
        self.limits = limits
        self.tools = tools
        self.models = models or {}
        self.session = session
        self._clock: ClockRead | None = None
        """The look of this step, if it had one; the next step begins without."""
        self._virtual_us = 0
        """Virtual time as the program last saw it."""
        self.loop = Loop(  # type: ignore[abstract]  # what it lacks is refused, by name
            read_clock=self._clock_seconds,
            peek_clock=self._peek_clock_seconds,
            arm=self._arm,
            unheard=self._keep_unawaited,
            hears=self._may_receive,
            flags=flags,
        )
        self.open: dict[str, Pending] = {}
        """Tool, model and input effects without an outcome, in the order asked."""
        self.children: dict[str, Child] = {}
        """Children without an outcome, in the order of starts."""
        self.wanted: list[Effect] = []
        """Effects that the driver has not yet been given."""
        self.is_closing = False
        self.stopped: Verdict | None = None
        """Why the run was stopped from outside; the program's own result does not count."""
        self.failure: BaseException | None = None
        """The first error that ends the run even if the program swallowed it: see `fail`."""
        self.interrupt: KeyboardInterrupt | None = None
        """Raised by the program itself: the run ends with it (CONTRACT.md §9.6)."""
        self.left: SystemExit | None = None
        """Raised by a task of the program: the run ends with it, as with one of its own."""
        self.seals_interrupts = False
        """Whether it is an end like any other; else `execute` raises it."""
        self.unknown: dict[str, str] = {}
        """Tools asked for that the run does not have, by the call key that they would have had."""
        self.secrets: dict[str, None] = {}
        """Names that the program asked handles for; arguments are searched for handles from then
        on."""
        self.unawaited = Unawaited(is_told=world.hears_slips)
        self._neglected = Neglected()
        self.slips: tuple[Slip, ...] = ()
        """Calls that the program made and never awaited, once it has ended."""
        self.unheard: list[Slip] = []
        """Exceptions of the program that nobody awaited."""
        self.more_tokens: Callable[[], int] = lambda: 0
        """Asks the parent for tokens and waits for them: how many it gave."""
        self._failed, self._joins = dict[int, tuple[str, Outcome]](), list[Join]()
        self.main: Task | None = None
        self._conversations = Conversations()
        self._spins = False
        self._ends = False
        """Whether tasks that the program still makes are cancelled at their first wait."""
        self._is_plain = self._is_told = False
        self._thread = 0
        """The thread that executes the program; 0 before and after."""

    def _keep_unawaited(self, message: str, error: BaseException | None) -> None:
        """Keep what nobody awaited, as text: an exception keeps all that it went through."""
        if len(self.unheard) == _UNHEARD_MAX:
            self.unheard.append(Slip("more exceptions that nobody awaited are not listed"))
        if len(self.unheard) > _UNHEARD_MAX:
            return
        if error is not None:
            message += f": {type(error).__name__}: {text_of(error)}"
        place = place_of(error) if error is not None else None
        self.unheard.append(Slip(message, *(place or ())))

    def _arm(self, timer: Timer) -> None:
        self.world.arm(timer)  # the world changes where a run is resumed

    # -- the life of a run ----------------------------------------------------------------

    def execute(
        self, program: Callable[..., Any], runs: tuple[Any, Any], argument: Json
    ) -> Verdict:
        """Run `program` to its end, endings included, and return how it ended.

        `runs` are the two faces of this kernel: for asynchronous and for plain programs.

        Raises:
            RefoldError: the world failed: a log that can no longer be written, a divergence.
        """
        self.types = types_of(program)
        try:
            argument = self.types.read_input(argument)
        except ValueRefused as error:  # the caller's value did fit: it is redacted, or of a log
            return refused(error)
        try:
            return self._execute(program, runs, argument)
        finally:
            for face in runs:
                face._refuse_all()  # noqa: SLF001 - not for programs

    def _execute(
        self, program: Callable[..., Any], runs: tuple[Any, Any], argument: Any
    ) -> Verdict:
        self._thread = threading.get_ident()
        if self.session is not None:
            if self.session.is_own:
                self.world.seed(self.session)
            self.session.bind(self.ask, self.draw)
        try:
            if is_async(program):
                result = self._execute_async(program(runs[0], argument))
            else:
                result = self._execute_plain(program, runs[1], argument)
            if self.failure is None:
                # Before `_close`, which cancels these calls: afterwards none would be left to name.
                self._neglected.left(self.open.values(), self._joins)
                self._close()
                self.loop.keep_unfinished()
        finally:
            self._thread = 0
            # In `finally`: a run that ends with an error of its world still has its warnings.
            self.loop.report_failed_tasks()
            self.slips = self.unawaited.collect()
            if self.session is not None:
                self.session.unbind()
        if self.failure is not None:
            raise self.failure  # a plain program may have swallowed it
        if self.interrupt is not None:
            if not self.seals_interrupts:
                raise self.interrupt
            result = ProgramResult(error=self.interrupt)
        elif self.left is not None:
            result = ProgramResult(error=self.left)
        verdict = self._with_session(self._judge(result))
        if verdict.status == "completed" and self.world.hears_slips:
            self.unheard += self._neglected.slips(program, result.value)
        return verdict

    def _with_session(self, verdict: Verdict) -> Verdict:
        """Keep the session's digest; a run whose items cannot be read back has failed."""
        if self.session is None:
            return verdict
        try:
            self.session_digest = self.session.digest()
        except UsageError as error:  # an item was changed after it had been looked at
            if verdict.status == "completed":
                fault = Fault(code="session", message=str(error))
                return attrs.evolve(verdict, status="failed", reason="error", error=fault)
        return verdict

    def _execute_async(self, coroutine: Coroutine[Any, Any, Any]) -> ProgramResult:
        self.main = self.loop.spawn(coroutine, self.loop.root)
        while self._turn() and not self.main.done():
            if not self._advance():
                return ProgramResult(abandoned=True)
        return result_of(self.main) if self.main.done() else ProgramResult(abandoned=True)

    def _execute_plain(
        self, program: Callable[..., Any], run: Any, argument: Json
    ) -> ProgramResult:
        self._is_plain = True
        token = stdlib.plain_loop.set(self.loop)
        try:
            return ProgramResult(value=program(run, argument))
        except asyncio.CancelledError:
            return ProgramResult(abandoned=True)
        except SecondInterrupt:
            raise
        except KeyboardInterrupt as error:
            self.interrupt = self.interrupt or error
            return ProgramResult(error=error)
        except (Exception, SystemExit, GeneratorExit) as error:  # noqa: BLE001 - failures are data
            return ProgramResult(error=error)
        finally:
            stdlib.plain_loop.reset(token)

    def _turn(self) -> bool:
        """Run until nothing is ready; False if the program must not continue.

        That is if it spins, or if one of its tasks raises KeyboardInterrupt or SystemExit (§9.4).

        Raises:
            RefoldError: the first failure of the world, even if the program swallowed it.
        """
        # A step that an interrupt or an exit cut short is not a program that spins.
        before = self.interrupt, self.left
        is_quiet = self._step()
        if self.failure is not None:
            raise self.failure
        if not is_quiet and (self.interrupt, self.left) == before:
            if self._spins:
                self.loop.forget_ready()  # while it was cancelled, too
            self._spins = True
            self.stopped = self.stopped or spinning(self.loop)
        return is_quiet

    def _step(self) -> bool:
        """Step the loop; after the first, further attempts of tasks to leave are passed over."""
        while True:
            try:
                return self.loop.step()
            except SecondInterrupt:
                raise
            except KeyboardInterrupt as error:
                if self.interrupt is None:
                    self.interrupt = error
                    return False
            except SystemExit as error:
                if self.left is None:
                    self.left = error
                    return False

    def _advance(self) -> bool:
        """Take one line from the world; False if the run must be left as it is."""
        if self.is_stuck():
            if self.stopped is None:
                self.stopped = stuck(self.loop)
            return False
        # The next step has to look at the clock anew, or time would stand still in the program.
        self._clock = None
        try:
            return self.world.advance()
        except RecursionError:
            raise  # a plain program's own: its calls stand on the stack that is full
        except Exception as error:
            self.fail(error)
            raise

    def fail(self, error: BaseException) -> None:
        """End the run with an engine error, even if the program swallows it (§9.5).

        An asynchronous program is simply not resumed. A plain program is inside its call and may
        swallow the error, so no request is made or awaited from now on: effects that were about to
        start when the world failed never complete.
        """
        if self.failure is None:
            self.failure = error
        # The base class takes requests and gives nothing: no line follows the one that failed.
        self.world = World(self.world.fold)

    @contextlib.contextmanager
    def failing(self, apart_from: Sequence[BaseException] = ()) -> Iterator[None]:
        """Let an error that the world raises in the block end the run.

        Exceptions are the error for a value that a log cannot hold, and the errors in `apart_from`.
        """
        try:
            yield
        except NotCanonical:
            raise
        except RefoldError as error:
            if error not in apart_from:
                self.fail(error)
            raise

    def had(self, value: Any) -> Any:
        """Return an existing value as `wait` does: nothing is ready, so no step is missed.

        Raises:
            RefoldError: the first failure of the world, even if the program swallowed it.
        """
        if self.failure is not None:
            raise self.failure
        return value

    def wait(self, pending: Pending) -> Any:
        """Pump until `pending` is done: how a plain program waits inside its call."""
        while True:
            if not self._turn():
                raise self.interrupt or self.left or asyncio.CancelledError
            if pending.is_done:
                try:
                    return pending.take()
                except Exception:
                    pending.forget()
                    raise
            if not self._advance():
                raise asyncio.CancelledError
            if self.stopped is not None and not self._is_told:
                self._is_told = True  # once: its clean-up may call and wait
                self.give_up(pending)
                raise asyncio.CancelledError

    def wait_for_task(self, task: Task) -> Any:
        """Pump until `task` is done: how a plain program runs a delegation tool."""
        while not task.done():
            if not self._turn():
                raise self.interrupt or self.left or asyncio.CancelledError
            if not task.done() and not self._advance():
                raise asyncio.CancelledError
            if self.stopped is not None and not self._is_told:
                self._is_told = True  # as in `wait`
                task.cancel()
        return task.result()

    def has_returned(self) -> bool:
        """Return whether the program's own code has finished; its tasks may still run."""
        return self.is_closing or (self.main is not None and self.main.done())

    def is_ending(self) -> bool:
        """Return whether the program's own code has finished, and its tasks are to end."""
        return self.main is not None and self.main.done() and not self.is_closing

    def leave(self) -> bool:
        """Return False, for a world that waits for the program no longer (§9.4)."""
        if self.main is None or self.is_closing or not self.loop.unfinished:
            return False
        message = unending(self.loop)
        if self.stopped is not None:
            code: Any = getattr(self.main.get_coro(), "cr_code", None)
            slip = Slip(message, code.co_filename, code.co_firstlineno) if code else Slip(message)
            self.unheard += [slip] if slip not in self.unheard else []
        else:
            error = None if self.main.cancelled() else self.main.exception()
            raised = (
                f"; the program raised {type(error).__name__}: {text_of(error)}" if error else ""
            )
            self.stopped = failed("unending", message + raised)
        return False

    @property
    def plain_thread(self) -> int:
        """The thread that executes a plain program now; 0 if none does."""
        return self._thread if self._is_plain else 0

    def is_stuck(self) -> bool:
        """Return whether nothing is ready, in flight or timed (CONTRACT.md §9.4)."""
        return self.loop.is_idle() and not self._may_receive()

    def _may_receive(self) -> bool:
        """Return whether anything is in flight or timed that the program may wait for."""
        if self.open or self.loop.timers or self._joins:
            return True
        return bool(self.is_closing and self.children)

    # -- endings --------------------------------------------------------------------------

    def _close(self) -> None:
        """Cancel what still runs, in creation order, and take what comes of it (§9.4)."""
        self._ends = True
        cancelled: set[asyncio.Task[Any]] = set()
        while self.loop.unfinished:
            for task in list(self.loop.unfinished):
                if task not in cancelled:
                    cancelled.add(task)
                    task.cancel()
            goes_on = self._turn()
            if not goes_on and not self._spins:
                continue  # KeyboardInterrupt and SystemExit stop a step once
            if not self.loop.unfinished or not goes_on or not self._advance():
                break
        # Generators first: they are closed by tasks, which may still start and join children.
        # From here on, children are delivered in the order of their starts (`wants_child`).
        self._close_generators()
        self.is_closing = True
        self._joins.clear()
        # The order of asking, so that a replay writes the same lines.
        for call in list(self.open):
            self.give_up(self.open[call])
        for call in self.children:
            self.wanted.append(GiveUp(call))
        while self.children and self._advance():
            self._turn()

    def _close_generators(self) -> None:
        for generator in self.loop.open_generators():
            task = self.loop.spawn(generator.aclose(), self.loop.root.child())
            while self._turn() and not task.done():
                if not self._advance():
                    return
            # What a generator's clean-up raises has nobody left to take it: the program has ended.
            with contextlib.suppress(Exception, asyncio.CancelledError, KeyboardInterrupt):
                task.result()

    def stop(self, verdict: Verdict) -> None:
        """End the run from outside: the program is cancelled and may clean up."""
        if self.stopped is None:
            self.stopped = verdict
            if self.main is not None:
                self.main.cancel()

    def _judge(self, result: ProgramResult) -> Verdict:
        """Return how the run ended: refusals and stops override the program's result."""
        if self.loop.refusal is not None:
            return failed("outside_loop", str(self.loop.refusal))
        if self.stopped is not None:
            return self.stopped
        if result.abandoned:
            return cancelled("the program cancelled itself")
        if result.error is not None:
            verdict = verdict_of_error(result.error)
            error, call = result.error, self._call_of(result.error)
            return attrs.evolve(verdict, place=place_of(error), raised=error, call=call)
        verdict, hit = verdict_of_value(result.value, self.limits.output_bytes, self.types)
        if hit is not None:
            self.emit(hit, None)
        return verdict

    def _call_of(self, error: BaseException) -> str:
        """Return the call whose failure the program raised, or raised another error from."""
        for one in causes_of(error):
            if isinstance(one, ToolError | ModelError) and one.call:
                return one.call
            if isinstance(one, ChildFailed):
                return self._failed.get(id(one.outcome), ("", None))[0]
        return ""

    # -- lines ----------------------------------------------------------------------------

    def emit(self, event: Event, call: str | None) -> None:
        """Put a line that follows from the program into the log."""
        # A request is progress: a program that polls beside its calls does not spin (§9.4).
        self.loop.idle_passes = 0
        with self.failing():
            self.world.emit(event, call)

    def deliver(self, event: Event, call: str | None) -> None:
        """Resolve the effect that a line from the world completes; the line is already logged."""
        match event:
            case ToolReturned() | ModelAnswered() | InputGiven():
                pending = self.open.pop(call or "", None)
                if pending is not None:
                    pending.resolve(*self._result(pending, event))
            case ChildFinished(outcome):
                self._child_finished(call or "", outcome)
            case TimerFired(virtual_us):
                self._virtual_us = virtual_us
                self.loop.fire(call or "")
            case LimitHit():
                self.stop(timed_out(event))
            case EffectCancelled(kind="run", by=by):
                self.stop(cancelled("cancelled by its parent" if by else "cancelled from outside"))
            case SessionChanged() if self.session is not None:
                self.session.take(event)
            case _:
                pass  # an effect.late changes nothing, and of tokens the fold knows

    def can_deliver(self, event: Event, call: str | None) -> bool:
        """Return whether the program waits for what this line from the world would complete."""
        match event:
            case ToolReturned() | ModelAnswered() | InputGiven():
                return call in self.open
            case ChildFinished():
                return self.wants_child(call or "")
            case TimerFired():
                return call in self.loop.timers
            case EffectLate():
                return True
            case LimitHit():
                return event.limit == "timeout_seconds" and call is None
            case EffectCancelled():
                return event.kind == "run"
            case SessionChanged():
                return bool(event.by)
            case TokensGranted():
                return not event.to or event.to in self.children
            case _:
                return False

    def wants_child(self, call: str) -> bool:
        """Return whether the outcome of `call` may be delivered now (CONTRACT.md §9.2)."""
        if self.is_closing:
            return next(iter(self.children), None) == call
        return any(join.awaits(call) for join in self._joins)

    def _result(
        self, pending: Pending, event: ToolReturned | ModelAnswered | InputGiven
    ) -> tuple[Any, Exception | None]:
        match event:
            case ToolReturned():
                return self._tool_result(pending, event)
            case ModelAnswered(status="ok", message=message):
                message = message or {}
                self._conversations.answered(pending.chain, message)
                usage, why = event.usage, event.stop_reason
                return ModelReply(message=message, usage=usage, stop_reason=why), None
            case ModelAnswered():
                fault = event.error or {}
                said, code = str(fault.get("message", "")), str(fault.get("code", "raised"))
                return None, _of_call(ModelError(pending.name, said, code), pending)
            case InputGiven():
                return event.answer, None

    def _tool_result(self, pending: Pending, event: ToolReturned) -> tuple[Any, Exception | None]:
        if self.session is not None:
            self._observe(pending.name, pending.arguments, event)
        if event.status != "ok":
            return None, _of_call(tool_error(pending.name, event.error or {}), pending)
        if pending.tool is None or not pending.tool.typed:
            return event.result, None
        try:
            return pending.tool.load(event.result), None
        except RefoldError as error:
            self.fail(error)
            return None, error

    def _observe(self, tool: str, arguments: dict[str, Json], event: ToolReturned) -> None:
        if self.session is not None:
            self.session.observe(tool, arguments, event.result, event.error)

    def declare(self, what: str, call: str, places: Iterable[str], ids: Iterable[str] = ()) -> None:
        """Log which places of an entry, `what` at `call`, vary between recordings."""
        data = {"what": what, "call": call, "places": list(places), "ids": list(ids)}
        self.world.declare(Extension(MEASURED, data))

    # -- what programs ask ----------------------------------------------------------------

    def key(self) -> tuple[Scope, str]:
        """Return the scope of the code that asks, and its next call key.

        Raises:
            UsageError: `run` is used outside its own program.
        """
        scope = self.loop.stepping_scope()
        if scope is None or self.in_tool:
            self.check_inside()
            scope = self.loop.root
        return scope, scope.next_call()

    def check_inside(self) -> None:
        """Refuse callers other than the program.

        Raises:
            UsageError: `run` is used outside its own program.
        """
        if self.in_tool:
            raise UsageError(
                f"the tool {self.in_tool} used its program's run, but a replay calls no tools: "
                "pass it what it needs as arguments, or read a CallContext"
            )
        if self.loop.is_stepping():
            return
        if not self._is_plain or self._thread != threading.get_ident() or inside_collector():
            raise UsageError(self.outside())

    def outside(self) -> str:
        """Return where `run` is used, if not by its program, and what to do instead."""
        return f"run was used outside its program: {self._where()}"

    def _where(self) -> str:
        caller = asyncio._get_running_loop() or stdlib.plain_loop.get()  # noqa: SLF001 - or None
        if inside_collector():  # first: the collector hides our loop
            return (
                "by a finaliser (`__del__`), which the garbage collector calls at a different time "
                "in a replay: close the object in the program"
            )
        # Before the end: a replay runs a child when its parent has ended, and has to say the same.
        if isinstance(caller, Loop) and caller is not self.loop:
            return "by the program of another run: a child must use the run that it is given"
        if not self._thread:
            return "the run has ended. Return what is needed later from the program"
        return (
            "from another thread. Use it in the program's own thread, and make code that needs "
            "a thread a tool (@refold.tool)"
        )

    def ask(self, event: Event) -> str:
        """Put a request into the log under a new call key, and return the key."""
        scope, call = self.key()
        self._ask_as(event, scope, call)
        return call

    def _ask_as(self, event: Event, scope: Scope, call: str) -> None:
        try:
            self.world.emit(event, call)
        except NotCanonical:
            scope.take_back()
            raise
        except RefoldError as error:
            self.fail(error)
            raise

    def ask_tool(
        self, tool: Tool, arguments: dict[str, Any], asking: FrameType | None
    ) -> tuple[Pending | None, Any]:
        """Ask for a leaf tool; return what to wait for, or `None` and the result of one that ran.

        `asking` is the frame that would wait; `None` for plain programs.

        Raises:
            ToolError: the tool ran, and failed.
        """
        # First what may be refused: a call that is not made takes no key, so ordinals stay dense.
        plain = members_to_json(arguments)
        handles = handles_in(arguments) if self.secrets else ()
        scope, call = self.key()
        pending = Pending(call, "tool", tool.name, tool, plain)
        is_alone = not (self.open or self.children or self.wanted) and self.loop.is_idle()
        goes_straight = is_alone and not (handles or self._ends) and self.loop.would_wait(asking)
        taken = self._straight(pending, scope) if goes_straight else StraightEnd.NOTHING
        if not isinstance(taken, StraightEnd):
            return None, self._had_at_once(pending, taken)
        if taken is StraightEnd.NOTHING:
            self._ask_as(ToolCalled(tool.name, plain, tool.effect), scope, call)
        self._wait_for(pending, CallTool(call, tool, plain, handles))
        return pending, None

    def _straight(self, pending: Pending, scope: Scope) -> Served | ToolReturned | StraightEnd:
        """Let the world make the call at once, if it can; its request may be refused as any."""
        call, tool = pending.call, pending.tool
        self.open[call] = pending
        try:
            returned = self.world.straight(tool, pending.arguments, call)  # type: ignore[arg-type]  # it is there
        except NotCanonical:
            del self.open[call]
            scope.take_back()
            raise
        except RefoldError as error:
            self.fail(error)
            raise
        if returned is StraightEnd.NOTHING:
            del self.open[call]
        return returned

    def _had_at_once(self, pending: Pending, returned: Served | ToolReturned) -> Any:
        """Return the result of a tool that ran at once, or raise its error."""
        del self.open[pending.call]
        self._clock = None
        self.loop.left = CALLBACKS_MAX - 1  # a step begins with what runs now
        if isinstance(returned, tuple):
            if self.session is None and not getattr(pending.tool, "typed", False):
                return returned[0]
            returned = ToolReturned("ok", returned[0])
        value, error = self._tool_result(pending, returned)
        if error is not None:
            try:
                raise error
            finally:
                error = None  # as in `Pending.forget`
        return value

    def _wait_for(self, pending: Pending, effect: Effect) -> None:
        if self.loop.is_stepping():
            pending.future = self.loop.create_future()
        self.open[pending.call] = pending
        self.wanted.append(effect)

    def tool(self, which: Tool | str) -> Tool:
        """Return a tool by its name, or the tool itself.

        Raises:
            ToolUnknown: no tool has this name, or the value is not a tool.
        """
        if isinstance(which, str):
            found = self.tools.get(which)
            if found is None:
                scope = self.loop.scope()
                self.unknown[f"{scope.path}#{scope.calls + 1}"] = which  # no line says so
                raise ToolUnknown(which, tuple(self.tools))
            return found
        if not hasattr(which, "effect"):
            name = getattr(which, "__name__", kind_of(which))
            wrapped = getattr(getattr(which, "func", None), "name", "")  # of functools.partial
            advice = "decorate the function with @refold.tool"
            if wrapped:
                advice = f"pass the tool itself, and all arguments by name: run.tool({wrapped}, …)"
            raise UsageError(f"{name} is not a tool: {advice}")
        return which

    def hand_out(self, name: str) -> None:
        """Note that the program has a handle to a secret, and inform the world."""
        self.check_inside()
        self.secrets[name] = None
        self.world.secret_named(name)

    def give_up(self, pending: Pending) -> None:
        """Record that the program no longer waits; what still comes of the effect is late."""
        if self.open.pop(pending.call, None) is not None:
            self.emit(EffectCancelled(pending.kind), pending.call)  # type: ignore[arg-type]  # a closed set
            self.wanted.append(GiveUp(pending.call))

    def begin_delegation(
        self, tool: Tool, arguments: dict[str, Any]
    ) -> tuple[str, dict[str, Json]]:
        """Record the call of a tool that hands on to children; return its key and its arguments.

        Raises:
            UsageError: a handle to a secret is among them.
        """
        if self.secrets:
            refuse_handles(tool.name, arguments)
        plain = members_to_json(arguments)
        return self.ask(ToolCalled(tool.name, plain, tool.effect, True)), plain  # noqa: FBT003 - an event's field

    def end_delegation(
        self,
        call: str,
        tool: Tool,
        arguments: dict[str, Json],
        result: Any,
        error: Exception | None,
    ) -> Any:
        """Record a delegation tool's result; return it as a replay will."""
        if error is None:
            try:
                plain = to_json(result)
                if measured := getattr(tool, "measured", ()):
                    places = [f"/result{pointer}" for pointer in measured]
                    self.declare(f"tool:{tool.name}", call, places)
                self.emit(returned := ToolReturned("ok", plain), call)
            except NotCanonical as refused:
                error = ToolError(tool.name, str(refused), "result")
            else:
                self._observe(tool.name, arguments, returned)
                return plain
        if isinstance(error, (Diverged, ToolNeeded)):
            self.fail(error)
        if self.failure is not None:
            raise error
        fault = fault_of(error)
        self.emit(returned := ToolReturned("error", error=dict(fault)), call)
        self._observe(tool.name, arguments, returned)
        raise tool_error(tool.name, fault) from None

    def sleep(self, seconds: float) -> None:
        """Wait for virtual time: how a plain program sleeps."""
        self.check_inside()
        pending = Pending("", "timer", "")
        self.loop.call_later(seconds, pending.resolve, None, None)
        self.wait(pending)

    def ask_model(self, request: ModelRequest, which: Model | str) -> Pending:
        """Ask a model; the logged part of the conversation is referenced, not repeated (§2.4).

        `which` is the name of a given model, or any model itself.

        Raises:
            LimitReached: the run may not ask again.
        """
        if not (isinstance(which, str) or hasattr(which, "name")):
            raise UsageError(
                f"run.model(model=…): expected a model or its name; found {kind_of(which)}"
            )
        name = which if isinstance(which, str) else which.name
        model = self.models.get(which) if isinstance(which, str) else which
        prefix = self._conversations.prefix(request.messages, may_have_handles=bool(self.secrets))
        parameters = dict(request.parameters)
        if self.identity.agent:
            parameters.setdefault("agent", self.identity.agent)
        request = attrs.evolve(
            request,
            messages=prefix.given,
            parameters=parameters,
            counted=(prefix.given, prefix.replies),
        )
        asked = ModelAsked(
            model.name if model else name,
            prefix.predecessor,
            prefix.base,
            [dict(message) for message in request.messages[prefix.base :]],
            {key: to_json(value, f"/{key}") for key, value in sorted(request.parameters.items())},
            digest.of_value(digest.VALUE, [attrs.asdict(tool) for tool in request.tools])
            if request.tools
            else "",
        )
        call = self._grant(self._judged(lambda _call: asked))
        pending = Pending(call, "model", asked.model)
        self._conversations.asked(prefix)
        pending.chain = prefix.end
        if isinstance(which, str):  # a run that is resumed may have gone on, with other models
            model = self.models.get(which)
        self._wait_for(pending, AskModel(call, model, request, name))
        return pending

    def ask_person(self, question: str, schema: Mapping[str, Any] | None) -> Pending:
        """Ask a person a question.

        Raises:
            UsageError: the question is not text, or its schema is invalid.
        """
        check_question(question, schema)
        plain = to_json(dict(schema)) if schema is not None else None
        call = self.ask(InputAsked(question, plain))
        pending = Pending(call, "input", question)
        self._wait_for(pending, AskPerson(call, question, plain))
        return pending

    def _judged(self, command: Callable[[str], ModelAsked | RequestChild]) -> tuple[Event, ...]:
        """Return the decision on the command that is made for the next call key.

        A child that lacks only tokens asks its parent for more (CONTRACT.md §8.3), repeatedly if it
        gets too few, because other children may still return some of theirs.
        """
        events = decide(self.world.fold, command(self._next_call()))
        asks = self.identity.parent is not None
        while asks and lacks_tokens(events) and self.draw("tokens", "", self.more_tokens):
            events = decide(self.world.fold, command(self._next_call()))
        return events

    def _next_call(self) -> str:
        """Return the call key that `_grant` takes next."""
        scope, call = self.key()
        scope.take_back()
        return call

    def _grant(self, events: Iterable[Event]) -> str:
        """Emit what `decide` gave under one call key; raise where it refused."""
        first, *rest = events
        call = self.ask(first)
        for event in rest:
            self.emit(event, call)
        if isinstance(first, LimitHit) and not rest:
            raise LimitReached(first.limit, first.allowed, first.observed)
        return call

    def _check_offered(self, delegation: Delegation) -> None:
        """Refuse a name of no tool; a delegation tool's are a model's, or an agent file's."""
        if delegation.tools is None or delegation.tool:
            return
        own = {tool.name for tool in delegation.own_tools}
        unknown = [name for name in delegation.tools if name not in self.tools and name not in own]
        if unknown:
            raise ToolUnknown(unknown[0], tuple(sorted({*self.tools, *own})))

    def start(self, delegation: Delegation) -> Child:
        """Start a child, or reject it: then its outcome is there at once (CONTRACT.md §7)."""
        _check_delegation(delegation)
        self._check_offered(delegation)
        name = program_name(delegation.program)
        if self.secrets:
            refuse_handles("a child", [delegation.input, delegation.brief])
        given: dict[str, Any] = {"input": to_json(delegation.input, "/input")}
        program = given["program"] = found_program(delegation.program)
        types = types_of(program if callable(program) else load_program(program))
        # Refused here, in the parent and before any line: in the child it would be an outcome.
        types.read_input(given["input"])
        left = tokens_to_give(self.world.fold)
        if left is not None and _takes_what_is_left(delegation):
            given["part"] = max(1, left // 2)
        session = delegation.session
        if session is not None and not delegation.shared and not delegation.tool:
            # A copy, as on every runner. A tool's session is for this child alone already.
            with contextlib.suppress(RefoldError):  # the child is refused for the same reason
                session.check()
                given["session"] = session.clone()
        delegation = attrs.evolve(delegation, **given)
        number = self.world.fold.children_started + 1
        granted = self._judged(
            lambda call: RequestChild(
                delegation,
                program=name,
                number=number,
                run_id=self.child_run_id(call),
            )
        )
        call = self._grant(granted)
        last = granted[-1]
        if isinstance(last, ChildFinished):
            rejected = Child(call, 0, "", starter=self.identity)
            rejected.outcome = self._neglected.ended(rejected, last.outcome)
            return rejected
        if not isinstance(last, ChildStarted):
            raise TypeError(f"decide gave {last!r} for a child")
        run_id = last.run_id
        limits = Limits.from_json(last.delegation["limits"])
        child = self.children[call] = Child(
            call,
            last.number,
            run_id,
            limits=limits,
            tool=delegation.tool,
            starter=self.identity,
        )
        child.types = types
        self._neglected.started(child)
        self.wanted.append(RunChild(call, delegation, last.number, run_id, limits, types))
        return child

    # -- values from outside, without waiting ---------------------------------------------

    def read_clock(self) -> ClockRead:
        """Return the clock of this step; the first look of a step is a line."""
        self.check_inside()
        # Once per step: a time that moves between two awaits could not be replayed (§9.3).
        if self._clock is None:
            with self.failing():
                self._clock = self.world.read_clock()
            self._virtual_us = self._clock.virtual_us
        return self._clock

    def _clock_seconds(self) -> float:
        """Return the virtual time of this step, which the loop's clock shows."""
        return self.read_clock().virtual_us / 1_000_000

    def _peek_clock_seconds(self) -> float:
        """Return the virtual time that was last seen, without a line."""
        return self._virtual_us / 1_000_000

    def draw(self, source: str, name: str, produce: Callable[[], Json]) -> Json:
        """Return a value from outside the run; `produce` is called live and never in replay.

        Raises:
            NotCanonical: a log cannot hold the value.
            Exception: any error of `produce`, which is not logged.
        """
        scope, call = self.key()
        # Tells the program's own error, which it may catch, from the world's, which ends the run.
        raised: list[Exception] = []

        def produced() -> Json:
            try:
                return produce()
            except Exception as error:
                raised.append(error)
                raise

        try:
            with self.failing(raised):
                return self.world.draw(source, name, call, produced)
        except Exception:
            scope.take_back()
            raise

    def seed(self, purpose: str, place: str) -> str:
        """Return the seed of a uuid or a random stream, derived from the run's seed (§9.3)."""
        identity = self.identity
        text = f"{identity.seed}\0{identity.path}\0{purpose}\0{place}"
        return digest.of_bytes(digest.VALUE, text.encode())

    def child_run_id(self, call: str) -> str:
        """Return the id of the child started by `call`: derived, never drawn (§9.1)."""
        path = self.child_path(call)
        return digest.of_bytes(digest.IDENTITY, f"{self.identity.root_id}\0{path}".encode())[:16]

    def child_path(self, call: str) -> str:
        """Return the path of the child started by `call`: the call keys of all starts above."""
        return key_in(self.identity.path, call)

    def join(self, children: tuple[Child, ...], *, first: bool = False) -> Pending:
        """Wait for children: all, in the order asked, or whichever is first."""
        self.check_inside()
        # All before any is marked: a join that is refused has awaited nobody.
        for child in children:
            self._check_child("join", child)
        self._neglected.mark_awaited(*children)
        if first and not children:
            raise UsageError("run.join_first() needs at least one child")
        pending = Pending("", "join", "")
        join = Join(children, first, pending)
        if not children or join.is_settled():
            pending.resolve(None, None)
            return pending
        if self.loop.is_stepping():
            pending.future = self.loop.create_future()
        self._joins.append(join)
        return pending

    def leave_join(self, pending: Pending) -> None:
        """Forget a join whose waiter was cancelled; its children continue."""
        self._joins = [join for join in self._joins if join.pending is not pending]

    def cancel_child(self, child: Child) -> None:
        """Ask for the end of a child; its outcome is still delivered to a join."""
        self.check_inside()
        self._check_child("cancel", child)
        if child.outcome is None:
            self._neglected.cancelled(child)
            self.emit(EffectCancelled("child"), child.call)
            self.wanted.append(GiveUp(child.call))

    def _check_child(self, call: str, child: object) -> None:
        if not isinstance(child, Child):
            what = f"run.{call} takes the children that run.start returned"
            several = ", one by one: run.join(*children)" if isinstance(child, list | tuple) else ""
            if isinstance(child, Outcome):
                several = ", and run.delegate has already waited for this outcome"
            raise UsageError(f"{what}{several}; found {kind_of(child)}")
        if child.starter is not self.identity:
            what = f"run.{call} takes children of the same run"
            started = child.run_id or f"the rejected child {child.call}"
            raise UsageError(
                f"{what}; {started} was started by a different run, which must {call} it"
            )

    def _child_finished(self, call: str, outcome: Outcome) -> None:
        child = self.children.pop(call, None)
        if child is None:
            return
        child.output_json = outcome.output
        try:
            read = child.read(outcome)
        except ValueRefused as error:
            self.fail(error)
            return
        child.outcome = self._neglected.ended(child, read, is_late=self.is_closing)
        if not read.ok:
            # With the outcome itself, so that no other object gets its id.
            self._failed[id(child.outcome)] = call, child.outcome
        fault = outcome.error
        if not self.is_closing and child.tool and fault is not None and fault.code in _LACKS:
            self.stop(failed(fault.code, fault.message))
        for join in list(self._joins):
            if join.is_settled():
                self._joins.remove(join)
                join.pending.resolve(None, None)


def _of_call(error: ToolError | ModelError, pending: Pending) -> ToolError | ModelError:
    error.call = pending.call
    return error


def _check_delegation(delegation: object) -> None:
    if not isinstance(delegation, Delegation):
        name = getattr(delegation, "__name__", "…")
        what = f"expected a delegation: refold.Delegation(program={name}, input=…)"
        raise UsageError(f"{what}; found {kind_of(delegation)}")


def _takes_what_is_left(delegation: Delegation) -> bool:
    """Return whether a child asks for no number of tokens: then it begins with half of them."""
    limits = delegation.limits
    return delegation.part is None and (limits is None or limits.model_tokens is None)


def is_async(program: Callable[..., Any]) -> bool:
    """Return whether `program` is asynchronous; objects with an async `__call__` are."""
    if not inspect.isfunction(program) and not inspect.iscoroutinefunction(program):
        program = getattr(program, "__call__", None)  # type: ignore[assignment]  # noqa: B004 - its kind is asked, not its presence
    return inspect.iscoroutinefunction(program)
