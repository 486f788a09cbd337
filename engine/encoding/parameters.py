"""Adds the nearest parameter to Python's message for an unknown one, as Python 3.13 and later do.

A correct call pays for one more frame, so only public calls that are made a few times per run are
decorated.
"""

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from types import TracebackType
from typing import Any, TypeVar

from refold.engine.encoding.canonical import kind_of, shown
from refold.engine.errors import LogError, NotCanonical, UsageError

C = TypeVar("C", bound=Callable[..., Any])


def names_nearest(called: C, /) -> C:
    """Return a function or a class whose TypeError for an unknown parameter names the nearest.

    The traceback of a `UsageError`, `LogError` or `NotCanonical` ends here.
    """
    if isinstance(called, type):
        called.__init__ = names_nearest(called.__init__)  # type: ignore[misc]  # of this class
        return called

    @functools.wraps(called)
    def call(*given: Any, **named: Any) -> Any:
        try:
            return called(*given, **named)
        except TypeError as error:
            if "Did you mean" not in str(error) and not _has_begun(called, error.__traceback__):
                error.args = (f"{error}{_nearest(called, named)}",)
            raise
        except (UsageError, LogError, NotCanonical) as error:
            raise error.with_traceback(None)  # noqa: B904 - the call is wrong, no line of ours

    return call  # type: ignore[return-value]  # of the same signature


def _has_begun(called: Callable[..., Any], trace: TracebackType | None) -> bool:
    """Return whether a function's own code was reached, below its decorators."""
    code = getattr(inspect.unwrap(called), "__code__", None)
    while trace is not None and trace.tb_frame.f_code is not code:
        trace = trace.tb_next
    return trace is not None


def _nearest(called: Callable[..., Any], named: dict[str, Any]) -> str:
    from difflib import get_close_matches  # noqa: PLC0415 - only to complain

    known = inspect.signature(called).parameters
    near = [match for name in named.keys() - known for match in get_close_matches(name, known, 1)]
    return f". Did you mean {near[0]!r}?" if near else ""


def texts(given: Iterable[str], name: str = "", *, is_secret: bool = False) -> tuple[str, ...]:
    """Return the texts of a list as a tuple, those of a set in their order.

    Raises:
        UsageError: it is one text, which would be read as its letters, or an item is not a text;
            `name` is the parameter.  What is secret is not in the message.
    """
    value: Any = given
    if isinstance(value, Iterable) and not isinstance(value, str | Mapping):
        items = tuple(value)
        if all(isinstance(each, str) for each in items):
            return tuple(sorted(items)) if isinstance(value, AbstractSet) else items
    near = f'["{given}"]' if isinstance(value, str) and not is_secret else '["a", "b"]'
    of = f"{name}: " if name else ""
    found = kind_of(given) if is_secret else shown(given)
    raise UsageError(f"{of}expected a list of strings, {near}; found {found}")


def tool_names(tools: Iterable[str]) -> tuple[str, ...]:
    """Return the texts of a list, the value of a field `tools`.

    Raises:
        UsageError: as `texts`.
    """
    return texts(tools, "tools")
