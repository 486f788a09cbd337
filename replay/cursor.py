"""Reads a log ahead, for a re-execution that compares line by line.

Late effects and marks of a resume have no part in what the program saw: they are passed over.
So are change markers, which take no part in the order of calls; they are remembered.
"""

import os
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from refold.engine.canonical import Json
from refold.engine.codec import structure
from refold.engine.errors import LogDamaged
from refold.engine.events import FROM_WORLD, Recorded
from refold.engine.log import Entry, read_entries
from refold.engine.log.blobs import BlobBroken, BlobStore, is_marked, resolved
from refold.engine.log.names import blobs_of

_PASSED_OVER: Final = frozenset({"effect.late", "run.resumed", "patch.marked"})
_ENDS_STEP: Final = FROM_WORLD | {"run.finished"}


class Cursor:
    """A look ahead into one log."""

    def __init__(self, log: str | os.PathLike[str]) -> None:
        self._entries = read_entries(log, torn_ok=True)
        self._path = os.fspath(log)
        self._blobs = BlobStore(blobs_of(Path(log)))
        self._ahead: deque[Entry] = deque()
        self.taken = 0
        """Entries behind the cursor, those passed over included."""
        self.broken: LogDamaged | None = None
        """What was found damaged while reading: a program may have swallowed the error."""
        self.markers: set[str] = set()
        """Change markers passed over so far (CONTRACT.md §9.8)."""
        self._read()

    def peek(self) -> Entry | None:
        """Return the next line, data as logged; `None` at the end of the record."""
        return self._ahead[0] if self._ahead else None

    def take(self) -> Entry:
        """Return the next line and go on."""
        if not self._ahead:
            raise EOFError
        entry = self._ahead.popleft()
        self.taken += 1
        if not self._ahead:
            self._read()
        return entry

    def step(self) -> Iterator[Entry]:
        """Yield the lines that the program emitted in this step, from the next one on."""
        at = 0
        while at < len(self._ahead) or self._read():
            entry = self._ahead[at]
            if entry.kind in _ENDS_STEP:
                return
            yield entry
            at += 1

    def take_out(self, entry: Entry) -> None:
        """Take a line of this step out of its turn."""
        self._ahead.remove(entry)
        self.taken += 1
        if not self._ahead:
            self._read()

    def rest(self) -> Iterator[Entry]:
        """Yield what is left; the cursor is at the end then."""
        while self._ahead:
            yield self.take()

    def data(self, entry: Entry) -> Json:
        """Return the data of an entry, blobs read and wrapped objects unwrapped.

        Raises:
            LogDamaged: a blob is missing, or is not what it was; kept as `broken`, too.
        """
        if not is_marked(entry.line):
            return entry.data
        try:
            return resolved(entry.data, self._blobs.get)
        except BlobBroken as found:
            place = (entry.seq + 1, entry.offset, found.expected, found.found, found.what)
            self.broken = LogDamaged(self._path, *place)
            raise self.broken from None

    def event(self, entry: Entry) -> Recorded:
        """Return the event of an entry."""
        return structure(entry.kind, self.data(entry))

    def _read(self) -> bool:
        """Read one more line; return whether there was one."""
        for entry in self._entries:
            if entry.kind in _PASSED_OVER or entry.kind.startswith("x-"):
                if entry.kind == "patch.marked":
                    self.markers.add(self.data(entry)["id"])
                self.taken += 1
                continue
            self._ahead.append(entry)
            return True
        return False
