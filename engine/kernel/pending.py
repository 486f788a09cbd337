"""What a program waits for: effects, children, and those who join them.  Pure bookkeeping."""

import asyncio
from typing import Any

import attrs

from refold.engine.encoding.canonical import Json
from refold.engine.events.outcome import Outcome
from refold.engine.ports.ports import Tool


class Pending:
    """An effect that the program waits for."""

    __slots__ = (
        "arguments",
        "call",
        "chain",
        "error",
        "future",
        "is_done",
        "kind",
        "name",
        "tool",
        "value",
    )

    value: Any
    """Once `is_done`; so is `error`."""
    error: Exception | None
    chain: str
    """Of a model request: the chain digest of what was asked."""

    def __init__(
        self,
        call: str,
        kind: str,
        name: str,
        tool: Tool | None = None,
        arguments: dict[str, Json] | None = None,
    ) -> None:
        self.call = call
        self.kind = kind
        self.name = name
        self.tool = tool
        self.arguments: dict[str, Json] = {} if arguments is None else arguments
        self.future: asyncio.Future[Any] | None = None
        self.is_done = False

    def resolve(self, value: Any, error: Exception | None) -> None:
        """Keep the result, and wake who waits for it."""
        self.is_done = True
        self.value = value
        self.error = error
        future = self.future
        if future is not None and not future.done():
            if error is None:
                future.set_result(value)
            else:
                future.set_exception(error)

    def take(self) -> Any:
        """Return the result, or raise what the effect failed with."""
        if self.error is not None:
            raise self.error
        return self.value

    def forget(self) -> None:
        """Let go of the error, and of the future that has it, too."""
        self.error = self.future = None


@attrs.define(eq=False)
class Child:
    """A child run that was asked for: what `run.start` returns."""

    call: str
    """Its call key."""
    number: int
    """1-based, in the order of starts; 0 for a rejected one."""
    run_id: str
    outcome: Outcome | None = None
    """How it ended, once joined."""

    def __hash__(self) -> int:
        """Return its number: sets of children are in the same order in every process."""
        return self.number


@attrs.define(eq=False)
class Join:
    """Somebody waits for children: for all in the order asked, or for whichever is first."""

    children: tuple[Child, ...]
    first: bool
    pending: Pending

    def awaits(self, call: str) -> bool:
        """Return whether this join would take the outcome of `call` next."""
        for child in self.children:
            if child.outcome is None:
                if child.call == call:
                    return True
                if not self.first:
                    return False
        return False

    def is_settled(self) -> bool:
        """Return whether all that was asked for is there."""
        done = [child.outcome is not None for child in self.children]
        return any(done) if self.first else all(done)
