"""Signals while a command runs: they are the command's, each once, and leave time for the log.

A terminal sends Ctrl-C to its whole foreground group, so the command has it already; other senders
send a signal to this process alone, and it is passed on to the command and what that started in its
group. Only the main thread of a process can obey signals. Rules: CONTRACT.md §16.2.
"""

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Final, Self

from refold.engine.process.tree import group_below, system_view, work_of
from refold.engine.process.views import View
from refold.engine.recording.interrupts import LOOK_SECONDS

_OF_KEYS: Final = (signal.SIGINT, signal.SIGQUIT)
"""The signals that a terminal sends to its foreground group when a key is typed."""
_PASSED_ON: Final = (*_OF_KEYS, signal.SIGTERM, signal.SIGHUP)


class Signals:
    """Keeps this process alive until its work for a command is done; a context manager."""

    def __init__(self) -> None:
        self.came = False
        """Whether there was one."""
        self._process: subprocess.Popen[bytes] | None = None
        self._is_started = False
        self._waiting: list[int] = []
        self._before: dict[int, object] = {}
        self._view = system_view()

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in _PASSED_ON:
                if signal.getsignal(number) not in (signal.SIG_IGN, None):
                    self._before[number] = signal.signal(number, self._came)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]  # what `signal` returned
        self._before.clear()

    def wait(self) -> None:
        """Return when one has come; for who runs no command."""
        while not self._waiting:
            time.sleep(LOOK_SECONDS)
        self._waiting.clear()

    def work(self) -> float | None:
        """Return the processor seconds of the command; `None` while it does nothing, or is not."""
        process = self._process
        return None if process is None else work_of(process.pid, self._view)

    @contextlib.contextmanager
    def going_to(
        self, start: "Callable[[], subprocess.Popen[bytes]]"
    ) -> "Iterator[subprocess.Popen[bytes]]":
        """Start a process and pass signals on to it, also those that came before.

        A key that is typed while it starts counts as having reached it: nobody can tell whether it
        was there yet, and a command that gets one Ctrl-C twice ends at the first.
        """
        self._is_started = True
        try:
            self._process = process = start()
            for number in self._waiting:
                self._send(number)
            self._waiting.clear()
            yield process
        finally:
            self._process, self._is_started = None, False

    def _came(self, number: int, _frame: FrameType | None) -> None:
        self.came = True
        if self._is_started and number in _OF_KEYS and _is_in_the_foreground():
            return
        if self._process is None:
            self._waiting.append(number)
        else:
            self._send(number)

    def _send(self, number: int) -> None:
        if self._process is not None:
            _send_to_all(self._process, number, self._view)


def _send_to_all(process: "subprocess.Popen[bytes]", number: int, view: View) -> None:
    """Send a signal to a command and what it started in its group: `sh` passes none on."""
    below = group_below(getattr(process, "leader", process.pid), view)
    with contextlib.suppress(OSError):  # it has ended, or is another user's, as of `sudo`
        process.send_signal(number)
    for pid in below:
        with contextlib.suppress(OSError):
            os.kill(pid, number)


GRACE_SECONDS: Final = 10
"""Between SIGTERM and SIGKILL."""


def waited(process: "subprocess.Popen[bytes]", timeout: float | None = None) -> tuple[int, bool]:
    """Wait for the end of a process; return its code, and whether its time was over.

    After `timeout` seconds it gets SIGTERM, and SIGKILL `GRACE_SECONDS` later.  A wait without a
    limit would miss a signal that comes right before it begins.
    """
    now, is_asked = time.monotonic, False
    until = now() + timeout if timeout is not None else float("inf")
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(LOOK_SECONDS), is_asked
        if now() >= until:
            number = signal.SIGKILL if is_asked else signal.SIGTERM
            _send_to_all(process, number, system_view())
            is_asked, until = True, now() + GRACE_SECONDS


def _is_in_the_foreground() -> bool:
    """Return whether this process gets the signals of its terminal's keys."""
    try:
        with Path("/dev/tty").open("rb", buffering=0) as terminal:
            return os.tcgetpgrp(terminal.fileno()) == os.getpgrp()
    except OSError:
        return False
