"""What goes on to a server and comes back is what either side said, and nothing is kept."""

import asyncio
import base64
import contextlib
import http.client
import json
import socket
import ssl
import struct
import sys
import threading
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.engine.errors import UsageError
from refold.proxy.http import upstream as client
from refold.proxy.http.upstream import Upstream as Client
from refold.replay.observed.record import read_record
from tests.support.certificates import certificate_of
from tests.support.loops import for_each
from tests.support.proxied import (
    TIMEOUT_SECONDS,
    Handle,
    RawServer,
    answering,
    asked,
    data_of,
    question,
    recorded,
    replayed,
    said,
)
from tests.support.upstream import Upstream

PACKERS: Final = {
    "gzip": "gzip",
    "deflate": "zlib",
    "br": "brotli",
    "zstd": "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd",
}
"""By encoding: the module whose `compress` makes it."""
WHOLE: Final = [
    b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}",
    b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
]
"""Answers that say where they end."""
OK = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}"


def test_a_server_gets_what_the_program_said_and_no_more(tmp_path: Path) -> None:
    """No header of ours but the host, the length, and that answers are to be plain."""
    headers = {"accept": "text/plain", "x-odd": "caf\xe9", "accept-encoding": "br"}
    headers |= {"connection": "X-One, http2-settings", "x-one": "1", "http2-settings": "AAMA"}
    with RawServer(answering(OK)) as server, recorded(tmp_path / "run.jsonl", server.url) as base:
        said(base, {}, headers=headers)
        said(base, None, method="GET", path="/openai/models")
        first, second = (head.lower() for head in server.heads)

    lines = first.partition(b"\r\n\r\n")[0].split(b"\r\n")[1:]
    names = sorted(line.partition(b":")[0].decode() for line in lines)
    assert names == [
        "accept",
        "accept-encoding",
        "authorization",
        "content-length",
        "host",
        "x-odd",
    ]
    assert b"accept-encoding: identity" in first
    assert b"x-odd: caf\xe9" in first
    assert b"user-agent" not in second


def test_a_body_that_answers_a_probe_is_no_answer_to_what_comes_next(tmp_path: Path) -> None:
    """Some servers send one to HEAD; the next request has a connection of its own."""
    odd = b"HTTP/1.1 404 X\r\ncontent-length: 2\r\n\r\n{}"
    with RawServer(answering(odd)) as server, recorded(tmp_path / "run.jsonl", server.url) as base:
        probed = said(base, None, method="HEAD", path="/anthropic/")
        after = said(base, {})
        heads = [head.lower() for head in server.heads]

    assert b"connection: close" in heads[0]
    assert b"connection: close" not in heads[1]
    assert (probed[0], after[0]) == (404, 404)


def test_cookies_are_the_programs(tmp_path: Path) -> None:
    """One that a server sets comes back to it only where the program says so."""
    answer = OK.replace(b"\r\n\r\n", b"\r\nset-cookie: sid=abc; path=/\r\nset-cookie: b=c\r\n\r\n")
    with RawServer(answering(answer)) as server:
        with recorded(tmp_path / "run.jsonl", server.url) as base:
            with asked(base, {}) as response:
                cookies = response.headers.get_all("set-cookie")
            said(base, {})
        assert not any(b"cookie" in head.lower() for head in server.heads)

    assert cookies == ["sid=abc; path=/", "b=c"]


@pytest.mark.parametrize("encoding", PACKERS)
def test_a_packed_answer_is_unpacked_though_nobody_asked(encoding: str, tmp_path: Path) -> None:
    """And recorded as what it says."""
    log, text = tmp_path / "run.jsonl", json.dumps({"a": "x" * 1000}).encode()
    packed = pytest.importorskip(PACKERS[encoding]).compress(text)
    head = f"HTTP/1.1 200 OK\r\ncontent-encoding: {encoding}\r\ncontent-length: {len(packed)}"
    with (
        RawServer(answering(head.encode() + b"\r\n\r\n", packed)) as server,
        recorded(log, server.url) as base,
        asked(base, {}) as response,
    ):
        found = response.getheader("content-encoding"), response.read()

    assert found == (None, text)
    assert data_of(log, "x-refold.wire")[0]["text"] == text.decode()


@pytest.mark.parametrize("encoding", [*PACKERS, "zz"])
def test_a_packed_request_is_read_and_passes_as_it_is(encoding: str, tmp_path: Path) -> None:
    """One that cannot be unpacked is none of an interface."""
    log, text = tmp_path / "run.jsonl", json.dumps(question("Hello")).encode()
    packed = b"\xff\x00"
    if encoding in PACKERS:
        packed = pytest.importorskip(PACKERS[encoding]).compress(text)
    bodies: list[bytes] = []

    def answers(connection: socket.socket, head: bytes) -> None:
        body = head.partition(b"\r\n\r\n")[2]
        while len(body) < len(packed):
            body += connection.recv(65536)
        bodies.append(body)
        connection.sendall(OK)

    with RawServer(answers) as server, recorded(log, server.url) as base:
        status, _ = said(base, packed, headers={"content-encoding": encoding})

    (turn,) = read_record(log).turns
    assert (status, bodies) == (200, [packed])
    assert turn.asked.api == ("chat" if encoding in PACKERS else "other")


def test_an_answer_packed_otherwise_passes_as_it_is(tmp_path: Path) -> None:
    """With its encoding, now and in replay."""
    log = tmp_path / "run.jsonl"
    answer = b"HTTP/1.1 200 OK\r\ncontent-encoding: zz\r\ncontent-length: 3\r\n\r\n\xff\x00\xfe"

    def ask(base: str) -> tuple[Any, ...]:
        with asked(base, {}) as response:
            return response.getheader("content-encoding"), response.read()

    with RawServer(answering(answer)) as server, recorded(log, server.url) as base:
        first = ask(base)
    with replayed(log) as (base, _):
        second = ask(base)

    assert first == second == ("zz", b"\xff\x00\xfe")


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"no HTTP at all\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nbad header\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 4\r\n\r\nnope",
        b"HTTP/1.1 999 Odd\r\ncontent-length: 2\r\n\r\n{}",
        b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
    ],
    ids=["nothing", "noise", "header", "packed", "999", "101"],
)
def test_a_server_that_speaks_no_http_is_a_bad_gateway(answer: bytes, tmp_path: Path) -> None:
    """Said as JSON, recorded as an error, and replayed; or broken off where it had begun."""
    log = tmp_path / "run.jsonl"

    def outcome(base: str) -> Any:
        try:
            return said(base, question("Hello"))
        except OSError as error:
            return type(error)
        except Exception as error:  # noqa: BLE001  # http.client's have no other base
            return type(error)

    with RawServer(answering(answer)) as server, recorded(log, server.url) as base:
        first = outcome(base)
    with replayed(log) as (base, desk):
        second = outcome(base)

    assert first == second
    assert desk.matcher.misses == []
    assert data_of(log, "model.answered")[0]["status"] == "error"


def test_a_server_that_is_not_there_is_a_bad_gateway(tmp_path: Path) -> None:
    """The message names the server, no more of its address, and what the system said."""
    log = tmp_path / "run.jsonl"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with recorded(log, f"http://127.0.0.1:{port}/v1?tenant=9") as base:
        status, body = said(base, question("Hello"))

    (answer,) = data_of(log, "model.answered")
    assert status == 502
    assert json.loads(body)["error"]["type"] == "refold_connection"
    assert f"127.0.0.1:{port}: ConnectError" in answer["error"]["message"]
    assert answer["error"]["message"].endswith("(Connection refused)")
    assert "tenant" not in body.decode()
    assert answer["error"]["code"] == "connection"


def test_a_server_that_takes_no_connection_is_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be there, and busy: its queue is full."""
    log = tmp_path / "run.jsonl"
    monkeypatch.setattr(client, "CONNECT_SECONDS", 0.05)
    with socket.socket() as full, contextlib.ExitStack() as waiting:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for _ in range(4):
            one = waiting.enter_context(socket.socket())
            one.settimeout(0)
            one.connect_ex(full.getsockname())
        with recorded(log, f"http://127.0.0.1:{full.getsockname()[1]}/v1") as base:
            status, body = said(base, question("Hello"))

    (answer,) = data_of(log, "model.answered")
    assert status == 502
    assert json.loads(body)["error"]["type"] == "refold_timed_out"
    assert answer["error"]["code"] == "timed_out"


def test_a_path_and_a_query_of_the_base_url_are_kept(tmp_path: Path) -> None:
    """Before those of the request."""
    with RawServer(answering(OK)) as server:
        with recorded(tmp_path / "run.jsonl", f"{server.url}/deep/v1/?tenant=9") as base:
            said(base, {}, path="/openai/chat/completions?beta=true")
        (head,) = server.heads

    assert head.startswith(b"POST /deep/v1/chat/completions?tenant=9&beta=true HTTP/1.1\r\n")


@pytest.mark.parametrize(("location", "there"), [("", ""), ("/v1/moved?a=1", "/openai/moved?a=1")])
def test_a_redirection_leads_through_the_proxy(location: str, there: str, tmp_path: Path) -> None:
    """Where it stays below its server's base URL, relative or absolute; the program follows it."""
    log = tmp_path / "run.jsonl"

    def redirect(connection: socket.socket, _head: bytes) -> None:
        to = location or f"http://127.0.0.1:{connection.getsockname()[1]}/v1/else"
        connection.sendall(
            f"HTTP/1.1 307 Moved\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n".encode()
        )

    def ask(base: str) -> tuple[int, str]:
        with asked(base, question("Hello")) as response:
            location = response.getheader("location") or ""
            return response.status, location.removeprefix(urlsplit(base).path)

    with RawServer(redirect) as server, recorded(log, f"{server.url}/v1") as base:
        first = ask(base)
    with replayed(log) as (base, _):
        second = ask(base)

    assert first == second == (307, there or "/openai/else")


def test_a_busy_server_and_a_broken_one_are_recorded_as_they_are(tmp_path: Path) -> None:
    """A request that is made again is a request of its own, with an answer of its own."""
    log = tmp_path / "run.jsonl"

    def ask(base: str) -> list[tuple[int, str | None]]:
        found = []
        for text in ("Hello when busy", "Hello when busy", "when broken"):
            with asked(base, question(text)) as response:
                found.append((response.status, response.getheader("retry-after")))
                response.read()
        return found

    with Upstream() as upstream, recorded(log, upstream.openai_url) as base:
        first = ask(base)
    with replayed(log) as (base, desk):
        second = ask(base)

    assert first == second == [(429, "1"), (200, None), (500, None)]
    assert (desk.served, desk.matcher.misses) == (3, [])
    assert [each["status"] for each in data_of(log, "model.answered")] == ["error", "ok", "error"]


def test_no_timeout_is_ours(tmp_path: Path) -> None:
    """An answer that is long in coming comes; only connecting has an end."""
    found: list[int] = []
    with Upstream() as upstream:
        upstream.use("weather", hold=True)
        with recorded(tmp_path / "run.jsonl", upstream.openai_url) as base:
            ask = threading.Thread(target=lambda: found.append(said(base, question("Hello"))[0]))
            ask.start()
            upstream.wait_for_open(1)
            upstream.release()
            ask.join()

    assert found == [200]


def test_an_environment_that_names_no_usable_proxy_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before anything starts."""
    for named in ("gopher://127.0.0.1:1", "http://:no port"):
        monkeypatch.setenv("ALL_PROXY", named)
        with pytest.raises(UsageError, match="proxy or certificates of this environment"):
            Client()


# --- connections ---------------------------------------------------------------------------


def _read_whole(connection: socket.socket, head: bytes) -> None:
    """Read a request to its end: its body may come after its head."""
    while not head.endswith(b"{}") and (came := connection.recv(65536)):
        head += came


def _in_turn(*answers: bytes) -> Handle:
    """Return what answers requests of one connection, one after the other."""

    def handle(connection: socket.socket, head: bytes) -> None:
        for answer in answers:
            _read_whole(connection, head)
            head = b""
            connection.sendall(answer)

    return handle


@for_each(
    "answer",
    [
        *WHOLE,
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}",
    ],
)
def test_a_connection_is_used_again(answer: bytes, tmp_path: Path) -> None:
    """By the next request, which finds it where its answer ended."""
    with (
        RawServer(_in_turn(answer, answer, answer)) as server,
        recorded(tmp_path / "run.jsonl", server.url) as base,
    ):
        found = [said(base, {}) for _ in range(3)]
        connections = len(server.heads)

    assert found == [(200, b"{}")] * 3
    assert connections == 1


@pytest.mark.parametrize(
    "answer",
    [
        OK,
        b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\n\r\n{}",
    ],
    ids=["close", "old", "until its end"],
)
def test_a_connection_that_its_server_ends_is_not(answer: bytes, tmp_path: Path) -> None:
    """The next request gets one of its own."""
    found, ended = list[tuple[int, bytes]](), threading.Semaphore(0)

    def handle(connection: socket.socket, _head: bytes) -> None:
        connection.sendall(answer)
        connection.shutdown(socket.SHUT_WR)
        ended.release()

    with (
        RawServer(handle) as server,
        recorded(tmp_path / "run.jsonl", server.url) as base,
    ):
        for _ in range(3):
            found.append(said(base, {}))
            assert ended.acquire(timeout=TIMEOUT_SECONDS)
        connections = len(server.heads)

    assert found == [(200, b"{}")] * 3
    assert connections == 3


@given(
    answer=st.sampled_from(WHOLE),
    more=st.sampled_from([*WHOLE, b"{}", b"\r\n"]) | st.binary(min_size=1),
)
def test_bytes_after_an_answer_do_not_answer_the_next_request(answer: bytes, more: bytes) -> None:
    """A server counted too few, and keeps the connection open."""
    bodies: list[bytes] = []

    def too_long(connection: socket.socket, head: bytes) -> None:
        _in_turn(answer + more)(connection, head)
        _read_whole(connection, b"")

    async def ask(url: str) -> None:
        upstream = Client()
        for _ in range(2):
            async with upstream.asked("POST", url, (), b"{}") as found:
                bodies.append(b"".join([part async for part in found.chunks]))
        await upstream.close()

    with RawServer(too_long) as server:
        asyncio.run(ask(server.url))
        connections = len(server.heads)

    assert bodies == [b"{}"] * 2
    assert connections == 2


@pytest.mark.parametrize("unasked", [b"", b"HTTP/1.1 408 Too late\r\ncontent-length: 0\r\n\r\n"])
@pytest.mark.parametrize("closes", [False, True])
def test_what_a_server_says_unasked_answers_no_request(
    *, unasked: bytes, closes: bool, tmp_path: Path
) -> None:
    """Some say so before they close a connection that was idle for long."""
    is_read, is_said = threading.Event(), threading.Event()
    answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"

    def late(connection: socket.socket, head: bytes) -> None:
        _read_whole(connection, head)
        connection.sendall(answer)
        is_read.wait(TIMEOUT_SECONDS)
        connection.sendall(unasked)
        if closes:
            connection.shutdown(socket.SHUT_WR)
        is_said.set()
        if not unasked and not closes:
            _read_whole(connection, b"")
            connection.sendall(answer)

    with (
        RawServer(late) as server,
        recorded(tmp_path / "run.jsonl", server.url) as base,
    ):
        found = [said(base, {})]
        is_read.set()
        assert is_said.wait(TIMEOUT_SECONDS)
        found.append(said(base, {}))
        connections = len(server.heads)

    assert found == [(200, b"{}")] * 2
    assert connections == (2 if unasked or closes else 1)


def test_an_answer_that_is_reset_is_one_that_broke_off(tmp_path: Path) -> None:
    """What came of it passes."""
    log, is_there = tmp_path / "run.jsonl", threading.Event()

    def reset(connection: socket.socket, _head: bytes) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{}")
        is_there.wait(TIMEOUT_SECONDS)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()

    with (
        RawServer(reset) as server,
        recorded(log, server.url) as base,
        asked(base, {}) as response,
    ):
        first = response.read1()
        is_there.set()
        with pytest.raises((OSError, http.client.IncompleteRead)):
            response.read()

    (wire,) = data_of(log, "x-refold.wire")
    assert first == b"{}"
    assert (wire["end"], wire["text"]) == ("cut", "{}")


def test_the_user_and_the_password_of_a_base_url_are_sent(tmp_path: Path) -> None:
    """In place of the program's own."""
    with RawServer(answering(OK)) as server:
        url = server.url.replace("//", "//me:p%40ss@")
        with recorded(tmp_path / "run.jsonl", url) as base:
            assert said(base, {})[0] == 200
        (head,) = server.heads

    lines = head.lower().split(b"\r\n")
    assert [line for line in lines if line.startswith(b"authorization")] == [
        b"authorization: basic " + base64.b64encode(b"me:p@ss").lower()
    ]


# --- the proxy and the certificates of an environment ---------------------------------------


def test_the_proxy_of_an_environment_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the whole URL, unless NO_PROXY has the server."""
    with RawServer(answering(OK)) as proxy, RawServer(answering(OK)) as server:
        monkeypatch.setenv("http_proxy", proxy.url.replace("//", "//me:secret@"))
        with recorded(tmp_path / "through.jsonl", "http://model.invalid:81/v1") as base:
            status, _ = said(base, {})
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        with recorded(tmp_path / "past.jsonl", server.url) as base:
            said(base, {})
        (head,) = proxy.heads

        assert len(server.heads) == 1
    assert status == 200
    assert head.startswith(b"POST http://model.invalid:81/v1/chat/completions HTTP/1.1\r\n")
    assert b"host: model.invalid:81\r\n" in head.lower()
    assert b"Basic " + base64.b64encode(b"me:secret") in head


@pytest.mark.parametrize("way", ["straight", "tunnel"])
def test_a_server_is_asked_over_tls(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whom the certificates of the environment know; a proxy sees nothing of it."""
    certificate = certificate_of("127.0.0.1", tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    body = b"x" * 1_000_000

    def encrypted(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) as safe:
            while b"{}" not in safe.recv(65536):
                pass
            safe.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))

    def tunnel(connection: socket.socket, _head: bytes) -> None:
        connection.sendall(b"HTTP/1.1 200 Connected\r\n\r\n")
        encrypted(connection.dup())

    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with RawServer(tunnel) as proxy, socket.create_server(("127.0.0.1", 0)) as listening:
        if way == "tunnel":
            monkeypatch.setenv("https_proxy", proxy.url)
        else:
            serving = threading.Thread(target=lambda: encrypted(listening.accept()[0]))
            serving.start()
        port = listening.getsockname()[1]
        with recorded(tmp_path / "run.jsonl", f"https://127.0.0.1:{port}/v1") as base:
            found = said(base, {})
        heads = proxy.heads

    assert found == (200, body)
    assert [head.split(b"\r\n")[0] for head in heads] == (
        [b"CONNECT 127.0.0.1:%d HTTP/1.1" % port] if way == "tunnel" else []
    )


def test_a_certificate_that_nobody_knows_is_refused(tmp_path: Path) -> None:
    """No key goes to its server."""
    log = tmp_path / "run.jsonl"
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate_of("127.0.0.1", tmp_path))

    def refused(connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:
            context.wrap_socket(connection, server_side=True)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        serving = threading.Thread(target=lambda: refused(listening.accept()[0]))
        serving.start()
        with recorded(log, f"https://127.0.0.1:{listening.getsockname()[1]}") as base:
            status, _ = said(base, {})
        serving.join()

    (answer,) = data_of(log, "model.answered")
    assert status == 502
    assert "certificate verify failed" in answer["error"]["message"]


def test_a_proxy_that_lets_nobody_through_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its status."""
    log = tmp_path / "run.jsonl"
    with RawServer(answering(b"HTTP/1.1 407 Who\r\ncontent-length: 0\r\n\r\n")) as proxy:
        monkeypatch.setenv("all_proxy", proxy.url)
        with recorded(log, "https://model.invalid/v1") as base:
            status, _ = said(base, {})

    (answer,) = data_of(log, "model.answered")
    assert status == 502
    assert answer["error"]["message"] == "model.invalid: ProxyError: 407 Who"
