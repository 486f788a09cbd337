"""Heads of root logs in a file that is kept elsewhere: `refold verify --write-heads`, `--heads`.

Each line is JSON: the log's name below its folder, its run's id, how many entries it has, and its
head. Anyone who can write a folder can make other logs that are intact; such a file records the
original ones. Rules: CONTRACT.md §5.6.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import attrs

from refold.engine.encoding.canonical import encode, loads
from refold.engine.errors import LogMissing, UsageError
from refold.engine.log.line import is_hash
from refold.engine.plain_files import plain_file

_SIZE_MAX: Final = 256 * 1024 * 1024


@attrs.frozen
class KeptHead:
    """A line of the file."""

    log: str
    """The log's name below its folder, with slashes: `audit.jsonl`, `july/audit.jsonl`."""
    run: str
    """Its run's id."""
    entries: int
    head: str

    def encoded(self) -> bytes:
        """Return the line."""
        return encode(attrs.asdict(self)) + b"\n"


class HeadsFile:
    """The heads of a file."""

    def __init__(self, path: Path) -> None:
        """Read the file.

        Raises:
            UsageError: it cannot be read, or a line of it is not a kept head.
        """
        self._path = path
        try:
            with plain_file(path).open("rb") as file:
                content = file.read(_SIZE_MAX)
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror or error}") from None
        self._heads = {each.log: each for each in self._lines(content)}

    def _lines(self, content: bytes) -> Iterator[KeptHead]:
        for number, line in enumerate(content.splitlines(), start=1):
            try:
                row: Any = loads(line)
                head = KeptHead(row["log"], row["run"], row["entries"], row["head"])
                is_one = head.encoded().rstrip() == line and is_hash(head.head)
            except (ValueError, KeyError, TypeError):
                is_one = False
            if not is_one:
                expected = "expected a line of a file that --write-heads wrote"
                text = line.decode(errors="replace")
                found = f"{text!r:.60}" if text.isprintable() else "a line that is not text"
                raise UsageError(f"{self._path}:{number}: {expected}; found {found}") from None
            yield head

    def head(self, log: Path, folder: Path | None) -> str:
        """Return the head that is kept of a log, by its place below a folder, or by its name.

        Raises:
            LogMissing: none is.
            UsageError: two logs of that name are kept, in different folders.
        """
        if folder is not None:
            names = [Path(os.path.relpath(log, folder)).as_posix()]
        else:
            names = [each for each in self._heads if each.rpartition("/")[2] == log.name]
        if len(names) > 1:
            raise UsageError(
                f"{self._path} has {len(names)} logs named {log.name}: verify the folder"
            )
        if not names or names[0] not in self._heads:
            raise LogMissing(str(log), f"{self._path} does not contain its head")
        return self._heads[names[0]].head

    def logs(self, folder: Path) -> Iterator[Path]:
        """Yield where the logs lie whose heads are kept, below a folder."""
        return (folder / each for each in self._heads)
