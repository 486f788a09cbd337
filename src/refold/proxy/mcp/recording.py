"""The log side of MCP that records: what passes is written down, in the order in which it passes.

Rules: CONTRACT.md §16.11.
"""

from collections import Counter
from collections.abc import Sequence

import attrs

from refold.engine.encoding.canonical import Json
from refold.engine.observed.mcp import McpObserver, Side
from refold.engine.observed.mcp_messages import messages_in
from refold.proxy.desks.keys import Secrets
from refold.proxy.desks.recording import Log
from refold.proxy.mcp.parties import NOTHING, Hello, Party, Reply


class McpRecording:
    """Records connections in one log."""

    def __init__(self, log: Log, secrets: Secrets) -> None:
        self.log = log
        self._secrets = secrets
        self._counts: Counter[str] = Counter()

    def connect(self, hello: Hello) -> Party:
        """Return what writes one connection down."""
        return RecordedConnection(self.observer(hello), self.log, self._secrets)

    def observer(self, hello: Hello) -> McpObserver:
        """Return the observer of a new connection, with its secrets learnt."""
        learn_of(hello, self._secrets)
        self._counts[hello.server] += 1
        how = self._secrets.scrubbed(dict(hello.how))
        return McpObserver(self.log, hello.server, self._counts[hello.server], how)


def learn_of(hello: Hello, secrets: Secrets) -> None:
    """Make secrets of a server's arguments, variables and address."""
    secrets.learn_environment(hello.environment)
    command = hello.how.get("command", ())
    secrets.learn_command([each for each in command if isinstance(each, str)])
    secrets.learn_url(str(hello.how.get("url", "")))


@attrs.define(eq=False)
class RecordedConnection:
    """One connection."""

    is_replay = False

    _observer: McpObserver
    _log: Log
    _secrets: Secrets

    def learn(self, headers: Sequence[tuple[str, str]]) -> None:
        """Make secrets of what headers authorise with."""
        self._secrets.learn_headers(headers)

    def begin(self) -> Reply:
        """Say nothing: the server does."""
        return NOTHING

    def client(self, content: bytes, channel: str = "") -> Reply:
        """Record a message of the client; it is on disk before the server gets it."""
        self._each(content, "client", channel)
        return NOTHING

    def server(self, content: bytes, channel: str = "") -> None:
        """Record a message of the server."""
        self._each(content, "server", channel)

    def _each(self, content: bytes, side: Side, channel: str) -> None:
        if not content.strip():
            return
        found = messages_in(content)
        if found is None:
            text = self._secrets.scrubbed_bytes(content.removesuffix(b"\n").removesuffix(b"\r"))
            self._observer.text(side, text, channel)
        take = self._observer.client if side == "client" else self._observer.server
        for message in found or ():
            take(self._secrets.scrubbed(message), channel)
        self._log.sync()

    def failed(self, channel: str, code: str, message: str, result: Json = None) -> None:
        """Record that the response is missing."""
        self._observer.failed(channel, code, message, self._secrets.scrubbed(result))
        self._log.sync()

    def gone(self, channel: str) -> None:
        """Write down that the client gave up."""
        self._observer.gone(channel)
        self._log.sync()

    def ended(self, left: str, exit_code: int | None = None) -> None:
        """Write down the end."""
        self._observer.ended("server" if left == "server" else "client", exit_code)
        self._log.sync()
