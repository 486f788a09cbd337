"""Writes what commands and tests make of logs to files: whole, private, and never over a log.

A file is replaced if its first bytes show that the same option wrote it, or if `force` is set.
Pipes and devices are written to directly. Rules: CONTRACT.md §4.9.
"""

import contextlib
import os
import re
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Final, Literal

import attrs

from refold.engine.errors import OutputRefused
from refold.engine.log.descriptors import CLOEXEC, placed
from refold.engine.log.names import is_reserved
from refold.engine.log.pack import removed_if_stopped

OutputKind = Literal["atif", "heads", "html", "junit", "markdown", "otlp", "perfetto"]

_BEGINS: Final[dict[OutputKind, re.Pattern[bytes]]] = {
    "atif": re.compile(rb'\{"schema_version": "ATIF-[^"]*", "notes": "Exported by Refold'),
    "heads": re.compile(rb'\{"log":"[^"]+","run":"'),
    "html": re.compile(
        rb'<!doctype html>\n.*\n.*\n.*\n<meta http-equiv="Content-Security-Policy" content="'
        rb"default-src &#x27;none&#x27;; script-src &#x27;sha256-[^;]*;; style-src &#x27;sha256-"
        rb"[^;]*;; img-src data: blob:; connect-src &#x27;none&#x27;; base-uri "
    ),
    "junit": re.compile(rb'<\?xml [^>]*>\n<testsuites name="refold" '),
    "markdown": re.compile(rb"### .*\n\nLog .* intact: (yes|\*\*no\*\*), complete: "),
    "otlp": re.compile(rb'\{"resourceSpans":\[\{"resource":\{"attributes":\[\{"key":"refold\.run"'),
    "perfetto": re.compile(rb'\{"otherData": \{"generator": "Refold"\}, "traceEvents": '),
}
"""How each kind begins."""
_LOG: Final = (b'{"seq":', b"PK\x03\x04")
"""How any line of a log begins, and any packed log."""
_BEGINNING: Final = 4096
"""Bytes of a file that are looked at; the longest beginning is a title in Markdown."""
_DESCRIPTOR: Final = re.compile(r"/(?:dev|proc/self)/fd/([0-9]+)")
_TAKEN: Final = "this name is reserved for logs and their parts: choose a different one"
_STREAMS: Final = {"/dev/stdout": 1, "/dev/stderr": 2}


@attrs.frozen
class OutputFile:
    """A file to be written, as an option named it."""

    path: Path
    kind: OutputKind
    force: bool | None = False
    """Whether a file is replaced that is not of this kind; a log never is."""

    def check(self) -> None:
        """Refuse what `write` would refuse, before the work is done.

        Raises:
            OutputRefused: as `write`.
            OSError: the path cannot be looked at.
        """
        if not self._is_stream():
            self._place()

    def write(self, content: bytes | Iterable[bytes]) -> None:
        """Write the file: `path` refers to all of `content` afterwards, or to the earlier file.

        Raises:
            OutputRefused: the name or the file is a log's; or it is a link, a folder, or a file
                that is neither empty nor of this kind, without `force`.
            OSError: it could not be written; `path` is named.
        """
        parts = [content] if isinstance(content, bytes) else content
        if self._is_stream():
            with open(self._opened(), "wb") as stream:  # noqa: PTH123 - a descriptor
                stream.writelines(parts)
            return
        with removed_if_stopped(), placed(self._place(), replaces=True) as file:
            file.writelines(parts)

    def _is_stream(self) -> bool:
        """Return whether the file is written to directly: a pipe, a device, an open descriptor.

        Raises:
            OutputRefused: a descriptor of a log.
        """
        try:
            mode = self.path.stat().st_mode
        except OSError:
            return False
        if stat.S_ISREG(mode) and self._number is not None:  # a shell opened it
            self._beginning(self.path.resolve())
            return True
        return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISBLK(mode))

    @property
    def _number(self) -> int | None:
        """The descriptor of this process that the path refers to, as `/dev/stdout` does."""
        found = _DESCRIPTOR.fullmatch(str(self.path))
        return int(found[1]) if found else _STREAMS.get(str(self.path))

    def _opened(self) -> int:
        if (number := self._number) is not None:
            return os.dup(number)  # opened anew, a file would be written from its start
        return os.open(self.path, os.O_WRONLY | CLOEXEC)

    def _place(self) -> Path:
        """Return where the file is to lie, links above it resolved.

        Raises:
            OutputRefused: as `write`.
        """
        if not self.path.parent.is_dir():
            raise OutputRefused(str(self.path.parent), "no such folder")
        place = self.path.parent.resolve() / self.path.name
        if place.is_symlink():
            raise self._refused("this is a link, which is not followed: pass the file itself")
        begins = self._beginning(place)
        if os.path.lexists(place) and not place.is_file():
            raise self._refused("this is a folder or a device: pass a file name")
        if begins and not self.force and not _BEGINS[self.kind].match(begins):
            what = f"this file is not {self.kind} written by Refold"
            more = "" if self.force is None else ", or replace it with --force"
            raise self._refused(f"{what}: remove it{more}")
        return place

    def _beginning(self, place: Path) -> bytes:
        """Return the first bytes of the file at `place`; empty without one.

        Raises:
            OutputRefused: its name or its content is a log's.
        """
        if is_reserved(place):
            raise self._refused(_TAKEN)
        if not place.is_file():
            return b""
        with place.open("rb") as file:
            begins = file.read(_BEGINNING)
        if begins.startswith(_LOG):
            raise self._refused("this file is a log or an archive: choose a different name")
        return begins

    def _refused(self, why: str) -> OutputRefused:
        return OutputRefused(str(self.path), why)


@attrs.frozen
class OutputFolder:
    """A folder for new files: it is missing or empty, so nothing is ever replaced."""

    path: Path

    def check(self) -> None:
        """Refuse a folder that files cannot be written into.

        Raises:
            OutputRefused: it is a link, a file, or a folder with files; it has the name of a log's
                part or lies in one; or the folder around it is missing.
        """
        path, above = self.path, self.path.parent
        if not above.is_dir():
            raise OutputRefused(str(above), "no such folder")
        if is_reserved(above.resolve() / path.name):
            raise OutputRefused(str(path), _TAKEN)
        is_there = os.path.lexists(path)
        if is_there and (path.is_symlink() or not path.is_dir() or any(path.iterdir())):
            raise OutputRefused(str(path), "expected an empty folder, or none")

    @contextlib.contextmanager
    def files(self, names: Iterable[str]) -> Iterator[list[BinaryIO]]:
        """Yield a new private file for each name; if the block fails, none is left.

        Raises:
            OutputRefused: as `check`.
            OSError: a file could not be written; its path is named.
        """
        self.check()
        self.path.mkdir(exist_ok=True)
        with removed_if_stopped(), contextlib.ExitStack() as stack:
            made = (placed(self.path / each, replaces=False) for each in names)
            yield [stack.enter_context(each) for each in made]
