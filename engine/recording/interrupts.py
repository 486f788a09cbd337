"""Ctrl-C while a run is recorded (CONTRACT.md §9.4).

The first one asks the run to end: the program is cancelled where it next waits, may clean up, and
the log is sealed.  A second raises `KeyboardInterrupt` as ever.  A shell file: it sets a signal
handler, in the main thread alone and only in place of Python's own, and puts that back.
"""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType


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
