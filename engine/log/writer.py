"""Appends events to a log: one line, one write, one chain.

This file opens files and reads the clocks that `meta` records; it does neither for the program.
The bytes of a line are `engine.log.line`'s, large strings `engine.log.blobs`', locks
`engine.log.lock`'s.  Rules: CONTRACT.md §4.1 (existing logs), §4.3 (one writer), §4.4 (durability
and poisoning), §4.5 (recovery).

A writer belongs to one run and is not for use by several threads at once.
"""

import contextlib
import errno
import functools
import os
import re
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Final, NoReturn, Self

import attrs

from refold.engine.encoding.canonical import TAG, encode
from refold.engine.encoding.digest import EVENT, HEADER
from refold.engine.errors import (
    LogExists,
    LogLocked,
    LogNameRefused,
    LogPoisoned,
    LogSealed,
    NotCanonical,
    RefoldError,
    UsageError,
)
from refold.engine.events.codec import DUMPS, Data, unstructure
from refold.engine.events.events import (
    KIND_BYTES,
    Extension,
    Recorded,
    RunFinished,
    RunResumed,
    RunStarted,
)
from refold.engine.log import lock
from refold.engine.log.blobs import (
    BLOB_MIN,
    DOLLAR,
    BlobStore,
    encode_data,
    is_marked,
    own_paths,
    remove_all,
)
from refold.engine.log.descriptors import CLOEXEC, NOFOLLOW, sync_data, unlock
from refold.engine.log.line import LINE_MAX, NO_HASH, encode_meta, plain
from refold.engine.log.names import blobs_of, check_root, files_of, root_of
from refold.engine.log.reader import open_plain, scan_file
from refold.engine.log.recovery import Cut, cut_tail, sync_path
from refold.engine.ports.ports import Durability
from refold.engine.values import Value

GROUP: Final = 256
"""Entries after which `group` syncs at the latest."""

SYNCED_EACH: Final[Mapping[Durability, int]] = {"fast": 0, "group": GROUP, "strict": 1}
"""Entries between two syncs in each mode (CONTRACT.md §4.4); 0: never synced."""

_FLAGS: Final = os.O_RDWR | os.O_APPEND | NOFOLLOW | CLOEXEC
_NEW: Final = _FLAGS | os.O_CREAT | os.O_EXCL
_time_ns: Final = time.time_ns
_monotonic_ns: Final = time.monotonic_ns


class SystemDisk:
    """A writer's calls of the system; tests replace it to make a disk fail."""

    write: Callable[[int, bytes], int] = staticmethod(os.write)
    sync: Callable[[int], None] = staticmethod(sync_data)


@attrs.frozen
class Resumed(Value):
    """A log that was opened again."""

    writer: "LogWriter"
    cut: Cut | None
    """The torn tail that was taken off; `None` for a clean end."""


class LogWriter:
    """The one writer of one log, from `run.started` to `run.finished`.

    `entries` counts the entries written, `head` is the hash of the last, `last_data` the bytes of
    its data, `durable_seq` the last entry known to be on disk (-1 for none).
    """

    def __init__(
        self, path: Path, descriptor: int, *, durability: Durability, disk: SystemDisk
    ) -> None:
        self.path = path
        self.entries = 0
        self.durable_seq = -1
        self.last_data = b""
        self._descriptor = descriptor
        self._disk = disk
        self._write = disk.write
        self._syncs = SYNCED_EACH[durability] > 0
        self._sync_each = SYNCED_EACH[durability] or GROUP
        self._sync_at = self._sync_each
        self._previous = NO_HASH
        self._offset = 0
        self._refusal: Callable[[], RefoldError] | None = None
        self._is_sealed = False
        self._folders: Sequence[Path] = ()
        """Those that were made for it, the outermost first."""

    @functools.cached_property
    def _blobs(self) -> BlobStore:
        return BlobStore(blobs_of(self.path), sync=self._syncs)

    # --- beginning and end ---------------------------------------------------------------

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        started: RunStarted,
        *,
        durability: Durability = "group",
        meta: Mapping[str, int | str] | None = None,
        disk: SystemDisk | None = None,
    ) -> Self:
        """Create a log, lock it, and write its first line.

        `meta` is added to the first line's own: integers and short plain words.

        Raises:
            LogExists: the file exists; it is never overwritten.
            LogLocked: the file exists, and is being written.
            LogNameRefused: the path cannot be a root's, or no file can be made there with the
                requested durability; no file is left.
            LogPoisoned: the first line could not be written; no file is left.
            NotCanonical: `started` cannot be held exactly; no file is left.
        """
        place = Path(path).absolute()
        if started.parent is None:
            check_root(place)
        is_synced = SYNCED_EACH[durability] > 0
        descriptor, folders = _made(place, sync=is_synced)
        try:
            # The name first: lines that are on disk in a file without a name are lost.
            if is_synced:
                _sync_name(place)
            lock.lock(descriptor, place)
            writer = cls(place, descriptor, durability=durability, disk=disk or SystemDisk())
            writer._folders = folders
            writer.append(started, meta=meta)
            if is_synced:
                writer.barrier()
        except BaseException:
            _unmade(place, folders)
            os.close(descriptor)
            raise
        _opened_here(writer)
        return writer

    @classmethod
    def resume(
        cls,
        path: str | os.PathLike[str],
        *,
        durability: Durability = "group",
        disk: SystemDisk | None = None,
    ) -> Resumed:
        """Open an unsealed log again: verify its chain, cut off a torn tail, and continue after it.

        The caller appends `run.resumed` first, with the cut part.

        Raises:
            LogDamaged: the log is damaged, or holds no whole entry; nothing was changed.
            LogLocked: it is being written.
            LogMissing: the log does not exist, or the path is a link.
            LogSealed: its run has finished.
            LogUnsupported: it was written by a newer version.
        """
        place = Path(path).absolute()
        if place.is_symlink():  # refused below; but if what it leads to is written, that is said
            lock.refuse_if_locked(place)
        descriptor = open_plain(place, _FLAGS)
        try:
            lock.lock(descriptor, place)
            writer = cls(place, descriptor, durability=durability, disk=disk or SystemDisk())
            cut = writer._catch_up()
        except BaseException:
            os.close(descriptor)
            raise
        _opened_here(writer)
        return Resumed(writer, cut)

    def _catch_up(self) -> Cut | None:
        # A copy: closing the file must not close the writer's descriptor, and with it the lock.
        with open(os.dup(self._descriptor), "rb") as file:  # noqa: PTH123 - a descriptor
            file.seek(0)
            found = scan_file(file, str(self.path))
        if found.damage is not None:
            raise found.damage.as_error()
        if found.entries == 0 and found.torn is not None:
            raise found.torn.as_error()
        if found.ended:  # no crash tears a tail behind it, so there is none to be taken off
            raise LogSealed(str(self.path))
        cut = cut_tail(self._descriptor, self.path, found.offset) if found.torn else None
        self._previous = found.head.encode()
        self._offset = found.offset
        self.entries = found.entries
        # What the dead writer wrote may only be in memory; from here on it counts as durable.
        self._sync()
        if root_of(self.path) == self.path:  # once for the tree
            self._blobs.sweep()
        return cut

    def close(self) -> None:
        """Let go of the log.  Nothing can be appended any more; calling it again does nothing."""
        if self._descriptor < 0:
            return
        _open_writers.discard(self)
        unlock(self._descriptor)  # a forked child may hold the descriptor for a moment
        os.close(self._descriptor)
        self._descriptor = -1
        if self._refusal is None or self._is_sealed:
            self._is_sealed = False
            self._refusal = self._refusal or partial(UsageError, f"{self.path} is closed")

    def discard(self) -> None:
        """Close the log and remove it, its large texts, and the folders that were made for it."""
        self.close()
        for folder in (blobs_of(self.path), files_of(self.path)):
            remove_all(own_paths(folder))
        _unmade(self.path, self._folders)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def encode(self, event: Recorded) -> bytes:
        """Return the bytes that the data of `event` would have in this log, and write nothing.

        Raises:
            NotCanonical: the event cannot be held exactly.
        """
        return encode_data(unstructure(event))

    @property
    def head(self) -> str:
        """The hash of the last entry: 64 lower-case hex digits."""
        return self._previous.decode()

    # --- appending -----------------------------------------------------------------------

    def append(
        self,
        event: Recorded,
        call: str | None = None,
        cause: int | None = None,
        meta: Mapping[str, int | str] | None = None,
    ) -> int:
        """Write one entry and return its seq; it survives the death of this process.

        Raises:
            LogLocked: this process was forked off the writer's.
            LogPoisoned: it could not be written, now or earlier.
            LogSealed: `run.finished` was written before.
            NotCanonical: the event cannot be held exactly; nothing was written.
            UsageError: the writer is closed.
        """
        if self._refusal is not None:
            raise self._refusal()
        kind = event.__class__
        name = KIND_BYTES.get(kind) or _extension(event)
        members = DUMPS[kind](event)
        data = encode(members)
        is_odd = not data.isascii() and TAG in data  # the first is a tenth of the second
        if len(data) >= BLOB_MIN or is_odd or (DOLLAR in data and is_marked(data)):
            data = self._outside(members)
        seq = self.entries
        wall_us, mono_us = _time_ns() // 1000, _monotonic_ns() // 1000
        if call is None or cause is None or meta:
            body = _BODY % (
                seq,
                name,
                b"" if call is None else b',"call":"%b"' % call.encode(),
                b"" if cause is None else b',"cause":%d' % cause,
                data,
                wall_us,
                mono_us,
                _more(event, meta) if meta or kind in _BEGINNINGS else b"",
            )
        else:  # the same bytes; no beginning of a run comes here, for none has a call
            body = _BODY_OF_CALL % (seq, name, call.encode(), cause, data, wall_us, mono_us)
        return self._put(body, data, kind is RunFinished)

    def append_call(self, kind: bytes, call: bytes, cause: int, data: bytes) -> int:
        """Write one entry of a call from the bytes of its data; return its seq.

        They must equal those that `append` would make of its event: without blobs, less than a
        line.

        Raises:
            RefoldError: any error of `append`.
        """
        if self._refusal is not None:
            raise self._refusal()
        wall_us, mono_us = _time_ns() // 1000, _monotonic_ns() // 1000
        body = _BODY_OF_CALL % (self.entries, kind, call, cause, data, wall_us, mono_us)
        return self._put(body, data, False)  # noqa: FBT003 - by place: it costs half

    def _put(self, body: bytes, data: bytes, is_last: bool) -> int:  # noqa: FBT001 - by place: it costs half
        """Write the line that begins with `body`, and return its seq."""
        seq = self.entries
        hashed = (EVENT if seq else HEADER) + self._previous + body
        own = sha256(hashed).hexdigest().encode()
        line = b'%b,"hash":"%b"}\n' % (body, own)
        size = len(line)
        if size > LINE_MAX:
            raise NotCanonical("", f"an entry of at most {LINE_MAX} bytes", f"{size} bytes")
        try:
            written = self._write(self._descriptor, line)
            if written != size:
                self._write_rest(line, written)
        except OSError as error:
            raise self._poisoned_by(error) from None
        except BaseException:  # Ctrl-C between the write and its being counted
            if self._is_whole(size):
                self._count(own, data, size)
            raise
        self._previous = own
        self._offset += size
        self.last_data = data
        self.entries = seq + 1
        if seq + 1 >= self._sync_at or is_last:
            self._settle(is_last=is_last)
        return seq

    def barrier(self) -> None:
        """Return when all entries are as safe as the mode promises: on disk, unless it is `fast`.

        Called before and after each effect that changes the world. In every mode it detects a log
        that was removed, replaced or cut meanwhile.

        Raises:
            LogLocked: this process was forked off the writer's.
            LogPoisoned: the sync failed, or the file is not as it was left.
        """
        if self._refusal is not None and not self._is_sealed:
            raise self._refusal()
        if self.durable_seq + 1 < self.entries:
            self._sync()

    @contextlib.contextmanager
    def syncing(self) -> Iterator[Callable[[], None]]:
        """Give a function that syncs the entries so far, as a barrier does; they are, at the end.

        Another thread may call it, while this one appends.

        Raises:
            LogLocked, LogPoisoned: as `barrier`.
        """
        if self._refusal is not None and not self._is_sealed:
            raise self._refusal()
        seq = self.entries - 1
        try:
            self._check_the_file()
            yield partial(self._disk.sync, self._descriptor)
        except OSError as error:
            raise self._poisoned_by(error) from None
        self.durable_seq = max(self.durable_seq, seq)

    def _outside(self, members: Data) -> bytes:
        try:
            return encode_data(members, self._blobs.put)
        except OSError as error:
            raise self._poisoned_by(error) from None

    def _write_rest(self, line: bytes, written: int) -> None:
        rest = line[written:]
        while rest:
            taken = self._write(self._descriptor, rest)
            if taken == 0:  # else this would never end
                raise OSError(errno.EIO, "the disk takes no more bytes, and names no reason")
            rest = rest[taken:]

    def _count(self, own: bytes, data: bytes, size: int) -> None:
        self._previous = own
        self._offset += size
        self.last_data = data
        self.entries += 1

    def _settle(self, *, is_last: bool) -> None:
        self._sync_at = self.entries + self._sync_each
        self._sync()
        if is_last:
            self._is_sealed = True
            self._refusal = partial(LogSealed, str(self.path))

    def _sync(self) -> None:
        try:
            self._check_the_file()
            if self._syncs:
                self._disk.sync(self._descriptor)
        except OSError as error:
            raise self._poisoned_by(error) from None
        if self._syncs:
            self.durable_seq = self.entries - 1

    def _check_the_file(self) -> None:
        found = os.fstat(self._descriptor)
        if found.st_nlink == 0 or found.st_size < self._offset:
            self.durable_seq = -1  # it was on disk, and is gone
        if found.st_nlink == 0:
            raise OSError(errno.ESTALE, "the log was removed or replaced while it was written")
        if not self._is_there(found):
            raise OSError(errno.ESTALE, "the log, or its folder, was moved while it was written")
        if found.st_size != self._offset:
            why = f"the log has {found.st_size} bytes where {self._offset} were written"
            raise OSError(errno.ESTALE, why)

    def _is_there(self, found: os.stat_result) -> bool:
        """Return whether the log's path still leads to it; children and blobs go by the path."""
        try:
            return os.path.samestat(os.lstat(self.path), found)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:  # a folder that may not be looked into any more
            return True

    # --- failing -------------------------------------------------------------------------

    def _is_whole(self, size: int) -> bool:
        """Return whether an interrupted write took all of its line; poison if it took a part."""
        grown = os.fstat(self._descriptor).st_size - self._offset
        if grown not in (0, size):
            self._poisoned_by(OSError(errno.EINTR, "a write was interrupted"))
        return grown == size

    def _poisoned_by(self, error: OSError) -> LogPoisoned:
        """Refuse everything from now on; take a part of a line off, so that what stays is whole."""
        why = error.strerror or str(error)
        poisoned = partial(LogPoisoned, str(self.path), self.durable_seq, why)
        self._refusal, self._is_sealed = poisoned, False
        with contextlib.suppress(OSError):
            if os.fstat(self._descriptor).st_size > self._offset:
                os.ftruncate(self._descriptor, self._offset)
        return poisoned()

    def _disown(self) -> None:
        """Leave the log to the process that this one was forked off."""
        os.close(self._descriptor)
        self._descriptor = -1
        self._is_sealed = False
        self._refusal = partial(LogLocked, str(self.path), os.getppid())


# --- what lines are made of ------------------------------------------------------------------

_BEGINNINGS: Final = (RunStarted, RunResumed)
_BODY: Final = b'{"seq":%d,"kind":"%b"%b%b,"data":%b,"meta":{"wall_us":%d,"mono_us":%d%b}'
_BODY_OF_CALL: Final = (
    b'{"seq":%d,"kind":"%b","call":"%b","cause":%d,"data":%b,"meta":{"wall_us":%d,"mono_us":%d}'
)
"""`_BODY` with a call and a cause and plain `meta`: one substitution instead of three."""
_EXTENSION: Final = re.compile(r"x-[a-z0-9][a-z0-9._-]{0,63}\Z")


def _extension(event: Recorded) -> bytes:
    if type(event) is not Extension:
        raise NotCanonical("", "an event", type(event).__qualname__)
    if not _EXTENSION.match(event.kind):
        raise NotCanonical("", "a kind x-… of [a-z0-9._-]", f"{event.kind!r:.60}")
    return event.kind.encode()


def _more(event: Recorded, meta: Mapping[str, int | str] | None) -> bytes:
    """Return the members of `meta` other than the clocks; the first entry identifies the writer."""
    extra = dict(meta or {})
    if event.__class__ in _BEGINNINGS:
        extra = {"pid": os.getpid(), "host": plain(os.uname().nodename), **extra}
    return encode_meta(extra)


# --- files -----------------------------------------------------------------------------------


def _made(path: Path, *, sync: bool) -> tuple[int, list[Path]]:
    """Make the file, and the folders above it; return its descriptor, and these folders."""
    folders: list[Path] = []
    try:
        try:
            descriptor = os.open(path, _NEW, 0o600)
        except FileNotFoundError:
            folders = _make_folders(path.parent, sync=sync)
            descriptor = os.open(path, _NEW, 0o600)
    except FileExistsError:
        lock.refuse_if_locked(path)
        raise LogExists(str(path)) from None
    except (OSError, ValueError) as error:  # a name with a NUL in it is a ValueError
        why = getattr(error, "strerror", None) or str(error)
        raise LogNameRefused(str(path), why) from None
    return descriptor, folders


def _unmade(path: Path, folders: Sequence[Path]) -> None:
    with contextlib.suppress(OSError):
        path.unlink()
        for folder in reversed(folders):  # as far as nothing else is in them
            folder.rmdir()


def _sync_name(path: Path) -> None:
    """Make the name of a new log durable."""
    try:
        sync_path(path.parent)
    except OSError as error:
        why = f"its folder cannot be synced: {error.strerror or error}"
        raise LogNameRefused(str(path), why) from None


def _make_folders(folder: Path, *, sync: bool) -> list[Path]:
    missing = [each for each in (folder, *folder.parents) if not each.exists()][::-1]
    for each in missing:
        each.mkdir(mode=0o700, exist_ok=True)
        if sync:
            sync_path(each.parent)
    return missing


# --- a process that is about to end ----------------------------------------------------------


def hold_writers() -> None:
    """Block further entries in this process: any writer waits for the process's end.

    For a process that ends because its parent is gone, and first ends its own children: the program
    would see their ends, which are not outcomes but would count as such in a resumed run.
    """
    _held.append(True)
    for writer in list(_open_writers):
        writer._refusal = _wait_for_the_end  # noqa: SLF001 - its own module


def _wait_for_the_end() -> NoReturn:
    while True:
        time.sleep(60)


def _opened_here(writer: LogWriter) -> None:
    _open_writers.add(writer)
    if _held:
        hold_writers()


_held: Final[list[bool]] = []
"""Not empty once nothing may be written any more."""


# --- forks -----------------------------------------------------------------------------------

_open_writers: Final[weakref.WeakSet[LogWriter]] = weakref.WeakSet()


def _disown_all() -> None:
    for writer in list(_open_writers):
        writer._disown()  # noqa: SLF001 - its own module
    _open_writers.clear()


os.register_at_fork(after_in_child=_disown_all)
