"""A local HTTP server that gives recorded answers, and keeps what it was asked.

For every test that wants a real client without a network.  It listens on 127.0.0.1, at a port of
its own; each path has a list of answers, given in order; a request beyond them is answered 599 and
never retried.  After `close` nothing listens there, which is how a test shows that none was needed.
"""

import json
import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import attrs

OPENAI_PATH = "/v1/chat/completions"
ANTHROPIC_PATH = "/v1/messages"


@attrs.frozen(kw_only=True)
class Answer:
    """One recorded answer."""

    status: int = 200
    headers: Mapping[str, str] = attrs.field(factory=dict)
    body: Any = None
    """A JSON value, or bytes as they are."""
    hold: bool = False
    """Never answered: the connection stays open until the server closes."""

    def content(self) -> bytes:
        """Return the bytes of the body."""
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


@attrs.frozen(kw_only=True)
class Received:
    """One request as it came."""

    path: str
    headers: Mapping[str, str]
    """Names in lower case."""
    body: Any


class Listening:
    """A server on loopback; a context manager that closes it."""

    _http: Any

    @property
    def url(self) -> str:
        """`http://127.0.0.1:<port>`; what the Anthropic client wants."""
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    @property
    def openai_url(self) -> str:
        """The same with `/v1`; what the OpenAI client wants."""
        return f"{self.url}/v1"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close it."""
        raise NotImplementedError


class ModelServer(Listening):
    """The server; a context manager.  Threads may ask at once: each gets the next answer."""

    def __init__(self, answers: Mapping[str, Sequence[Answer]]) -> None:
        self._answers = {path: list(listed) for path, listed in answers.items()}
        self._given: dict[str, int] = defaultdict(int)
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self.received: list[Received] = []
        """Every request, in order of arrival."""
        self._http = _server(self)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def next_answer(self, request: Received) -> Answer:
        """Keep the request and return what answers it."""
        with self._lock:
            self.received.append(request)
            listed = self._answers.get(request.path, [])
            place = self._given[request.path]
            self._given[request.path] += 1
        if place < len(listed):
            return listed[place]
        message = f"{request.path} has {len(listed)} recorded answers"
        return Answer(
            status=599, headers={"x-should-retry": "false"}, body={"error": {"message": message}}
        )

    def wait_until_closed(self) -> None:
        """Block a held request until nobody can be waiting for it any more."""
        self._closing.wait()

    def close(self) -> None:
        """Let go of held requests and stop listening; more than once is fine."""
        if not self._closing.is_set():
            self._closing.set()
            self._http.shutdown()
            self._http.server_close()
            self._thread.join()


def _server(owner: ModelServer) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        # HTTP/1.0 of the base class: one request a connection, so none outlives the server.
        def do_POST(self) -> None:
            length = int(self.headers.get("content-length", 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            body = json.loads(self.rfile.read(length) or b"null")
            answer = owner.next_answer(Received(path=self.path, headers=headers, body=body))
            if answer.hold:
                owner.wait_until_closed()
                return
            self._give(answer)

        def _give(self, answer: Answer) -> None:
            content = answer.content()
            self.send_response(answer.status)
            for name, value in {"content-type": "application/json", **answer.headers}.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base's name
            """Say nothing on standard error."""

    return ThreadingHTTPServer(("127.0.0.1", 0), Handler)


def answers_in(path: Path) -> list[Answer]:
    """Return the answers of one file of `fixtures/models`: its member `answers`."""
    return [_answer(recorded) for recorded in json.loads(path.read_text())["answers"]]


def _answer(recorded: dict[str, Any]) -> Answer:
    body = recorded["text"].encode() if "text" in recorded else recorded["body"]
    return Answer(
        status=recorded.get("status", 200), headers=recorded.get("headers", {}), body=body
    )
