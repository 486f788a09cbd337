"""Writes files of a tree into an empty folder, and nothing outside it.

The list may come from a stranger. Folders are opened one by one, each inside the one before and
never through a link. Files are only created, never opened, so an existing name is refused,
including one that differs only in case on a file system that ignores case. Rules: CONTRACT.md
§16.20.
"""

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

from refold.engine.errors import ContentMissing, FolderRefused
from refold.engine.log.descriptors import CLOEXEC, DIRECTORY, NOFOLLOW, write_all
from refold.engine.workspace import paths
from refold.engine.workspace.tree import TreeEntry

TOTAL_MAX: Final = 4 * 1024**3
"""Bytes of all files: as many as a packed log may hold."""
_FOLDER: Final = os.O_RDONLY | DIRECTORY | NOFOLLOW | CLOEXEC
_MADE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | NOFOLLOW | CLOEXEC


def restore(
    entries: Iterable[TreeEntry],
    content: Callable[[TreeEntry], bytes],
    into: Path,
    total_max: int = TOTAL_MAX,
) -> list[ContentMissing]:
    """Write files, links and empty folders into a folder; return the missing contents.

    Files left out of the record (`out`) and submodules without recorded files leave at most an
    empty folder. `entries` are complete, from `Contents.whole`.

    Raises:
        FolderRefused: a path leads outside, or exists, or the files have more than `total_max`
            bytes; files already written stay.
        OSError: the system refuses to write, as on a full disk.
    """
    missing, total = [], 0
    with contextlib.ExitStack() as opened:
        top = os.open(into, _FOLDER)
        opened.callback(os.close, top)
        at = _Place(top)
        opened.callback(at.close)
        for entry in entries:
            if entry.kind in ("gone", "out"):
                continue
            try:
                given = content(entry)
            except ContentMissing as error:
                missing.append(error)
                continue
            if (total := total + len(given)) > total_max:
                expected = f"files of at most {total_max} bytes in all"
                raise FolderRefused(paths.as_text(entry.path), expected, "more")
            above, _, name = paths.checked(entry.path).rpartition("/")
            with _explained(entry.path):
                _make(entry, name, at.folder(above), given)
    return missing


def _make(entry: TreeEntry, name: str, folder: int, given: bytes) -> None:
    if entry.mode == "120000":
        os.symlink(os.fsdecode(given), name, dir_fd=folder)
    elif entry.kind in ("folder", "commit"):
        with contextlib.suppress(FileExistsError):  # a submodule whose files were written first
            os.mkdir(name, dir_fd=folder)
    else:
        may = 0o777 if entry.mode == "100755" else 0o666
        made = os.open(name, _MADE, may, dir_fd=folder)
        try:
            write_all(made, given)
        finally:
            os.close(made)


@contextlib.contextmanager
def _explained(path: str) -> Iterator[None]:
    try:
        yield
    except FileExistsError:
        found = "one is there, whose name the file system takes for the same"
        raise FolderRefused(paths.as_text(path), "a new file", found) from None
    except NotADirectoryError:
        raise FolderRefused(paths.as_text(path), "folders above it", "a file or a link") from None
    except ValueError:
        raise FolderRefused(paths.as_text(path), "the text of a link", "NUL in it") from None


class _Place:
    """The folder that was written to last, open: files come in the order of their paths."""

    def __init__(self, top: int) -> None:
        self._top = top
        self._path = ""
        self._open = -1

    def folder(self, path: str) -> int:
        """Return a folder below the top, open; made where it is not there."""
        if not path:
            return self._top
        if path != self._path:
            self.close()
            self._open, self._path = self._walked(path), path
        return self._open

    def _walked(self, path: str) -> int:
        at = os.dup(self._top)
        for name in path.split("/"):
            try:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, dir_fd=at)
                inner = os.open(name, _FOLDER, dir_fd=at)
            finally:
                os.close(at)
            at = inner
        return at

    def close(self) -> None:
        """Let go of it."""
        if self._open >= 0:
            os.close(self._open)
        self._open, self._path = -1, ""
