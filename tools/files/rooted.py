"""Opens files below one folder so that no link, rename or `..` leads outside.

A path is relative to the root and is walked one name at a time. Each name is opened inside the
previously opened folder and never through a symbolic link. There is no moment between a check and a
use, so a rename, replacement or link during a call cannot lead outside. Links are listed but never
followed. Hard links and mounts are the responsibility of the folder's owner. The tools are in
`tools.files.file_tools`.
"""

import os
import stat
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final, Literal

import attrs

from refold.engine.errors import ToolError, ToolRefused

VISITED_MAX: Final = 100_000
"""Names that one call looks at."""
LEVELS_MAX: Final = 64
"""Folders within folders; each costs an open descriptor."""
PATH_MAX: Final = 4096
"""Characters of a path."""
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

Kind = Literal["file", "folder", "link", "other"]
"""`link`: a symbolic link, not followed · `other`: a pipe, socket or device, never opened."""


@attrs.frozen(kw_only=True)
class FileEntry:
    """One name in a folder."""

    path: str
    """Relative to the root."""
    kind: Kind
    size_bytes: int | None = None
    """Of a file."""


def checked_root(root: str | os.PathLike[str], tool: str) -> Path:
    """Return the resolved root folder of a tool.

    Raises:
        ToolRefused: it is not a folder.
    """
    top = Path(root).resolve()
    if not top.is_dir():
        raise ToolRefused(
            tool, "root", f"{top} is not a folder: create it, or pass a different one"
        )
    return top


@attrs.frozen
class Root:
    """The folder that a tool is kept to, and the tool, for its errors."""

    top: Path
    tool: str

    def require(self, fits: object, message: str, *, code: str = "arguments") -> None:
        """Raise a `ToolError` unless `fits`."""
        if not fits:
            raise ToolError(self.tool, message, code)

    @contextmanager
    def folder(self, path: str, *, make: bool = False) -> Iterator[int]:
        """Open a folder, one name at a time, `make` those that are missing; closed afterwards."""
        with self.explained(path):
            descriptor = os.open(self.top, _FOLDER)
        try:
            for name in self._names(path):
                with self.explained(path):
                    if make:
                        with suppress(FileExistsError):
                            os.mkdir(name, dir_fd=descriptor)
                    inner = os.open(name, _FOLDER, dir_fd=descriptor)
                os.close(descriptor)
                descriptor = inner
            yield descriptor
        finally:
            os.close(descriptor)

    @contextmanager
    def file(self, path: str) -> Iterator[IO[bytes]]:
        """Open a regular file; closed afterwards."""
        above, name = self._split(path)
        with self.folder(above) as descriptor:
            with self.explained(path):
                file = opened(name, descriptor)
            with file:
                yield file

    def kind(self, path: str) -> Kind:
        """Return what `path` is."""
        if not self._names(path):
            return "folder"
        above, name = self._split(path)
        with self.folder(above) as descriptor, self.explained(path):
            return kind_of(os.stat(name, dir_fd=descriptor, follow_symlinks=False))

    def _split(self, path: str) -> tuple[str, str]:
        names = self._names(path)
        self.require(names, f"{path!r} is a folder", code="not_a_file")
        return "/".join(names[:-1]), names[-1]

    def _names(self, path: str) -> list[str]:
        size = len(path)
        fits = size <= PATH_MAX
        self.require(fits, f"path: expected at most {PATH_MAX} characters, found {size}")
        names = [name for name in path.split("/") if name not in ("", ".")]
        inside = not path.startswith("/") and "\0" not in path and ".." not in names
        self.require(
            inside, f"{path!r}: give a path below the root, without ..", code="outside_root"
        )
        return names

    @contextmanager
    def explained(self, path: str) -> Iterator[None]:
        """Raise system errors for `path` as a `ToolError`."""
        try:
            yield
        except FileNotFoundError:
            raise ToolError(self.tool, f"{path}: there is no such file", "not_found") from None
        except (OSError, UnicodeEncodeError) as error:
            why = getattr(error, "strerror", None) or str(error)
            message = f"{path}: {why}; links, pipes and devices are not opened"
            raise ToolError(self.tool, message, "not_readable", type(error).__name__) from None


def opened(name: str, folder: int) -> IO[bytes]:
    """Open the regular file `name` in an open folder, never through a link.

    Raises:
        OSError: it is not a regular file, or cannot be read.
    """
    if kind_of(os.stat(name, dir_fd=folder, follow_symlinks=False)) != "file":
        raise OSError(0, "not a regular file")
    file = os.fdopen(os.open(name, _FILE, dir_fd=folder), "rb")
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):  # it was replaced in between
        file.close()
        raise OSError(0, "not a regular file")
    return file


Found = tuple[FileEntry, str, int]
"""An entry, its path below where the walk began, and the open folder that it lies in."""


@attrs.define
class FolderWalk:
    """A walk over a folder in the order of names; counts the entries that it could not show."""

    root: Root
    deep: bool = attrs.field(kw_only=True)
    visited: int = attrs.field(default=0, init=False)
    truncated: bool = attrs.field(default=False, init=False)
    unnameable: int = attrs.field(default=0, init=False)

    def over(self, path: str) -> Generator[Found, None, None]:
        """Yield what lies in `path`; close it when you stop early."""
        prefix = "/".join(name for name in path.split("/") if name not in ("", "."))
        with self.root.folder(path) as folder:
            yield from self._inside(folder, f"{prefix}/" if prefix else "", "")

    def _inside(self, folder: int, prefix: str, below: str) -> Generator[Found, None, None]:
        for name in self._names(folder):
            self.visited += 1
            if self.visited > VISITED_MAX:
                self.truncated = True
                return
            try:
                status = os.stat(name, dir_fd=folder, follow_symlinks=False)
            except OSError:  # removed while we looked
                continue
            entry = _entry(f"{prefix}{below}{name}", status)
            yield entry, f"{below}{name}", folder
            if not self.deep or entry.kind != "folder":
                continue
            inner = self._entered(name, folder, level=below.count("/") + 1)
            if inner is not None:
                try:
                    yield from self._inside(inner, prefix, f"{below}{name}/")
                finally:
                    os.close(inner)

    def _entered(self, name: str, folder: int, *, level: int) -> int | None:
        if level < LEVELS_MAX:
            with suppress(OSError):  # not ours to read, or no folder any more
                return os.open(name, _FOLDER, dir_fd=folder)
        self.truncated = True
        return None

    def _names(self, folder: int) -> list[str]:
        names = os.listdir(folder)
        known = [name for name in names if name.encode(errors="ignore").decode() == name]
        self.unnameable += len(names) - len(known)
        return sorted(known)


def kind_of(status: os.stat_result) -> Kind:
    """Return the kind of a directory entry, by its status."""
    if stat.S_ISREG(status.st_mode):
        return "file"
    if stat.S_ISDIR(status.st_mode):
        return "folder"
    return "link" if stat.S_ISLNK(status.st_mode) else "other"


def _entry(path: str, status: os.stat_result) -> FileEntry:
    kind = kind_of(status)
    return FileEntry(path=path, kind=kind, size_bytes=status.st_size if kind == "file" else None)
