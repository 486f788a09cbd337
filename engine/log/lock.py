"""One writer a log: an advisory lock on the log's own descriptor (CONTRACT.md §4.3).

The lock lies on the file, not on its name, so that links do not get round it, and on the open
description, so that a second writer in the same process is refused as well.
"""

import contextlib
import os
from pathlib import Path
from typing import Final

import orjson

from refold.engine.errors import LogLocked, LogNameRefused
from refold.engine.log.descriptors import CLOEXEC, NONBLOCK, flock, require_posix
from refold.engine.log.line import LINE_MAX

_LOCKS: Final = Path("/proc/locks")


def lock(descriptor: int, path: Path, *, waits: bool = False) -> None:
    """Take the lock of an open log, for as long as the descriptor lives; or wait until it is free.

    Raises:
        LogLocked: another writer holds it.
        LogNameRefused: the file system of the log takes no locks.
        SystemUnsupported: the operating system has none: logs are only read there.
    """
    require_posix("writing a log")
    try:
        flock(descriptor, waits=waits)
    except BlockingIOError:
        raise LogLocked(str(path), _holder(descriptor, path)) from None
    except OSError as error:  # ENOLCK and the like, of network file systems
        why = f"its file system does not support locks ({error.strerror}): use a different one"
        raise LogNameRefused(str(path), why) from None


def refuse_if_locked(path: Path) -> None:
    """Raise LogLocked if a writer holds the log at `path`; links are followed."""
    try:
        descriptor = os.open(path, os.O_RDONLY | CLOEXEC | NONBLOCK)
    except (OSError, ValueError):
        return
    try:
        # Shared: two readers that ask at the same time must not take each other for writers.
        flock(descriptor, shared=True)
    except BlockingIOError:
        raise LogLocked(str(path), _holder(descriptor, path)) from None
    except OSError:  # where no lock can be taken, no writer has one
        return
    finally:
        os.close(descriptor)


def is_locked(path: Path) -> bool:
    """Return whether a writer holds the log at `path`; links are followed."""
    try:
        refuse_if_locked(path)
    except LogLocked:
        return True
    return False


def _holder(descriptor: int, path: Path) -> int | None:
    """Return the process that holds the lock, from the system or else from the log."""
    with contextlib.suppress(OSError, ValueError):
        found = os.fstat(descriptor)
        name = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
        for row in _LOCKS.read_text().splitlines():
            words = row.split()
            if words[1] == "FLOCK" and words[5] == name and int(words[4]) > 0:
                return int(words[4])
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError), path.open("rb") as file:
        return int(orjson.loads(file.readline(LINE_MAX))["meta"]["pid"])
    return None
