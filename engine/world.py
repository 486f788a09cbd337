"""What stands behind a kernel: the port between a program and its log.

`engine.recorder` implements it for a log being written, `replay.world` for a log being read; the
kernel cannot tell which.
"""

from collections.abc import Callable
from typing import Protocol

from refold.engine.canonical import Json
from refold.engine.effects import CallTool
from refold.engine.events import ClockRead, Event, ToolReturned
from refold.engine.loop import Timer
from refold.engine.ports import SessionPort
from refold.engine.state import Fold


class World(Protocol):
    """What stands behind a kernel: a log being written, or a log being read."""

    fold: Fold
    """The state so far; `emit` and the pump keep it."""

    def emit(self, event: Event, call: str | None) -> None:
        """Take a line that follows from the program.

        Raises:
            NotCanonical: the event cannot be held; nothing was taken.
        """
        ...

    def look(self) -> ClockRead:
        """Take a look at the clock as a line, and return it."""
        ...

    def arm(self, timer: Timer) -> None:
        """Be told of a new timer."""
        ...

    def draw(self, source: str, name: str, call: str, produce: Callable[[], Json]) -> Json:
        """Take a value from outside as a line, and return it; in replay `produce` is not called."""
        ...

    def seed(self, session: SessionPort) -> None:
        """Take the session that the run starts with as a line."""
        ...

    def at_once(self, effect: CallTool) -> ToolReturned | None:
        """Run a tool in place where nothing else is live; `None`: it must wait its turn."""
        ...

    def advance(self) -> bool:
        """Launch what is wanted, take one line from the world and `deliver` it.

        Returns False where nothing more will come: the run is given up, or the record ends.
        """
        ...
