"""An argv becomes a process: its session, its descriptors, its environment, its tag.

`bounded` applies the limits.  This file starts processes, reads the environment and draws
randomness for the tag.  Rules: CONTRACT.md §7.3.

The protocol is two pipes, not a socket pair: each goes one way, so that a child cannot read back
its own reply; a pipe's size can be set; and a hang-up means one thing.  The numbers of the child's
ends are in its environment.  The request pipe stays open after the request, because its closing
shows the child that the parent is gone. So a request must mark its own end.
"""

import contextlib
import os
import secrets
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs

from refold.engine.process.views import TAGS
from refold.engine.process.watchdog import REPLY_FD, REQUEST_FD

with contextlib.suppress(ImportError):  # Windows, where no process is started
    import fcntl

_ALLOWED: Final = ("PATH", "LANG", "TZ", "TMPDIR", "HOME")
_STDERR: Final = 2
_PIPE_BYTES: Final = 1024 * 1024  # Fewer wake-ups per megabyte; a wish, the system may refuse it.


def child_environment(extra: Iterable[str] = ()) -> dict[str, str]:
    """Return a child's part of our environment: an allowlist and the names in `extra`.

    The allowlist is PATH, LANG, LC_*, TZ, TMPDIR and HOME. Unset names are left out.
    """
    names = {*_ALLOWED, *extra}
    return {
        name: value for name, value in os.environ.items() if name in names or name.startswith("LC_")
    }


@attrs.frozen(kw_only=True)
class Started:
    """A running process and our ends of its pipes, all of them non-blocking and not inherited."""

    pid: int
    """Also the id of its session and of its process group, for as long as it is not reaped."""
    tag: str
    """Set in its environment, and inherited by every descendant that does not remove it."""
    request: int
    reply: int
    stdout: int
    stderr: int
    pidfd: int | None
    """Becomes readable when the process has ended; `None` where the system has no such thing."""
    popen: "subprocess.Popen[bytes]"

    def signal_group(self, number: int) -> None:
        """Signal all processes of the group.  Before `reap` only: then the number changes hands."""
        if _lost(self.pid):
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS: EPERM for a zombie
            os.killpg(self.pid, number)

    def reap(self, wait_seconds: float) -> int | None:
        """Return the status as `subprocess` counts it: an exit code, or minus a signal's number.

        `None` if the host reaped it before us, or if it sticks in the kernel for `wait_seconds`.
        """
        lost = _lost(self.pid)
        try:
            status = self.popen.wait(wait_seconds)
        except subprocess.TimeoutExpired:
            return None
        return None if lost else status

    def close(self) -> None:
        """Close our ends, whether or not the others are closed."""
        for fd in (self.request, self.reply, self.stdout, self.stderr, self.pidfd):
            if fd is not None:
                os.close(fd)


def start(
    argv: Sequence[str], *, env: Mapping[str, str], cwd: Path | str, pass_fds: Sequence[int] = ()
) -> Started:
    """Start `argv` in a session of its own, with an environment of `env` and our three variables.

    Raises:
        OSError: no such file or folder, not executable, no descriptors or processes left.
        ValueError: a NUL in an argument.
        IndexError: an empty argv.
    """
    tag = secrets.token_hex(16)
    with contextlib.ExitStack() as ours, contextlib.ExitStack() as theirs:
        request_read, request = _pipe(theirs, ours)
        reply, reply_write = _pipe(ours, theirs)
        stdout, stdout_write = _pipe(ours, theirs)
        stderr, stderr_write = _pipe(ours, theirs)
        for fd in (request, reply, stdout, stderr):
            os.set_blocking(fd, False)
        popen = subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=stdout_write,
            stderr=stderr_write,
            pass_fds=(request_read, reply_write, *pass_fds),
            start_new_session=True,
            cwd=cwd,
            env=dict(env) | _ours(tag, request_read, reply_write),
        )
        ours.pop_all()
    return Started(
        pid=popen.pid,
        tag=tag,
        request=request,
        reply=reply,
        stdout=stdout,
        stderr=stderr,
        pidfd=_pidfd(popen.pid),
        popen=popen,
    )


def _ours(tag: str, request_read: int, reply_write: int) -> dict[str, str]:
    # Tags add up from parent to child: whoever sweeps finds the children of its children as well.
    tags = ":".join(filter(None, (os.environ.get(TAGS), tag)))
    return {TAGS: tags, REQUEST_FD: str(request_read), REPLY_FD: str(reply_write)}


def _pipe(reader: contextlib.ExitStack, writer: contextlib.ExitStack) -> tuple[int, int]:
    """Return the two ends of a pipe, each entered into the stack that will close it."""
    read, write = os.pipe()
    read, write = _above_standard(read), _above_standard(write)
    reader.callback(os.close, read)
    writer.callback(os.close, write)
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    return read, write


def _above_standard(fd: int) -> int:
    # A host without standard streams gets 0 to 2 here, and its child would take them for its own.
    if fd > _STDERR:
        return fd
    moved = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _STDERR + 1)
    os.close(fd)
    return moved


def _pidfd(pid: int) -> int | None:
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            return os.pidfd_open(pid)
    return None


def _lost(pid: int) -> bool:
    """Return whether another process reaped it, for example in a host that ignores SIGCHLD."""
    if not hasattr(os, "waitid"):  # macOS before Python 3.13
        return False
    try:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
    except ChildProcessError:
        return True
    return False
