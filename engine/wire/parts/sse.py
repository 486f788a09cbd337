"""Server-sent events out of bytes, in whatever chunks they come.

The stream format of the HTML standard: lines end in CR, LF or both, an event in an empty line; an
event that no empty line ends is none.  Bytes are looked at once; what is kept of an event that is
not whole is bounded.  What an event means belongs to the readers.  Pure.
Rules: CONTRACT.md §16.10.
"""

import re
from typing import Final

import attrs

EVENT_BYTES_MAX: Final = 16 * 1024 * 1024
"""Of one event; what is larger is given up."""

_LINE_END: Final = re.compile(rb"\r\n|\r|\n")
_BOM: Final = b"\xef\xbb\xbf"


@attrs.frozen
class ServerEvent:
    """One event of a stream."""

    name: str
    """As `event:` says; empty where nothing does."""
    data: bytes
    """Its lines of data, joined by LF."""
    is_given_up: bool = False
    """Whether it was larger than `EVENT_BYTES_MAX`; then it has no data."""


class EventParser:
    """Takes bytes, gives events."""

    def __init__(self, bytes_max: int = EVENT_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._line = bytearray()
        self._line_bytes = 0
        self._after_cr = False
        self._start: bytes | None = b""
        """What may be the start of a BOM; `None` once that is settled."""
        self._begin()

    def _begin(self) -> None:
        self._name = ""
        self._data = bytearray()
        self._has_data = False
        self._held = 0

    def feed(self, chunk: bytes) -> list[ServerEvent]:
        """Return the events that these bytes end; never raises."""
        chunk = self._without_bom(chunk)
        if self._after_cr and chunk:
            self._after_cr = False
            chunk = chunk.removeprefix(b"\n")
        self._after_cr = self._after_cr or chunk.endswith(b"\r")
        *ended, rest = _LINE_END.split(chunk)
        found = []
        for line in ended:
            self._keep(line)
            event = self._line_ended()
            if event is not None:
                found.append(event)
        self._keep(rest)
        return found

    def _without_bom(self, chunk: bytes) -> bytes:
        if self._start is None:
            return chunk
        start = self._start + chunk
        is_short = len(start) < len(_BOM)
        if is_short and _BOM.startswith(start):
            self._start = start
            return b""
        self._start = None
        return start.removeprefix(_BOM)

    def _keep(self, piece: bytes) -> None:
        self._held += len(piece)
        self._line_bytes += len(piece)
        if self._held <= self._bytes_max:
            self._line += piece
        else:
            self._line.clear()
            self._data.clear()

    def _line_ended(self) -> ServerEvent | None:
        line, is_empty = bytes(self._line), not self._line_bytes
        self._line.clear()
        self._line_bytes = 0
        if is_empty:
            return self._ended()
        if line:
            self._field(line)
        return None

    def _field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data += b"\n" + value if self._has_data else value
            self._has_data = True
        elif name == b"event":
            self._name = value.decode(errors="replace")

    def _ended(self) -> ServerEvent | None:
        is_given_up = self._held > self._bytes_max
        event = ServerEvent(self._name, bytes(self._data), is_given_up)
        has_data = self._has_data or is_given_up
        self._begin()
        return event if has_data else None
