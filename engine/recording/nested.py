"""Refuses to record, resume or re-execute while Refold imports or runs a program.

A run started inside a program would not be an effect of the program's run: it would not be logged,
and a replay would repeat it, including its tools. Leaf tools may start runs: they are effects, and
a replay does not run them. The caller is found on the stack, so that runs that never nest have no
cost. The rule is CONTRACT.md §9.6.
"""

import sys
from types import FrameType
from typing import Final

from refold.engine.errors import NestedRun
from refold.engine.kernel.kernel import Kernel
from refold.engine.loop.loop import Loop
from refold.engine.ports.programs import check_not_importing
from refold.engine.recording.driver import Driver

_PROGRAM: Final = (Loop.step.__code__, Kernel.execute.__code__)
"""Below these, on the stack of a thread, runs a program …"""
_TOOL: Final = Driver.in_place.__code__
"""… unless this one is nearer: a leaf tool on the kernel's own thread (§9.7)."""


def check_may_start(function: str) -> None:
    """Refuse the call of `function`, a name of `refold`, from inside of a program.

    Raises:
        RecordingRefused: the program is being imported.
        NestedRun: it runs.
    """
    check_not_importing()
    if is_in_program():
        raise NestedRun(function)


def is_in_program() -> bool:
    """Return whether this is called by a program, and not by a leaf tool on the same thread."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - who calls is what is asked for
    while frame is not None and (code := frame.f_code) is not _TOOL:
        if code in _PROGRAM:
            return True
        frame = frame.f_back
    return False
