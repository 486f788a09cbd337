"""The proxy listens on loopback for as long as its block lasts, and leaves nothing behind."""

import contextlib
import http.client
import socket
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from refold.proxy.http.server import HOST, served
from refold.proxy.http.turns import Incoming, Serve
from tests.support.descriptors import open_descriptors
from tests.support.proxied import question, recorded, said
from tests.support.upstream import Upstream


class Greeting:
    """A desk that answers everything."""

    def begin(self, incoming: Incoming) -> Serve:
        """Answer."""
        return Serve(status=200, headers={}, pieces=[(0, incoming.target.encode())])


def test_a_request_may_come_at_once() -> None:
    with served(Greeting(), ["openai"]) as base:
        assert said(base, {}, path="/openai/a?b=1") == (200, b"/a?b=1")


def test_a_query_without_a_path_may_hold_a_slash() -> None:
    """The route ends where the query begins."""
    with served(Greeting(), ["openai"]) as base:
        assert said(base, {}, path="/openai?a=b/c") == (200, b"?a=b/c")


def test_it_listens_on_loopback_alone() -> None:
    with served(Greeting(), ["openai"]) as base:
        assert base.startswith(f"http://{HOST}:")


def test_a_port_that_is_taken_is_refused() -> None:
    with contextlib.ExitStack() as stack:
        taken = stack.enter_context(socket.create_server((HOST, 0)))
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match="in use"):
            stack.enter_context(served(Greeting(), ["openai"], port=port))


def test_no_chunk_waits_for_the_one_before() -> None:
    """Requests of one connection follow each other at once; one that waits takes 40 ms.

    On a busy machine many take longer, and a quarter of them does not.
    """
    with served(Greeting(), ["openai"]) as base:
        connection = http.client.HTTPConnection(urlsplit(base).netloc, timeout=60)
        took = []
        for _ in range(200):
            started = time.monotonic()
            connection.request("GET", f"{urlsplit(base).path}/openai/a")
            assert connection.getresponse().read() == b"/a"
            took.append(time.monotonic() - started)
        connection.close()

    assert sorted(took)[50] < 0.035


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    """No descriptor, thread or port, though programs keep their connections open."""

    def once(number: int) -> None:
        with (
            Upstream() as upstream,
            recorded(tmp_path / f"run{number}x.jsonl", upstream.openai_url) as base,
        ):
            said(base, question("Hello"))
            idle = http.client.HTTPConnection(urlsplit(base).netloc, timeout=60)
            path = f"{urlsplit(base).path}/openai/models"
            idle.request("GET", path, headers={"authorization": "Bearer k"})
            idle.getresponse().read()
        with pytest.raises(ConnectionError):
            said(base, question("Hello"))
        idle.close()

    once(0)
    descriptors, threads = open_descriptors(), threading.active_count()
    for number in range(1, 6):
        once(number)

    # Fewer where an earlier test's have ended by now.
    assert open_descriptors() <= descriptors
    assert threading.active_count() <= threads


def test_of_a_program_that_leaves_nothing_is_said(caplog: pytest.LogCaptureFixture) -> None:
    """Many chunks may be ready then; none but the first is written to a broken connection."""
    has_left = threading.Event()
    written: list[int] = []

    class Long:
        def begin(self, _incoming: Incoming) -> Serve:
            return Serve(status=200, headers={}, pieces=self.pieces())

        def pieces(self) -> Iterator[tuple[int, bytes]]:
            yield 0, b"x"
            has_left.wait(60)
            for number in range(1000):
                written.append(number)
                yield 0, b"x" * 1000

    with served(Long(), ["openai"]) as base:
        place = urlsplit(base)
        with socket.create_connection((place.hostname, place.port)) as connection:
            head = f"GET {place.path}/openai/a HTTP/1.1\r\nhost: {place.netloc}\r\n\r\n"
            connection.sendall(head.encode())
            connection.recv(1)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        has_left.set()

    assert len(written) < 10
    assert caplog.records == []


def test_a_program_that_never_reads_does_not_hold_up_the_end() -> None:
    """Its connection is broken."""

    class Flood:
        def begin(self, _incoming: Incoming) -> Serve:
            return Serve(status=200, headers={}, pieces=((0, b"x" * 65536) for _ in range(10_000)))

    with socket.socket() as connection, served(Flood(), ["openai"]) as base:
        place = urlsplit(base)
        connection.connect((HOST, place.port))
        head = f"GET {place.path}/openai/ HTTP/1.1\r\nhost: {place.netloc}\r\n\r\n"
        connection.sendall(head.encode())
        connection.recv(1)
