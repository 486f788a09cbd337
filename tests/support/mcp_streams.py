"""An MCP server on HTTP of a few lines, and a client of it: for tests of what passes, byte by byte.

`tools/call` of `echo` is answered as JSON; `progress` as a stream with notifications; `ask` as one
in which the server asks back; `locked` with status 401; `never` not at all; `text` with no message;
`broken` by a stream that breaks, and is taken up by a GET.  Any other GET gets one notification,
and stays open until its reader leaves.
"""

import contextlib
import http.client
import json
import queue
import threading
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import urlsplit

from refold.engine.wire.parts.sse import EventParser
from refold.proxy.mcp.http import proxy_url
from refold.proxy.mcp.sessions import Passed

DEADLINE_SECONDS: Final = 60.0
SESSION: Final = "s-4711"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: "McpHttp"

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def do_POST(self) -> None:
        """Answer a message."""
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.received.append((message, dict(self.headers.items())))
        name = (message.get("params") or {}).get("name")
        if "method" not in message:
            self.server.answers.put(message)
            self._whole(202, b"", "text/plain")
        elif message.get("id") is None:
            self._whole(202, b"", "text/plain")
        elif name == "locked":
            self._whole(401, b"who are you?", "text/plain")
        elif name == "text":
            self._whole(200, b"<html>", "text/html")
        elif name in ("progress", "ask", "never"):
            self._stream(message, name)
        elif name == "broken":
            self._broken()
        else:
            self._whole(200, _packed(_result(message)), "application/json")

    def do_GET(self) -> None:
        """Say one thing that belongs to no request, and stay; or go on where a stream broke."""
        self._events()
        if "last-event-id" in self.headers:
            self.close_connection = True
            self._event(_result(self.server.received[-1][0]))
            return
        self._event({"method": "notifications/resources/list_changed"})
        self.server.over.wait(DEADLINE_SECONDS)

    def do_DELETE(self) -> None:
        """End the session."""
        self._whole(200, b"", "text/plain")

    def _stream(self, message: dict[str, Any], name: str) -> None:
        self._events()
        if name == "progress":
            token = message["params"]["_meta"]["progressToken"]
            params = {"progressToken": token, "progress": 1}
            self._event({"method": "notifications/progress", "params": params})
            self._event(_result(message))
        elif name == "ask":
            asked = {"id": "q-1", "method": "elicitation/create", "params": {"message": "which?"}}
            self._event(asked)
            said = self.server.answers.get(timeout=DEADLINE_SECONDS)
            self._event(_result(message, json.dumps(said["result"])))
        else:
            self.server.over.wait(DEADLINE_SECONDS)
        self.close_connection = True

    def _broken(self) -> None:
        self._events("content-length", "1000")
        self.wfile.write(b"id: e-1\r\ndata: \r\n\r\n")
        self.close_connection = True

    def _events(self, name: str = "connection", value: str = "close") -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header(name, value)
        self.end_headers()

    def _event(self, message: dict[str, Any]) -> None:
        self.wfile.write(b"event: message\r\ndata: " + _packed(message) + b"\r\n\r\n")
        self.wfile.flush()

    def _whole(self, status: int, body: bytes, content_type: str) -> None:
        self.send_response(status)
        self.send_header("content-type", content_type)
        self.send_header("content-length", str(len(body)))
        self.send_header("mcp-session-id", SESSION)
        self.end_headers()
        self.wfile.write(body)


def _packed(message: dict[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode()


def _result(message: dict[str, Any], said: str = "") -> dict[str, Any]:
    given = (message.get("params") or {}).get("arguments") or {}
    text = said or str(given.get("text", "done"))
    return {"id": message["id"], "result": {"content": [{"type": "text", "text": text}]}}


class McpHttp(ThreadingHTTPServer):
    """The server; a context manager."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.received: list[tuple[Any, dict[str, str]]] = []
        self.answers: queue.Queue[Any] = queue.Queue()
        self.over = threading.Event()
        self.url = f"http://127.0.0.1:{self.server_port}/mcp"


@contextlib.contextmanager
def mcp_http() -> Generator[McpHttp]:
    """Serve until the block ends."""
    with McpHttp() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.over.set()
            server.shutdown()
            thread.join()


class HttpClient:
    """Posts messages, and reads what comes."""

    def __init__(self, url: str, **headers: str) -> None:
        self.url = url
        self._headers = {name.replace("_", "-"): value for name, value in headers.items()}
        self._ids = 0

    @contextlib.contextmanager
    def request(
        self, method: str, body: bytes | None = None, more: dict[str, str] | None = None
    ) -> Generator[http.client.HTTPResponse]:
        """Give an answer as far as its head, and leave when the block ends."""
        place = urlsplit(self.url)
        target = place._replace(scheme="", netloc="").geturl()
        connection = http.client.HTTPConnection(place.netloc, timeout=DEADLINE_SECONDS)
        headers = {"content-type": "application/json", "accept": "text/event-stream"}
        try:
            connection.request(method, target, body, {**headers, **self._headers, **(more or {})})
            yield connection.getresponse()
        finally:
            connection.close()

    @contextlib.contextmanager
    def posted(self, method: str, **message: Any) -> Generator[http.client.HTTPResponse]:
        """Post a request, or with `id=None` a notification."""
        self._ids += 1
        told = {"jsonrpc": "2.0", "id": self._ids, "method": method, **message}
        plain = {name: value for name, value in told.items() if value is not None}
        with self.request("POST", json.dumps(plain).encode()) as answer:
            yield answer

    def tool(self, tool: str, meta: Any = None, /, **arguments: Any) -> Any:
        """Return a manager of the answer to a tool call."""
        given = {"name": tool, "arguments": arguments, **({"_meta": meta} if meta else {})}
        return self.posted("tools/call", params=given)

    def called(self, tool: str, **arguments: Any) -> Any:
        """Call a tool, and return what it said, with the status."""
        with self.tool(tool, **arguments) as answer:
            body = answer.read()
            is_json = answer.headers.get("content-type", "").startswith("application/json")
            return answer.status, json.loads(body) if is_json else body.decode()

    def responded(self, request_id: Any, result: Any) -> int:
        """Answer a request of the server; return the status."""
        body = json.dumps({"jsonrpc": "2.0", "id": request_id, "result": result}).encode()
        with self.request("POST", body) as answer:
            answer.read()
            return answer.status


def events(answer: http.client.HTTPResponse) -> Generator[Any]:
    """Yield the messages of a stream as they come."""
    parser = EventParser()
    while line := answer.readline():
        for event in parser.feed(line):
            yield json.loads(event.data)


@contextlib.contextmanager
def proxied(url: str, **options: Any) -> Generator[tuple[HttpClient, list[Passed]]]:
    """Give a client of the proxy; what it did is there when the block has ended."""
    is_up, is_over = threading.Event(), threading.Event()
    places: list[str] = []
    done: list[Passed] = []

    def announce(place: str) -> None:
        places.append(place)
        is_up.set()

    def until() -> None:
        is_over.wait()

    def run() -> None:
        done.append(proxy_url(url, announce=announce, until=until, name="tiny", **options))

    thread = threading.Thread(target=run)
    thread.start()
    assert is_up.wait(DEADLINE_SECONDS)
    try:
        yield HttpClient(places[0], authorization="Bearer token-1234567890"), done
    finally:
        is_over.set()
        thread.join()
