"""The proxy in this process, before an upstream or a record, and servers that misbehave by bytes.

What tests of `refold.proxy` share.  Programs are `http.client` and sockets here; whole commands are
recorded by `refold.proxy.sessions`.
"""

import contextlib
import http.client
import json
import socket
import threading
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import urlsplit

import attrs

from refold.engine.log.reader import read_entries
from refold.engine.observed.journal import ObservedLog
from refold.proxy.bookends import here, resumed_rules
from refold.proxy.desks.caps import Caps
from refold.proxy.desks.keys import Secrets
from refold.proxy.desks.ordering import Work
from refold.proxy.desks.recording import RecordingDesk
from refold.proxy.desks.replaying import Replaying
from refold.proxy.desks.resuming import Resuming
from refold.proxy.http.routes import routes_of
from refold.proxy.http.server import served
from refold.proxy.http.turns import OnMiss, Pace
from refold.replay.observed.record import ObservedRecord, read_record
from refold.replay.resume.observed_resume import resumable_record

KEY: Final = {"authorization": "Bearer sk-placeholder-4f1d"}
TIMEOUT_SECONDS: Final = 60.0
"""Of sockets: a test that waits for longer fails."""


@contextlib.contextmanager
def recorded(
    log: Path, upstream: str, *, caps: Caps | None = None, exit_code: int = 0, **rules: Any
) -> Generator[str]:
    """Record what comes to the proxy whose base URL this gives; all routes lead to `upstream`."""
    secrets = Secrets()
    routes = routes_of([f"openai={upstream}", f"anthropic={upstream}"])
    given = {"command": ["test"]}
    with ObservedLog(log, program="test", input=given, vault=secrets, rules=rules) as journal:
        desk = RecordingDesk(journal, secrets, routes, caps=caps)
        with served(desk, [route.name for route in routes]) as base:
            secrets.hide_address(base)
            yield base
        status: tuple[Any, Any] = ("failed", "error") if exit_code else ("completed", "done")
        journal.seal(*status, {"exit_code": exit_code, "stdout": "", "stdout_bytes": 0})


@contextlib.contextmanager
def replayed(
    log: Path | ObservedRecord,
    /,
    upstream: str = "http://127.0.0.1:9",
    *,
    on_miss: OnMiss = "fail",
    pace: Pace = "full",
    folders: dict[str, str] | None = None,
    work: Work = lambda: None,
    **more: Any,
) -> Generator[tuple[str, Replaying]]:
    """Replay a record to whoever comes to the base URL that this gives."""
    secrets = Secrets()
    routes = routes_of([f"openai={upstream}"])
    desk = Replaying(
        read_record(log) if isinstance(log, Path) else log,
        secrets, routes=routes, on_miss=on_miss, pace=pace, here=folders, work=work, **more,
    )  # fmt: skip
    with served(desk, [route.name for route in routes]) as base:
        secrets.hide_address(base)
        yield base, desk


@contextlib.contextmanager
def resumed(
    log: Path,
    upstream: str,
    into: Path,
    *,
    on_miss: OnMiss = "fail",
    retry: str = "",
    caps: Caps | None = None,
) -> Generator[tuple[str, Resuming]]:
    """Resume a record for whoever comes to the base URL that this gives."""
    secrets = Secrets()
    routes = routes_of([f"openai={upstream}", f"anthropic={upstream}"])
    given = resumable_record(log, retry=retry)
    with ObservedLog(
        into, program="test", input={"command": ["test"]}, vault=secrets,
        rules=resumed_rules(given.served, {}), origin=given.origin,
    ) as journal:  # fmt: skip
        desk = Resuming(
            given, secrets, routes=routes, on_miss=on_miss, log=journal,
            profile=given.served.profile, here=here(), work=lambda: None, folder=None, caps=caps,
        )  # fmt: skip
        with served(desk, [route.name for route in routes]) as base:
            secrets.hide_address(base)
            yield base, desk
        journal.seal("completed", "done", {"exit_code": 0, "stdout": "", "stdout_bytes": 0})


@contextlib.contextmanager
def asked(base: str, body: Any = None, **how: Any) -> Generator[http.client.HTTPResponse]:
    """Send one request, give the answer as far as its head, and leave when the block ends."""
    with sent(base, body, **how) as connection, connection.getresponse() as response:
        yield response


@contextlib.contextmanager
def sent(
    base: str,
    body: Any = None,
    *,
    path: str = "/openai/chat/completions",
    method: str = "POST",
    headers: dict[str, str] | None = None,
) -> Generator[http.client.HTTPConnection]:
    """Send one request, give its connection, and leave when the block ends."""
    place = urlsplit(base)
    connection = http.client.HTTPConnection(place.netloc, timeout=TIMEOUT_SECONDS)
    content = body if isinstance(body, bytes | None) else json.dumps(body).encode()
    try:
        connection.request(
            method,
            path if "://" in path else place.path + path,
            content,
            {**KEY, **(headers or {})},
        )
        yield connection
    finally:
        connection.close()


def said(base: str, body: Any = None, **how: Any) -> tuple[int, bytes]:
    """Send one request, and return the status and the body of its answer."""
    with asked(base, body, **how) as response:
        return response.status, response.read()


def question(
    text: str, *, system: str = "You are the weather desk.", **more: Any
) -> dict[str, Any]:
    """Return the body of a chat completion."""
    messages = [{"role": "system", "content": system}, {"role": "user", "content": text}]
    return {"model": "small", "messages": messages, **more}


def kinds(log: Path) -> list[str]:
    """Return the kinds of a log's entries, without the first and the last."""
    return [entry.kind for entry in read_entries(log)][1:-1]


def data_of(log: Path, kind: str) -> list[dict[str, Any]]:
    """Return the data of all entries of that kind."""
    return [entry.data for entry in read_entries(log) if entry.kind == kind]


def all_bytes(*places: Path) -> bytes:
    """Return every byte of files, and of files below folders."""
    files = [file for place in places for file in (place.rglob("*") if place.is_dir() else [place])]
    return b"\0".join(file.read_bytes() for file in sorted(files) if file.is_file())


# --- servers by bytes --------------------------------------------------------------------------

Handle = Callable[[socket.socket, bytes], None]
"""Answers one request, given its head and the connection; the body is still to be read."""


@attrs.define
class RawServer:
    """A server that does to each connection what a function says; a context manager."""

    handle: Handle
    heads: list[bytes] = attrs.field(factory=list)
    """Of the requests, as they came."""
    _listening: socket.socket = attrs.field(factory=lambda: socket.create_server(("127.0.0.1", 0)))
    _threads: list[threading.Thread] = attrs.field(factory=list)
    _open: list[socket.socket] = attrs.field(factory=list)

    @property
    def url(self) -> str:
        """`http://127.0.0.1:PORT`."""
        return f"http://127.0.0.1:{self._listening.getsockname()[1]}"

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for connection in self._open:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()

    def _start(self, target: Callable[..., None], *arguments: Any) -> None:
        thread = threading.Thread(target=target, args=arguments)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listening.accept()
                connection.settimeout(TIMEOUT_SECONDS)
                self._open.append(connection)
                self._start(self._answer, connection)

    def _answer(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            head = b""
            while b"\r\n\r\n" not in head:
                content = connection.recv(65536)
                if not content:
                    return
                head += content
            self.heads.append(head)
            self.handle(connection, head)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(65536):  # what is left unread would break the connection
                pass


def answering(*parts: bytes) -> Handle:
    """Return what sends these bytes, and closes the connection."""

    def handle(connection: socket.socket, _head: bytes) -> None:
        for part in parts:
            connection.sendall(part)

    return handle
