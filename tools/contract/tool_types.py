"""Tools: functions with a name, a schema, an effect class and types that a log preserves.

`tool` and `as_tool` make leaf tools of functions; `DelegationTool` is program code that starts
children.  Both are `engine.ports.ports.Tool`.  Nothing registers on import: tools are passed, by
value, to their callers. `tools.contract.signature` reads signatures. A reference names only what
can be found: the name is looked up here and now, so that it never leads to something else; loading
one is `engine.ports.programs`.  Rules: CONTRACT.md §10.
"""

import copy
import functools
import inspect
import math
import re
import sys
import warnings
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from functools import partial
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Generic,
    Never,
    ParamSpec,
    Protocol,
    TypeVar,
    get_args,
    overload,
)

import attrs

from refold.engine.encoding.canonical import Json
from refold.engine.encoding.parameters import names_nearest
from refold.engine.encoding.plain import to_json
from refold.engine.errors import LimitRefused, ProgramNotFound, ToolRefused
from refold.engine.events.events import EffectClass
from refold.engine.events.outcome import T
from refold.engine.ports.executed import count_tool
from refold.engine.ports.ports import CallContext, Children, Reference, Tool
from refold.engine.ports.programs import load, reference_of
from refold.engine.values import Value
from refold.tools.contract.signature import parameters_of, result_of, summary_of, unwrapped

if TYPE_CHECKING:
    from refold.engine.ports.ports import Awaited, Reports


def place_of(function: Callable[..., Any]) -> tuple[Reference, Any] | None:
    """Return the reference to `function`, and the object at that place: perhaps a tool.

    `None` if an import cannot reach it: closures, lambdas, bound methods, partials.
    """
    if isinstance(function, partial) or getattr(function, "__self__", None) is not None:
        return None
    try:
        reference = reference_of(function)
    except ProgramNotFound:
        return None
    found: Any = sys.modules.get(function.__module__)
    for part in reference.name.split("."):
        found = getattr(found, part, None)
    return reference, found


P = ParamSpec("P")
R = TypeVar("R")

NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
"""A tool's name; model providers accept no other."""


class FunctionTool(Generic[P, R]):
    """A leaf tool made of a function, which it still can be called as.

    Called directly it is the function, unrecorded; called through `run.tool` it is an effect.
    """

    __name__: str
    __wrapped__: Callable[P, R]

    def __init__(
        self,
        function: Callable[P, R],
        *,
        effect: EffectClass = "changes",
        name: str | None = None,
        description: str | None = None,
        timeout_seconds: float | None = None,
        approval: bool = False,
        volatile: Iterable[str] = (),
        reference: Reference | None = None,
    ) -> None:
        """Check the function's types once.

        Raises:
            ToolRefused: the function cannot be a tool; names the part of it and the remedy.
            LimitRefused: `timeout_seconds` is not a positive number.
        """
        target = _unwrapped(function)
        self.name: Final = checked_name(target.__name__ if name is None else name)
        self.effect: Final = checked_effect(effect, self.name)
        self.timeout_seconds: Final = _checked_seconds(timeout_seconds)
        self.description: Final = summary_of(function) if description is None else description
        if not isinstance(approval, bool):
            raise ToolRefused(self.name, "approval", f"expected True or False; found {approval!r}")
        self.approval: Final = approval
        self.volatile: Final = _checked_pointers(volatile, self.name)
        self.delegates: Final = False
        self.is_async: Final = inspect.iscoroutinefunction(function)
        self._parameters: Final = parameters_of(function, self.name)
        self.takes_context: Final = bool(self._parameters.context)
        self._result: Final = result_of(function, self.name)
        self.parameters: Final = self._parameters.schema
        """JSON schema of the arguments."""
        self.typed: Final = self._result.typed
        """Whether `load` gives anything but the JSON value itself."""
        self._function: Final = function
        self._reference: Final = reference
        functools.update_wrapper(self, target, updated=())
        self.__wrapped__ = function

    def approving(self, reference: Reference | None) -> "FunctionTool[P, R]":
        """Return the same tool, asked for before each call; `reference` finds that one."""
        made = copy.copy(self)
        vars(made).update(approval=True, _reference=reference)
        return made

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function directly; nothing is recorded.

        Inside a program this warns, because replays of the program would also run the function.
        """
        count_tool()
        nested = sys.modules.get("refold.engine.recording.nested")  # else nothing is recorded
        if self.effect != "pure" and nested is not None and nested.is_in_program():
            warnings.warn(_PAST_RUN.format(name=self.name), RuntimeWarning, stacklevel=2)
        return self._function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<tool {self.name}: {self.effect}>"

    @property
    def reference(self) -> Reference | None:
        """How a subprocess finds the tool; `None` for what no import can reach."""
        if self._reference is not None:
            return self._reference
        place = place_of(self._function)
        if place is None:
            return None
        reference, found = place
        if found is self:
            return reference
        return self._remade(reference) if found is self._function else None

    def call(self, arguments: Mapping[str, Json], context: CallContext, /) -> Any:
        """Run the function on JSON arguments; returns an awaitable if `is_async`.

        Raises:
            ArgumentsRefused: lists all arguments that do not fit.
            Exception: any exception that the function raises.
        """
        function: Callable[..., Any] = self._function
        count_tool()
        return function(**self._parameters.read(self.name, arguments, context))

    def delegate(self, _run: Never, _arguments: Mapping[str, Json], /) -> Awaitable[Json]:
        """Refuse: a leaf tool runs no program code."""
        why = "a leaf tool has no program code: run.tool(…) calls it"
        raise ToolRefused(self.name, "delegate", why)

    if TYPE_CHECKING:

        def _awaited(self: "Callable[..., Reports | Awaited[T] | T]") -> Coroutine[Any, Any, T]: ...

    def dump(self, result: Any, /) -> Json:
        """Return a result as JSON.

        Raises:
            NotCanonical: the result does not match the return annotation; has its pointer.
        """
        return self._result.dump(result)

    def load(self, result: Json, /) -> Any:
        """Return the typed value of a recorded result.

        Raises:
            NotCanonical: the record does not fit the annotation as it is now.
        """
        return self._result.load(result)

    def _remade(self, reference: Reference) -> Reference:
        names = ("effect", "name", "description", "timeout_seconds", "approval")
        options = {name: getattr(self, name) for name in names} | {"volatile": [*self.volatile]}
        place = {"source": reference.source, "function": reference.name}
        return Reference(__name__, "remade", place | options)


Tell = Callable[[Json], tuple[str, bool]]
"""Returns the model's text for a result, which is given as logged, and whether it is a failure."""


class Handler(Protocol):
    """Program code of a delegation tool: reaches the world through `run` only."""

    def __call__(self, run: Any, arguments: dict[str, Json], /) -> Awaitable[Json]:
        """Return the tool's result as JSON."""
        ...


@attrs.frozen(kw_only=True)
class KernelTool(Value):
    """A tool that is program code: it starts children and is re-executed in replay."""

    name: str = attrs.field(validator=lambda _self, _field, name: checked_name(name))
    """What programs and models call it."""
    description: str
    """For a model."""
    reference: Reference | None = None
    """How a process of its own makes it; `None` if it cannot."""
    effect: EffectClass = "changes"
    """The calls that it makes declare their own effects."""
    companions: tuple[str, ...] = ()
    """Tools of the same run that come with it, by name: `spawn_await` with `spawn`."""
    children: Children | None = None
    """What all children that it starts need: a run is refused that lacks some of it."""
    unreachable: str = ""
    """Why it has no `reference`, and what to do."""
    why_useless: Callable[[Any, Iterable[Tool]], str] | None = attrs.field(default=None, eq=False)
    """Returns why no call can succeed in a run with this session and these tools, and what to do;
    empty if one can. Asked before the run begins."""
    tell: Tell | None = None
    """Formats a result for the model; without it, the model gets text unchanged, others as JSON."""
    approval: bool = False
    """Whether a person is asked before each call."""
    delegates: bool = attrs.field(default=True, init=False)
    is_async: bool = attrs.field(default=True, init=False)
    typed: bool = attrs.field(default=False, init=False)
    timeout_seconds: float | None = attrs.field(default=None, init=False)

    def call(self, _arguments: Mapping[str, Json], _context: CallContext, /) -> Any:
        """Refuse: it runs on the kernel, through `delegate`."""
        raise ToolRefused(self.name, "call", "a delegation tool runs on the kernel: run.tool(…)")

    def dump(self, result: Any, /) -> Json:
        """Return a result as JSON.

        Raises:
            NotCanonical: the handler returned something else.
        """
        return to_json(result)

    def load(self, result: Json, /) -> Any:
        """Return a recorded result, as it is."""
        return result


@attrs.frozen(kw_only=True)
class DelegationTool(KernelTool):
    """A kernel tool whose own schema describes its JSON arguments."""

    parameters: dict[str, Any]
    """JSON schema of the arguments; the handler checks them, for its refusals are its own."""
    handler: Handler
    """`async def handler(run, arguments)`; returns the result, JSON."""
    stands_in: bool = False
    """Whether a replay made it, as the log offered it: it knows no program but ours."""
    measured: tuple[str, ...] = ()
    """JSON pointers into the result, `/duration_ms`: what another recording has otherwise, and
    diffs and snapshots do not compare (CONTRACT.md §13.2)."""

    def delegate(self, run: Any, arguments: Mapping[str, Json], /) -> Awaitable[Json]:
        """Run the handler in its own scope."""
        return self.handler(run, dict(arguments))


_PAST_RUN: Final = (
    "the tool {name} was called as a function in a program: nothing of it is recorded, and a "
    "replay calls it again: await run.tool({name}, …)"
)


@overload
def tool(function: Callable[P, R], /) -> FunctionTool[P, R]: ...


@overload
def tool(
    *,
    effect: EffectClass = "changes",
    name: str | None = None,
    description: str | None = None,
    timeout_seconds: float | None = None,
    approval: bool = False,
    volatile: Iterable[str] = (),
) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...


@names_nearest
def tool(
    function: Callable[P, R] | None = None,
    /,
    *,
    effect: EffectClass = "changes",
    name: str | None = None,
    description: str | None = None,
    timeout_seconds: float | None = None,
    approval: bool = False,
    volatile: Iterable[str] = (),
) -> FunctionTool[P, R] | Callable[[Callable[P, R]], FunctionTool[P, R]]:
    """Make a tool of the function below; `@tool` or `@tool(effect="reads")`.

    Args:
        function: Sync or async; every parameter annotated.
        effect: Its effect on the world: `pure`, `idempotent`, `reads`, or `changes` (default).
        name: The tool's name for programs and models; the function's name by default.
        description: Text for the model; the docstring's first paragraph by default.
        timeout_seconds: Wall time that one call may take.
        approval: Whether a person is asked before each call; a refusal is a `ToolError` with the
            code `denied`.
        volatile: JSON pointers into arguments and results, such as `/arguments/ts`, that a
            re-execution and a diff do not compare if the run was given this tool.

    Raises:
        ToolRefused: the function cannot be a tool; names the part of it and the remedy.
        LimitRefused: `timeout_seconds` is not a positive number.
    """
    decorate = functools.partial(
        FunctionTool[P, R],
        effect=effect,
        name=name,
        description=description,
        timeout_seconds=timeout_seconds,
        approval=approval,
        volatile=volatile,
    )
    return names_nearest(decorate) if function is None else decorate(function)


def as_tool(thing: Tool | Callable[..., Any], /) -> Tool:
    """Return a tool as it is, and a plain function as a tool that `changes` the world.

    Raises:
        ToolRefused: it is neither, or cannot be a tool.
    """
    if is_tool(thing):
        return thing  # type: ignore[return-value]  # seen by its attributes
    if _is_meant_as_tool(thing) and (missing := [one for one in _PARTS if not hasattr(thing, one)]):
        lacks = ", ".join(missing)
        why = f"a tool of one's own has all members of refold.tools.Tool; it lacks {lacks}"
        raise ToolRefused(str(getattr(thing, "name", thing))[:60], "tools", why)
    if not callable(thing):
        why = "neither a tool nor a function: pass one of these"
        raise ToolRefused(repr(thing)[:60], "tools", why)
    return FunctionTool(thing)


def with_approval(tool: Tool) -> Tool:
    """Return a tool of this file's kinds as one that a person is asked for before each call."""
    found = tool.reference
    how = attrs.asdict(found) if found is not None else None
    asking = Reference(__name__, "approving", {"tool": how}) if how is not None else None
    given: Any = tool
    if isinstance(given, KernelTool):  # a subclass may be made of other arguments
        kind: Any = DelegationTool if isinstance(given, DelegationTool) else type(given)
        same = {each.name: getattr(given, each.name) for each in attrs.fields(kind) if each.init}
        return kind(**same | {"approval": True, "reference": asking})  # type: ignore[no-any-return]  # of that kind
    if not isinstance(tool, FunctionTool):
        raise ToolRefused(tool.name, "approval", "neither a function nor a delegation tool")
    return tool.approving(asking)


def approving(*, tool: dict[str, Any]) -> Tool:
    """Return the tool of a reference, asked for before each call: for references."""
    found: Tool = load(Reference(**tool))
    return with_approval(found)


def is_tool(thing: object) -> bool:
    """Return whether `thing` has what `engine.ports.ports.Tool` asks for."""
    return not isinstance(thing, type) and all(hasattr(thing, part) for part in _PARTS)


def _is_meant_as_tool(thing: object) -> bool:
    """Return whether `thing` is an object, not a function, with a tool's name and method."""
    runs = hasattr(thing, "call") or hasattr(thing, "delegate")
    return not isinstance(thing, type) and hasattr(thing, "name") and runs


def remade(*, source: str, function: str, **options: Any) -> FunctionTool[..., Any]:
    """Return the tool for a reference to a function that has no decorator at its definition.

    Raises:
        ProgramNotFound: the function no longer exists.
        ToolRefused: it can no longer be a tool.
    """
    return FunctionTool(load(Reference(source, function)), **options)


def checked_name(name: str) -> str:
    """Return `name` if it can be a tool's.

    Raises:
        ToolRefused: it cannot.
    """
    if NAME.fullmatch(name) is None:
        raise ToolRefused(
            name,
            "name",
            "expected 1 to 64 of A-Z a-z 0-9 _ -, not starting with a digit or `-`: "
            'name it, @refold.tool(name="…")',
        )
    return name


def checked_effect(effect: EffectClass, tool: str) -> EffectClass:
    """Return `effect` if it is one.

    Raises:
        ToolRefused: it is not.
    """
    known = get_args(EffectClass)
    if effect not in known:
        raise ToolRefused(tool, "effect", f"expected one of {', '.join(known)}; found {effect!r}")
    return effect


def _checked_seconds(seconds: float | None) -> float | None:
    if seconds is None:
        return None
    fits = type(seconds) in (int, float) and math.isfinite(seconds) and seconds > 0
    if not fits:
        raise LimitRefused("timeout_seconds", "a positive number of seconds", repr(seconds))
    return seconds


def _checked_pointers(pointers: Iterable[str], tool: str) -> tuple[str, ...]:
    if isinstance(pointers, str):
        raise ToolRefused(tool, "volatile", f"expected a list of JSON pointers, found {pointers!r}")
    found = tuple(pointers)
    for pointer in found:
        if pointer.split("/")[:2] not in (["", "arguments"], ["", "result"], ["", "error"]):
            why = f"expected /arguments/… or /result/…, found {pointer!r}"
            raise ToolRefused(tool, "volatile", why)
    return found


def _unwrapped(function: Callable[..., Any]) -> Any:
    target = unwrapped(function)
    if is_tool(target):
        raise ToolRefused(repr(target)[:60], "function", "it is a tool already: decorate it once")
    if not inspect.isroutine(target):
        found = type(target).__name__ if not isinstance(target, type) else "a class"
        raise ToolRefused(
            repr(target)[:60],
            "function",
            f"expected a function, found {found}: wrap it in a function",
        )
    return target


_PARTS: Final = [name for name in vars(Tool) if not name.startswith("_")]
"""The members of `engine.ports.ports.Tool`, in their order."""
