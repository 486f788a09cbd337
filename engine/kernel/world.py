"""The port between a program and its log.

`engine.recording.recorder` implements it for a log being written, `replay.reexecute.world` for a
log being read; the kernel cannot tell which.
"""

import asyncio
from collections.abc import Callable
from enum import Enum, auto
from typing import Final

from refold.engine.encoding.canonical import Json
from refold.engine.events.events import (
    ChildStarted,
    ClockRead,
    Event,
    Extension,
    InputAsked,
    ModelAsked,
    ToolCalled,
    ToolReturned,
)
from refold.engine.loop.loop import Timer
from refold.engine.ports.ports import SessionPort, Tool
from refold.engine.state.folding import Fold

Served = tuple[Json]
"""The result of a tool that returned, in place of its event, which costs more to make."""


class StraightEnd(Enum):
    """How much was taken of a call that was to be made straight through, and was not."""

    NOTHING = auto()
    """The call is to be asked for as any other."""
    REQUEST = auto()
    """The outcome is to be waited for as any other."""


REQUESTS: Final = (ToolCalled, ModelAsked, ChildStarted, InputAsked)
"""Events that ask the world for something."""


class RecordEnded(asyncio.CancelledError):
    """The program asked for something after the last line: it is let go."""


class World:
    """The kernel's counterpart: a log being written, or a log being read.

    The class itself is the world of a suspended or failed run: nothing is written, no outcome
    arrives, and every requester is released.
    """

    fold: Fold
    """The state so far; `emit` and the pump keep it."""
    hears_slips = True
    """Whether anybody is told of calls that the program never awaits."""

    def __init__(self, fold: Fold) -> None:
        self.fold = fold

    def emit(self, event: Event, call: str | None) -> None:  # noqa: ARG002 - others look
        """Take a line that follows from the program.

        Raises:
            NotCanonical: the event cannot be held; nothing was taken.
            RecordEnded: it asks for something, and nothing comes any more.
        """
        if isinstance(event, REQUESTS):
            raise RecordEnded

    def read_clock(self) -> ClockRead:
        """Take a look at the clock as a line, and return it."""
        raise RecordEnded

    def arm(self, timer: Timer) -> None:
        """Called with each new timer."""

    def draw(self, source: str, name: str, call: str, produce: Callable[[], Json]) -> Json:  # noqa: ARG002 - the same
        """Take a value from outside as a line, and return it; in replay `produce` is not called."""
        raise RecordEnded

    def patched(self, marker: str) -> bool:  # noqa: ARG002 - the same
        """Take a change marker as a line, and return whether the run has it; live, it has."""
        raise RecordEnded

    def declare(self, measured: Extension) -> None:
        """Take a line of the kind `MEASURED`, which a replay neither compares nor needs."""

    def secret_named(self, name: str) -> None:
        """Called when the program gets a handle to a secret: its value is hidden from now on."""

    def seed(self, session: SessionPort) -> None:
        """Take the session that the run starts with as a line."""

    def straight(
        self,
        tool: Tool,  # noqa: ARG002 - the same
        arguments: dict[str, Json],  # noqa: ARG002 - the same
        call: str,  # noqa: ARG002 - the same
        /,
    ) -> Served | ToolReturned | StraightEnd:
        """Write a leaf tool's request and its result as two lines, if possible.

        A fast path of `emit` and `advance` with the same lines; a world need not have it.
        """
        return StraightEnd.NOTHING

    def advance(self) -> bool:
        """Start the wanted effects, take one line from the world and `deliver` it.

        Returns False if no line will follow: the run is abandoned, or the record ends.
        """
        return False
