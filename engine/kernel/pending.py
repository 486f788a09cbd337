"""Open effects of a program: effects, children, and joins. Pure bookkeeping."""

import asyncio
from typing import Any

import attrs

from refold.engine.encoding.canonical import Json
from refold.engine.events.limits import Limits
from refold.engine.events.outcome import Generic, Outcome, T_co
from refold.engine.ports.ports import Identity, Tool
from refold.engine.ports.program_types import PLAIN, ProgramTypes


@attrs.define(eq=False)
class Pending:
    """An effect that the program waits for."""

    call: str
    kind: str
    name: str
    tool: Tool | None = None
    arguments: dict[str, Json] = attrs.field(factory=dict)
    future: asyncio.Future[Any] | None = attrs.field(default=None, init=False)
    is_done: bool = attrs.field(default=False, init=False)
    value: Any = attrs.field(init=False)
    """Once `is_done`; so is `error`."""
    error: Exception | None = attrs.field(init=False)
    chain: str = attrs.field(init=False)
    """For a model request: the chain digest of the request."""

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
        """Return the result, or raise the effect's error."""
        if self.error is not None:
            raise self.error
        return self.value

    def forget(self) -> None:
        """Let go of a raised error, whose traceback refers to the frame that has this object.

        The cycle would keep the objects of the program's functions on the way until the collector
        runs; a generator among them must be closed when its function fails.
        """
        self.error = self.future = None


@attrs.define(eq=False)
class Child(Generic[T_co]):
    """A child run that was asked for: what `run.start` returns."""

    call: str
    """Its call key."""
    number: int
    """1-based, in the order of starts; 0 for a rejected one."""
    run_id: str
    outcome: Outcome[T_co] | None = None
    """How it ended, once joined."""
    limits: Limits | None = None
    """Its granted limits; `None` for a rejected one."""
    tool: str = ""
    """The delegation tool that started it; empty for `run.start`."""
    starter: Identity | None = attrs.field(default=None, kw_only=True, repr=False)
    """The run that started it, as the same object."""
    types: ProgramTypes = attrs.field(default=PLAIN, init=False, repr=False)
    """Of its program."""
    output_json: Json = attrs.field(default=None, init=False, repr=False)
    """Its output as the log has it; `outcome` has the value that the program gets."""

    def read(self, outcome: Outcome) -> Outcome:
        """Return an outcome with the output that the program gets.

        A substitute, such as a stub, has no child and no output, whatever the annotation is.

        Raises:
            ValueRefused: the output does not fit the annotation of the child's program.
        """
        if not outcome.ok or (outcome.output is None and outcome.child is None):
            return outcome
        output = self.types.read_output(outcome.output)
        return outcome if output is outcome.output else attrs.evolve(outcome, output=output)

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
