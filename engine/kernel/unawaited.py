"""Calls of `run` that a program never awaits: nothing happens, and nothing is logged.

`run.tool(…)` without `await` makes no request: the coroutine is dropped before it starts, so no
event can show it. Coroutines are kept here until they have begun. Those that never did are reported
at the end of the run: as `Recording.warnings`, and as Python warnings that replace its own, which
come only when the coroutine is collected. Exceptions that were never awaited, which asyncio would
log, are reported too. The rule is CONTRACT.md §9.10.
"""

import contextlib
import functools
import inspect
import sys
import warnings
from collections.abc import Callable, Coroutine, Iterable
from types import CodeType
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

import attrs

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
