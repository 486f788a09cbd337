"""One connection to a server: a request goes out, and its answer is read as it comes.

Heads are read by h11. Bodies are not: its event for each chunk takes ten times as long as finding
the chunks in what came. Rules: CONTRACT.md §16.1.
"""

import asyncio
import os
import re
import select
import socket
import ssl
from collections.abc import AsyncIterator
from typing import Final

import attrs
import h11

HEAD_BYTES_MAX: Final = 100 * 1024
"""Of an answer's head, and of what may stand between two chunks."""
_READ_BYTES: Final = 256 * 1024
"""At most, at once."""
_SIZE: Final = re.compile(rb"\r\n([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\r\n]*)?\r\n")
"""The end of one chunk, and the size of the next."""
_TRAILER: Final = re.compile(rb"(?:[^\r\n]+\r\n)*\r\n")
_BODILESS: Final = frozenset({204, 304})


class BrokenOff(Exception):
    """A server speaks no HTTP, or no more."""


def why(error: Exception) -> str:
    """Return what the system says of an error, rather than what was tried."""
    if isinstance(error, ssl.SSLError | socket.gaierror):
        return error.strerror or str(error)
    if isinstance(error, OSError) and error.errno is not None:
        return os.strerror(error.errno)
    return str(error)


class Chunked:
    """Takes the bytes of a chunked body, however they are cut."""

    def __init__(self) -> None:
        self.is_over = False
        self.rest = b"\r\n"  # as if a chunk had ended
        """Bytes that cannot be read yet; at the end, those after the body."""
        self._left = 0

    def feed(self, came: bytes) -> bytes:
        """Return the content that these bytes add.

        Raises:
            BrokenOff: they are no chunks.
        """
        data, at, found = self.rest + came, 0, []
        while True:
            found.append(data[at : at + self._left])
            at += len(found[-1])
            self._left -= len(found[-1])
            if self._left or (size := _SIZE.match(data, at)) is None:
                break
            self._left = int(size[1], 16)
            if not self._left:
                if (end := _TRAILER.match(data, size.end())) is not None:
                    self.is_over, at = True, end.end()
                break
            at = size.end()
        self.rest = data[at:]
        if not self.is_over and self._is_none():
            raise BrokenOff("expected the size of a chunk")
        return b"".join(found)

    def _is_none(self) -> bool:
        """Return whether the rest cannot become the size of a chunk."""
        if len(self.rest) > HEAD_BYTES_MAX or not b"\r\n".startswith(self.rest[:2]):
            return True
        return b"\n" in self.rest[2:] and _SIZE.match(self.rest) is None


@attrs.define(eq=False)
class ServerConnection:
    """A connection, for one request at a time."""

    _reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    is_reusable: bool = False
    """Whether the last answer was read whole, and left the connection open."""
    _rest: bytes = b""
    """What came behind a head, and belongs to the body."""

    def is_idle(self) -> bool:
        """Return whether the server has neither closed it nor sent anything unasked."""
        if self._came() or self._reader.at_eof() or self.writer.is_closing():
            return False
        unread = select.poll()  # the loop may not have come to it
        unread.register(self.writer.get_extra_info("socket"), select.POLLIN)
        return not unread.poll(0)

    def _came(self) -> bytearray:
        """Return what came and is not read yet, which no method of a reader tells."""
        came: bytearray = self._reader._buffer  # type: ignore[attr-defined]  # noqa: SLF001
        return came

    def abort(self) -> None:
        """Close it, whatever is on its way."""
        self.writer.transport.abort()

    async def asked(self, request: h11.Request, body: bytes = b"") -> h11.Response:
        """Send a request; return the head of its answer.

        Raises:
            BrokenOff, h11.ProtocolError: none came.
        """
        self.is_reusable = False
        machine = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_BYTES_MAX)
        self.writer.write((machine.send(request) or b"") + body)
        while not isinstance(event := machine.next_event(), h11.Response):
            if event is h11.NEED_DATA:
                machine.receive_data(await self._read())
            elif not isinstance(event, h11.InformationalResponse):
                raise BrokenOff("expected an answer")
        self._rest = machine.trailing_data[0]
        return event

    async def body(self, method: str, answer: h11.Response) -> AsyncIterator[bytes]:
        """Yield the body of an answer; what came at once, as one.

        Raises:
            BrokenOff: a part is missing.
        """
        headers, rest = dict(answer.headers), b""
        if method == "HEAD" or answer.status_code in _BODILESS:
            rest = self._rest
        elif b"transfer-encoding" in headers:
            chunked = Chunked()
            while not chunked.is_over:
                if content := chunked.feed(await self._more()):
                    yield content
            rest = chunked.rest
        elif b"content-length" in headers:
            left = int(headers[b"content-length"])
            while left:
                came = await self._more()
                content, rest = came[:left], came[left:]
                left -= len(content)
                yield content
        else:
            while content := await self._read():
                yield content
        closes = b"close" in headers.get(b"connection", b"").lower()
        self.is_reusable = not (closes or rest or answer.http_version < b"1.1")

    async def _more(self) -> bytes:
        if not (came := await self._read()):
            raise BrokenOff("the answer is not whole")
        return came

    async def _read(self) -> bytes:
        """Return what came, or comes next; empty at the end."""
        if rest := self._rest:
            self._rest = b""
            return rest
        try:
            return await self._reader.read(_READ_BYTES)
        except OSError as error:
            if not (came := bytes(self._came())):
                raise BrokenOff(why(error)) from None
            self._came().clear()  # a server may reset a connection behind its last answer
            return came
