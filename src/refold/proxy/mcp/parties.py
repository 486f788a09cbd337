"""Values that the side that moves bytes and the side that keeps the log exchange, of MCP.

A `Party` is the log's side of one connection of a client to a server: it sees each message before
it passes. Recording parties only write; replaying ones return the messages to send, for there is no
server. They are in `mcp.recording`, `mcp.serving` and, from another process, `mcp.remote`. Rules:
CONTRACT.md §16.11.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import attrs

from refold.engine.encoding.canonical import Json


@attrs.frozen(kw_only=True)
class Hello:
    """A client has come; its server."""

    server: str
    """The server's name."""
    how: Mapping[str, Json]
    """{transport, command}, or {transport, url}."""
    environment: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    """Variables for the server; the secret ones among them are in no log."""


@attrs.frozen(kw_only=True)
class Sent:
    """One thing that a replay sends to a client in the place of its server."""

    content: bytes = b""
    """A message, or a line that is not one; no newline at its end."""
    channel: str = ""
    """That of the client's message that it comes of; empty where it belongs to none."""
    is_last: bool = False
    """Whether it is the response to that message."""
    failed: dict[str, Any] | None = None
    """Of HTTP: {status, content_type, text} in the place of a response."""


@attrs.frozen(kw_only=True)
class Reply:
    """The steps of a replay after a message of a client."""

    sent: Sequence[Sent] = ()
    ends: int | None = None
    """The exit code, if the server ended then."""


NOTHING = Reply()


class Party(Protocol):
    """One connection, on the side of the log.

    All methods raise LogPoisoned where the log cannot be written, and RecordingGone where it is
    another process's, which has ended.
    """

    is_replay: bool
    """Whether the server is absent, and `client` returns the messages to send."""

    def learn(self, headers: Sequence[tuple[str, str]]) -> None:
        """Take note of headers that a client authorises itself with."""
        ...

    def begin(self) -> Reply:
        """Record that the client has come; return a server's first messages."""
        ...

    def client(self, content: bytes, channel: str = "") -> Reply:
        """Take note of a line or body of the client, before it passes.

        `channel` is the stream by which the response will come; empty where there is one for all.
        """
        ...

    def server(self, content: bytes, channel: str = "") -> None:
        """Take note of a line or body of the server, before it passes."""
        ...

    def failed(self, channel: str, code: str, message: str, result: Json = None) -> None:
        """Take note that a channel ended without a response; `result` is what came instead."""
        ...

    def gone(self, channel: str) -> None:
        """Take note that the client gave up on a channel."""
        ...

    def ended(self, left: str, exit_code: int | None = None) -> None:
        """Take note of the end: who left first, and how the server ended."""
        ...
