"""Folds a Python traceback over a refused request into one line: the report shows the difference.

Everything else that a command prints on standard error passes through as it comes.
"""

from collections.abc import Callable
from typing import Final

from refold.replay.observed.explaining import REFUSAL

_BEGINS: Final = b"Traceback (most recent call last):"
_CONTINUES: Final = (
    b" ", b"\n", b"\r\n", b"Traceback ", b"During handling of the above", b"The above exception",
)  # fmt: skip
"""Beginnings of lines between two exceptions of one traceback."""


class FoldedTracebacks:
    """Passes bytes on, by lines; a traceback is held until its end shows its subject."""

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self._write = write
        self._line = b""
        self._held = list[bytes]()

    def __call__(self, content: bytes) -> None:
        """Take some output."""
        *lines, self._line = (self._line + content).split(b"\n")
        for line in lines:
            self._take(line + b"\n")
        if self._line and not self._held and not _BEGINS.startswith(self._line[: len(_BEGINS)]):
            self._write(self._line)  # a prompt, or the progress of something
            self._line = b""

    def close(self) -> None:
        """Pass on what is held: nothing follows."""
        if self._held and self._line:
            self._held.append(self._line)
        elif self._line:
            self._write(self._line)
        self._line = b""
        self._flush()

    def _take(self, line: bytes) -> None:
        if self._held and not line.startswith(_CONTINUES):
            last = next(each for each in reversed(self._held) if each.strip())
            if not last.startswith((b" ", b"Traceback ", *_CONTINUES[4:])):  # an exception's line
                self._flush()
        if self._held or line.startswith(_BEGINS):
            self._held.append(line)
        else:
            self._write(line)

    def _flush(self) -> None:
        block = b"".join(self._held)
        if REFUSAL.encode() in block:
            said = [each for each in self._held if each[:1].strip() and b":" in each]
            name = said[-1].partition(b":")[0].rpartition(b".")[2]
            block = b"the command then failed: " + name + b"\n"
        self._held = []
        if block:
            self._write(block)
