"""Reads a log one line ahead, for a re-execution that compares line by line.

Late effects and marks of a resume have no part in what the program saw: they are passed over.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from refold.engine.canonical import Json
from refold.engine.codec import structure
from refold.engine.events import Recorded
from refold.engine.log import Entry, read_entries
from refold.engine.log.blobs import BlobStore, is_marked, resolved
from refold.engine.log.names import blobs_of

_PASSED_OVER: Final = frozenset({"effect.late", "run.resumed"})


class Cursor:
    """One line ahead in one log."""

    def __init__(self, log: str | os.PathLike[str]) -> None:
        self._entries = read_entries(log, torn_ok=True)
        self._blobs = BlobStore(blobs_of(Path(log)))
        self._next: Entry | None = None
        self.taken = 0
        """Entries behind the cursor, those passed over included."""
        self._advance()

    def peek(self) -> Entry | None:
        """Return the next line, data as logged; `None` at the end of the record."""
        return self._next

    def take(self) -> Entry:
        """Return the next line and go on."""
        entry = self._next
        if entry is None:
            raise EOFError
        self.taken += 1
        self._advance()
        return entry

    def rest(self) -> Iterator[Entry]:
        """Yield what is left; the cursor is at the end then."""
        while self._next is not None:
            yield self.take()

    def data(self, entry: Entry) -> Json:
        """Return the data of an entry, blobs read and wrapped objects unwrapped."""
        return resolved(entry.data, self._blobs.get) if is_marked(entry.line) else entry.data

    def event(self, entry: Entry) -> Recorded:
        """Return the event of an entry."""
        return structure(entry.kind, self.data(entry))

    def _advance(self) -> None:
        for entry in self._entries:
            if entry.kind in _PASSED_OVER or entry.kind.startswith("x-"):
                self.taken += 1
                continue
            self._next = entry
            return
        self._next = None
