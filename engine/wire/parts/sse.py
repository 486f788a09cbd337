"""Parses server-sent events from bytes, in any chunks.

The stream format of the HTML standard: lines end in CR, LF or both, and an event ends in an empty
line; an event without that is ignored. Bytes are read once; the size of an incomplete event is
bounded. The readers interpret events. Pure. Rules: CONTRACT.md §16.10.
"""

from typing import Final

import attrs

EVENT_BYTES_MAX: Final = 16 * 1024 * 1024
"""The size limit of one event; a larger one is dropped."""

_END: Final = b"\n\n"
_DATA: Final = b"data: "
_BOM: Final = b"\xef\xbb\xbf"


@attrs.frozen
class ServerEvent:
    """One event of a stream."""

    name: str
    """The value of `event:`; empty without one, and for a dropped event."""
    data: bytes
    """Its lines of data, joined by LF."""
    is_given_up: bool = False
    """Whether it was larger than `EVENT_BYTES_MAX`; then it has no data."""


class EventParser:
    """Takes bytes, gives events."""

    def __init__(self, bytes_max: int = EVENT_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._held = bytearray()
        """Of an event that is not whole, line ends as LF."""
        self._is_given_up = False
        self._after_cr = False
        self._start: bytes | None = b""
        """What may be the start of a BOM; `None` once that is settled."""

    def feed(self, chunk: bytes) -> list[ServerEvent]:
        """Return the events that these bytes end; never raises."""
        chunk = self._without_bom(chunk)
        if self._after_cr and chunk:
            self._after_cr = False
            chunk = chunk.removeprefix(b"\n")
        self._after_cr = self._after_cr or chunk.endswith(b"\r")
        looked = max(len(self._held) - 1, 0)
        self._held += chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        found = []
        if self._held.find(_END, looked) >= 0:
            *ended, rest = bytes(self._held).split(_END)
            self._held[:] = rest
            found = [self._ended(text) for text in ended]
        line_end = b"\n" if self._held.endswith(b"\n") else b""  # maybe the first of two
        if len(self._held) - len(line_end) > self._bytes_max:
            self._is_given_up = True
            self._held[:] = line_end
        return [event for event in found if event is not None]

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

    def _ended(self, text: bytes) -> ServerEvent | None:
        if self._is_given_up or len(text) > self._bytes_max:
            self._is_given_up = False
            return ServerEvent("", b"", is_given_up=True)
        if text.startswith(_DATA) and b"\n" not in text:  # as nearly all are
            return ServerEvent("", text[len(_DATA) :])
        name, data = "", []
        for line in text.split(b"\n"):
            field, _, value = line.partition(b":")
            value = value.removeprefix(b" ")
            if field == b"data":
                data.append(value)
            elif field == b"event":
                name = value.decode(errors="replace")
        return ServerEvent(name, b"\n".join(data)) if data else None
