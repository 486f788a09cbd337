"""Streams other than server-sent events: Bedrock's binary frames, and a JSON array in pieces.

Both parsers return `sse.ServerEvent`, so a format's reader does not depend on the framing. A frame
(`application/vnd.amazon.eventstream`) is its length and its headers' length (4 bytes each), a
CRC-32 of these, headers, content, and a CRC-32 of all before. Its content is JSON with the model's
event as `bytes`, in base64. Gemini streams an array of answers unless the request has `alt=sse`.
The size of an incomplete event is bounded. Pure. Rules: CONTRACT.md §16.9, §16.10.
"""

import base64
import json
import re
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import attrs

from refold.engine.wire.parts.notation import object_in, text_of
from refold.engine.wire.parts.sse import EVENT_BYTES_MAX, ServerEvent

FRAMES: Final = "application/vnd.amazon.eventstream"
"""The content type of Bedrock's streams."""

_PRELUDE: Final = struct.Struct("!III")
_CRC: Final = struct.Struct("!I")
_VALUE: Final = struct.Struct("!BH")
_TEXT: Final = 7
"""The type of a header's value that is a text: Bedrock sends no other."""
_BROKEN: Final = ServerEvent("", b"", is_given_up=True)
_FAULTS: Final = (ValueError, IndexError, struct.error)
"""Errors of invalid frames."""


@attrs.frozen
class _Frame:
    headers: dict[str, str]
    content: bytes
    whole: bytes
    """All of its bytes."""

    def event(self) -> ServerEvent | None:
        """Return its event; an exception as the error event of Anthropic's own streams."""
        said = object_in(self.content) or {}
        if self.headers.get(":message-type", "event") != "event":
            kind = self.headers.get(":exception-type") or self.headers.get(":error-code", "")
            message = text_of(said.get("message")) or self.headers.get(":error-message") or kind
            error = {"type": "error", "error": {"type": kind, "message": message}}
            return ServerEvent("error", json.dumps(error).encode())
        if not isinstance(said.get("bytes"), str):
            return None
        return ServerEvent(self.headers.get(":event-type", ""), base64.b64decode(said["bytes"]))

    def without(self, scrub: Callable[[bytes], bytes]) -> bytes:
        """Return it with its event scrubbed; encoded again if that changed it."""
        said = object_in(self.content) or {}
        if not isinstance(said.get("bytes"), str):
            kept = scrub(self.content)
            return self.whole if kept == self.content else _framed(self.headers, kept)
        plain = base64.b64decode(said["bytes"])
        kept = scrub(plain)
        packed = {**said, "bytes": base64.b64encode(kept).decode()}
        return self.whole if kept == plain else _framed(self.headers, json.dumps(packed).encode())


class FrameParser:
    """Takes bytes of frames, returns events; after an invalid frame, nothing more."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._is_broken = False

    def feed(self, chunk: bytes) -> list[ServerEvent]:
        """Return the events that these bytes end; never raises."""
        if self._is_broken:
            return []
        found: list[ServerEvent] = []
        try:
            found.extend(filter(None, (frame.event() for frame in self._frames(chunk))))
        except _FAULTS:
            self._is_broken = True
            self._held.clear()
            found.append(_BROKEN)
        return found

    def scrubbed(self, chunk: bytes, scrub: Callable[[bytes], bytes]) -> bytes:
        """Return the frames that these bytes complete, events scrubbed, invalid ones as is."""
        found: list[bytes] = []
        try:
            found.extend(frame.without(scrub) for frame in self._frames(chunk))
        except _FAULTS:
            found.append(self.rest())
        return b"".join(found)

    def rest(self) -> bytes:
        """Return the bytes of an incomplete frame."""
        rest = bytes(self._held)
        self._held.clear()
        return rest

    def _frames(self, chunk: bytes) -> Iterator[_Frame]:
        """Yield each frame that is whole."""
        self._held += chunk
        while len(self._held) >= _PRELUDE.size:
            size, headers, crc = _PRELUDE.unpack_from(self._held)
            is_one = _PRELUDE.size + headers + _CRC.size <= size <= EVENT_BYTES_MAX
            if crc != zlib.crc32(self._held[: _PRELUDE.size - _CRC.size]) or not is_one:
                raise ValueError("not the start of a frame")
            if len(self._held) < size:
                return
            frame = bytes(self._held[:size])
            content = frame[_PRELUDE.size : -_CRC.size]
            if _CRC.unpack(frame[-_CRC.size :]) != (zlib.crc32(frame[: -_CRC.size]),):
                raise ValueError("a frame with another sum")
            found = _Frame(dict(_headers(content[:headers])), content[headers:], frame)
            del self._held[:size]
            yield found


def _headers(content: bytes) -> Iterator[tuple[str, str]]:
    at = 0
    while at < len(content):
        name = content[at + 1 : (at := at + 1 + content[at])]
        kind, size = _VALUE.unpack_from(content, at)
        if kind != _TEXT:
            raise ValueError(f"a header of type {kind}")
        value = content[at + _VALUE.size : (at := at + _VALUE.size + size)]
        yield name.decode(), value.decode()


def frame_of(event: Any) -> bytes:
    """Return the frame of one event of a model, as Bedrock sends it."""
    content = json.dumps({"bytes": base64.b64encode(json.dumps(event).encode()).decode()}).encode()
    given = {":event-type": "chunk", ":content-type": "application/json", ":message-type": "event"}
    return _framed(given, content)


def _framed(given: dict[str, str], content: bytes) -> bytes:
    pairs = [(name.encode(), value.encode()) for name, value in given.items()]
    headers = b"".join(
        bytes([len(name)]) + name + _VALUE.pack(_TEXT, len(value)) + value for name, value in pairs
    )
    size = _PRELUDE.size + len(headers) + len(content) + _CRC.size
    lengths = struct.pack("!II", size, len(headers))
    frame = lengths + _CRC.pack(zlib.crc32(lengths)) + headers + content
    return frame + _CRC.pack(zlib.crc32(frame))


_OF_ARRAYS: Final = re.compile(rb'["\\{}]')


class ArrayParser:
    """Takes bytes of a JSON array, gives an event for each object in it."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._looked = 0
        self._depth = 0
        self._is_text = False

    def feed(self, chunk: bytes) -> list[ServerEvent]:
        """Return the events that these bytes end; never raises."""
        self._held += chunk
        found = list(self._objects())
        if len(self._held) > EVENT_BYTES_MAX:
            self._held.clear()
            self._looked = 0
            found.append(_BROKEN)
        return found

    def _objects(self) -> Iterable[ServerEvent]:
        while (mark := _OF_ARRAYS.search(self._held, self._looked)) is not None:
            at, sign = mark.start(), mark[0]
            if sign == b"\\" and at + 1 >= len(self._held):
                self._looked = at  # what it escapes is yet to come
                return
            self._looked = at + (2 if sign == b"\\" else 1)
            if sign == b'"':
                self._is_text = not self._is_text
            elif sign == b"{" and not self._is_text:
                if not self._depth:  # what stands between objects says nothing
                    del self._held[:at]
                    self._looked = 1
                self._depth += 1
            elif sign == b"}" and not self._is_text and self._depth:
                self._depth -= 1
                if not self._depth:
                    yield ServerEvent("", bytes(self._held[: self._looked]))
                    del self._held[: self._looked]
                    self._looked = 0
        self._looked = len(self._held)
