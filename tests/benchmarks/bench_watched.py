"""What the proxy of a watched command costs: a request through it, against the same one straight.

A client sends its whole conversation with each request, as real ones do; the server answers at
once, which no model does.  All is in this process, and its time on processors is what is measured.
"""

import contextlib
import functools
import http.client
import http.server
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import urlsplit

import attrs

from refold.engine.observed.journal import ObservedLog
from refold.proxy.desks.keys import Secrets
from refold.proxy.desks.recording import RecordingDesk
from refold.proxy.desks.replaying import Replaying
from refold.proxy.http.routes import routes_of
from refold.proxy.http.server import served
from refold.proxy.http.turns import Forward, Incoming, Serve
from refold.replay.observed.record import read_record
from tests.benchmarks import measure
from tests.benchmarks.measure import Job

TURNS = 10
"""Requests of one run of a job."""
SHORT, LONG = 10, 500
PATH: Final = "/chat/completions"
_ANSWER: Final = json.dumps(
    {
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "found it " * 30},
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1},
    }
).encode()


_DELTA: Final = {"index": 0, "delta": {"content": "a few words "}, "finish_reason": None}
_CHUNK: Final = {"id": "c", "object": "chat.completion.chunk", "choices": [_DELTA]}
_EVENT: Final = f"data: {json.dumps(_CHUNK, separators=(',', ':'))}\n\n".encode()
_DONE: Final = b"data: [DONE]\n\n"
EVENTS: Final = 43_000
"""Of a long answer."""


def jobs(folder: Path) -> list[Job]:
    """Return what is timed; servers and the log end with `measure.opened`."""
    stack = measure.opened
    straight = stack.enter_context(Model()).url
    through = stack.enter_context(recorded(folder / "watched.jsonl", straight))
    kept = _record(folder / "replayed.jsonl", LONG)
    found = []
    for turn in (SHORT, LONG):
        base = f"turn {turn}, straight to the model"
        found += [
            _job(base, _Client(straight, PATH, turn)),
            _job(f"turn {turn}, recorded", _Client(through, f"/openai{PATH}", turn), base),
        ]
    name = f"a turn of {LONG}, replayed, log read"
    return [
        *found,
        Job(name=name, run=lambda: _replay(kept), base=base, count=LONG, clock=time.process_time),
    ]


def _job(name: str, client: "_Client", base: str = "") -> Job:
    return Job(name=name, run=client.go_on, base=base, count=TURNS, clock=time.process_time)


@attrs.define
class _Client:
    """Goes on with a conversation, in one connection."""

    url: str
    path: str
    turn: int
    _connection: http.client.HTTPConnection = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        place = urlsplit(self.url)
        self.path = place.path + self.path  # a proxy's address has a secret part
        self._connection = http.client.HTTPConnection(place.netloc)
        self.go_on(1)

    def go_on(self, turns: int = TURNS) -> None:
        """Make some requests at that turn, and after it."""
        for turn in range(self.turn, self.turn + turns):
            self._connection.request("POST", self.path, body(turn))
            assert len(self._connection.getresponse().read()) == len(_ANSWER)


@functools.cache
def body(turn: int) -> bytes:
    """Return the request of a turn: all that was said before, and a question."""
    return json.dumps({"model": "bench", "messages": _TALK[: 2 * turn + 1]}).encode()


def _message(place: int) -> dict[str, Any]:
    if place % 2:
        found: dict[str, Any] = json.loads(_ANSWER)["choices"][0]["message"]
        return found
    return {"role": "user", "content": f"question {place}: {'what about this one ' * 20}"}


_TALK: Final = [_message(place) for place in range(2 * (LONG + TURNS))]


class Model:
    """A server that answers everything the same, at once."""

    def __init__(self) -> None:
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Server(http.server.ThreadingHTTPServer):
    request_queue_size = 256

    def handle_error(self, *_: object) -> None:
        """Say nothing of a client that has left."""


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        if events := urlsplit(self.path).query:
            self._stream(int(events))
            return
        head = (
            f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(_ANSWER)}"
        )
        self.wfile.write(f"{head}\r\n\r\n".encode() + _ANSWER)

    def _stream(self, events: int) -> None:
        """Send each event in a chunk of its own, as models do, but at once."""
        head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked"
        self.wfile.write(f"{head}\r\n\r\n".encode())
        chunk = b"%x\r\n%b\r\n" % (len(_EVENT), _EVENT)
        for _ in range(events):
            self.wfile.write(chunk)
        self.wfile.write(b"%x\r\n%b\r\n0\r\n\r\n" % (len(_DONE), _DONE))


@contextlib.contextmanager
def recorded(log: Path, upstream: str) -> Iterator[str]:
    """Give the base URL of a proxy before a server."""
    secrets, routes = Secrets(), routes_of([f"openai={upstream}"])
    given = {"command": ["bench"]}
    with ObservedLog(log, program="bench", input=given, vault=secrets) as journal:
        desk = RecordingDesk(journal, secrets, routes)
        with served(desk, ["openai"]) as base:
            secrets.hide_address(base)
            yield base


def _record(path: Path, turns: int) -> Path:
    """Record a conversation of so many turns, without a server."""
    secrets, routes = Secrets(), routes_of([])
    with ObservedLog(path, program="bench", input={"command": ["bench"]}, vault=secrets) as log:
        desk = RecordingDesk(log, secrets, routes)
        for turn in range(turns):
            decided = desk.begin(_incoming(turn))
            assert isinstance(decided, Forward)
            passing = decided.passing
            passing.head(200, [("content-type", "application/json")])
            passing.chunk(_ANSWER)
            passing.end()
        log.seal("completed", "done", {"exit_code": 0, "stdout": "", "stdout_bytes": 0})
    return path


def _replay(log: Path) -> None:
    """Read a log, and ask all of it again, without a server."""
    desk = Replaying(read_record(log), Secrets(), routes=routes_of([]))
    for turn in range(LONG):
        found = desk.begin(_incoming(turn))
        assert isinstance(found, Serve)
        assert sum(len(content) for _, content in found.pieces) == len(_ANSWER)
    assert not desk.matcher.misses


def request_job(log: Path, **options: Any) -> Job:
    """Return the requests of a short conversation as one job, whose servers start with it."""

    @functools.cache
    def client() -> _Client:
        straight = measure.opened.enter_context(Model()).url
        through = measure.opened.enter_context(recorded(log, straight))
        return _Client(through, f"/openai{PATH}", SHORT)

    return Job(run=lambda: client().go_on(), count=TURNS, clock=time.process_time, **options)


def stream_jobs(log: Path) -> list[Job]:
    """Return answers that a server streams, straight and through a proxy, and their first tokens.

    Each event has a chunk of its own, as a model sends it, but none waits. The server is a process
    of its own: in this one, its thread would wait for the client's, or for the proxy's.
    """

    @functools.cache
    def places() -> tuple[str, str]:
        words = [sys.executable, "-m", __name__]
        server = measure.opened.enter_context(
            subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        )
        assert server.stdin is not None
        measure.opened.callback(server.stdin.close)
        assert server.stdout is not None
        straight = server.stdout.readline().strip()
        through = measure.opened.enter_context(recorded(log, straight))
        return straight + PATH, f"{through}/openai{PATH}"

    @functools.cache
    def clients() -> tuple[_Listener, _Listener]:
        straight, through = places()
        return _Listener(straight), _Listener(through)

    def pair(name: str, run: Callable[[int], object], **options: Any) -> list[Job]:
        base, through = f"{name}, straight", f"{name}, through the proxy"
        return [
            Job(name=base, run=lambda: run(0), clock=measure.WALL),
            Job(name=through, run=lambda: run(1), base=base, clock=measure.WALL, **options),
        ]

    return [
        *pair("first token", lambda at: clients()[at].first()),
        *pair("a stream of 5.6 MB", lambda at: _listen(places()[at], EVENTS), goal="10"),
        *pair("50 streams at once", lambda at: _listen_to_many(places()[at]), goal="3"),
    ]


class _Listener:
    """Asks for an answer that is streamed, and waits for its first token."""

    def __init__(self, url: str) -> None:
        self._place = urlsplit(url)
        self._answer: http.client.HTTPResponse | None = None
        self.first()

    def first(self) -> None:
        """Return when the first token of another answer is there; its rest is read before."""
        if self._answer is not None:
            self._answer.read()
        connection = http.client.HTTPConnection(self._place.netloc)
        connection.request("POST", f"{self._place.path}?1", body(0))
        self._answer = connection.getresponse()
        assert self._answer.read1()


def _listen(url: str, events: int) -> None:
    """Read an answer of so many events."""
    place = urlsplit(url)
    with contextlib.closing(http.client.HTTPConnection(place.netloc)) as connection:
        connection.request("POST", f"{place.path}?{events}", body(0))
        answer, size = connection.getresponse(), 0
        while piece := answer.read1(65536):
            size += len(piece)
    assert size == events * len(_EVENT) + len(_DONE)


def _listen_to_many(url: str) -> None:
    """Read 50 answers at once, of 500 events each."""
    with ThreadPoolExecutor(50) as pool:
        [*pool.map(_listen, [url] * 50, [500] * 50)]


def stream(path: Path, events: int) -> None:
    """Record one streamed answer of so many events, without a server, in chunks of 4 kB."""
    whole = b"".join([_EVENT] * events + [_DONE])
    secrets = Secrets()
    with ObservedLog(path, program="bench", input={"command": ["bench"]}, vault=secrets) as log:
        decided = RecordingDesk(log, secrets, routes_of([])).begin(_incoming(0))
        assert isinstance(decided, Forward)
        decided.passing.head(200, [("content-type", "text/event-stream")])
        for at in range(0, len(whole), 4096):
            decided.passing.chunk(whole[at : at + 4096])
        decided.passing.end()


def _incoming(turn: int) -> Incoming:
    return Incoming(route="openai", method="POST", target=PATH, headers=(), body=body(turn))


if __name__ == "__main__":
    with Model() as model:
        print(model.url, flush=True)
        sys.stdin.read()
