"""Executes effects: tools, model requests, child runs.

This module owns threads and waits for them, never for the program; it reads the monotonic clock
when a child ends. Each effect ends as one arrival in a queue, which the recorder takes one at a
time. A tool runs in the kernel's own thread while nothing else is live. Otherwise a synchronous one
runs on a worker (`engine.recording.workers`), and an asynchronous one, like asynchronous models, on
the host's loop (`engine.recording.host`). A child runs on its own thread, because a pool shared by
nested joins would wait for itself.

Threads cannot be killed: an effect that the program cancelled may still end, and is recorded as
late.
"""

import asyncio
import contextvars
import inspect
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from functools import partial
from typing import Any

import attrs

from refold.engine import errors
from refold.engine.encoding.canonical import Json, kind_of
from refold.engine.encoding.conversation import check_reply
from refold.engine.encoding.plain import to_json
from refold.engine.events.events import InputGiven, ModelAnswered, ToolReturned
from refold.engine.events.limits import CHILDREN_AT_ONCE
from refold.engine.events.outcome import Outcome, Usage, failed
from refold.engine.kernel.verdict import text_of
from refold.engine.models.prices import priced
from refold.engine.ports.effects import AskModel, AskPerson, CallTool
from refold.engine.ports.people import ASK_FAILED, check_answer
from refold.engine.ports.ports import (
    CallContext,
    CancelSignal,
    ChildRequest,
    ChildRunner,
    ModelReply,
    Question,
    Stopped,
    Suspended,
    Tool,
)
from refold.engine.recording.host import Host
from refold.engine.recording.workers import WORKERS_MAX, Mailbox, Workers, on_spare
from refold.engine.values import Value

_Ended = ToolReturned | ModelAnswered | InputGiven
_Came = _Ended | Outcome | Suspended | Stopped | errors.Unanswered


@attrs.frozen
class Arrival(Value):
    """Something that came back from the world."""

    call: str
    event: _Came | None
    """`None`: it was cancelled before it began, and never will begin."""
    ended_us: int | None = None
    """When a child that ran now ended, by the clock of `mono_us` (CONTRACT.md §3.4)."""


class CancelRun:
    """Asks the run itself to end: the parent's doing, or Ctrl-C."""


@attrs.define(eq=False)
class SharedChange:
    """A child that shares the session has changed it; it waits until the change is made."""

    event: str
    data: Json
    by: str
    answer: Future[int] = attrs.field(factory=Future)
    """Set when the change is made; its value has no meaning."""


@attrs.define(eq=False)
class TokensAsked:
    """A child has used up its tokens and waits for more."""

    call: str
    """Of the child's start."""
    has: int
    """The tokens that it was granted, by its own log."""
    wants: int | None
    """How many more, if a record says so; `None`: all that are left."""
    answer: Future[int] = attrs.field(factory=Future)
    """The number of additional tokens."""


Arrivals = Mailbox[Arrival | CancelRun | SharedChange | TokensAsked]


@attrs.define(eq=False)
class Flight:
    """An effect under way."""

    effect: CallTool | AskModel | AskPerson | ChildRequest
    cancel: CancelSignal = attrs.field(factory=CancelSignal)


class Driver:
    """Runs the effects of one run."""

    def __init__(self, arrivals: Arrivals, *, host: Host, may_wait: bool = True) -> None:
        """Make a driver; with `may_wait`, its thread may wait for a tool and for nothing else."""
        self.flights: dict[str, Flight] = {}
        """Effects under way, in the order of their start; the recorder takes them out."""
        self.is_in_place = False
        """Whether a tool runs in the recorder's own thread right now."""
        self.may_begin = True
        """Whether effects that wait for a thread or a loop still begin."""
        self._arrivals = arrivals
        self._host = host
        self._may_wait = may_wait
        self._workers = Workers(WORKERS_MAX)
        self._jobs: list[Callable[[], None]] = []
        self._async_jobs: list[Callable[[], Coroutine[Any, Any, None]]] = []
        self._lock = threading.Lock()
        self._working: set[str] = set()
        """Children that have a thread; a lock guards them and those that wait."""
        self._waiting: dict[str, Callable[[], bool]] = {}
        self._context = contextvars.copy_context()

    def has_place(self, tool: Tool) -> bool:
        """Return whether `tool` can run in this thread while nothing that the program knows of is.

        A synchronous one always can.  An asynchronous one needs a loop that nobody else runs, and a
        thread that nobody else may have to reach.
        """
        return not tool.is_async or (self._may_wait and self._host.is_here() and not self.flights)

    def in_place(
        self, call: str, tool: Tool, arguments: dict[str, Json], context: CallContext
    ) -> ToolReturned | None:
        """Run a tool in this thread, outside the program's loop and context.

        `None`: it is asynchronous, and Ctrl-C struck while it waited: its arrival follows.
        """
        running = asyncio._get_running_loop()  # noqa: SLF001 - exported for loops, as uvloop uses it
        hooks = sys.get_asyncgen_hooks()
        if running is not None:
            asyncio._set_running_loop(None)  # noqa: SLF001 - the same; a tool may call asyncio.run
            sys.set_asyncgen_hooks(None, None)  # its generators are not the program's
        try:
            self.is_in_place = True
            if tool.is_async:
                return self._awaited_here(call, tool, arguments, context)
            return self._context.copy().run(call_tool, tool, arguments, context)
        finally:
            self.is_in_place = False
            if running is not None:
                asyncio._set_running_loop(running)  # noqa: SLF001 - the same
                sys.set_asyncgen_hooks(*hooks)

    def _awaited_here(
        self, call: str, tool: Tool, arguments: dict[str, Json], context: CallContext
    ) -> ToolReturned | None:
        task = self._host.run_here(await_tool(tool, arguments, context), self._context.copy())
        if task.done():
            return _returned_by(task)
        self.flights[call] = Flight(CallTool(call, tool, arguments))
        arrivals = self._arrivals
        self._host.call(
            lambda: task.add_done_callback(
                lambda done: arrivals.put(Arrival(call, _returned_by(done)))
            )
        )
        return None

    def arrived(self, effect: CallTool, event: ToolReturned) -> None:
        """Queue the result of a tool in place as if it had run elsewhere."""
        self.flights[effect.call] = Flight(effect)
        self._arrivals.put(Arrival(effect.call, event))

    def launch(self) -> None:
        """Begin what was handed in since the last time."""
        jobs, async_jobs = self._jobs, self._async_jobs
        if jobs:
            self._jobs = []
            self._workers.submit(*jobs)
        if async_jobs:
            self._async_jobs = []
            self._host.run(*async_jobs)

    def call_tool(self, effect: CallTool, context: CallContext) -> None:
        """Start a tool; its arrival follows."""
        flight = self.flights[effect.call] = Flight(effect)
        tool, arguments = effect.tool, effect.arguments
        if tool.is_async:
            self._awaited(effect.call, flight, lambda: await_tool(tool, arguments, context))
        else:
            self._later(effect.call, lambda: call_tool(tool, arguments, context))

    def ask_model(self, effect: AskModel) -> None:
        """Send a model request; its arrival follows."""
        flight = self.flights[effect.call] = Flight(effect)
        if getattr(effect.model, "is_async", False):
            self._awaited(effect.call, flight, lambda: _await_model(effect), lasting=True)
        else:
            self._later(effect.call, lambda: ask_model(effect))

    def ask_person(
        self, effect: AskPerson, question: Question, ask: Callable[[Question], Json]
    ) -> None:
        """Ask a person through the given function; its arrival follows."""
        self.flights[effect.call] = Flight(effect)
        self._later(effect.call, lambda: _ask_person(question, ask))

    def run_child(self, call: str, runner: ChildRunner, request: ChildRequest) -> None:
        """Run a child on a thread of its own, as soon as there is room; its arrival follows.

        The room is this run's alone: children of children have theirs, so that none waits for a
        place that its own parent holds.
        """
        self.flights[call] = Flight(request, request.cancel)

        def ended(event: Outcome | Suspended | Stopped) -> bool:
            with self._lock:
                if call not in self._working:  # it was abandoned, which was its end
                    return False
                self._working.discard(call)
            # A child that is taken up may have ended under another clock: its own log says when.
            ended_us = time.monotonic_ns() // 1000 if request.resume is None else None
            self._arrivals.put(Arrival(call, event, ended_us))
            return True

        def abandon(outcome: Outcome) -> None:
            if ended(outcome):
                self._begin_child(*self._next_child())

        def run() -> bool:
            return ended(contextvars.Context().run(_run_child, runner, request, abandon))

        with self._lock:
            if len(self._working) >= CHILDREN_AT_ONCE:
                self._waiting[call] = run
                return
            self._working.add(call)
        self._begin_child(call, run)

    def _begin_child(self, call: str, run: Callable[[], bool] | None) -> None:
        while run is not None:
            try:
                on_spare(partial(self._run_children, run), f"refold-child-{call}")
            except RuntimeError as error:  # the system has no more threads
                with self._lock:
                    self._working.discard(call)
                self._arrivals.put(Arrival(call, failed("failed", "runner", str(error))))
                call, run = self._next_child()
            else:
                return

    def _run_children(self, run: Callable[[], bool] | None) -> bool:
        """Run a child, and then those that wait; False: one was abandoned, and its thread is."""
        while run is not None:
            if not run():
                return False
            del run  # and the child's request with it, before the next begins
            _, run = self._next_child()
        return True

    def _next_child(self) -> tuple[str, Callable[[], bool] | None]:
        """Give a free place to the first child that waits, if any does."""
        with self._lock:
            if not self._waiting:
                return "", None
            call = next(iter(self._waiting))
            self._working.add(call)
            return call, self._waiting.pop(call)

    def give_up(self, call: str, *, is_lost: bool = False) -> None:
        """Ask an effect to end; it may still arrive, unless it has not begun.

        With `is_lost`, the run itself cannot continue, and a child's log gets no end.
        """
        flight = self.flights.get(call)
        if flight is not None:
            flight.cancel.set(is_lost=is_lost)
        with self._lock:
            waited = self._waiting.pop(call, None)
        if waited is not None:
            never = failed("cancelled", "cancelled", "cancelled before there was room for it")
            self._arrivals.put(Arrival(call, never))

    def close(self) -> None:
        """Let idle workers end."""
        self._workers.close()

    def _later(
        self,
        call: str,
        work: Callable[[], ToolReturned | ModelAnswered | InputGiven | errors.Unanswered],
    ) -> None:
        context, flight = self._context.copy(), self.flights[call]

        def run() -> None:
            self._arrivals.put(Arrival(call, context.run(work) if self._begins(flight) else None))

        self._jobs.append(run)

    def _begins(self, flight: Flight) -> bool:
        return self.may_begin and not flight.cancel.is_set()

    def _awaited(
        self,
        call: str,
        flight: Flight,
        work: Callable[[], Coroutine[Any, Any, ToolReturned | ModelAnswered]],
        *,
        lasting: bool = False,
    ) -> None:
        async def run() -> None:
            task, loop = asyncio.current_task(), asyncio.get_running_loop()
            if task is not None:
                flight.cancel.on_set(partial(loop.call_soon_threadsafe, task.cancel))
            self._arrivals.put(Arrival(call, await work() if self._begins(flight) else None))

        if lasting:
            self._host.run(run, lasting=True)
        else:
            self._async_jobs.append(run)


def call_tool(tool: Tool, arguments: dict[str, Json], context: CallContext) -> ToolReturned:
    """Run a synchronous tool; its failure is data."""
    try:
        return _returned(tool, tool.call(arguments, context))
    except BaseException as error:  # noqa: BLE001 - or the thread would end, and nothing arrive
        return _failed_tool(error)


async def await_tool(tool: Tool, arguments: dict[str, Json], context: CallContext) -> ToolReturned:
    """Run an asynchronous tool; its failure is data."""
    try:
        return _returned(tool, await tool.call(arguments, context))
    except asyncio.CancelledError:
        return _CANCELLED
    except BaseException as error:  # noqa: BLE001 - or the host loop would end with it
        return _failed_tool(error)


def _returned_by(task: asyncio.Task[ToolReturned]) -> ToolReturned:
    """Return the result of an `await_tool` task; a cancelled one may not have begun."""
    return _CANCELLED if task.cancelled() else task.result()


def _returned(tool: Tool, result: Any) -> ToolReturned:
    try:
        return ToolReturned("ok", tool.dump(result))
    except errors.NotCanonical as error:
        if asyncio.iscoroutine(result):
            result.close()  # else Python warns of it, with a line of ours
        place = f", at {errors.shortened(error.pointer)}," if error.pointer else ""
        advice = "; annotate what it returns, -> …" if error.expected == "a JSON value" else ""
        said = f"returned {error.found}{place} and not {error.expected}{advice}"
        return tool_failure("result", said)


def _failed_tool(error: BaseException) -> ToolReturned:
    """Return the failure of a tool that raised, for example an attempt to end the process."""
    kind = type(error).__name__
    match error:
        case errors.ToolError():
            return tool_failure(error.code, error.message, error.error_type)
        case errors.ArgumentsRefused():
            return tool_failure("arguments", "; ".join(error.problems))
        case Exception():
            return tool_failure("raised", text_of(error), kind)
        case _:  # also an interrupt
            said = f"the tool tried to leave with {kind}: {text_of(error)}"
            return tool_failure("raised", said, kind)


def overdue(seconds: float) -> ToolReturned:
    """Return the failure of a tool that timed out."""
    return tool_failure("timed_out", f"no result within {seconds:g} s")


def tool_failure(code: str, message: str, kind: str = "") -> ToolReturned:
    """Return a failed tool's result; `kind` is the type of its exception, if any."""
    return ToolReturned("error", error={"code": code, "message": message, "type": kind})


_CANCELLED = tool_failure("cancelled", "the tool was cancelled")


def ask_model(effect: AskModel) -> ModelAnswered:
    """Send one request; its failure is data."""
    if effect.model is None:
        name, option = "", "model=…"
        if effect.name:
            name, option = f" named {effect.name!r}", f"models={{{effect.name!r}: …}}"
        said = f"no model{name} was given: pass record(…, {option})"
        return model_failure("no_model", said)
    try:
        return _answered(effect, effect.model.complete(effect.request))
    except BaseException as error:  # noqa: BLE001 - a model's failure is data, whatever it raised
        return _failed_model(error)


async def _await_model(effect: AskModel) -> ModelAnswered:
    try:
        return _answered(effect, await effect.model.complete(effect.request))  # type: ignore[union-attr, misc]  # an asynchronous one
    except BaseException as error:  # noqa: BLE001 - as above
        return _failed_model(error)


def _answered(effect: AskModel, reply: ModelReply) -> ModelAnswered:
    if not isinstance(reply.usage, Usage):  # else nothing would notice before it is written
        raise TypeError(f"a reply's usage must be a Usage; found {kind_of(reply.usage)}")
    check_reply(reply.message, "a reply's message")
    usage = priced(reply.usage, effect.model.name if effect.model is not None else "")
    return ModelAnswered("ok", reply.message, usage, reply.stop_reason)


def _failed_model(error: BaseException) -> ModelAnswered:
    if isinstance(error, errors.ModelError):
        return model_failure(error.code, error.message)
    return model_failure("raised", f"{type(error).__name__}: {text_of(error)}")


def model_failure(code: str, message: str) -> ModelAnswered:
    """Return a failed request's result."""
    return ModelAnswered("error", error={"code": code, "message": message})


def _ask_person(
    question: Question, ask: Callable[[Question], Json]
) -> InputGiven | errors.Unanswered:
    try:
        answer = ask(question)
        if inspect.isawaitable(answer):
            answer = asyncio.run(_awaited(answer))
        answer = to_json(answer)
        check_answer(question, answer)
        return InputGiven(answer)
    except errors.Unanswered as error:
        return errors.Unanswered(str(error))
    except errors.AnswerRefused as error:
        return errors.Unanswered(f"{ASK_FAILED} returned a wrong answer: {error}")
    except Exception as error:  # noqa: BLE001 - a question that nobody could answer stays open
        return errors.Unanswered(f"{ASK_FAILED} raised {type(error).__name__}: {text_of(error)}")


async def _awaited(answer: Awaitable[Json]) -> Json:
    return await answer


_Run = Callable[[ChildRequest], Outcome | Suspended]


def _go_on(run: _Run, request: ChildRequest) -> Outcome | Suspended:
    """Run a child of a resumed run, and return how it ended.

    A process of the previous attempt that had no log yet may still create one before it leaves.
    Then the child is continued from there.

    Raises:
        ChildStopped: its log cannot be read, or is still being written.
    """
    while True:
        try:
            from refold.engine.children.unfinished import take_up  # noqa: PLC0415 - few runs are resumed

            taken = take_up(request)
        except errors.RefoldError as error:
            raise errors.ChildStopped(str(request.log), type(error).__name__, str(error)) from None
        if isinstance(taken, Outcome):
            return taken
        ended = run(taken)
        is_late = taken.resume is None and isinstance(ended, Outcome) and ended.error is not None
        if not is_late or ended.error.code != "LogExists":  # type: ignore[union-attr]  # just seen
            return ended


def _run_child(
    runner: ChildRunner, request: ChildRequest, abandon: Callable[[Outcome], None]
) -> Outcome | Suspended | Stopped:
    """Run a child, in this thread if its runner can; then another may `abandon` it."""
    here = vars(type(runner)).get("run_here")  # a class that inherits it may have its own `run`
    run: _Run = partial(here, runner, abandon) if here else runner.run
    try:
        return run(request) if request.resume is None else _go_on(run, request)
    except errors.ChildStopped as error:
        return Stopped(code=error.code, message=error.message)
    except BaseException as error:  # noqa: BLE001 - a crash must be recordable, to be replayed
        return failed(
            "failed", "runner", f"{runner.name}: {type(error).__name__}: {text_of(error)}"
        )
