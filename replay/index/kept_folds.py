"""Keeps how far commands have read long logs, in the user's cache folder.

A fold reads a log entry by entry, as `replay.run` and `replay.audit.why` do. Its state after the
last entry is one file, named by the log's device and inode, and holds for exactly those bytes: the
file's size and times are compared, and of a log that grew, the last entry that was read. So a
command that repeats reads only new entries, and must say that the others were not verified now.
`verify` never comes here. Rules: CONTRACT.md §14.10.
"""

import contextlib
import errno
import os
import pickle
import stat
import sys
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from hashlib import file_digest
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Final

from refold.engine.errors import LogDamaged
from refold.engine.log.blobs import BlobBroken, BlobStore, is_marked, resolved
from refold.engine.log.damage import TORN_TAIL, ChainEnd, seq_of
from refold.engine.log.descriptors import CLOEXEC, LOCKS, NOFOLLOW, NONBLOCK, placed, signature_of
from refold.engine.log.line import LINE_MAX, NO_HASH, TRAILER, stored_hash, trailer
from refold.engine.log.names import blobs_of
from refold.engine.log.reader import Entry, entry_of, open_log, read_entries, reading

LEAST: Final = 1024 * 1024
"""Bytes from which on keeping is worth it: a smaller log is read in less than 50 ms."""
_FILE_MAX: Final = 64 * 1024 * 1024
_TOTAL_MAX: Final = 256 * 1024 * 1024
_DIGEST: Final = 32
_PROTOCOL: Final = 5
_NEAR: Final = 100
"""Entries that are rather passed over than looked for."""
_ROOMS: Final = ("refold.engine.events.", "refold.engine.observed.", "refold.engine.workspace.")
"""Modules of classes that a state may have beside those of its fold's folder."""
_PLAIN: Final = {
    ("array", "_array_reconstructor"), ("array", "array"), ("collections", "Counter"),
    ("builtins", "bytearray"), ("builtins", "set"), ("builtins", "frozenset"),
}  # fmt: skip


class LogFold:
    """Reads a log, here only how far; its state is all attributes but `UNKEPT`."""

    UNKEPT: ClassVar[frozenset[str]] = frozenset({"path", "_blobs"})

    def __init__(self, path: Path) -> None:
        self.path, self._blobs = path, BlobStore(blobs_of(path))
        self.entries, self.end, self.head = 0, 0, ""
        """How many entries were taken, the byte after the last, and its hash."""
        self.is_whole = True
        """Whether all was there that it needs beside the log."""

    def take(self, entry: Entry) -> None:
        """Take the next entry."""
        self.entries, self.end = entry.seq + 1, entry.offset + len(entry.line)
        self.head = entry.hash

    def data(self, entry: Entry) -> Any:
        """Return the data of an entry with its large texts, or notes on those that are missing.

        Raises:
            BlobBroken: a marker is malformed.
        """
        return resolved(entry.data, self._text) if is_marked(entry.line) else entry.data

    def _text(self, name: str, size: int) -> str:
        try:
            return self._blobs.get(name, size)
        except BlobBroken as broken:
            self.is_whole = False
            return f"({broken.what}: {size} bytes)"


class KeptFolds:
    """The states that one command uses."""

    def __init__(self, folder: Path | None, least: int = LEAST) -> None:
        self._folder = folder
        self._least = least
        self.skipped: dict[Path, int] = {}
        """By log: entries that were not read now."""
        self.folds: dict[Path, LogFold] = {}
        """Those of long logs."""
        self._before: dict[Path, tuple[tuple[int, ...], str]] = {}
        """Of these logs: the signature before they were read, and the name of the state."""

    def restore(self, fold: LogFold) -> ChainEnd:
        """Give a fold the state that was kept of it, if it fits the log; return where it ends."""
        path = fold.path
        start = ChainEnd(str(path), 0, 0, NO_HASH)
        with contextlib.suppress(Exception), open_log(path) as file:  # a damaged state is none
            found = os.fstat(file.fileno())
            if found.st_size < self._least:
                return start
            name = f"{_identity(found)}.{type(fold).__module__.rpartition('.')[2]}"
            self._before[path], self.folds[path] = (signature_of(found), name), fold
            made, known, (seq, offset, head), line, state = self._load(name, fold)
            is_same = known == signature_of(found) or found.st_size > known[2]  # it grew
            file.seek(offset - len(line))
            if made == _made_by(fold) and is_same and file.read(len(line)) == line:
                vars(fold).update(state)
                start = ChainEnd(str(path), seq, offset, head)
                self.skipped[path] = seq
        return start

    def keep(self, fold: LogFold, last: Entry) -> None:
        """Keep the state of a fold after an entry; where that fails, nothing is kept."""
        if self._folder is None or fold.path not in self._before:
            return
        before, name = self._before[fold.path]
        end = last.seq + 1, last.offset + len(last.line), last.hash.encode()
        state = {name: each for name, each in vars(fold).items() if name not in fold.UNKEPT}
        with contextlib.suppress(OSError):
            self._folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._folder.mkdir(mode=0o700, exist_ok=True)
            if not _are_ours(self._folder):
                return
            with placed(self._folder / name, replaces=True) as file:
                file.write(bytes(_DIGEST))
                pickle.dump((_made_by(fold), before, end, last.line, state), file, _PROTOCOL)
                if file.tell() > _FILE_MAX:
                    raise OSError(errno.EFBIG, name)
                file.seek(_DIGEST)
                digest = file_digest(file, "sha256").digest()  # type: ignore[arg-type]  # a file
                file.seek(0)
                file.write(digest)
            self._bound()

    def forget(self, logs: Iterable[Path]) -> None:
        """Remove all that is kept of some logs."""
        with contextlib.suppress(OSError):
            names = {_identity(log.lstat()) for log in logs if os.path.lexists(log)}
            for each in self._folder.iterdir() if self._folder is not None else ():
                if each.name.partition(".")[0] in names:
                    each.unlink()

    def _load(self, name: str, fold: LogFold) -> Any:
        """Return what is kept under a name.

        Raises:
            OSError: nothing is, or it cannot be read.
            ValueError: it is not ours, or damaged.
        """
        if self._folder is None or not _are_ours(self._folder):
            raise ValueError(name)
        descriptor = os.open(self._folder / name, os.O_RDONLY | NOFOLLOW | NONBLOCK | CLOEXEC)
        with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode) or found.st_size > _FILE_MAX:
                raise ValueError(name)
            digest = file.read(_DIGEST)
            if file_digest(file, "sha256").digest() != digest:
                raise ValueError(name)
            file.seek(_DIGEST)
            return _Reader(file, fold).load()

    def _bound(self) -> None:
        """Remove the files that were written first, until the rest is small enough."""
        assert self._folder is not None
        sizes = {each: each.lstat() for each in self._folder.iterdir()}
        total = sum(each.st_size for each in sizes.values())
        for each, found in sorted(sizes.items(), key=lambda item: item[1].st_mtime_ns):
            if total <= _TOTAL_MAX:
                return
            each.unlink(missing_ok=True)
            total -= found.st_size


_KEPT: Final[ContextVar[KeptFolds | None]] = ContextVar("kept", default=None)


@contextlib.contextmanager
def keeping(kept: KeptFolds | None) -> Iterator[None]:
    """Let folds in this block continue from what earlier commands kept; `None`: from none."""
    token = _KEPT.set(kept)
    try:
        yield
    finally:
        _KEPT.reset(token)


def fold_log(
    fold: LogFold, *, last: int | None = None, torn_ok: bool = False, keeps: bool = True
) -> None:
    """Let a fold take the entries of its log, up to the entry `last` or to the end.

    Only those that it has not taken before; in a block of `keeping`, nor in an earlier command, if
    it `keeps`.

    Raises:
        LogError: any error of `read_entries`.
    """
    kept = _KEPT.get() if keeps and not fold.entries else None
    start = ChainEnd(str(fold.path), fold.entries, fold.end, fold.head.encode())
    start = start if kept is None else kept.restore(fold)
    most = None if last is None else min(max(0, last + 1 - start.seq), sys.maxsize)
    entry, wrong = None, None
    try:
        for entry in islice(read_entries(fold.path, torn_ok=torn_ok, start=start), most):
            fold.take(entry)
    except LogDamaged as error:
        if error.what != TORN_TAIL:
            raise
        wrong = error
    if kept is not None and entry is not None and fold.is_whole:
        kept.keep(fold, entry)
    if wrong is not None:
        raise wrong


def entries_at(path: Path, numbers: Iterable[int], end: int) -> Iterator[Entry]:
    """Yield entries of a log by their numbers, which ascend, up to the first that does not fit.

    Each is verified against the one before it; its place is found by halving the file, of which
    the bytes before `end` hold entries that were verified.
    """
    with open_log(path) as file, reading(path):
        seq, offset, previous = 0, 0, NO_HASH
        for number in numbers:
            if number - seq > _NEAR:
                offset, line = _place(file, number - 1, end - 1)
                seq, offset, previous = number, offset + len(line), stored_hash(line) or NO_HASH
            file.seek(offset)
            for at in range(seq, number + 1):
                line = file.readline(LINE_MAX + 1)
                if seq_of(line) != at or not line.endswith(trailer(previous, line[:-TRAILER])):
                    return
                previous, offset = line[-TRAILER:][9:73], offset + len(line)
            yield entry_of(line, str(path), number, offset - len(line))
            seq = number + 1


def _place(file: BinaryIO, number: int, high: int) -> tuple[int, bytes]:
    """Return the place of an entry, at most `high`, and its line; empty if it is not there."""
    low = 0
    while low <= high:
        middle = (low + high) // 2
        file.seek(max(0, middle - 1))
        before = file.readline(LINE_MAX + 1) if middle else b""
        at, line = max(0, middle - 1) + len(before), file.readline(LINE_MAX + 1)
        found = seq_of(line)
        if found == number:
            return at, line
        if found is not None and found < number:
            low = at + len(line)
        else:
            high = middle - 1
    return 0, b""


def cache_folder() -> Path | None:
    """Return where states are kept; `None` where the environment names no folder for it."""
    home = Path(os.environ.get("HOME", ""))
    below = "Library/Caches" if sys.platform == "darwin" else ".cache"
    named = [os.environ.get(name, "") for name in ("XDG_CACHE_HOME", "LOCALAPPDATA")]
    cache = next((each for each in (*map(Path, named), home / below) if each.is_absolute()), None)
    return None if cache is None else cache / "refold" / "folds"


def _are_ours(folder: Path) -> bool:
    """Return whether it and the one above are folders, no links, that nobody else can write."""
    return all(
        stat.S_ISDIR((found := each.lstat()).st_mode)
        and (not LOCKS or (found.st_uid == os.geteuid() and not found.st_mode & 0o022))
        for each in (folder, folder.parent)
    )


def _identity(found: os.stat_result) -> str:
    return f"{found.st_dev:x}-{found.st_ino:x}"


def _made_by(fold: LogFold) -> tuple[str, ...]:
    """Return what a state depends on beside its log: other code may have other attributes."""
    sources = (sys.modules[each.__module__].__file__ for each in type(fold).__mro__[:-1])
    times = (str(Path(each).stat().st_mtime_ns) for each in sources if each)
    return (sys.version, *times)


class _Reader(pickle.Unpickler):
    """Reads the state of a fold, and no other classes: a file of a cache is nothing to run."""

    def __init__(self, file: BinaryIO, fold: LogFold) -> None:
        super().__init__(file)
        self._rooms = (*_ROOMS, type(fold).__module__.rpartition(".")[0] + ".")

    def find_class(self, module: str, name: str) -> Any:
        """Return a class that a state may have."""
        if (module, name) in _PLAIN:
            return super().find_class(module, name)
        found = super().find_class(module, name) if module.startswith(self._rooms) else None
        if "." in name or not isinstance(found, type):
            raise pickle.UnpicklingError(f"{module}.{name}")
        return found
