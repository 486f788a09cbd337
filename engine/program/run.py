"""What a program sees: `run`, for asynchronous programs and for plain ones.

A thin face over the kernel; both have the same names.  Calls that ask the world for something are
awaited (or, in a plain program, block); `now`, `uuid`, `random` and `annotate` are plain calls.
An option is never a keyword of `tool`: a tool may have an argument called `name`.
"""

import asyncio
import contextvars
import datetime as dt
import errno
import os
import random as _random
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from pathlib import Path
from typing import Any, Never, ParamSpec, TypeVar, overload

import attrs

from refold.engine.encoding.canonical import Json, shown
from refold.engine.encoding.conversation import no_messages
from refold.engine.encoding.secret import Secret, refuse_handles
from refold.engine.errors import UsageError
from refold.engine.events.flags import Flags
from refold.engine.events.limits import Limits
from refold.engine.events.outcome import Outcome
from refold.engine.kernel.decide import tokens_left
from refold.engine.kernel.kernel import Kernel
from refold.engine.kernel.pending import Child
from refold.engine.kernel.unawaited import Add, to_be_awaited
from refold.engine.ports.delegation import Delegation
from refold.engine.ports.people import APPROVAL, approval_question, check_approved, needs_approval
from refold.engine.ports.ports import (
    ArgumentsDoNotFit,
    Model,
    ModelReply,
    ModelRequest,
    Tool,
    ToolDefinition,
    TypedTool,
)
from refold.engine.ports.programs import ship
from refold.engine.program.drawn import Values

# Wherever programs run, their children may be agents.
ship(
    "refold.engine.program.agent",
    {"agent": "c5a734a57ab606923c7f30f3de766e4f1eb024bcf2c8d2a483456f5d18db20e5"},
)

P = ParamSpec("P")
R = TypeVar("R")

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_running: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, "weakref.ref[Run]"] = (
    weakref.WeakKeyDictionary()
)
_delegation: contextvars.ContextVar[str] = contextvars.ContextVar("refold_delegation", default="")


def _text_of(path: str) -> Json:
    """Return a file's text, `None` where there is no file, or why it has none: {error}."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        return None
    except UnicodeDecodeError as error:
        said = f"{error.reason}; {path} is no UTF-8 text: read it in a tool"
        return {"error": {"at": error.start, "message": said}}
    except OSError as error:
        code = errno.errorcode.get(error.errno or 0, "EIO")
        return {"error": {"code": code, "message": error.strerror or str(error)}}


def _variable(name: str) -> Json:
    """Return an environment variable, `None` where it is not set, or why it is no text: {error}."""
    value = os.environ.get(name)
    try:
        os.fsencode(value or "").decode()
    except UnicodeDecodeError as error:
        return {"error": {"at": error.start, "message": f"the variable {name} is no UTF-8 text"}}
    return value


def _drawn_text(name: str, value: Json) -> str | None:
    """Return a drawn text; raise what kept it from being read, alike live and in a replay."""
    if not isinstance(value, Mapping):
        text: str | None = value
        return text
    error = value.get("error") or {}
    said = str(error.get("message", ""))
    if isinstance(at := error.get("at"), int):
        raise UnicodeDecodeError("utf-8", b"", at, at + 1, said)
    raise OSError(getattr(errno, str(error.get("code")), errno.EIO), said, name)


def _check_kind(call: str, expected: str, is_so: bool, found: object) -> None:  # noqa: FBT001 - said by the caller
    """Refuse before anything is written or asked.

    A number for a text would damage the log, and what only the live run raises no replay repeats.
    """
    if not is_so:
        raise UsageError(f"run.{call} takes {expected}; found {shown(found)}")


_SECONDS = "a number of seconds"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and value == value  # noqa: PLR0124 - NaN is none


def _texts(name: str, values: Any) -> tuple[str, ...]:
    """Return what `annotate` was given as a list of texts."""
    is_list = isinstance(values, Iterable) and not isinstance(values, str | Mapping)
    found = tuple(values) if is_list else ()
    odd = [each for each in found if not isinstance(each, str)] if is_list else [values]
    if odd:
        _check_kind("annotate", f"a list of texts, {name}=['…']", False, odd[0])  # noqa: FBT003
    return found


def _unnamed(tool: Tool) -> UsageError:
    names = "".join(f", {name}=…" for name in tool.parameters.get("properties", {}))
    return UsageError(f"pass a tool's arguments by name: run.tool({tool.name}{names})")


class _Face:
    """What both faces share."""

    def __init__(self, kernel: Kernel, values: Values) -> None:
        self._kernel = kernel
        self._values = values
        self._add: Add = kernel.unawaited.add

    @property
    def id(self) -> str:
        """This run's id: 16 hex digits, derived."""
        return self._kernel.identity.run_id

    @property
    def depth(self) -> int:
        """How many runs stand above this one; 0 for a root."""
        return self._kernel.identity.depth

    @property
    def call(self) -> str:
        """The call key of the delegation tool that runs here; empty outside of one."""
        return _delegation.get()

    @property
    def flags(self) -> Flags:
        """The rules that this run follows, for what Refold ships (CONTRACT.md §15.1)."""
        return self._kernel.loop.flags

    @property
    def limits(self) -> Limits:
        """The caps that this run was granted."""
        return self._kernel.limits

    @property
    def tokens_left(self) -> int | None:
        """Model tokens that nobody has used and no running child has reserved; None for no cap."""
        return tokens_left(self._kernel.world.fold)

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools that this run was given, sorted by name."""
        return tuple(self._kernel.tools[name] for name in sorted(self._kernel.tools))

    @property
    def models(self) -> tuple[str, ...]:
        """The names of the models that this run was given, sorted; the default's is empty."""
        return tuple(sorted(self._kernel.models))

    def now(self) -> dt.datetime:
        """Return the time as an aware UTC datetime; it stands still within a step (§9.3)."""
        return _EPOCH + dt.timedelta(microseconds=self._kernel.look().time_us)

    def uuid(self) -> str:
        """Return a new uuid, drawn from the run's seed."""
        return self._values.uuid()

    def random(self, stream: str = "") -> _random.Random:
        """Return the seeded `random.Random` named `stream` of this scope.

        Draws in one stream, or in another scope, never shift a second.
        """
        _check_kind("random", "the name of a stream", isinstance(stream, str), stream)
        return self._values.stream(stream)

    def read_text(self, path: str | os.PathLike[str]) -> str | None:
        """Return the text of a UTF-8 file, recorded; `None` where there is none.

        For prompts and settings, which replay must not read again; what an agent reads goes
        through a tool.

        Raises:
            UnicodeDecodeError: the file is no UTF-8.
            OSError: it is there, and cannot be read.
        """
        is_path = isinstance(path, str | os.PathLike)
        _check_kind("read_text", "the path of a file", is_path, path)
        name = os.fspath(path)
        _check_kind("read_text", "a path without a NUL", "\0" not in name, path)
        return _drawn_text(name, self._kernel.draw("file", name, lambda: _text_of(name)))

    def environment(self, name: str) -> str | None:
        """Return an environment variable, recorded; `None` where it is not set.

        Never for secrets, for the log holds the value: `secret` gives a handle.

        Raises:
            UnicodeDecodeError: its value is no UTF-8.
        """
        _check_kind("environment", "the name of a variable", isinstance(name, str), name)
        value = self._kernel.draw("environment", name, lambda: _variable(name))
        return _drawn_text(name, value)

    def secret(self, name: str, /) -> Any:
        """Return a handle to a secret: an argument for tools, which are given its value.

        Type checkers see no type: a tool says `str` of what it is given.

        The value is that of `record(secrets={name: …})`, else of the environment variable.  It is
        read just before a tool runs, stands in no log, and is taken out of whatever comes back from
        now on.
        """
        _check_kind("secret", "the name of a secret", isinstance(name, str), name)
        self._kernel.hand_out(name)
        return Secret(name)

    def settings(self, name: str, make: Callable[[], Json]) -> Any:
        """Return how a tool is set up, recorded; in replay `make` is not called.

        Raises:
            NotCanonical: live, where what `make` returns cannot be held by a log.
        """
        _check_kind("settings", "a function without arguments", callable(make), make)
        return self._kernel.draw("settings", name, make)

    @property
    def session(self) -> Any:
        """The session of this run.

        Raises:
            UsageError: the run has none; pass one: `record(…, session=…)`.
        """
        if self._kernel.session is None:
            raise UsageError("this run has no session: pass one, record(…, session=Session())")
        return self._kernel.session

    def patched(self, marker: str, /) -> bool:
        """Return whether this run goes the way of the change that `marker` names.

        True in a new run, which says so in its log: `patch.marked`; in a replay, whether the record
        has the marker.  So `if run.patched("ask twice"): … else: …` replays old logs as they were.
        A marker is no call: it takes no ordinal, and one that the program no longer asks for is
        passed over (CONTRACT.md §9.8).
        """
        _check_kind("patched", "a text", isinstance(marker, str), marker)
        return self._values.patched(marker)

    def annotate(
        self,
        text: str,
        data: Json = None,
        *,
        measured: Iterable[str] = (),
        ids: Iterable[str] = (),
    ) -> None:
        """Write a remark into the log: `note.added`.

        `measured` are JSON pointers into `data`, `/took_ms`, whose values another recording of the
        same program has otherwise; `ids` are texts that are made of a run's id, wherever they
        stand.  Diffs and snapshots leave out the former, tell the latter by their place, and list
        both (CONTRACT.md §13.2); a replay compares them as all else.

        Raises:
            NotCanonical: `data` cannot be held by a log.
            UsageError: `measured` holds what is no pointer.
        """
        _check_kind("annotate", "a text, and then data", isinstance(text, str), text)
        measured, ids = _texts("measured", measured), _texts("ids", ids)
        self._values.annotate(text, data, measured, ids)

    def _request(
        self,
        messages: Iterable[Mapping[str, Any]],
        tools: Iterable[Tool | ToolDefinition | str],
        parameters: dict[str, Any],
    ) -> ModelRequest:
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
        found = self._kernel.tool(tool)
        return ToolDefinition(
            name=found.name, description=found.description, parameters=found.parameters
        )


class Run(_Face):
    """The `run` of an `async def program(run, input)`."""

    @overload
    def tool(
        self, tool: TypedTool[P, Awaitable[R]], /, *unnamed: P.args, **arguments: P.kwargs
    ) -> Coroutine[Any, Any, R]: ...

    @overload
    def tool(
        self, tool: TypedTool[P, R], /, *unnamed: P.args, **arguments: P.kwargs
    ) -> Coroutine[Any, Any, R]: ...

    @overload
    def tool(
        self, tool: TypedTool[..., Any], /, *unnamed: Any, **arguments: Any
    ) -> ArgumentsDoNotFit: ...

    @overload
    def tool(
        self, tool: Tool | str, /, *unnamed: Never, **arguments: Any
    ) -> Coroutine[Any, Any, Any]: ...

    @to_be_awaited
    async def tool(self, tool: Any, /, *unnamed: Any, **arguments: Any) -> Any:
        """Call a tool, and return its result as its return annotation says.

        Raises:
            ToolError: the tool failed, or a person did not approve the call (`denied`).
            ToolUnknown: no tool has that name.
            UsageError: arguments without their names.
            NotCanonical: an argument cannot be held by a log.
        """
        kernel = self._kernel
        found = kernel.tool(tool)
        if unnamed:
            raise _unnamed(found)
        if needs_approval(found):
            question = approval_question(found.name, kernel.plain_arguments(arguments))
            check_approved(found.name, await self.ask(question, APPROVAL))
        if found.delegates:
            return await self._delegation_tool(found, arguments)
        pending, result = kernel.ask_tool(found, arguments)
        return result if pending is None else await self._awaited(pending)

    async def _awaited(self, pending: Any) -> Any:
        try:
            return await pending.future
        except asyncio.CancelledError:
            if pending.future.cancelled():
                self._kernel.give_up(pending)
            raise
        except Exception:
            self._kernel.forget(pending)
            raise

    async def _delegation_tool(self, tool: Tool, arguments: dict[str, Any]) -> Any:
        kernel = self._kernel
        plain = kernel.handed_on(tool, arguments)
        call, scope = kernel.begin_delegation(tool, plain)
        return await kernel.loop.spawn(run_delegation(self, kernel, tool, call, plain), scope)

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
        """Ask a model; `model` is one, or names one of those given to `record`, else the default.

        `messages` are neutral, `{"role": …, "content": …}` (`ModelRequest.messages`); `tools` are
        offered to it, as tools, definitions or names; `parameters` go to the provider by name:
        `temperature=0.2`.

        Raises:
            ModelError: the request failed after the client's own retries.
            UsageError: the messages are no list of objects.
            LimitReached: the run may ask no more.
        """
        request = self._request(messages, tools, parameters)
        return await self._awaited(self._kernel.ask_model(request, model))  # type: ignore[no-any-return]  # of this kind

    @to_be_awaited
    async def ask(self, question: str, schema: Mapping[str, Any] | None = None, /) -> Any:
        """Ask a person, and return the answer, a JSON value that fits `schema`.

        Where nobody answers and nothing else is left to do, the run is suspended: its process ends,
        its log stays as it is, and `refold resume LOG --answer KEY=…` goes on (CONTRACT.md §9.9).

        Raises:
            UsageError: the question is no text, or the schema is none.
        """
        return await self._awaited(self._kernel.ask_person(question, schema))

    @to_be_awaited
    async def start(self, delegation: Delegation, /) -> Child:
        """Start a child run and return at once; a rejected one has its outcome already.

        Raises:
            ProgramNotFound: the child's program cannot be named.
        """
        return self._kernel.start(delegation)

    @to_be_awaited
    async def join(self, *children: Child) -> tuple[Outcome, ...]:
        """Wait for children and return their outcomes, in the order asked.

        A cancelled join leaves its children running; `cancel` ends one.
        """
        await self._joined(children, first=False)
        return tuple(child.outcome for child in children if child.outcome is not None)

    @to_be_awaited
    async def join_first(self, *children: Child) -> Child:
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
    async def delegate(self, delegation: Delegation, /) -> Outcome:
        """Start a child and wait for its outcome; being cancelled cancels the child."""
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
        _check_kind("sleep", _SECONDS, _is_number(seconds), seconds)
        await asyncio.sleep(seconds)

    def cancel(self, child: Child) -> None:
        """Ask for the end of a child; its outcome is still joined."""
        self._kernel.cancel_child(child)


class PlainRun(_Face):
    """The `run` of a plain `def program(run, input)`: the same names, without `await`."""

    def __init__(self, kernel: Kernel, asynchronous: Run) -> None:
        super().__init__(kernel, asynchronous._values)  # noqa: SLF001 - the same of one run
        self._asynchronous = asynchronous

    @overload
    def tool(
        self, tool: TypedTool[P, Awaitable[R]], /, *unnamed: P.args, **arguments: P.kwargs
    ) -> R: ...

    @overload
    def tool(self, tool: TypedTool[P, R], /, *unnamed: P.args, **arguments: P.kwargs) -> R: ...

    @overload
    def tool(
        self, tool: TypedTool[..., Any], /, *unnamed: Any, **arguments: Any
    ) -> ArgumentsDoNotFit: ...

    @overload
    def tool(self, tool: Tool | str, /, *unnamed: Never, **arguments: Any) -> Any: ...

    def tool(self, tool: Any, /, *unnamed: Any, **arguments: Any) -> Any:
        """Call a tool, and return its result as its return annotation says.

        Raises:
            ToolError: the tool failed, or a person did not approve the call (`denied`).
            ToolUnknown: no tool has that name.
            UsageError: arguments without their names.
            NotCanonical: an argument cannot be held by a log.
        """
        kernel = self._kernel
        found = kernel.tool(tool)
        if unnamed:
            raise _unnamed(found)
        if needs_approval(found):
            question = approval_question(found.name, kernel.plain_arguments(arguments))
            check_approved(found.name, self.ask(question, APPROVAL))
        if not found.delegates:
            pending, result = kernel.ask_tool(found, arguments)
            return kernel.had(result) if pending is None else kernel.wait(pending)
        plain = kernel.handed_on(found, arguments)
        call, scope = kernel.begin_delegation(found, plain)
        task = kernel.loop.spawn(
            run_delegation(self._asynchronous, kernel, found, call, plain), scope
        )
        return kernel.wait_for_task(task)

    def model(
        self,
        messages: Iterable[Mapping[str, Any]],
        /,
        *,
        tools: Iterable[Tool | ToolDefinition | str] = (),
        model: Model | str = "",
        **parameters: Any,
    ) -> ModelReply:
        """Ask a model; as `Run.model`."""
        request = self._request(messages, tools, parameters)
        return self._kernel.wait(self._kernel.ask_model(request, model))  # type: ignore[no-any-return]  # of this kind

    def ask(self, question: str, schema: Mapping[str, Any] | None = None, /) -> Any:
        """Ask a person, and return the answer; as `Run.ask`."""
        return self._kernel.wait(self._kernel.ask_person(question, schema))

    def start(self, delegation: Delegation, /) -> Child:
        """Start a child run and return at once; as `Run.start`."""
        return self._kernel.start(delegation)

    def join(self, *children: Child) -> tuple[Outcome, ...]:
        """Wait for children and return their outcomes, in the order asked."""
        self._kernel.wait(self._kernel.join(children))
        return tuple(child.outcome for child in children if child.outcome is not None)

    def join_first(self, *children: Child) -> Child:
        """Wait until one of the children has ended, and return it."""
        self._kernel.wait(self._kernel.join(children, first=True))
        return next(child for child in children if child.outcome is not None)

    def delegate(self, delegation: Delegation, /) -> Outcome:
        """Start a child and wait for its outcome."""
        return self.join(self.start(delegation))[0]

    def sleep(self, seconds: float) -> None:
        """Wait."""
        _check_kind("sleep", _SECONDS, _is_number(seconds), seconds)
        self._kernel.sleep(seconds)

    def cancel(self, child: Child) -> None:
        """Ask for the end of a child; its outcome is still joined."""
        self._kernel.cancel_child(child)


async def run_delegation(
    run: Run, kernel: Kernel, tool: Tool, call: str, arguments: dict[str, Json]
) -> Any:
    """Run a delegation tool as program code, between its two lines (CONTRACT.md §10.4)."""
    _delegation.set(call)
    try:
        result = await tool.delegate(run, arguments)
    except asyncio.CancelledError:
        kernel.cancel_delegation(call)
        raise
    except Exception as error:  # noqa: BLE001 - a tool's failure is data
        return kernel.end_delegation(call, tool, arguments, None, error)
    return kernel.end_delegation(call, tool, arguments, result, None)


@attrs.frozen
class Faces:
    """Both faces of one kernel."""

    asynchronous: Run
    plain: PlainRun


def faces_of(kernel: Kernel) -> Faces:
    """Return the `run` objects of a kernel."""
    asynchronous = Run(kernel, Values(kernel))
    _running[kernel.loop] = weakref.ref(asynchronous)  # a Run holds its loop
    return Faces(asynchronous, PlainRun(kernel, asynchronous))


def asynchronous_face(run: Any) -> Any:
    """Return the face of a run that its delegation tools are given, whichever of them `run` is."""
    return run._asynchronous if isinstance(run, PlainRun) else run  # noqa: SLF001 - its own module


def current_run() -> Run | None:
    """Return the run whose program calls this, in a task of its own; `None` outside of one."""
    loop = asyncio._get_running_loop()  # noqa: SLF001 - None instead of an error
    found = _running.get(loop) if loop is not None else None
    return found() if found is not None else None
