"""The child's side: its protocol descriptors, its own limits, and leaving when the parent is gone.

Called by the stub of a child before it imports anything of the user's; imports nothing heavy. The
parent's side is in `start` and `bounded`.  Rules: CONTRACT.md §7.3.

The watchdog is a thread: a child whose main thread never lets go of the interpreter lock is not
ended by it, and a child that does not call it stays when its parent is killed.
"""

import contextlib
import os
import select
import signal
import threading
import time
from collections.abc import Callable
from typing import Final

from refold.engine.process.tree import Tree
from refold.engine.process.views import TAGS

with contextlib.suppress(ImportError):  # Windows, where no process is started
    import fcntl
    import resource

REQUEST_FD: Final = "REFOLD_REQUEST_FD"
"""The environment variable with the number of the descriptor that a child reads."""
REPLY_FD: Final = "REFOLD_REPLY_FD"
"""The environment variable with the number of the descriptor that a child writes."""

_SWEEP_SECONDS: Final = 1.0
_READ_BYTES: Final = 65536
_FILES_MAX: Final = 1024


def take_protocol() -> tuple[int, int] | None:
    """Return the descriptors to read the request from and to write the reply to.

    Takes their names out of the environment and keeps them from being inherited, so that nothing
    the child starts can hold or spoil them.  `None` where no `run_bounded` started this process.
    """
    request, reply = os.environ.pop(REQUEST_FD, ""), os.environ.pop(REPLY_FD, "")
    if not (request.isdecimal() and reply.isdecimal()):
        return None
    for fd in (int(request), int(reply)):
        fcntl.fcntl(fd, fcntl.F_SETFD, fcntl.FD_CLOEXEC)
    return int(request), int(reply)


def leave_with_parent(request_fd: int, first: Callable[[], object] = bool) -> None:
    """Start a daemon thread that ends this process and all below it when the parent is gone.

    Only after the request was read: the thread reads the rest of the stream, whose end is the sign.
    If the system reports the end of a process, that is a second sign, because a process forked by
    the parent may hold the stream open.  It calls `first`, ends descendants that left the group,
    then the group.  It signals no group that this process does not lead.
    """
    tag = os.environ.get(TAGS, "").rpartition(":")[2]
    # Made here: at the end, with a program in any state, is no time for an import.
    tree = Tree(os.getpid(), tag) if tag else None
    threading.Thread(
        target=_watch, args=(_signs(request_fd), tree, first), name="refold-watchdog", daemon=True
    ).start()


def apply_rlimits() -> None:
    """Dump no core and open few files, here and below; no limit is ever raised."""
    for number, most in ((resource.RLIMIT_CORE, 0), (resource.RLIMIT_NOFILE, _FILES_MAX)):
        now = resource.getrlimit(number)
        soft, hard = (most if old == resource.RLIM_INFINITY else min(most, old) for old in now)
        with contextlib.suppress(OSError, ValueError):  # not every system takes every limit
            resource.setrlimit(number, (soft, hard))


def _signs(request_fd: int) -> list[int]:
    """Return the descriptors that signal the parent's end; the request's is the first."""
    with contextlib.suppress(AttributeError, OSError):  # macOS, old kernels, a parent not in sight
        return [request_fd, os.pidfd_open(os.getppid())]
    return [request_fd]


def _watch(signs: list[int], tree: Tree | None, first: Callable[[], object]) -> None:
    while _more(signs):
        pass
    first()
    if tree is not None:
        tree.sweep(time.monotonic() + _SWEEP_SECONDS)
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpgrp(), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def _more(signs: list[int]) -> bool:
    """Wait until a sign can be read; return whether it was more of the request and nothing else."""
    poll = select.poll()  # unlike `select`, it takes descriptors of any number
    for each in signs:
        poll.register(each, select.POLLIN)
    ready = [fd for fd, _ in poll.poll()]
    try:
        return ready == signs[:1] and bool(os.read(signs[0], _READ_BYTES))
    except OSError:  # Somebody closed it: the sign can never come, so this counts as the sign.
        return False
