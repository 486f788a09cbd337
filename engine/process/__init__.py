"""Bounded processes: start an argv, bound it, collect what it says, leave nothing alive.

An argv and its bounds flow in; how the process ended, and what it said, flow out.  The mechanism
under the subprocess runner: it knows nothing of runs, logs or delegations.  It contains accidents;
it is no sandbox against a program that means harm.  Imports `ports`, for the cancel signal.
Rules: CONTRACT.md §7.3.

    bounds               Bounds in, Ended out
    start                the argv becomes a process: session, descriptors, environment, tag
    capture              head, tail, count and hash of a stream of any length
    pipes                the loop's ends of the pipes, never blocking
    bounded              run_bounded: one loop from the start to the end
    tree                 which processes belong to a child, and their end
    views, psutil_view   what the system shows of its processes: /proc; elsewhere psutil
    watchdog             the child's side: leave with the parent, limit oneself

Names load on first use: the child's side needs `watchdog` and `tree` alone, before anything else.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from refold.engine.process.bounded import run_bounded
    from refold.engine.process.bounds import Bounds, Captured, Ended, How
    from refold.engine.process.start import child_environment
    from refold.engine.process.watchdog import apply_rlimits, leave_with_parent, take_protocol

__all__ = [
    "Bounds",
    "Captured",
    "Ended",
    "How",
    "apply_rlimits",
    "child_environment",
    "leave_with_parent",
    "run_bounded",
    "take_protocol",
]

_HOME: Final = {
    "Bounds": "bounds",
    "Captured": "bounds",
    "Ended": "bounds",
    "How": "bounds",
    "apply_rlimits": "watchdog",
    "child_environment": "start",
    "leave_with_parent": "watchdog",
    "run_bounded": "bounded",
    "take_protocol": "watchdog",
}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
