"""Files and their descriptors on different systems: flags, locks, syncs, whole writes, open logs.

Logs have their own write (`engine.log.writer`), because there the written part of a line matters.
Flags that a system lacks are 0 here: Windows has neither links to refuse nor named pipes.
"""

import contextlib
import errno
import io
import os
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any, BinaryIO, Final

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
NEW_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | NOFOLLOW | CLOEXEC
"""To write a file that nothing has the name of yet."""
_UNFINISHED: Final = ".refold-unfinished"
_FULL_SYNC: Final[int | None] = getattr(fcntl, "F_FULLFSYNC", None)
_HELD_MAX: Final = 100
"""Logs that one command holds open: a process may open only some hundred files."""

Signature = tuple[int, ...]
"""Differs after a file was written to: device, inode, size, times of change in nanoseconds."""


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
        raise OSError(0, "this operating system has no file locks")
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


@contextlib.contextmanager
def placed(path: Path, *, replaces: bool) -> Iterator[BinaryIO]:
    """Give a new private file, which has the name `path` once the block ends: synced, and whole.

    If the block fails, nothing is left. Files that killed writers left in the folder are removed.

    Raises:
        FileExistsError: there is a file, and it is not to be replaced.
        OSError: the file could not be written; `path` is named.
    """
    try:
        for left in path.parent.glob(_UNFINISHED + "." + "[0-9a-f]" * 8):
            remove_left(left)
        with unfinished(str(path.with_name(_UNFINISHED))) as (made, file):
            yield file
            file.flush()
            sync(file.fileno())
            if not LOCKS:
                file.close()  # Windows renames no open file
            (os.replace if replaces else os.link)(made, path)  # a link never replaces
    except OSError as error:
        error.filename, error.filename2 = str(path), None
        raise


@contextlib.contextmanager
def unfinished(stem: str, folder: int | None = None) -> Iterator[tuple[str, BinaryIO]]:
    """Yield a new private file and its name, `<stem>.<8 hex digits>`, in `folder`, a descriptor.

    The block gives it another name; this one is removed. `remove_left` leaves it alone meanwhile.

    Raises:
        OSError: it could not be made, or the block raised it.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | NOFOLLOW | CLOEXEC
    while True:
        name = f"{stem}.{os.urandom(4).hex()}"
        descriptor = os.open(name, flags, 0o600, dir_fd=folder)
        with contextlib.suppress(OSError):  # of a file system without locks: no log is made there
            flock(descriptor, waits=True)
        if os.fstat(descriptor).st_nlink:
            break
        os.close(descriptor)  # removed between the two
    try:
        with open(descriptor, "w+b") as file:  # noqa: PTH123 - a descriptor
            yield name, file
    finally:
        with contextlib.suppress(OSError):
            os.unlink(name, dir_fd=folder)


def remove_left(path: Path) -> None:
    """Remove an unfinished file whose writer was killed: one that is written is locked."""
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | NOFOLLOW | NONBLOCK | CLOEXEC)
        try:
            flock(descriptor)
            path.unlink()
        finally:
            os.close(descriptor)


# --- logs that stay open ---------------------------------------------------------------------


class Held:
    """An open log."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._proof: tuple[Signature, Any, list[bytes]] = (), None, []

    def __del__(self) -> None:
        os.close(self.descriptor)  # when the last view is gone

    def signature(self) -> Signature:
        """Return the file's signature now."""
        return signature_of(os.fstat(self.descriptor))

    @property
    def proof(self) -> Any:
        """What `prove` was given, unless the file has changed; else `None`."""
        return self.proved(os.fstat(self.descriptor))[0] if self._proof[0] else None

    def proved(self, now: os.stat_result) -> tuple[Any, list[bytes]]:
        """Return what `prove` was given about the file that is `now`; else `None`, no lines."""
        before, found, lines = self._proof
        return (found, lines) if before == signature_of(now) else (None, [])

    def prove(self, before: Signature, found: object, lines: list[bytes]) -> None:
        """Keep what was found out about the file as it was `before`; the lines of a small one."""
        self._proof = before, found, lines


class _Holding:
    def __init__(self) -> None:
        self.logs: dict[str, Held] = {}
        self.is_open = True


_HOLDING: Final[ContextVar[_Holding | None]] = ContextVar("holding", default=None)


@contextlib.contextmanager
def holding() -> Iterator[None]:
    """Keep the logs that are read in this block open until it ends, or until an outer block does.

    A command looks at a log several times: for its first line, its tree, its end. So all looks see
    the same file. Also a decorator.
    """
    known = _HOLDING.get()
    is_windows = not hasattr(os, "pread")  # renames no open file
    if is_windows or (known is not None and known.is_open):
        yield
        return
    block = _Holding()
    _HOLDING.set(block)
    try:
        yield
    finally:
        _HOLDING.set(known)  # not `reset`: an exit stack may be closed in another context
        block.is_open = False  # tasks and threads may have copied the context
        block.logs.clear()


def held_file(
    path: str | os.PathLike[str], opened: Callable[[], int], size: int
) -> BinaryIO | None:
    """Return a file for the log at `path`, held or from now on held; `None` outside of `holding`.

    It has a place and a buffer of `size` of its own.  `opened` opens a descriptor.
    """
    block = _HOLDING.get()
    if block is None or not block.is_open:
        return None
    name = os.fspath(path)
    held = block.logs.get(name)
    if held is None or not _is_at(name, held):
        held = Held(opened())
        if name in block.logs or len(block.logs) < _HELD_MAX:
            block.logs[name] = held
    return io.BufferedReader(_View(held), size)


def proved(path: str | os.PathLike[str]) -> tuple[Any, list[bytes]]:
    """Return the proof of the log at `path`, and its lines if they were kept; else `None`, []."""
    block = _HOLDING.get()
    held = block.logs.get(os.fspath(path)) if block is not None and block.is_open else None
    try:
        return held.proved(os.stat(path)) if held is not None else (None, [])  # noqa: PTH116 - a path object's takes longer
    except OSError:  # as `open_log` will say
        return None, []


def held_of(file: BinaryIO) -> Held | None:
    """Return what holds a file that `held_file` returned; `None` for any other."""
    raw = getattr(file, "raw", None)
    return raw.held if isinstance(raw, _View) else None


def _is_at(path: str, held: Held) -> bool:
    """Return whether the name still leads to the open file: it may have been replaced."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(held.descriptor))  # noqa: PTH116 - as above
    except (OSError, ValueError):
        return False


def signature_of(found: os.stat_result) -> Signature:
    """Return the signature of a file."""
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


class _View(io.RawIOBase):
    """An open file, read from a place of its own: descriptors that are shared have one place."""

    def __init__(self, held: Held) -> None:
        self.held = held
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self.held.descriptor

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # as `io` calls it
        found = read_at(self.held.descriptor, len(buffer), self._at)
        buffer[: len(found)] = found
        self._at += len(found)
        return len(found)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        if whence == os.SEEK_CUR:
            offset += self._at
        elif whence == os.SEEK_END:
            offset += os.fstat(self.held.descriptor).st_size
        self._at = offset
        return offset
