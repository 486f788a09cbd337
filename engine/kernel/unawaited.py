"""Calls of `run` that a program never awaits: nothing happens, and nothing is logged.

`run.tool(…)` without `await` makes no request: the coroutine is dropped before it starts, so no
event can show it. Coroutines are kept here until they have begun. Those that never did are reported
at the end of the run: as `Recording.warnings`, and as Python warnings that replace its own, which
come only when the coroutine is collected. Exceptions that were never awaited, which asyncio would
log, are reported too.

So are children that a program starts and then ignores: `[o.output for o in await run.join(*kids)]`
is `[None, None]` if two children failed, and a child that is never joined is cancelled when its
parent ends. Both are logged, but nobody reads the log of a completed run. So outcomes note whether
the program checks how the child ended. A call that a task still waits for when the program returns
is reported as well. The rule is CONTRACT.md §9.10.
"""

import contextlib
import functools
import inspect
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sized
from types import CodeType
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

import attrs

from refold.engine.events.outcome import Outcome
from refold.engine.kernel.pending import Child, Pending
from refold.engine.values import Value

P = ParamSpec("P")
R = TypeVar("R")

_KEPT_MIN: Final = 256
"""So many are kept before it is looked which of them have begun."""

Made = tuple[Any, CodeType | None, int]
"""A coroutine, and the code that made it, if anybody is told, with the place in that."""


@attrs.frozen
class Slip(Value):
    """A warning about a program, reported at its end.

    It is about a call that was never awaited; an unretrieved exception of a task, a callback or an
    exception handler; a line that blocked the loop (`engine.recording.blocked`); or ignored
    children (`neglected`).
    """

    message: str
    """The problem, without the place."""
    file: str = ""
    """Empty where the program has no part in it."""
    line: int = 0

    def of(self, log: object) -> "Slip":
        """Return it with the name of the run's log in the command that it proposes."""
        if not log:
            return self
        import shlex  # noqa: PLC0415 - only to warn

        quoted = shlex.quote(str(log))
        return attrs.evolve(self, message=self.message.replace(" LOG ", f" {quoted} "))

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.message}" if self.file else self.message


class Unawaited:
    """What one run's program made and has not begun, as far as is known."""

    def __init__(self, *, is_told: bool = True) -> None:
        """Keep coroutines, and if anybody is told of them, their places."""
        self._made: list[Made] = []
        self._kept_max = _KEPT_MIN
        self._is_told = is_told

    def add(self, coroutine: Any) -> Any:
        """Keep a coroutine that the caller's caller makes, and return it.

        Now and then, let go of those that have begun.
        """
        made = self._made
        if self._is_told:
            frame = sys._getframe(2)  # noqa: SLF001 - `inspect` would ask the same
            made.append((coroutine, frame.f_code, frame.f_lasti))
        else:
            made.append((coroutine, None, 0))
        if len(made) > self._kept_max:
            made[:] = [one for one in made if _is_fresh(one[0])]
            self._kept_max = max(_KEPT_MIN, 2 * len(made))
        return coroutine

    def begin(self) -> None:
        """Let go of the last coroutine if it has begun, as most have when the next is made."""
        if self._made and self._made[-1][0].cr_running:
            self._made.pop()

    def collect(self) -> tuple[Slip, ...]:
        """Return what never began, in the order in which it was made, and let go of all."""
        if not self._made:
            return ()
        made, self._made = self._made, []
        fresh = [one for one in made if _is_fresh(one[0])]
        slips = tuple(
            Slip(_NEVER.format(_call_of(coroutine)), code.co_filename, _line_of(code, at))
            for coroutine, code, at in fresh
            if code is not None
        )
        for coroutine, _, _ in fresh:
            coroutine.close()  # or Python would warn, too, and name this line
        return slips


_NEVER: Final = "{} was never awaited, so the call was not made"


def to_be_awaited(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]:
    """Return a method that makes the same coroutine and keeps it until it begins.

    Its object stores the coroutine by `_add`, which is `Unawaited.add`, bound once.
    """

    @functools.wraps(method)
    def make(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:
        return self._add(method(self, *args, **kwargs))  # type: ignore[no-any-return]  # the same

    return make


def tell(slips: Iterable[Slip]) -> None:
    """Say slips as Python's warnings, each at its place."""
    for slip in slips:
        warnings.warn_explicit(slip.message, RuntimeWarning, slip.file or "asyncio", slip.line)


def place_of(program: Callable[..., Any]) -> tuple[str, int] | tuple[()]:
    """Return the file and line of a program, for a `Slip`; empty if unknown."""
    code = getattr(inspect.unwrap(program), "__code__", None)
    return (code.co_filename, code.co_firstlineno) if code is not None else ()


def tell_quietly(slips: Iterable[Slip]) -> None:
    """Say slips of a child, or what nobody awaited; it fails nobody where warnings are errors."""
    for slip in slips:
        with contextlib.suppress(RuntimeWarning):
            tell([slip])


def _is_fresh(coroutine: Any) -> bool:
    """Return whether a coroutine was made and has not begun; one that was cancelled has ended."""
    if coroutine.cr_frame is None:
        return False
    return not (coroutine.cr_running or coroutine.cr_suspended)


def _call_of(coroutine: Any) -> str:
    name = coroutine.__name__
    tool = coroutine.cr_frame.f_locals.get("tool") if name == "tool" else None
    named = tool if isinstance(tool, str) else getattr(tool, "name", None)
    return f"run.{name}({named!r})" if named else f"run.{name}()"


def _line_of(code: CodeType, at: int) -> int:
    """Return the line of a place in code; 0 where that is not known."""
    for start, end, line in code.co_lines():
        if start <= at < end and line is not None:
            return line
    return 0


_FIELDS: Final = tuple(field.name for field in attrs.fields(Outcome))
_ALWAYS_TRUE: Final = "an Outcome is always true: use outcome.ok, or `is not None`"
_HANDLE: Final = (
    "the program returned a child instead of its result: return "
    "`(await run.join(child))[0].result()`"
)
_LEFT: Final = "cancelled when the program returned: {}. Await the task of a call, or cancel it"
_SHOW: Final = "refold show LOG --failed"
_SHOW_CUT: Final = "refold show LOG --notable"


class Neglected:
    """What one run's program does not do with its children, as far as is known."""

    def __init__(self) -> None:
        self._alone: dict[str, Child] = {}
        """Children that were started, and neither joined nor cancelled."""
        self._failed: dict[str, Child] = {}
        """Children that did not complete, while the program has not looked at it."""
        self._asked = 0
        """How many children were started, or rejected."""
        self._bools: dict[tuple[str, int], Slip] = {}
        self._cut: set[str] = set()
        """Calls of children whose answer their model's provider cut off."""
        self._left: tuple[str, ...] = ()
        """Calls that tasks still wait for when the program returns."""

    def started(self, child: Child) -> None:
        """Keep a child until somebody joins it."""
        self._asked += 1
        self._alone[child.call] = child

    def mark_awaited(self, *children: Child) -> None:
        """Let go of children that the program joins or cancels."""
        for child in children:
            self._alone.pop(child.call, None)

    def cancelled(self, child: Child) -> None:
        """Ignore a child that the program itself cancels: its end is expected."""
        self.mark_awaited(child)
        self._failed[child.call] = child

    def ended(self, child: Child, outcome: Outcome, *, is_late: bool = False) -> Outcome:
        """Return the outcome that the program gets: equal, and it notes who looks at it.

        `is_late`: the program has ended, so nobody is left to look.
        """
        self._asked += not child.number  # it was rejected
        is_expected = self._failed.pop(child.call, None) is not None or is_late
        if outcome.ok and outcome.truncated is not None and outcome.truncated.by == "provider":
            self._cut.add(child.call)
        if not (outcome.ok or is_expected):
            self._failed[child.call] = child
        return _Noting.of(outcome, lambda: self._failed.pop(child.call, None), self._tested)

    def _tested(self) -> None:
        code = (frame := sys._getframe(2)).f_code  # noqa: SLF001 - who tests; `inspect` would ask it
        place = code.co_filename, frame.f_lineno
        self._bools.setdefault(place, Slip(_ALWAYS_TRUE, *place))

    def left(self, calls: Iterable[Pending], joins: Sized) -> None:
        """Keep the names of the calls that tasks wait for when the program returns."""
        names = [each.name if each.tool else each.kind for each in calls]
        self._left = (*names, *["subagent"] * len(joins))

    def slips(self, program: Callable[..., Any], value: Any) -> list[Slip]:
        """Return the warnings for a program that returned `value`."""
        said = [*self._messages(value)]
        place = place_of(program) if said else ()
        return [each if isinstance(each, Slip) else Slip(each, *place) for each in said]

    def _messages(self, value: Any) -> Iterator[str | Slip]:
        unread = len(self._failed.keys() - self._alone.keys())
        alone = len(self._alone)
        was = "were" if alone > 1 else "was"
        texts = [
            (unread, "did not complete, and nobody read status, error or result()"),
            (alone, f"{was} never joined: those still running were cancelled"),
        ]
        if cut := len(self._cut):
            text = f"{cut} of {_children(self._asked)} returned an answer that its provider cut off"
            yield f"{text}: {_SHOW_CUT}"
        if self._left:
            counts = Counter(self._left).items()
            named = ", ".join(f"{name} ×{count}" if count > 1 else name for name, count in counts)
            yield _LEFT.format(named)
        values = value if isinstance(value, list | tuple) else [value]
        if any(isinstance(one, Child) for one in values):
            yield _HANDLE
        yield from self._bools.values()
        yield from (
            f"{count} of {_children(self._asked)} {text}: {_SHOW}" for count, text in texts if count
        )


def _children(count: int) -> str:
    return f"{count} subagents" if count > 1 else "1 subagent"


class _Noting(Outcome):
    """An outcome in the hands of a program: it notes when somebody looks how the child ended."""

    __slots__ = ("_on_read", "_test")

    _on_read: Callable[[], object]
    _test: Callable[[], None]

    @classmethod
    def of(
        cls, outcome: Outcome, on_read: Callable[[], object], test: Callable[[], None]
    ) -> "_Noting":
        made = cls(**{name: getattr(outcome, name) for name in _FIELDS})
        object.__setattr__(made, "_on_read", on_read)
        object.__setattr__(made, "_test", test)
        return made

    def __getattribute__(self, name: str) -> Any:
        if name in ("status", "error"):  # `ok` and `result` read them, and so does the repr
            getattr(self, "_on_read", int)()
        return super().__getattribute__(name)

    def __bool__(self) -> bool:
        self._test()
        return True

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Outcome):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in _FIELDS)

    __hash__ = Outcome.__hash__

    def __reduce__(self) -> tuple[Any, ...]:
        return _plain, tuple(getattr(self, name) for name in _FIELDS)


_Noting.__name__ = _Noting.__qualname__ = Outcome.__qualname__  # programs print it, and match on it


def _plain(*values: Any) -> Outcome:
    """Return a copied or unpickled outcome: nobody notes who looks at that."""
    return Outcome(**dict(zip(_FIELDS, values, strict=True)))
