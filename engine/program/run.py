"""`run`, the program's interface, for asynchronous programs and for plain ones.

A thin face over the kernel; both have the same names.  Calls that ask the world for something are
awaited (or, in a plain program, block); `now`, `uuid`, `random` and `annotate` are plain calls.
An option is never a keyword of `tool`: a tool may have an argument called `name`.
"""

import asyncio
import sys
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from typing import Any, Never, ParamSpec, Protocol, TypeVar, overload

from refold.engine.encoding.canonical import Json, shown
from refold.engine.encoding.conversation import no_messages
from refold.engine.encoding.plain import members_to_json
from refold.engine.encoding.secret import refuse_handles
from refold.engine.errors import UsageError
from refold.engine.events.events import EffectCancelled
from refold.engine.events.outcome import Outcome, T
from refold.engine.kernel.kernel import Kernel
from refold.engine.kernel.pending import Child
from refold.engine.kernel.unawaited import to_be_awaited
from refold.engine.loop.loop import Task
from refold.engine.ports.people import APPROVAL, approval_question, check_approved, needs_approval
from refold.engine.ports.ports import (
    Delegation,
    Model,
    ModelReply,
    ModelRequest,
    Tool,
    ToolDefinition,
    TypedTool,
)
from refold.engine.ports.programs import ship
from refold.engine.program.drawn import Face, check_kind, delegation_call

# Wherever programs run, their children may be agents.
ship("refold.engine.program.agent", ["agent"])

P = ParamSpec("P")
R = TypeVar("R")
# Bound, so that mypy reports a wrong result at the result, and not as wrong arguments.
C = TypeVar("C", bound=Coroutine[Any, Any, Any])
T1 = TypeVar("T1")
T2 = TypeVar("T2")
T3 = TypeVar("T3")

_running: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, "weakref.ref[Run]"] = (
    weakref.WeakKeyDictionary()
)

_SECONDS = "a number of seconds"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and value == value  # noqa: PLR0124 - NaN is none


def _unnamed(tool: Tool) -> UsageError:
    names = "".join(f", {name}=…" for name in tool.parameters.get("properties", {}))
    return UsageError(f"pass a tool's arguments by name: run.tool({tool.name}{names})")


class UntypedTool(Protocol):
    """A tool that type checkers know no arguments of: any `Tool` but a function's."""

    @property
    def name(self) -> str:
        """As `Tool.name`."""

    def delegate(self, run: "Run", arguments: Mapping[str, Json], /) -> Awaitable[Json]:
        """As `Tool.delegate`, which a function's tool does not accept a run for."""


class _Asking(Face):
    """What both faces ask alike."""

    def cancel(self, child: Child) -> None:
        """Cancel a child; its outcome can still be joined."""
        self._kernel.cancel_child(child)

    def _request(
        self,
        messages: Iterable[Mapping[str, Any]],
        tools: Iterable[Tool | ToolDefinition | str],
        parameters: dict[str, Any],
    ) -> ModelRequest:
        if hasattr(tools, "effect") or isinstance(tools, str):
            raise UsageError(f"run.model(tools=…): expected a list of tools; found {shown(tools)}")
        offered = tuple(self._definition(tool) for tool in tools)
        if isinstance(messages, str | Mapping):
            raise no_messages(messages)
        plain: Any = tuple(messages)
        if self._kernel.secrets:
            refuse_handles("run.model", parameters)
        return ModelRequest(messages=plain, tools=offered, parameters=parameters)

    def _definition(self, tool: Tool | ToolDefinition | str) -> ToolDefinition:
        if isinstance(tool, ToolDefinition):
            return tool
        return ToolDefinition.of(self._kernel.tool(tool))


class Run(_Asking):
    """The `run` of an `async def program(run, input)`."""

    @overload
    def tool(self, tool: TypedTool[P, C], /, *unnamed: P.args, **arguments: P.kwargs) -> C: ...

    @overload
    def tool(
        self, tool: "UntypedTool | str", /, *unnamed: Never, **arguments: Any
    ) -> Coroutine[Any, Any, Any]: ...

    def tool(self, tool: Any, /, *unnamed: Any, **arguments: Any) -> Any:
        """Call a tool, and return its result with the annotated type.

        Raises:
            ToolError: the tool failed, or a person did not approve the call (`denied`).
            ToolUnknown: no tool has that name.
            UsageError: arguments without their names.
            NotCanonical: a log cannot hold an argument.
        """
        # As `to_be_awaited`, which would copy the arguments twice.
        return self._add(self._tool(tool, unnamed, arguments))

    async def _tool(self, tool: Any, unnamed: tuple[Any, ...], arguments: dict[str, Any]) -> Any:
        kernel = self._kernel
        kernel.unawaited.begin()
        found = kernel.tool(tool)
        if unnamed:
            raise _unnamed(found)
        if needs_approval(found):
            question = approval_question(found.name, members_to_json(arguments))
            check_approved(found.name, await self.ask(question, APPROVAL))
        if found.delegates:
            return await self._delegated(found, arguments)
        # A name for the frame would keep the program alive, with which it is in a cycle.
        pending, result = kernel.ask_tool(found, arguments, sys._getframe(1))  # noqa: SLF001 - `inspect` would ask it
        return result if pending is None else await self._awaited(pending)

    _tool.__name__, _tool.__qualname__ = "tool", "Run.tool"  # of its coroutines

    async def _awaited(self, pending: Any) -> Any:
        try:
            return await pending.future
        except asyncio.CancelledError:
            if pending.future.cancelled():
                self._kernel.give_up(pending)
            raise
        except Exception:
            pending.forget()
            raise

    def _delegated(self, tool: Tool, arguments: dict[str, Any]) -> Task:
        """Run a delegation tool as program code, in a task and a scope of its own."""
        kernel = self._kernel
        call, plain = kernel.begin_delegation(tool, arguments)
        work = _run_delegation(self, kernel, tool, call, plain)
        return kernel.loop.spawn(work, kernel.loop.scope().child())

    @to_be_awaited
    async def model(
        self,
        messages: Iterable[Mapping[str, Any]],
        /,
        *,
        tools: Iterable[Tool | ToolDefinition | str] = (),
        model: Model | str = "",
        **parameters: Any,
    ) -> ModelReply:
        """Call `model`, a model or the name of one given to `record`; by default, its default.

        `messages` are neutral, `{"role": …, "content": …}` (`ModelRequest.messages`).  `tools` are
        offered to the model, as tools, definitions or names.  `parameters` are passed to the
        provider by name: `temperature=0.2`.

        Raises:
            ModelError: the request failed after the client's own retries.
            UsageError: the messages are not a list of objects.
            LimitReached: the run has used its model requests, tokens or money.
        """
        request = self._request(messages, tools, parameters)
        return await self._awaited(self._kernel.ask_model(request, model))  # type: ignore[no-any-return]  # of this kind

    @to_be_awaited
    async def ask(self, question: str, schema: Mapping[str, Any] | None = None, /) -> Any:
        """Ask a person, and return the answer, a JSON value that fits `schema`.

        If nobody answers and no other work is left, the run is suspended: its process ends, and
        `refold resume LOG --answer KEY=…` continues it (CONTRACT.md §9.9).

        Raises:
            UsageError: the question is not text, or the schema is invalid.
        """
        return await self._awaited(self._kernel.ask_person(question, schema))

    @to_be_awaited
    async def start(self, delegation: Delegation[T], /) -> Child[T]:
        """Start a child and return at once; a rejected child already has its outcome.

        Raises:
            ProgramNotFound: the child's program cannot be named.
            TypeRefused: an annotation of the program has a type that cannot be read.
            ValueRefused: the input does not fit its annotation.
        """
        return self._kernel.start(delegation)

    @overload
    def join(
        self, one: Child[T1], two: Child[T2], /
    ) -> Coroutine[Any, Any, tuple[Outcome[T1], Outcome[T2]]]: ...

    @overload
    def join(
        self, one: Child[T1], two: Child[T2], three: Child[T3], /
    ) -> Coroutine[Any, Any, tuple[Outcome[T1], Outcome[T2], Outcome[T3]]]: ...

    @overload
    def join(self, /, *children: Child[T]) -> Coroutine[Any, Any, tuple[Outcome[T], ...]]: ...

    @to_be_awaited
    async def join(self, *children: Any) -> Any:
        """Wait for children and return their outcomes, in the order of the arguments.

        If the join is cancelled, its children keep running; `cancel` ends one.
        """
        await self._joined(children, first=False)
        return tuple(child.outcome for child in children if child.outcome is not None)

    @to_be_awaited
    async def join_first(self, *children: Child[T]) -> Child[T]:
        """Wait until one of the children has ended, and return it."""
        await self._joined(children, first=True)
        return next(child for child in children if child.outcome is not None)

    async def _joined(self, children: tuple[Child, ...], *, first: bool) -> None:
        pending = self._kernel.join(children, first=first)
        if pending.is_done or pending.future is None:
            return
        try:
            await pending.future
        except asyncio.CancelledError:
            self._kernel.leave_join(pending)
            raise

    @to_be_awaited
    async def delegate(self, delegation: Delegation[T], /) -> Outcome[T]:
        """Start a child and wait for its outcome; cancelling the wait cancels the child."""
        child = await self.start(delegation)
        try:
            (outcome,) = await self.join(child)
        except asyncio.CancelledError:
            self._kernel.cancel_child(child)
            raise
        return outcome

    @to_be_awaited
    async def sleep(self, seconds: float) -> None:
        """Wait; the same as `asyncio.sleep` in a program."""
        check_kind("sleep", _SECONDS, _is_number(seconds), seconds)
        await asyncio.sleep(seconds)


class PlainRun(_Asking):
    """The `run` of a plain `def program(run, input)`: the same names, without `await`."""

    def __init__(self, kernel: Kernel, asynchronous: Run) -> None:
        super().__init__(kernel)
        self._streams, self._patches = asynchronous._streams, asynchronous._patches  # noqa: SLF001 - the same of one run
        self._memories = asynchronous._memories  # noqa: SLF001 - as above
        self._asynchronous = asynchronous

    @overload
    def tool(
        self,
        tool: TypedTool[P, Coroutine[Any, Any, R]],
        /,
        *unnamed: P.args,
        **arguments: P.kwargs,
    ) -> R: ...

    @overload
    def tool(self, tool: "UntypedTool | str", /, *unnamed: Never, **arguments: Any) -> Any: ...

    def tool(self, tool: Any, /, *unnamed: Any, **arguments: Any) -> Any:
        """Call a tool, and return its result with the annotated type; as `Run.tool`."""
        kernel = self._kernel
        found = kernel.tool(tool)
        if unnamed:
            raise _unnamed(found)
        if needs_approval(found):
            question = approval_question(found.name, members_to_json(arguments))
            check_approved(found.name, self.ask(question, APPROVAL))
        if found.delegates:
            return kernel.wait_for_task(self._asynchronous._delegated(found, arguments))  # noqa: SLF001 - the same run
        pending, result = kernel.ask_tool(found, arguments, None)
        return kernel.had(result) if pending is None else kernel.wait(pending)

    def model(
        self,
        messages: Iterable[Mapping[str, Any]],
        /,
        *,
        tools: Iterable[Tool | ToolDefinition | str] = (),
        model: Model | str = "",
        **parameters: Any,
    ) -> ModelReply:
        """Call a model; as `Run.model`."""
        request = self._request(messages, tools, parameters)
        return self._kernel.wait(self._kernel.ask_model(request, model))  # type: ignore[no-any-return]  # of this kind

    def ask(self, question: str, schema: Mapping[str, Any] | None = None, /) -> Any:
        """Ask a person, and return the answer; as `Run.ask`."""
        return self._kernel.wait(self._kernel.ask_person(question, schema))

    def start(self, delegation: Delegation[T], /) -> Child[T]:
        """Start a child and return at once; as `Run.start`."""
        return self._kernel.start(delegation)

    @overload
    def join(self, one: Child[T1], two: Child[T2], /) -> tuple[Outcome[T1], Outcome[T2]]: ...

    @overload
    def join(
        self, one: Child[T1], two: Child[T2], three: Child[T3], /
    ) -> tuple[Outcome[T1], Outcome[T2], Outcome[T3]]: ...

    @overload
    def join(self, *children: Child[T]) -> tuple[Outcome[T], ...]: ...

    def join(self, *children: Any) -> Any:
        """Wait for children and return their outcomes, in the order of the arguments."""
        self._kernel.wait(self._kernel.join(children))
        return tuple(child.outcome for child in children if child.outcome is not None)

    def join_first(self, *children: Child[T]) -> Child[T]:
        """Wait until one of the children has ended, and return it."""
        self._kernel.wait(self._kernel.join(children, first=True))
        return next(child for child in children if child.outcome is not None)

    def delegate(self, delegation: Delegation[T], /) -> Outcome[T]:
        """Start a child and wait for its outcome."""
        return self.join(self.start(delegation))[0]

    def sleep(self, seconds: float) -> None:
        """Wait."""
        check_kind("sleep", _SECONDS, _is_number(seconds), seconds)
        self._kernel.sleep(seconds)


async def _run_delegation(
    run: Run, kernel: Kernel, tool: Tool, call: str, arguments: dict[str, Json]
) -> Any:
    """Run a delegation tool as program code, between its two lines (CONTRACT.md §10.4)."""
    delegation_call.set(call)
    try:
        result = await tool.delegate(run, arguments)
    except asyncio.CancelledError:
        kernel.emit(EffectCancelled("tool"), call)
        raise
    except Exception as error:  # noqa: BLE001 - a tool's failure is data
        return kernel.end_delegation(call, tool, arguments, None, error)
    return kernel.end_delegation(call, tool, arguments, result, None)


def faces_of(kernel: Kernel) -> tuple[Run, PlainRun]:
    """Return the `run` objects of a kernel: for asynchronous programs, and for plain ones."""
    asynchronous = Run(kernel)
    _running[kernel.loop] = weakref.ref(asynchronous)  # a Run holds its loop
    return asynchronous, PlainRun(kernel, asynchronous)


def asynchronous_face(run: Any) -> Any:
    """Return the face of a run that its delegation tools are given, whichever of them `run` is."""
    return run._asynchronous if isinstance(run, PlainRun) else run  # noqa: SLF001 - its own module


def memory_of(run: Any, name: str, make: Callable[[], R]) -> R:
    """Return a stateless tool's memory under `name` for this run, created on first use.

    It lives as long as the run and is empty at the start of a replay, so store only values that
    follow from the calls and their outcomes.
    """
    memories = run._memories  # noqa: SLF001 - its own module
    if name not in memories:
        memories[name] = make()
    found: R = memories[name]
    return found


def waited(run: Any, work: Coroutine[Any, Any, R]) -> Any:
    """Return `work`, to be awaited; for a plain program, run it and return its result."""
    if not isinstance(run, PlainRun):
        return work
    kernel = run._kernel  # noqa: SLF001 - its own module
    return kernel.wait_for_task(kernel.loop.spawn(work, kernel.loop.scope().child()))


def current_run() -> Run | None:
    """Return the run whose program calls this, in a task of its own; `None` outside of one."""
    loop = asyncio._get_running_loop()  # noqa: SLF001 - None instead of an error
    found = _running.get(loop) if loop is not None else None
    return found() if found is not None else None
