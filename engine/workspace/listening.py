"""Whether anything in a folder can have changed since a scan, by inotify (Linux).

Without an event, a scan would find nothing new. Two kinds of changes make no event, and are found
by the next scan after any other event, at the latest at the end: through a second name of a file (a
hard link) outside the folder, and through memory that is mapped after its file was closed.
"""

import contextlib
import ctypes
import errno
import os
import re
import struct
import sys
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Final

from refold.engine.workspace.left_out import LogFiles

_EVENTS: Final = 0x2 | 0x4 | 0x8 | 0x40 | 0x80 | 0x100 | 0x200 | 0x400 | 0x800
"""Modified, attributes, closed after writing, moved from and to, created, deleted; itself, too."""
_FOLDERS: Final = 0x03000000
"""Folders alone, and not through a link."""
_UNKNOWN: Final = 0x40000000 | 0x8000 | 0x4000 | 0x2000
"""It is a folder, is listened to no more, there were too many events, or it was unmounted."""
_HEAD: Final = struct.Struct("iIII")
_STORES: Final = frozenset({"objects", "logs", "lfs", "hooks"})
"""Folders of git without data about files or the index."""
_RULES: Final = re.compile(r"(?:.*/)?(?:\.gitignore|\.git/config|\.git/info/exclude)")
"""Files that determine which files are ignored."""


class Listener:
    """Hears of changes in one folder; where it cannot, there may always have been some."""

    def __init__(self, top: Path, log_files: LogFiles) -> None:
        self._top = os.fspath(top)
        self._log_files = log_files
        self._passed = frozenset[str]()
        self._folders: dict[int, str] = {}
        self._is_whole = False
        self._descriptor = -1

    def listen(self, ignored: Iterable[str] = ()) -> None:
        """Hear what happens from now on; at the first time, not in folders that are `ignored`."""
        if sys.platform != "linux":
            return
        if not self._folders:
            self._passed = frozenset(path.rstrip("/") for path in ignored)
            self._descriptor = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            self._heard()
            if not self._is_whole:
                self._is_whole = True
                self._add_all()
        except OSError:
            self.close()

    def is_quiet(self) -> bool:
        """Return whether nothing can have changed since `listen`."""
        return self._is_whole and not self._heard()

    def include(self, paths: Iterable[str]) -> None:
        """Hear of the folders of these paths, though they were ignored."""
        above = {path[:at] for path in paths for at, char in enumerate(path) if char == "/"}
        if not self._passed.isdisjoint(above):
            self._passed -= above
            self._is_whole = False

    @cached_property
    def _libc(self) -> ctypes.CDLL:
        return ctypes.CDLL(None, use_errno=True)

    def _add_all(self) -> None:
        """Listen to each folder before it is listed, so that later files cause events."""
        left = [""]
        while left:
            path = left.pop()
            whole = os.path.join(self._top, path)  # noqa: PTH118 - many
            named = self._libc.inotify_add_watch(
                self._descriptor, os.fsencode(whole), _EVENTS | _FOLDERS
            )
            if named >= 0:
                self._folders[named] = path
                with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                    left += self._below(path, whole)
            elif (number := ctypes.get_errno()) not in (errno.ENOENT, errno.ENOTDIR):
                raise OSError(number, os.strerror(number), whole)

    def _below(self, path: str, whole: str) -> Iterable[str]:
        parts = path.split("/")
        with os.scandir(whole) as found:
            for entry in found:
                inner = f"{path}/{entry.name}" if path else entry.name
                is_folder = entry.is_dir(follow_symlinks=False)
                is_store = entry.name in _STORES and ".git" in parts and "refs" not in parts
                if entry.name == ".git" and not is_folder:
                    self._check_led(entry.path)
                is_passed = is_store or inner in self._passed or self._log_files.hold(inner)
                if is_folder and not is_passed:
                    yield inner

    def _check_led(self, path: str) -> None:
        """Raise OSError unless the repository that a file names is in the folder, too."""
        said = Path(path).read_text(errors="surrogateescape").removeprefix("gitdir: ").rstrip("\n")
        real = Path(path).parent.joinpath(said).resolve()
        if Path(path).is_symlink() or not real.is_relative_to(self._top):
            raise OSError(errno.EXDEV, "a repository elsewhere", path)

    def _heard(self) -> bool:
        """Return whether there were events, and forget them."""
        is_heard = False
        while self._descriptor >= 0:
            try:
                data = os.read(self._descriptor, 1 << 16)
            except BlockingIOError:
                break
            while data:
                named, mask, _, size = _HEAD.unpack_from(data)
                name = os.fsdecode(data[_HEAD.size : _HEAD.size + size].rstrip(b"\0"))
                data = data[_HEAD.size + size :]
                path = os.path.join(self._folders.get(named, ""), name)  # noqa: PTH118 - many
                if self._log_files.hold(path):
                    continue
                is_heard = True
                if _RULES.fullmatch(path):
                    self._passed, self._is_whole = frozenset(), False
                elif mask & _UNKNOWN:
                    self._is_whole = False
        return is_heard

    def close(self) -> None:
        """Hear nothing any more."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor, self._is_whole = -1, False
