"""Ctrl-C while a run is recorded (CONTRACT.md §9.4).

The first one asks the run to end: the program is cancelled where it next waits, may clean up, and
the log is sealed.  A second raises `KeyboardInterrupt` as ever.  A shell file: it sets a signal
handler, in the main thread alone and only in place of Python's own, and puts that back.

Python runs handlers in the main thread, between two instructions.  A signal that comes right before
that thread begins to wait, or that the system gives to another thread, does not end the wait: so
none of its waits is longer than `LOOK_SECONDS` at a stretch, or Ctrl-C would be obeyed when the
next thing happens, which may be never.
"""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Final

LOOK_SECONDS: Final = 0.5
"""For which the main thread waits before Python may run a signal's handler."""


def at_a_stretch(seconds: float | None) -> float | None:
    """Return for how long this thread may wait at once, of so many seconds; `None` is for ever."""
    if seconds is not None and seconds <= LOOK_SECONDS:
        return seconds
    is_main = threading.current_thread() is threading.main_thread()
    return LOOK_SECONDS if is_main else seconds


@contextlib.contextmanager
def obeyed(ask: Callable[[], None]) -> Iterator[None]:
    """Call `ask` on Ctrl-C, in the main thread, for as long as the context lasts."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return

    def handle(_number: int, _frame: FrameType | None) -> None:
        ask()

    signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
