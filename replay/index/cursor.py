"""Reads a log ahead, for a re-execution that compares line by line.

Late effects and the marks of a resume were not visible to the program: they are skipped. So are
change markers, which have no place in the order of calls; they are remembered.

The lines of a log that was already verified are parsed only as far as needed. Most are exactly the
bytes that the program is expected to emit, and `take_if` compares these without parsing.
"""

import functools
import os
import re
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from refold.engine.encoding.canonical import Json
from refold.engine.errors import LogDamaged
from refold.engine.events.codec import structure
from refold.engine.events.events import FROM_WORLD, MEASURED, UNSEEN, Recorded
from refold.engine.log.blobs import BlobStore, is_marked
from refold.engine.log.line import TRAILER
from refold.engine.log.names import blobs_of
from refold.engine.log.reader import Entry, entry_of, lines_of, read_entries, whole_data

_PASSED_OVER: Final = UNSEEN | {"patch.marked"}
_ENDS_STEP: Final = FROM_WORLD | {"run.finished"}


_HEAD: Final = b'{"seq":%d,"kind":"%b","call":"%b","cause":%d,"data":'
_META_BEGIN: Final = b',"meta":{"wall_us":'
_META: Final = re.compile(rb',"meta":\{"wall_us":[1-9][0-9]{0,18},"mono_us":[1-9][0-9]{0,18}\}')
"""All between the data and the trailer of a line, as a writer makes it."""
_MONO: Final = re.compile(rb'"mono_us":([0-9]+)')
_KIND: Final = re.compile(rb'\{"seq":[0-9]+,"kind":"([a-z0-9._-]+)"')


Unparsed = tuple[bytes, int, int]
"""A line that was taken as it is: its bytes, seq and offset in the file."""


def mono_us_of(line: "Entry | Unparsed | None") -> int:
    """Return when a line was written, by the clock of its attempt; 0 if not recorded."""
    if line is None or isinstance(line, Entry):
        return int(line.meta.get("mono_us", 0)) if line is not None else 0
    found = _MONO.search(line[0], line[0].rfind(_META_BEGIN))
    return int(found[1]) if found is not None else 0


class Cursor:
    """A look ahead into one log."""

    def __init__(self, log: str | os.PathLike[str], *, verified: bool = False) -> None:
        """Open a log; `verified`: its scan has just found it sealed and undamaged."""
        self.path = os.fspath(log)
        self._lines = lines_of(log) if verified else iter(())
        self._line = next(self._lines, b"")
        """Of a verified log, the next line that is not parsed yet; empty for none."""
        self._seq = 0
        self._offset = 0
        self._entries = self._parsed() if verified else read_entries(log, torn_ok=True)
        self._ahead: deque[Entry] = deque()
        self.taken = 0
        """Entries behind the cursor, those passed over included."""
        self.broken: LogDamaged | None = None
        """Damage found while reading: a program may have swallowed the error."""
        self.markers: set[str] = set()
        """Change markers passed over so far (CONTRACT.md §9.8)."""
        self.declared: set[str | None] = set()
        """Calls whose measured values a skipped line declares (CONTRACT.md §13.2)."""
        self._models: dict[str, str] = {}
        """Full names of the models of the last attempt passed over, if it changed them."""
        self.has_resumed = False
        """Whether the next line is of a later attempt, which has a different clock."""
        self._read()

    @functools.cached_property
    def _blobs(self) -> BlobStore:
        return BlobStore(blobs_of(Path(self.path)))

    def next_kind(self) -> str:
        """Return the kind of the next line, parsed only if it may be skipped; empty at the end."""
        found = None if self._ahead else _KIND.match(self._line)
        kind = found[1].decode() if found is not None else ""
        if not kind or kind in _PASSED_OVER or kind.startswith("x-"):
            return entry.kind if (entry := self.peek()) is not None else ""
        return kind

    def peek(self) -> Entry | None:
        """Return the next line, data as logged; `None` at the end of the record."""
        return self._ahead[0] if self._ahead or self._read() else None

    def take(self) -> Entry:
        """Return the next line and advance."""
        if not self._ahead and not self._read():
            raise EOFError
        self.taken += 1
        return self._ahead.popleft()

    def take_if(self, kind: bytes, call: str, cause: int, data: bytes) -> Unparsed | None:
        """Take the next line if its data equals `data` and the rest is as a writer makes it.

        `None` is inconclusive: use `peek`.
        """
        line = self._line
        head = _HEAD % (self._seq, kind, call.encode(), cause) + data
        if self._ahead or not line.startswith(head):
            return None
        is_plain = _META.fullmatch(line, len(head), len(line) - TRAILER)
        return self.take_line() if is_plain else None

    def data_if(self, kind: bytes, call: str, cause: int) -> bytes | None:
        """Return the next line's data, unparsed, if the rest of it is as a writer makes it.

        `None` is inconclusive: use `peek`.
        """
        line = self._line
        head = _HEAD % (self._seq, kind, call.encode(), cause)
        if not line.startswith(head) or self._ahead:
            return None
        at = line.rfind(_META_BEGIN)
        return line[len(head) : at] if _META.fullmatch(line, at, len(line) - TRAILER) else None

    def take_line(self) -> Unparsed:
        """Take the line of which `data_if` gave the data."""
        line, seq, offset = self._line, self._seq, self._offset
        self.taken += 1
        self._line = next(self._lines, b"")
        self._seq = seq + 1
        self._offset = offset + len(line)
        return line, seq, offset

    def parsed(self, unparsed: Unparsed) -> Entry:
        """Return a line that was taken as it was."""
        line, seq, offset = unparsed
        return entry_of(line, self.path, seq, offset)

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

    def rest(self) -> Iterator[Entry]:
        """Yield the remaining entries; then the cursor is at the end."""
        while self.peek() is not None:
            yield self.take()

    def data(self, entry: Entry) -> Json:
        """Return the data of an entry, blobs read and wrapped objects unwrapped.

        Raises:
            LogDamaged: a blob is missing or has changed; also kept as `broken`.
        """
        if not is_marked(entry.line):
            return entry.data
        try:
            return whole_data(entry, self.path, self._blobs)
        except LogDamaged as error:
            self.broken = error
            raise

    def event(self, entry: Entry) -> Recorded:
        """Return the event of an entry."""
        return structure(entry.kind, self.data(entry))

    def models_now(self) -> dict[str, str]:
        """Return the models that an attempt changed, by name, up to the next line."""
        if not self._ahead and (not self._line or b'"kind":"run.resumed"' in self._line[:64]):
            self._read()
        return self._models

    def _parsed(self) -> Iterator[Entry]:
        while self._line:
            entry = self.parsed(self.take_line())
            self.taken -= 1  # it is ahead yet
            yield entry

    def _read(self) -> bool:
        """Read one more line; return whether there was one."""
        for entry in self._entries:
            if entry.kind in _PASSED_OVER or entry.kind.startswith("x-"):
                if entry.kind == "patch.marked":
                    self.markers.add(self.data(entry)["id"])
                elif entry.kind == "run.resumed":
                    self.has_resumed = True
                    self._models |= self.data(entry).get("models") or {}
                elif entry.kind == MEASURED:
                    self.declared.add(self.data(entry).get("call"))
                self.taken += 1
                continue
            self._ahead.append(entry)
            return True
        return False
