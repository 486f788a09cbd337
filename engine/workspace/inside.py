"""A folder that may be hostile, such as a copy: no path in it leads out.

Folders are opened one by one, each inside the one before and never through a link; files are
opened inside the last one. A link in the place of a folder is refused, and a link in the place of a
file is read or replaced as a link. A temporary folder is removed so, too: by the next process, if
this one is killed. Rules: CONTRACT.md §16.20.
"""

import contextlib
import errno
import functools
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Final

import attrs

from refold.engine.errors import ContentMissing, FolderRefused
from refold.engine.log.blobs import digest_only
from refold.engine.log.descriptors import (
    CLOEXEC,
    DIRECTORY,
    LOCKS,
    NEW_FILE,
    NOFOLLOW,
    NONBLOCK,
    flock,
    write_all,
)
from refold.engine.workspace import paths
from refold.engine.workspace.entries import Mode
from refold.engine.workspace.git import blob_id
from refold.engine.workspace.tree import TreeEntry

TOTAL_MAX: Final = 4 * 1024**3
"""Bytes of all files: as many as a packed log may hold."""
FOLDER: Final = "040000"
LINK: Final = "120000"
PROGRAM: Final = "100755"
FILE: Final = "100644"
"""Modes, as git writes them."""
_OPENED: Final = getattr(os, "O_PATH", os.O_RDONLY) | DIRECTORY | NOFOLLOW | CLOEXEC
_READ: Final = os.O_RDONLY | NOFOLLOW | NONBLOCK | CLOEXEC
_READS: Final = 3
"""How often a file is read that changes while it is."""
_SETTLED_NS: Final = 2_000_000_000
"""The age of a file that is made. git counts whole seconds, and reads a file that is no older than
its index once more: it then warns of line ends, as it does in no folder that is older."""
_SCRATCH: Final = "refold-copy-"
_LOCK: Final = "lock"
_MODES_MAX: Final = 10_000
"""Files and folders that are noted; of more, none is: a whole folder may be read-only."""
_NO_FOLDER: Final = (errno.ENOTDIR, errno.ELOOP)
_SPECIAL: Final = frozenset(("", ".", ".."))


def mode_of(found: os.stat_result) -> str:
    """Return the mode of a file or a link, as git writes it."""
    if stat.S_ISLNK(found.st_mode):
        return LINK
    return PROGRAM if found.st_mode & stat.S_IXUSR else FILE


@attrs.frozen
class DiskFile:
    """The content of a path on disk: a file, a link or a folder."""

    mode: str
    """As git writes it."""
    content: bytes
    """Of a file; the text of a link; empty for a folder."""

    @functools.cached_property
    def digest(self) -> str:
        """Of the content."""
        return digest_only(self.content)

    def is_as(self, entry: TreeEntry | None) -> bool:
        """Return whether an entry of a tree has this mode and content."""
        if entry is None or entry.mode != self.mode:
            return False
        if entry.kind == "git":
            return entry.value == blob_id(self.content, len(entry.value))
        return entry.kind == "folder"


class Inside(contextlib.AbstractContextManager["Inside"]):
    """A folder, opened; a context manager. Paths are relative to it, with `/`."""

    def __init__(self, top: str | os.PathLike[str]) -> None:
        """Open the folder.

        Raises:
            OSError: it does not exist, or is a link.
        """
        self._top = os.open(top, _OPENED)
        self._above: list[str] = []
        self._open = os.dup(self._top)

    def _at(self, path: str, *, makes: bool = False) -> tuple[str, int]:
        """Return the name of a path, and the descriptor of the folder that has it.

        It is valid until the next call; `makes` creates the folder.

        Raises:
            FolderRefused: the path leads through a file or a link, or upwards.
            OSError: there is no such folder, or the system refuses.
        """
        *above, name = path.split("/")
        if not _SPECIAL.isdisjoint([*above, name]):
            raise FolderRefused(paths.as_text(path), "a path below the folder", "another")
        if above != self._above or self._open < 0:
            self._forget()
            self._open, self._above = self._walked(above, makes=makes), above
        return name, self._open

    def _walked(self, above: list[str], *, makes: bool) -> int:
        at = os.dup(self._top)
        for name in above:
            try:
                if makes:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(name, dir_fd=at)
                inner = os.open(name, _OPENED, dir_fd=at)
            except OSError as error:
                if error.errno not in _NO_FOLDER:
                    raise
                told = paths.as_text("/".join(above))
                raise FolderRefused(told, "a folder", "a file or a link") from None
            finally:
                os.close(at)
            at = inner
        return at

    def status(self, path: str) -> os.stat_result | None:
        """Return the status of a path; `None` if it does not exist, or leads through a link."""
        with contextlib.suppress(FolderRefused, FileNotFoundError, NotADirectoryError):
            name, folder = self._at(path)
            return os.stat(name, dir_fd=folder, follow_symlinks=False)
        return None

    def content(self, path: str) -> bytes | None:
        """Return the content of a file, or the text of a link.

        `None` for all else, and if it changes during every read.

        Raises:
            FolderRefused: the path leads through a file or a link.
            OSError: the system refuses to read it.
        """
        name, folder = self._at(path)
        if stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            return os.fsencode(os.readlink(name, dir_fd=folder))
        for _ in range(_READS):
            with open(os.open(name, _READ, dir_fd=folder), "rb") as file:  # noqa: PTH123 - a descriptor
                before = os.fstat(file.fileno())
                content = file.read() if stat.S_ISREG(before.st_mode) else None
                after = os.fstat(file.fileno())
            if content is None:
                return None
            if (before.st_mtime_ns, before.st_size) == (after.st_mtime_ns, len(content)):
                return content
        return None

    def held(self, path: str) -> DiskFile | None:
        """Return what a path holds; `None` for nothing, and for pipes, sockets and devices.

        A path through a link holds nothing, and a file that the system refuses to open neither.
        """
        with contextlib.suppress(FolderRefused, OSError):
            found = self.status(path)
            if found is not None and stat.S_ISDIR(found.st_mode):
                return DiskFile(FOLDER, b"")
            if found is not None and (content := self.content(path)) is not None:
                return DiskFile(mode_of(found), content)
        return None

    def make(self, path: str, mode: str, content: bytes) -> None:
        """Create a file, a link or a folder, with the folders above it.

        Raises:
            FolderRefused: the path leads through a file or a link, or exists and is not a folder.
            OSError: the system refuses to write, as on a full disk.
        """
        name, folder = self._at(path, makes=True)
        try:
            if mode == LINK:
                os.symlink(os.fsdecode(content), name, dir_fd=folder)
            elif mode == FOLDER:
                os.mkdir(name, dir_fd=folder)
            else:
                made = os.open(name, NEW_FILE, 0o777 if mode == PROGRAM else 0o666, dir_fd=folder)
                try:
                    write_all(made, content)
                    aged = os.fstat(made).st_mtime_ns - _SETTLED_NS
                    os.utime(made, ns=(aged, aged))
                finally:
                    os.close(made)
        except FileExistsError:
            if mode != FOLDER:
                found = "one is there, whose name the file system takes for the same"
                raise FolderRefused(paths.as_text(path), "a new file", found) from None
        except ValueError:
            raise FolderRefused(
                paths.as_text(path), "the target of a link", "a target with a NUL"
            ) from None

    def take(self, source: Path, path: str) -> None:
        """Give a path to a file or a folder that is elsewhere on the same file system.

        Raises:
            FolderRefused: the path leads through a file or a link.
            OSError: a file or a folder with files is there, or the system refuses.
        """
        name, folder = self._at(path, makes=True)
        os.rename(source, name, dst_dir_fd=folder)

    def chmod(self, path: str, mode: str) -> None:
        """Give a file or a folder its mode; make an empty one that the record could not read.

        Raises:
            FolderRefused: the path leads through a file or a link.
            OSError: the system refuses.
        """
        kind, rights = _parsed(mode)
        if not rights & stat.S_IRUSR and self.status(path) is None:
            self.make(path, FOLDER if kind == stat.S_IFDIR else FILE, b"")
        found = self.status(path)
        if found is not None and stat.S_IFMT(found.st_mode) == kind:
            name, folder = self._at(path)
            os.chmod(name, rights, dir_fd=folder)

    def _forget(self) -> None:
        if self._open >= 0:
            os.close(self._open)
        self._open = -1

    def __exit__(self, *_: object) -> None:
        self._forget()
        os.close(self._top)


def held_at(top: Path, path: str, most: int = TOTAL_MAX) -> DiskFile | None:
    """Return what a path below a folder holds; `None` for nothing, and for folders.

    So for a file of more than `most` bytes. No link is followed.
    """
    with contextlib.suppress(OSError), Inside(top) as folder:
        found = folder.status(path)
        if found is not None and not stat.S_ISDIR(found.st_mode) and found.st_size <= most:
            return folder.held(path)
    return None


def umask_here() -> str:
    """Return this process's umask, as far as it is of the group and of others: `022`."""
    umask = os.umask(0o077)
    os.umask(umask)
    return f"{umask & 0o077:03o}"


@contextlib.contextmanager
def umask_as(text: str) -> Iterator[None]:
    """Give what this process makes and starts within the block another umask."""
    before = os.umask(int(text, 8))
    try:
        yield
    finally:
        os.umask(before)


def modes_in(top: Path, passes: Collection[str], umask: str) -> tuple[Mode, ...]:
    """Return the modes that files and folders would not get where they are made anew, by path.

    What is in a folder that it `passes`, and in git folders, is not looked at. Of links, none is.
    """
    there = _modes(os.fspath(top), "", passes, ~int(umask, 8))
    found = tuple(islice(there, _MODES_MAX + 1))
    return tuple(sorted(found, key=lambda one: one.path)) if len(found) <= _MODES_MAX else ()


def set_modes(top: Path, modes: Iterable[Mode]) -> None:
    """Give files and folders of a copy their modes; make what the record could not read, empty.

    A copy belongs to who replays: a command that was refused to write would succeed in it.

    Raises:
        FolderRefused: a path leads through a file or a link.
        OSError: the system refuses.
    """
    with Inside(top) as folder:
        for one in sorted(modes, key=lambda one: one.path, reverse=True):  # inner ones first
            if one.path:
                folder.chmod(one.path, one.mode)
            else:
                top.chmod(_parsed(one.mode)[1])


def _parsed(mode: str) -> tuple[int, int]:
    """Return the kind and the permissions of a mode."""
    number = int(mode, 8)
    return stat.S_IFMT(number), stat.S_IMODE(number)


def _modes(place: str, path: str, passes: Collection[str], mask: int) -> Iterator[Mode]:
    rights = _rights(place, os.R_OK | os.W_OK | os.X_OK)
    if rights not in (None, 0o777 & mask):
        yield Mode(path, f"{FOLDER[:3]}{rights:03o}")
    try:
        entries = [*os.scandir(place)]
    except OSError:
        return
    for entry in entries:
        below = f"{path}/{entry.name}" if path else entry.name
        if entry.name == ".git" or below in passes:
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from _modes(entry.path, below, passes, mask)
        elif entry.is_file(follow_symlinks=False):
            rights = _rights(entry.path, os.R_OK | os.W_OK)
            if rights is not None and rights != (0o777 if rights & 0o100 else 0o666) & mask:
                yield Mode(below, f"{FILE[:3]}{rights:03o}")


def _rights(place: str, asked: int) -> int | None:
    """Return permissions as they are, if this user has those of the owner; else its own, thrice.

    `None` for what is gone meanwhile, or lies in a folder that may not be searched.
    """
    try:
        rights = os.lstat(place).st_mode & 0o777
    except OSError:
        return None
    is_allowed = os.access(place, asked)
    if is_allowed == (rights >> 6 & asked == asked) or (os.geteuid() == 0 and is_allowed):
        return rights
    return 0o111 * sum(right for right in (os.R_OK, os.W_OK, os.X_OK) if os.access(place, right))


def restore(
    entries: Iterable[TreeEntry], content: Callable[[TreeEntry], bytes], into: Path
) -> list[ContentMissing]:
    """Write files, links and empty folders into a folder; return the missing contents.

    Files left out of the record (`out`) and submodules without recorded files leave at most an
    empty folder. `entries` are complete, from `Contents.whole`.

    Raises:
        FolderRefused: a path leads outside, or exists, or the files have more than `TOTAL_MAX`
            bytes; files already written stay.
        OSError: the system refuses to write, as on a full disk.
    """
    missing, total = [], 0
    with Inside(into) as folder:
        for entry in entries:
            if entry.kind in ("gone", "out"):
                continue
            try:
                given = content(entry)
            except ContentMissing as error:
                missing.append(error)
                continue
            if (total := total + len(given)) > TOTAL_MAX:
                expected = f"files of at most {TOTAL_MAX} bytes in all"
                raise FolderRefused(paths.as_text(entry.path), expected, "more")
            mode = FOLDER if entry.kind in ("folder", "commit") else entry.mode
            folder.make(paths.checked(entry.path), mode, given)
    return missing


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    """Yield a temporary folder, and remove it afterwards, with those of dead processes."""
    top = Path(tempfile.gettempdir())
    for each in top.glob(f"{_SCRATCH}*") if LOCKS else ():
        with contextlib.suppress(OSError):  # another process removes it
            if each.lstat().st_uid != os.getuid():
                continue
        with contextlib.suppress(OSError), (each / _LOCK).open("rb") as lock:
            flock(lock.fileno())
            _remove(each)
    work = Path(tempfile.mkdtemp(prefix=_SCRATCH)).resolve()
    with (work / "new").open("wb") as lock:
        if LOCKS:
            flock(lock.fileno(), waits=True)
        (work / "new").rename(work / _LOCK)  # nobody takes it before it is locked
        try:
            yield work
        finally:
            _remove(work)


def _remove(folder: Path) -> None:
    """Remove a folder, also where a command took away the right to."""
    shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():
        for path, names, _ in os.walk(folder):
            for inner in (Path(path, name) for name in names):
                if not inner.is_symlink():
                    inner.chmod(0o700)
        shutil.rmtree(folder, ignore_errors=True)
