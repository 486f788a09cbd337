"""File descriptors, where systems differ: flags, locks, durable syncs, reads and writes.

Logs have a write of their own (`engine.log.writer`), for what of a line was written counts there.
Flags that a system lacks are 0 here: Windows has neither links to refuse nor pipes by name.
"""

import contextlib
import errno
import os
from collections.abc import Callable
from typing import Final

from refold.engine.errors import SystemUnsupported

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]  # a module elsewhere

LOCKS: Final = fcntl is not None
"""Whether this system can lock files and open folders: Windows cannot, so it only reads logs."""

CLOEXEC: Final[int] = (
    os.O_CLOEXEC
    if hasattr(os, "O_CLOEXEC")
    else getattr(os, "O_NOINHERIT", 0) | getattr(os, "O_BINARY", 0)
)
"""Keep the file from processes that are started; on Windows, also read its bytes unchanged."""

NOFOLLOW: Final[int] = getattr(os, "O_NOFOLLOW", 0)
NONBLOCK: Final[int] = getattr(os, "O_NONBLOCK", 0)
DIRECTORY: Final[int] = getattr(os, "O_DIRECTORY", 0)
_FULL_SYNC: Final[int | None] = getattr(fcntl, "F_FULLFSYNC", None)


def require_posix(what: str) -> None:
    """Refuse what needs locks and process groups on a system that has none.

    Raises:
        SystemUnsupported: this is Windows.
    """
    if not LOCKS:
        raise SystemUnsupported(what)


def flock(descriptor: int, *, shared: bool = False, waits: bool = False) -> None:
    """Take an advisory lock on an open file, for as long as the descriptor lives.

    Raises:
        BlockingIOError: another descriptor holds it, and this one is not to wait.
        OSError: the file system or the operating system has no locks.
    """
    if not LOCKS:
        raise OSError(0, "this operating system has none")
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    fcntl.flock(descriptor, kind if waits else kind | fcntl.LOCK_NB)


def unlock(descriptor: int) -> None:
    """Release the lock, though a process that was just forked may still hold the descriptor."""
    with contextlib.suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_UN)


def sync(descriptor: int) -> None:
    """Make the content and the attributes of an open file durable.

    On macOS `fsync` leaves the bytes in the drive's cache, so the drive is asked to write them
    too; a file system that cannot do that (a network's) gets a plain `fsync`.

    Raises:
        OSError: the disk refused.
    """
    if _FULL_SYNC is not None:
        try:
            fcntl.fcntl(descriptor, _FULL_SYNC)
        except OSError as error:
            if error.errno not in (errno.ENOTSUP, errno.EINVAL, errno.ENOTTY):
                raise
        else:
            return
    os.fsync(descriptor)


sync_data: Final[Callable[[int], None]] = getattr(os, "fdatasync", sync)
"""Make the content durable, and of the attributes only the size."""


def read_at(descriptor: int, size: int, offset: int) -> bytes:
    """Return up to `size` bytes from `offset` on; the place where the file is read stays.

    Raises:
        OSError: it cannot be read.
    """
    if hasattr(os, "pread"):
        return os.pread(descriptor, size, offset)
    here = os.lseek(descriptor, 0, os.SEEK_CUR)  # Windows
    try:
        os.lseek(descriptor, offset, os.SEEK_SET)
        return os.read(descriptor, size)
    finally:
        os.lseek(descriptor, here, os.SEEK_SET)


def write_all(descriptor: int, content: bytes) -> None:
    """Write `content` whole.

    Raises:
        OSError: it cannot be written; a part of it may have been.
    """
    left = memoryview(content)
    while left:
        left = left[os.write(descriptor, left) :]
