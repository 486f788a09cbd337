"""How many tool calls were executed while a program was run again: counted, not presumed.

A replay runs no leaf tool. A program, or a delegation tool, may still call one directly as a
function; then its report counts it. Rules: CONTRACT.md §12.2.
"""

import contextlib
import contextvars
from collections.abc import Iterator

import attrs


@attrs.define
class Executed:
    """A count that goes up."""

    tools: int = 0


_counted: contextvars.ContextVar[Executed | None] = contextvars.ContextVar(
    "refold_executed", default=None
)


@contextlib.contextmanager
def counted() -> Iterator[Executed]:
    """Count the calls of leaf tools in this context, and in those that are copied from it."""
    count = Executed()
    token = _counted.set(count)
    try:
        yield count
    finally:
        _counted.reset(token)


def count_tool() -> None:
    """Say that a leaf tool is executed now."""
    count = _counted.get()
    if count is not None:
        count.tools += 1
