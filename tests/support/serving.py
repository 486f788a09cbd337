"""How an upstream sends its answers: connections, chunks, and every way to misbehave.

What it answers is decided elsewhere: the handler asks its `Desk`, which `tests.support.upstream`
implements.  HTTP/1.1 with connections that stay open, as providers have them.
"""

import contextlib
import json
import re
import select
import socket
import zlib
from collections.abc import Iterable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, Protocol

import attrs

from tests.support import spelling
from tests.support.model_server import Received
from tests.support.traffic import Fixed, Refusal, Reply, Rule, question_of

APIS: Final = {
    "/v1/chat/completions": "chat",
    "/v1/responses": "responses",
    "/v1/messages": "messages",
}
GENERATE: Final = re.compile(
    r"/v1(beta)?/models/(?P<model>[^/:]+):(?P<how>generate|streamGenerate)Content"
)


@attrs.frozen(kw_only=True)
class Manner:
    """How answers are sent."""

    hold: bool = False
    """Nothing is sent before `Upstream.release`."""
    hold_after: int | None = None
    """Nothing more is sent after that many events of a stream, before `Upstream.release`."""
    chunk_bytes: int = attrs.field(default=64, validator=attrs.validators.ge(1))
    """Streams come in chunks of at most this size, wherever that cuts an event or a character."""
    drip_seconds: float = 0.0
    """Between two events of a stream."""
    cut_after: int | None = None
    """The connection breaks after that many events; of a JSON answer, after that many bytes."""
    end_after: int | None = None
    """The stream ends properly after that many events, without its last ones."""
    fail_after: int | None = None
    """After that many events an error event comes, and then the end."""
    flood_mb: int = 0
    """Mebibytes of text in a stream, about, before the text of the reply."""
    gzip: bool = False
    """Answers are compressed for whoever accepts it."""


@attrs.frozen(kw_only=True)
class Request(Received):
    """One request as it came."""

    method: str
    raw: bytes
    """The body's bytes; `body` is their JSON value, or None where they are none."""
    rule: str = ""
    """The rule that answered it; empty for none."""

    @property
    def api(self) -> str:
        """`chat`, `responses`, `messages` or `generate`; empty for any other path."""
        path = self.path.partition("?")[0]
        return "generate" if GENERATE.fullmatch(path) else APIS.get(path, "")

    @property
    def told(self) -> Any:
        """The body; of Gemini with `model` and `stream`, which its path says."""
        found = GENERATE.fullmatch(self.path.partition("?")[0])
        if found is None or not isinstance(self.body, dict):
            return self.body
        return {**self.body, "model": found["model"], "stream": found["how"] != "generate"}


class Desk(Protocol):
    """Who decides what is answered."""

    def opened(self) -> contextlib.AbstractContextManager[None]:
        """Count a request as open."""

    def answer_to(self, request: Request) -> tuple[Rule, Manner, int]:
        """Return what answers the request, how, and its place among all."""
        ...

    def released(self, seconds: float) -> bool:
        """Return whether held answers may begin; wait at most that long for it."""
        ...

    def pause(self, seconds: float) -> None:
        """Wait, unless all ends."""


class Server(ThreadingHTTPServer):
    """Knows its connections, and waits for their threads at the end."""

    daemon_threads = False
    request_queue_size = 128

    def __init__(self, desk: Desk, port: int) -> None:
        self.desk = desk
        self._connections: set[socket.socket] = set()
        super().__init__(("127.0.0.1", port), Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Keep the connection, and answer it in a thread of its own."""
        self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Forget the connection."""
        self._connections.discard(request)
        super().shutdown_request(request)

    def end_connections(self) -> None:
        """Break all connections that are still there."""
        for connection in list(self._connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


class Handler(BaseHTTPRequestHandler):
    """Answers the requests of one connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Server

    def handle(self) -> None:
        """Answer until either side leaves."""
        with contextlib.suppress(ConnectionError):
            super().handle()

    def do_POST(self) -> None:
        """Answer one request, of any method."""
        raw = self._body()
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request(
            method=self.command, path=self.path, headers=headers, body=_json(raw), raw=raw
        )
        with self.server.desk.opened():
            self._answer(request)

    do_GET = do_PUT = do_DELETE = do_POST  # noqa: N815  # the base class asks for these names

    def _body(self) -> bytes:
        if self.headers.get("transfer-encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("content-length", 0)))
        parts = []
        while size := int(self.rfile.readline().partition(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def _answer(self, request: Request) -> None:
        rule, manner, ordinal = self.server.desk.answer_to(request)
        accepted = request.headers.get("accept-encoding", "")
        manner = attrs.evolve(manner, gzip=manner.gzip and "gzip" in accepted)
        if manner.hold:
            self._wait_for_release()
        match rule.then:
            case Refusal() as refusal:
                error = spelling.error_json(request.api, refusal)
                self._give(manner, ordinal, error, status=refusal.status, extra=refusal.headers)
            case Fixed(body=body):
                self._give(manner, ordinal, body)
            case Reply() as reply:
                self._speak(manner, request, reply, ordinal)

    def _wait_for_release(self) -> None:
        while not self.server.desk.released(0.02):
            readable, _, _ = select.select([self.connection], [], [], 0)
            if readable and not self.connection.recv(1, socket.MSG_PEEK):
                raise ConnectionAbortedError

    def _speak(self, manner: Manner, request: Request, reply: Reply, ordinal: int) -> None:
        question = question_of(request.api, request.told)
        spoken = spelling.Spoken(
            reply=reply,
            model=question.model,
            ordinal=ordinal,
            usage_asked=question.usage_asked,
            flood_mb=manner.flood_mb,
        )
        if question.streamed:
            events = spelling.EVENTS_OF[question.api](spoken)
            self._stream(manner, ordinal, _sent(manner, question.api, events))
        else:
            self._give(manner, ordinal, spelling.JSON_OF[question.api](spoken))

    def _head(self, manner: Manner, ordinal: int, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        self.send_header("x-request-id", f"req_{ordinal:06}")
        for name, value in headers.items():
            self.send_header(name, value)
        if manner.gzip:
            self.send_header("content-encoding", "gzip")
        self.end_headers()

    def _give(
        self,
        manner: Manner,
        ordinal: int,
        value: Any,
        *,
        status: int = 200,
        extra: Mapping[str, str] | None = None,
    ) -> None:
        content = json.dumps(value, ensure_ascii=False).encode()
        if manner.gzip:
            packer = zlib.compressobj(wbits=31)
            content = packer.compress(content) + packer.flush()
        headers = {"content-type": "application/json", "content-length": str(len(content))}
        self._head(manner, ordinal, status, {**headers, **(extra or {})})
        self.wfile.write(content[: manner.cut_after])
        self.close_connection |= manner.cut_after is not None

    def _stream(self, manner: Manner, ordinal: int, contents: Iterable[bytes]) -> None:
        kind = {"content-type": "text/event-stream; charset=utf-8", "transfer-encoding": "chunked"}
        self._head(manner, ordinal, 200, kind)
        packer = zlib.compressobj(wbits=31) if manner.gzip else None
        for place, content in enumerate(contents):
            if place == manner.hold_after:
                self._wait_for_release()
            part = packer.compress(content) + packer.flush(zlib.Z_SYNC_FLUSH) if packer else content
            self._chunks(manner, part)
            if manner.drip_seconds:
                self.server.desk.pause(manner.drip_seconds)
        if packer:
            self._chunks(manner, packer.flush())
        if manner.cut_after is None:
            self.wfile.write(b"0\r\n\r\n")
        else:
            self.close_connection = True

    def _chunks(self, manner: Manner, content: bytes) -> None:
        size = max(manner.chunk_bytes, 1 << 16) if manner.flood_mb else manner.chunk_bytes
        for at in range(0, len(content), size):
            part = content[at : at + size]
            self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base's name
        """Say nothing on standard error."""


def _sent(manner: Manner, api: str, events: Iterable[spelling.Event]) -> Iterator[bytes]:
    """Yield the bytes of the events that this manner lets through."""
    ends = [manner.cut_after, manner.end_after, manner.fail_after]
    last = min((at for at in ends if at is not None), default=None)
    for place, event in enumerate(events):
        if place == last:
            if manner.fail_after == place:
                yield spelling.sse(spelling.error_event(api, "the model went away"))
            return
        yield spelling.sse(event)


def _json(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except ValueError:
        return None
