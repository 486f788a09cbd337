"""Names the line of a program that holds up its loop for long (CONTRACT.md §9.10).

Of a plain program, which has nothing to hold up, the line where it is long after its time.

One thread for all runs of a process looks now and then at what each loop does.  A run pays for two
additions a call and no clock; asyncio's `slow_callback_duration` reads the clock for each callback,
and names the task, not the line.  A tool that is called in the kernel's own thread is meant to hold
it up (§9.7): nothing else of its run is live.  A shell file; replays are not watched.
"""

import contextlib
import sys
from types import FrameType
from typing import Final

import attrs

from refold.engine.kernel.kernel import Kernel
from refold.engine.kernel.unawaited import Slip
from refold.engine.loop.loop import Loop, frames, is_engines, is_librarys
from refold.engine.recording.driver import Driver
from refold.engine.recording.workers import Lookout

_LONG_SECONDS: Final = 2.0
"""The threshold for a warning: it was seen in one call twice, this far apart."""

_CALLBACK: Final = Loop._run.__code__  # noqa: SLF001 - below it, on the stack, stands the program
_TOOL: Final = Driver.in_place.__code__


@attrs.define(eq=False)
class _Watched:
    kernel: Kernel
    moves: int = -1
    """What `Loop.moves` was when it was last looked at."""
    told: set[tuple[str, int]] = attrs.field(factory=set)
    looks: int = 0
    """How often it was looked at since `moves` changed."""

    def check(self) -> None:
        loop = self.kernel.loop
        if self.kernel.plain_thread:
            self._check_plain(self.kernel.plain_thread, self.kernel.limits.timeout_seconds)
            return
        moves = loop.moves
        frame = frames().get(loop.thread)
        place = held_at(frame)
        if place is None or loop.moves != moves:
            self.moves = -1
        elif moves != self.moves:
            self.moves, self.looks = moves, 0
        else:
            self.looks += 1
            if place not in self.told:
                self.told.add(place)
                self.kernel.unheard.append(Slip(_TEXT, *place))
            if self.looks == STUCK_LOOKS and sys.stderr is not None:
                sys.stderr.write(_STUCK.format(*place, seconds=STUCK_LOOKS * _LONG_SECONDS))

    def _check_plain(self, thread: int, timeout_seconds: float | None) -> None:
        """Name the line of a plain program that continues after its time; it blocks nothing."""
        self.looks += 1
        if timeout_seconds is None or self.looks * _LONG_SECONDS < timeout_seconds + _LATE_SECONDS:
            return
        place = own_line(frames().get(thread))
        if place is not None and not self.told and sys.stderr is not None:
            self.told.add(place)
            sys.stderr.write(_LATE.format(*place, seconds=timeout_seconds))


_LATE_SECONDS: Final = 4.0
"""Twice the grace of a stopped program: one that obeys has ended by then."""
_LATE: Final = (
    "refold: {}:{}: the program has not ended within its {seconds:g} s, and no limit can end it "
    "here. Do long work in a tool, and let asyncio.CancelledError pass\n"
)
STUCK_LOOKS: Final = 5
"""After so many, a line is written at once: a program that never waits comes to no end."""
_STUCK: Final = (
    "refold: {}:{}: the program has blocked its event loop for {seconds:g} s. No limit can end it; "
    "Ctrl-C can. Wait with `await run.sleep(…)`, and do long work in a tool\n"
)
_TEXT: Final = (
    f"the program blocked its event loop here for more than {_LONG_SECONDS:g} "
    "s, holding up the rest of the run, and would do so in a replay: wait "
    "with `await run.sleep(…)`, and do long work in a tool"
)


def held_at(frame: FrameType | None) -> tuple[str, int] | None:
    """Return the innermost line of the program's own on a stack; `None` where it is not at work.

    It is not where Refold itself is, a tool in its thread, or a debugger that waits for a person.
    """
    place: tuple[str, int] | None = None
    is_own = False
    while frame is not None and frame.f_code is not _CALLBACK:
        file = frame.f_code.co_filename
        if frame.f_code is _TOOL or file.endswith("/bdb.py"):
            return None
        if is_engines(file):
            if not is_own:
                return None
        elif place is None or not (is_own or is_librarys(file)):
            place, is_own = (file, frame.f_lineno), not is_librarys(file)
        frame = frame.f_back
    return place if frame is not None else None


def own_line(frame: FrameType | None) -> tuple[str, int] | None:
    """Return the innermost line on a stack that no library has; `None` in a debugger."""
    while frame is not None and is_librarys(file := frame.f_code.co_filename):
        frame = None if file.endswith("/bdb.py") else frame.f_back
    return (frame.f_code.co_filename, frame.f_lineno) if frame is not None else None


_watch: Final = Lookout("refold-watch", _LONG_SECONDS)


def watched(kernel: Kernel) -> contextlib.AbstractContextManager[None]:
    """Watch the loop of a recorded run; a blocking line is reported with unretrieved exceptions."""
    return _watch.over(_Watched(kernel))
