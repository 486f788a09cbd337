"""A proxy between MCP clients and a server on streamable HTTP; records, or serves a record.

A request of a client is one POST, and its response comes by the answer to that, as JSON or as a
stream; what belongs to none comes by the stream of a GET. The server makes sessions: each is one
connection, and all requests without one are a further connection. A replay has no server, and makes
its own sessions. Rules: CONTRACT.md §16.11.
"""

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Final
from urllib.parse import urlsplit

from refold.engine.encoding.canonical import Json
from refold.engine.errors import UsageError
from refold.engine.observed.mcp_messages import is_request, messages_in, plain_name
from refold.engine.observed.volatile import VolatileRules
from refold.engine.wire.parts.format import Route
from refold.engine.wire.parts.kept_answers import served_headers
from refold.engine.wire.parts.sse import EventParser
from refold.proxy.desks.recording import BAD_GATEWAY
from refold.proxy.http.server import HOST, served
from refold.proxy.http.turns import Forward, Incoming, Serve
from refold.proxy.mcp.parties import Hello, Party, Sent
from refold.proxy.mcp.remote import Remote, recording_here
from refold.proxy.mcp.sessions import Passed, alone, known, own_log, report_of, seal
from refold.proxy.mcp.stdio import EndedServer
from refold.proxy.signals import Signals

ROUTE: Final = "mcp"
_SESSION: Final = "mcp-session-id"
_STREAM: Final = "text/event-stream"
_JSON: Final = "application/json"
_ERRORS: Final = 400
_STATUSES: Final = frozenset({*range(200, 600)} - {204, 304})
"""Those of an answer with a body."""
_KEPT_CHARS: Final = 64 * 1024
"""The status of an answer that is not a message."""
_SHOWN: Final = 200
"""Characters of it in an error."""
_PLAIN: Final = frozenset({"accept", "content-length", "content-type", "host", "user-agent"})
"""Headers that hold no secret."""

Connect = Callable[[Hello], Party]


def proxy_url(
    url: str,
    *,
    port: int = 0,
    word: str = "",
    name: str = "",
    log: str | os.PathLike[str] | None = None,
    replay: str | os.PathLike[str] | None = None,
    rules: VolatileRules | None = None,
    announce: Callable[[str], None] = print,
    until: Callable[[], None] | None = None,
) -> Passed:
    """Stand before the server at `url` until Ctrl-C or SIGTERM; `announce` gets the URL to use.

    That is `http://127.0.0.1:PORT/WORD/mcp`; without a `word` one is drawn.

    With `replay`, or in a replay, the server is not asked.  `until` returns when it is to end.

    Raises:
        LogExists: a log is never overwritten.
        LogObserved: the log to replay is a program's.
        RecordingGone: `REFOLD_RECORDING` leads nowhere.
        UsageError: not a URL, or the port is taken.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(f"--url {url}: expected http://… or https://…")
    server = plain_name(name or parts.hostname)
    hello = Hello(server=server, how={"transport": "http", "url": url})

    def serve(connect: Connect, hello: Hello = hello) -> None:
        desk = McpDesk(url, hello, connect)
        signals = Signals()
        # Handlers first: who has read the URL may send a signal at once, and the log is sealed.
        with (
            signals if until is None else contextlib.nullcontext(),
            served(desk, [ROUTE], word=word, given=listening) as base,
        ):
            announce(f"{base}/{ROUTE}")
            (until or signals.wait)()
        desk.ended()

    try:  # before there is a log: one that nothing can be recorded in is not left behind
        listening = socket.create_server((HOST, port), backlog=2048)
    except OSError as error:
        advice = "use another port, or omit --port for a free one"
        raise UsageError(f"--port {port}: {os.strerror(error.errno or 0)}: {advice}") from None
    with listening:
        where = recording_here()
        if where is not None:
            serve(lambda each: Remote(where, each))
            return Passed(exit_code=0)
        if replay is not None:
            serving = alone(replay, rules)
            serve(serving.connect, known(hello, serving, name))
            return Passed(exit_code=0, report=report_of(serving))
        journal, recording = own_log(log, hello, rules)
        with journal:
            serve(recording.connect)
            seal(journal, EndedServer("client", 0))
            return Passed(exit_code=0, log=journal.path, entries=journal.entries)


class McpDesk:
    """Decides what becomes of each HTTP request of an MCP client."""

    def __init__(self, url: str, hello: Hello, connect: Connect) -> None:
        self._route = Route(ROUTE, (), url.partition("#")[0])
        self._hello = hello
        self._connect = connect
        self._parties: dict[str, Party] = {}
        """By session; the one without has an empty name."""
        self._latest: list[Party] = []
        """All that have not ended, in the order of their beginning."""
        self._served: dict[Party, _Streams] = {}
        """In a replay: all, also those that have ended."""
        self._count = 0
        self._known: set[tuple[str, str]] = set()

    def begin(self, incoming: Incoming) -> Forward | Serve:
        """Write a request down, and pass it on or serve it."""
        party = self._party(incoming)
        self._learn(party, incoming)
        self._count += 1
        channel = f"{incoming.method.lower()}-{self._count}"
        if party.is_replay:
            return self._served[party].served(incoming, channel)
        if incoming.method == "POST":
            party.client(incoming.body, channel)
        target = incoming.target
        url = self._route.url_of(target[1:] if target[:2] in ("/", "/?") else target)
        return Forward(url=url, passing=_Kept(self, party, channel, incoming.method))

    def ended(self) -> None:
        """Write down that all is over."""
        for party in self._latest:
            party.ended("client")

    def has_session(self, session: str, party: Party) -> None:
        """Take note of the session that a server gave."""
        self._parties[session] = party

    def left(self, party: Party) -> None:
        """Take note that a client ended its session."""
        if party in self._latest:
            self._latest.remove(party)
            party.ended("client")

    def _party(self, incoming: Incoming) -> Party:
        session = incoming.header(_SESSION)
        found = self._parties.get(session)
        is_first = incoming.method == "POST" and _begins(incoming.body)
        if found is None or (is_first and not session):
            found = self._connect(self._hello)
            self._latest.append(found)
            self._parties[session] = found
            if found.is_replay:
                self._served[found] = _Streams(self, found, len(self._served) + 1)
        return found

    def _learn(self, party: Party, incoming: Incoming) -> None:
        """Tell of headers that have not been seen: what authorises is in no log."""
        new = {each for each in incoming.headers if each[0] not in _PLAIN} - self._known
        if new:
            self._known |= new
            party.learn(sorted(new))


def _begins(body: bytes) -> bool:
    return any(each.get("method") == "initialize" for each in messages_in(body) or ())


class _Kept:
    """Writes down one answer while it passes."""

    def __init__(self, desk: McpDesk, party: Party, channel: str, method: str) -> None:
        self._desk = desk
        self._party = party
        self._channel = channel
        self._method = method
        self._status = 0
        self._type = ""
        self._events: EventParser | None = None
        self._body = bytearray()
        self._is_over = False

    def head(self, status: int, headers: Sequence[tuple[str, str]]) -> None:
        """Take note of the session, and of how the answer comes."""
        told = dict(headers)
        if session := told.get(_SESSION):
            self._desk.has_session(session, self._party)
        self._status = status
        self._type = told.get("content-type", "")
        if self._type.startswith(_STREAM):
            self._events = EventParser()

    def chunk(self, content: bytes) -> None:
        """Write down the messages that these bytes end."""
        if self._events is None:
            self._body += content
            return
        for event in self._events.feed(content):
            if event.data.strip():
                self._party.server(event.data, self._channel)

    def end(self) -> None:
        """Write down the message, or what came instead."""
        self._is_over = True
        if self._events is None and self._method == "POST":
            body = bytes(self._body)
            if messages_in(body) is not None:
                self._party.server(body, self._channel)
            elif self._status >= _ERRORS or body.strip():
                text = body.decode(errors="replace")[:_KEPT_CHARS]
                came: Json = {"status": self._status, "content_type": self._type, "text": text}
                self._party.failed(self._channel, f"http_{self._status}", text[:_SHOWN], came)
        if self._method == "DELETE" and self._status < _ERRORS:
            self._desk.left(self._party)

    def failed(self, code: str, message: str) -> Serve:
        """Write down that the server cannot be reached, or broke off."""
        self._is_over = True
        text = f"refold: {message}"
        result: Json = {"status": BAD_GATEWAY, "content_type": "text/plain", "text": text}
        self._party.failed(self._channel, code, message, result)
        return _whole(BAD_GATEWAY, text.encode(), {"content-type": "text/plain"})

    def gone(self) -> None:
        """Write down that the client left."""
        if not self._is_over:
            self._is_over = True
            self._party.gone(self._channel)


class _Streams:
    """Serves one connection from a record."""

    def __init__(self, desk: McpDesk, party: Party, number: int) -> None:
        self._desk = desk
        self._party = party
        self._session = f"refold-{number}"
        self._waiting: dict[str, asyncio.Queue[Sent]] = {}
        """Messages for the open streams."""
        self._beside: asyncio.Queue[Sent] = asyncio.Queue()
        """What belongs to no request: by the stream of a GET."""
        desk.has_session(self._session, party)
        self._dispatch(party.begin().sent)

    def served(self, incoming: Incoming, channel: str) -> Serve:
        """Return the record's answer to a request."""
        if incoming.method == "GET":
            return self._stream([], self._events(self._beside))
        if incoming.method == "DELETE":
            self._desk.left(self._party)
            return _whole(200, b"", {})
        wanted = sum(map(is_request, messages_in(incoming.body) or ()))
        queue = self._waiting[channel] = asyncio.Queue()
        self._dispatch(self._party.client(incoming.body, channel).sent)
        if not wanted:
            return _whole(202, b"", {})
        return self._answer(channel, queue, wanted)

    def _answer(self, channel: str, queue: asyncio.Queue[Sent], wanted: int) -> Serve:
        ready = [queue.get_nowait() for _ in range(queue.qsize())]
        last = ready[-1] if ready else None
        if last is not None and last.failed is not None:
            told = last.failed
            text = str(told.get("text", "")).encode()
            headers = served_headers({"content-type": str(told.get("content_type", "text/plain"))})
            status = told.get("status")
            if not isinstance(status, int) or status not in _STATUSES:
                status = BAD_GATEWAY
            return _whole(status, text, headers)
        if len(ready) == wanted == 1 and last is not None and last.is_last:
            return _whole(200, last.content, {"content-type": _JSON, _SESSION: self._session})
        missing = wanted - sum(each.is_last for each in ready)
        return self._stream(ready, self._events(queue, missing, channel) if missing else None)

    def _stream(self, ready: Sequence[Sent], later: AsyncIterator[bytes] | None) -> Serve:
        return Serve(
            status=200,
            headers={"content-type": _STREAM, "cache-control": "no-store", _SESSION: self._session},
            pieces=[(0, _event(each)) for each in ready],
            later=later,
        )

    async def _events(
        self, queue: asyncio.Queue[Sent], wanted: int | None = None, channel: str = ""
    ) -> AsyncIterator[bytes]:
        """Yield events as they arrive, until so many responses have been."""
        while wanted is None or wanted > 0:
            sent = await queue.get()
            if sent.is_last and wanted is not None:
                wanted -= 1
            yield _event(sent)
        self._waiting.pop(channel, None)

    def _dispatch(self, sent: Sequence[Sent]) -> None:
        for each in sent:
            self._waiting.get(each.channel, self._beside).put_nowait(each)


def _event(sent: Sent) -> bytes:
    """Return a message as an event; one of several lines has no other field."""
    lines = sent.content.splitlines() or [b""]
    return b"event: message\n" + b"".join(b"data: %b\n" % line for line in lines) + b"\n"


def _whole(status: int, body: bytes, headers: Mapping[str, str]) -> Serve:
    sized = {**headers, "content-length": str(len(body))}
    pieces: list[tuple[int, bytes]] = [(0, body)]
    return Serve(status=status, headers=sized, pieces=pieces)
