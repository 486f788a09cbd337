"""What passes through the proxy's HTTP side, and what becomes of it when either side leaves."""

import asyncio
import contextlib
import http.client
import json
import queue
import re
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.engine.errors import LogPoisoned
from refold.engine.log.reader import read_entries
from refold.proxy.http.app import Addresses
from refold.proxy.http.server import served
from refold.proxy.http.turns import Forward, Incoming, Serve
from refold.replay.observed.explaining import all_divergences
from refold.replay.observed.record import read_record
from tests.support.loops import for_each, some
from tests.support.proxied import (
    KEY,
    TIMEOUT_SECONDS,
    RawServer,
    answering,
    asked,
    data_of,
    kinds,
    question,
    recorded,
    replayed,
    said,
)
from tests.support.traffic import Reply, Rule
from tests.support.upstream import Upstream

ANSWERED = ["x-refold.conversation", "model.asked", "x-refold.wire", "model.answered"]


class Failing:
    """A desk that fails where it is told to."""

    def __init__(self, at: str, url: str = "") -> None:
        self._at = at
        self._url = url

    def begin(self, incoming: Incoming) -> Forward | Serve:
        """Fail, or pass on."""
        self._perhaps("begin")
        return Forward(url=self._url + incoming.target, passing=self)

    def _perhaps(self, place: str) -> None:
        if place == self._at:
            raise RuntimeError("of the desk: unwell")

    def head(self, _status: int, _headers: Any, /) -> None:
        """Fail, or not."""
        self._perhaps("head")

    def chunk(self, _content: bytes, /) -> None:
        """Fail, or not."""
        self._perhaps("chunk")

    def end(self) -> None:
        """Fail, or not."""
        self._perhaps("end")

    def failed(self, _code: str, _message: str, /) -> Serve:
        """Serve nothing."""
        return Serve(status=502, headers={}, pieces=())

    def gone(self) -> None:
        """Do nothing."""


@contextlib.contextmanager
def sent(base: str, body: Any, version: str = "1.1") -> Iterator[socket.socket]:
    """Send a request, give the connection, and leave when the block ends."""
    place = urlsplit(base)
    with socket.create_connection((place.hostname, place.port)) as connection:
        connection.settimeout(TIMEOUT_SECONDS)
        content = json.dumps(body).encode()
        lines = [
            f"POST {place.path}/openai/chat/completions HTTP/{version}",
            f"host: {place.netloc}",
            f"authorization: {KEY['authorization']}",
            f"content-length: {len(content)}",
        ]
        connection.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + content)
        yield connection


# --- what passes -------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["GET", "DELETE", "HEAD", "PUT"])
def test_any_method_passes_and_is_recorded_as_it_is(method: str, tmp_path: Path) -> None:
    """As `other`, and is replayed."""
    log = tmp_path / "run.jsonl"
    answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nx-request-id: 7\r\n\r\n"
    body = b"" if method == "HEAD" else b"{}"
    how: dict[str, Any] = {"method": method, "path": "/openai/models/a%2Fb?limit=2"}
    with RawServer(answering(answer, body)) as server:
        with recorded(log, f"{server.url}/v1") as base:
            first = said(base, **how)
        (head,) = server.heads
    with replayed(log) as (base, desk):
        second = said(base, **how)

    assert first == second == (200, body)
    assert head.startswith(f"{method} /v1/models/a%2Fb?limit=2 HTTP/1.1\r\n".encode())
    assert data_of(log, "model.asked")[0]["parameters"]["method"] == method
    assert desk.matcher.misses == []


@pytest.mark.parametrize("count", [20, pytest.param(200, marks=pytest.mark.long)])
def test_many_requests_at_once_each_get_their_own_answer(count: int, tmp_path: Path) -> None:
    """All are recorded in the order in which they were done, and each is served its own again."""
    log = tmp_path / "run.jsonl"
    rules = [
        Rule(name=str(n), when={"user": f"<{n}>"}, then=Reply(text=f"answer {n}"))
        for n in range(count)
    ]

    def ask(base: str) -> list[str]:
        with ThreadPoolExecutor(count) as pool:
            bodies = [question(f"<{n}>") for n in range(count)]
            found = list(pool.map(lambda body: said(base, body)[1], bodies))
        return [json.loads(body)["choices"][0]["message"]["content"] for body in found]

    with Upstream(rules) as upstream, recorded(log, upstream.openai_url) as base:
        first = ask(base)
    with replayed(log) as (base, desk):
        second = ask(base)

    assert first == second == [f"answer {n}" for n in range(count)]
    assert (desk.served, desk.matcher.misses, desk.matcher.left()) == (count, [], [])
    assert kinds(log).count("model.answered") == count


@pytest.mark.parametrize("megabytes", some(1, [1, 50]))
def test_a_large_request_passes(megabytes: int, tmp_path: Path) -> None:
    """And is recorded, its text in a blob, and matched."""
    log, body = tmp_path / "run.jsonl", question("Hello there! " * (megabytes * 80_000))
    with Upstream() as upstream, recorded(log, upstream.openai_url) as base:
        first = said(base, body)
        (request,) = upstream.received
    with replayed(log) as (base, _):
        second = said(base, body)

    assert first[0] == 200
    assert first == second
    assert request.body == body
    assert log.stat().st_size < 20_000


def test_chunks_are_served_as_they_came(tmp_path: Path) -> None:
    """The same boundaries, though characters lie across them."""
    log, chunks = tmp_path / "run.jsonl", [b"data: 1\n\n", b"da", b"ta: \xe2\x82", b"\xac\n\n"]
    gates = [threading.Event() for _ in chunks]

    def slowly(connection: socket.socket, _head: bytes) -> None:
        head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
        connection.sendall(head + b"transfer-encoding: chunked\r\n\r\n")
        for chunk, gate in zip(chunks, gates, strict=True):
            connection.sendall(b"%x\r\n%s\r\n" % (len(chunk), chunk))
            gate.wait(TIMEOUT_SECONDS)
        connection.sendall(b"0\r\n\r\n")

    with (
        RawServer(slowly) as server,
        recorded(log, server.url) as base,
        asked(base, question("Hello", stream=True)) as response,
    ):
        for gate in gates:
            response.read1()
            gate.set()
        response.read()
    with replayed(log) as (base, _):
        body = said(base, question("Hello", stream=True))[1]

    (wire,) = data_of(log, "x-refold.wire")
    assert wire["sizes"] == [len(chunk) for chunk in chunks]
    assert body == b"".join(chunks)


def test_chunks_that_come_at_once_pass_as_one(tmp_path: Path) -> None:
    """What comes later does not wait for them."""
    log, said_first = tmp_path / "run.jsonl", threading.Event()

    def in_two(connection: socket.socket, _head: bytes) -> None:
        head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
        connection.sendall(head + b"transfer-encoding: chunked\r\n\r\n" + b"2\r\nab\r\n" * 100)
        said_first.wait(TIMEOUT_SECONDS)
        connection.sendall(b"1\r\nc\r\n" * 100 + b"0\r\n\r\n")

    with (
        RawServer(in_two) as server,
        recorded(log, server.url) as base,
        asked(base, question("Hello", stream=True)) as response,
    ):
        first = response.read(200)
        said_first.set()
        rest = response.read()

    (wire,) = data_of(log, "x-refold.wire")
    assert (first, rest) == (b"ab" * 100, b"c" * 100)
    assert wire["text"] == "ab" * 100 + "c" * 100
    assert wire["sizes"] == [200, 100]


def test_a_program_that_does_not_read_slows_its_server_down() -> None:
    """An answer is read no faster than it is passed on."""
    stopped = threading.Event()
    desk_got: list[int] = []
    chunk = b"10000\r\n" + b"x" * 65536 + b"\r\n"

    def flood(connection: socket.socket, _head: bytes) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        connection.settimeout(0.2)  # by then nobody reads any more, or it is too late to fail
        with contextlib.suppress(OSError):
            for _ in range(2000):
                connection.sendall(chunk)
        stopped.set()

    class Counting(Failing):
        def chunk(self, content: bytes, /) -> None:
            desk_got.append(len(content))

    with (
        RawServer(flood) as server,
        served(Counting("", server.url), ["openai"]) as base,
        sent(base, {}),
    ):
        assert stopped.wait(TIMEOUT_SECONDS)

    assert sum(desk_got) < 1000 * 65536


def test_a_route_that_is_none_is_named(tmp_path: Path) -> None:
    """With those that there are; nothing is recorded of it."""
    log = tmp_path / "run.jsonl"
    with recorded(log, "http://127.0.0.1:9") as base:
        status, body = said(base, path="/v1/chat/completions")

    assert status == 404
    assert b"/openai/" in body
    assert kinds(log) == []


def test_a_whole_url_as_target_is_the_path_in_it(tmp_path: Path) -> None:
    """As clients of HTTP proxies send it; one that leads elsewhere is refused."""
    log = tmp_path / "run.jsonl"
    with Upstream() as upstream, recorded(log, upstream.openai_url) as base:
        status, _ = said(base, method="GET", path=f"{base}/openai/models")
        refused, body = said(base, method="GET", path="http://api.openai.com/v1/models")
        nowhere, known = said(base, method="GET", path=f"{base}/v1/models")

    assert (status, refused, nowhere) == (200, 403, 404)
    assert b"the address of this proxy as Host" in body
    assert b"unknown route /v1: expected" in known
    assert kinds(log).count("model.asked") == 1


ADDRESS = "127.0.0.1:PORT"
CLIMBS = (
    "/..", "/../x", "/../../x", "/a/../../x", "/%2e%2e/x", "/%2E%2e/x", "/.%2e/x", "/..%2f..%2fx",
    "/%252e%252e/x", "/..\\x", "/..%5cx", "/..;a=1/x", "/..;/x", "/./x", "/a/%2e", "/..?x=/..",
)  # fmt: skip


@for_each(
    "headers, status",
    [
        ([("host", ADDRESS)], 200),
        ([("host", "localhost:PORT")], 200),
        ([("host", "LOCALHOST:PORT"), ("origin", "http://127.0.0.1:PORT")], 200),
        ([("host", "evil.example:PORT")], 403),
        ([("host", "127.0.0.1")], 403),
        ([("host", "127.0.0.1:1")], 403),
        ([("host", "127.0.0.1:PORT.evil.example")], 403),
        ([("host", "evil.example@127.0.0.1:PORT")], 403),
        ([("host", "")], 403),
        ([], 403),
        ([("host", ADDRESS), ("origin", "http://evil.example")], 403),
        ([("host", ADDRESS), ("origin", "https://127.0.0.1:PORT")], 403),
        ([("host", ADDRESS), ("origin", "http://127.0.0.1:1")], 403),
        ([("host", ADDRESS), ("origin", "null")], 403),
        ([("host", ADDRESS), ("origin", ADDRESS), ("origin", "http://evil.example")], 403),
    ],
)
def test_no_web_page_is_served(headers: list[tuple[str, str]], status: int, tmp_path: Path) -> None:
    """One that has the name of its own server lead to this machine, too; nothing is passed on."""
    log = tmp_path / "run.jsonl"
    with Upstream() as upstream, recorded(log, upstream.openai_url) as base:
        place = urlsplit(base)
        with socket.create_connection((place.hostname, place.port)) as connection:
            lines = [f"{name}: {value}".replace("PORT", str(place.port)) for name, value in headers]
            version = "1.1" if headers else "1.0"  # before 1.1, no host had to be named
            head = [f"GET {place.path}/openai/models HTTP/{version}", *lines, "connection: close"]
            head.append(f"authorization: {KEY['authorization']}")
            connection.sendall("\r\n".join(head).encode() + b"\r\n\r\n")
            with http.client.HTTPResponse(connection) as answer:
                answer.begin()
                assert answer.status == status

    assert kinds(log).count("model.asked") == (status == 200)


@for_each("word", ["", "/", "/0" * 16, "/%2e", "/openai", "/é"])
def test_who_does_not_know_the_word_is_refused(word: str, tmp_path: Path) -> None:
    """Any user of this machine can connect; another word is drawn each time."""
    log = tmp_path / "run.jsonl"
    with Upstream() as upstream, recorded(log, upstream.openai_url) as base:
        place = urlsplit(base)
        path = quote(f"{word}/openai/models", "/%")
        refused, body = said(f"http://{place.netloc}", method="GET", path=path)

    assert re.fullmatch("/[0-9a-f]{32}", place.path)
    assert refused == 403
    assert place.path[1:].encode() not in body
    assert kinds(log) == []


@for_each("path", CLIMBS)
def test_no_path_leads_above_the_base_url(path: str, tmp_path: Path) -> None:
    """However it is written: servers and clients read dots in more than one way."""
    log = tmp_path / "run.jsonl"
    with RawServer(answering(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")) as server:
        with recorded(log, f"{server.url}/v1") as base:
            status, body = said(base, method="GET", path=f"/openai{path}")

        assert server.heads == []
    assert status == 403
    assert b"above the base URL" in body


@for_each("path", ["/a..b", "/...", "/.well-known/x", "/a%2Fb", "/x?to=../y"])
def test_dots_within_names_pass(path: str, tmp_path: Path) -> None:
    with RawServer(answering(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")) as server:
        with recorded(tmp_path / "run.jsonl", f"{server.url}/v1") as base:
            assert said(base, method="GET", path=f"/openai{path}")[0] == 200
        (head,) = server.heads

    assert head.startswith(f"GET /v1{path} HTTP/1.1\r\n".encode())


def test_a_change_to_websockets_is_refused(tmp_path: Path) -> None:
    """It says so, and nothing is asked or recorded."""
    log = tmp_path / "run.jsonl"
    headers = {"connection": "Upgrade", "upgrade": "WebSocket"}
    with Upstream() as upstream, recorded(log, upstream.openai_url) as base:
        status, body = said(base, method="GET", path="/openai/realtime", headers=headers)

    assert (status, upstream.received, kinds(log)) == (426, [], [])
    assert b"WebSockets cannot be recorded" in body


# --- who leaves --------------------------------------------------------------------------------


def test_a_program_that_leaves_before_the_answer_ends_its_request(tmp_path: Path) -> None:
    """At the server, at once; the record says so, and holds it when it is asked again."""
    log = tmp_path / "run.jsonl"
    with Upstream() as upstream:
        upstream.use("weather", hold=True)
        with recorded(log, upstream.openai_url) as base:
            with sent(base, question("Hello")):
                upstream.wait_for_open(1)
            upstream.wait_for_hung_up()
    with replayed(log) as (base, desk), sent(base, question("Hello")) as connection:
        connection.settimeout(0.3)
        with pytest.raises(TimeoutError):
            connection.recv(1)

    assert kinds(log) == ["x-refold.conversation", "model.asked", "effect.cancelled"]
    assert desk.served == 1


def test_a_program_that_leaves_in_the_middle_gets_as_far_again(tmp_path: Path) -> None:
    """What came is recorded, and served; then nothing comes until it leaves."""
    log, body = tmp_path / "run.jsonl", question("Hello", stream=True)
    with Upstream() as upstream:
        upstream.use("weather", hold_after=3)
        with recorded(log, upstream.openai_url) as base:
            with asked(base, body) as response:
                begun = response.read1()
                while begun.count(b"\n\n") < 3:
                    begun += response.read1()
            upstream.wait_for_hung_up()
    with replayed(log) as (base, _), asked(base, body) as response:
        again = response.read(len(begun))
        response.fp.raw._sock.settimeout(0.3)  # type: ignore[attr-defined]  # http.client's
        with pytest.raises(TimeoutError):
            response.read1()

    assert begun == again
    assert kinds(log)[2:] == ["x-refold.wire", "effect.cancelled"]
    assert data_of(log, "x-refold.wire")[0]["end"] == "cut"


@pytest.mark.parametrize(("is_stream", "after"), [(True, 3), (True, 6), (True, 7), (False, 20)])
def test_a_server_that_breaks_off_breaks_the_connection(
    *, is_stream: bool, after: int, tmp_path: Path
) -> None:
    """Now and when it is replayed; what came is the same. Clients need all up to `[DONE]`."""
    log, body = tmp_path / "run.jsonl", question("Hello", stream=is_stream)

    def broken(base: str) -> bytes:
        with pytest.raises(http.client.IncompleteRead) as cut:
            said(base, body)
        return cut.value.partial

    with Upstream() as upstream:
        upstream.use("weather", cut_after=after)
        with recorded(log, upstream.openai_url) as base:
            first = broken(base)
    with replayed(log) as (base, _):
        second = broken(base)

    assert first == second
    assert first.count(b"data: ") == (after if is_stream else 0)
    (answer,) = data_of(log, "model.answered")
    is_whole = first.endswith(b"[DONE]\n\n")
    assert answer.get("error", {}).get("code", "") == ("" if is_whole else "cut")


@pytest.mark.parametrize("after", some(2, [3, None]))
def test_an_answer_that_breaks_off_is_no_whole_one_in_http_1_0(
    after: int | None, tmp_path: Path
) -> None:
    """The end of the connection ends an answer there, so it has to be seen to break."""
    log, body = tmp_path / "run.jsonl", question("Hello", stream=True)

    def read(base: str) -> tuple[bytes, bool]:
        got = b""
        with sent(base, body, "1.0") as connection:
            try:
                while content := connection.recv(2**16):
                    got += content
            except ConnectionResetError:
                return got.partition(b"\r\n\r\n")[2], True
        return got.partition(b"\r\n\r\n")[2], False

    with Upstream() as upstream:
        upstream.use("weather", cut_after=after)
        with recorded(log, upstream.openai_url) as base:
            first = read(base)
    with replayed(log) as (base, _):
        second = read(base)

    assert first == second
    assert first[1] is (after is not None)


@pytest.mark.long
def test_a_program_that_leaves_an_answer_that_it_read_differs(tmp_path: Path) -> None:
    """What is long before the end: systems hold some of an answer for a program."""
    log, body = tmp_path / "run.jsonl", question("Hello", stream=True)
    with Upstream() as upstream:
        upstream.use("weather", flood_mb=2)
        with recorded(log, upstream.openai_url) as base:
            said(base, body)
    record = read_record(log)
    found = []
    for is_read in (True, False):
        with replayed(record) as (base, desk), asked(base, body) as response:
            response.read(None if is_read else 1)
        found.append([one.category for one in all_divergences(record, desk.matcher)])

    assert found == [[], ["not_served"]]


def test_what_is_on_its_way_at_the_end_is_given_up(tmp_path: Path) -> None:
    """At once, though its program is still there."""
    log = tmp_path / "run.jsonl"
    with Upstream() as upstream:
        upstream.use("weather", hold=True)
        with contextlib.ExitStack() as stack:
            with recorded(log, upstream.openai_url) as base:
                stack.enter_context(sent(base, question("Hello")))
                upstream.wait_for_open(1)
            upstream.wait_for_hung_up()

    assert kinds(log)[1:] == ["model.asked", "effect.cancelled"]


# --- faults ------------------------------------------------------------------------------------


def test_a_fault_of_the_desk_is_a_500_and_is_raised_at_the_end(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """The program gets no text of ours, the terminal nothing at all."""
    with pytest.raises(RuntimeError, match="unwell"), served(Failing("begin"), ["openai"]) as base:
        status, body = said(base, {})

    assert status == 500
    assert b"unwell" not in body
    assert b"an internal error in Refold" in body
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("place", ["head", "chunk", "end"])
def test_a_fault_on_the_way_never_looks_like_an_answer(
    place: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """A 500 before the head, a broken connection after it."""
    outcomes: list[Any] = []

    def serve_one(url: str) -> None:
        with served(Failing(place, url), ["openai"]) as base:
            try:
                outcomes.append(said(base, question("Hello"))[0])
            except http.client.IncompleteRead as error:
                outcomes.append(type(error))

    with Upstream() as upstream, pytest.raises(RuntimeError, match="unwell"):
        serve_one(upstream.openai_url)

    assert outcomes == [500 if place == "head" else http.client.IncompleteRead]
    assert capfd.readouterr() == ("", "")


def test_a_fault_ends_an_answer_though_its_server_is_silent(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """The program does not wait for the next chunk."""
    ended = threading.Event()

    def half(connection: socket.socket, _head: bytes) -> None:
        head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
        connection.sendall(head + b"1\r\na\r\n")
        ended.wait(TIMEOUT_SECONDS)

    def serve_one(url: str) -> None:
        with served(Failing("chunk", url), ["openai"]) as base:
            with pytest.raises(http.client.IncompleteRead):
                said(base, question("Hello"))
            ended.set()

    with RawServer(half) as server, pytest.raises(RuntimeError, match="unwell"):
        serve_one(server.url)

    assert capfd.readouterr() == ("", "")


class Slow(Failing):
    """A desk whose disk takes its time."""

    def __init__(self, url: str) -> None:
        super().__init__("", url)
        self.waits: queue.Queue[tuple[bool, threading.Event]] = queue.Queue()
        """Whether each that waited for the disk was alone, and what lets it go on."""

    def begin(self, incoming: Incoming) -> Forward | Serve:
        """Pass on."""
        decided = super().begin(incoming)
        assert isinstance(decided, Forward)
        return attrs.evolve(decided, kept=self._kept)

    async def _kept(self, alone: bool, /) -> None:  # noqa: FBT001 - of `Forward.kept`
        told = threading.Event()
        self.waits.put((alone, told))
        await asyncio.to_thread(told.wait, TIMEOUT_SECONDS)


def test_nothing_passes_before_it_is_on_disk() -> None:
    """Neither a request nor the end of an answer; what is not alone lets others go on."""
    with (
        Upstream() as upstream,
        served(desk := Slow(upstream.openai_url), ["openai"]) as base,
        ThreadPoolExecutor() as threads,
    ):
        first = threads.submit(said, base, question("Hello"))
        is_alone, asked_first = desk.waits.get(timeout=TIMEOUT_SECONDS)
        second = threads.submit(said, base, question("Hello"))
        others = [desk.waits.get(timeout=TIMEOUT_SECONDS)]
        assert upstream.received == []
        asked_first.set()
        others.append(desk.waits.get(timeout=TIMEOUT_SECONDS))
        assert len(upstream.received) == 1
        assert not first.done()
        others[0][1].set()
        others.append(desk.waits.get(timeout=TIMEOUT_SECONDS))
        assert len(upstream.received) == 2
        assert not second.done()
        for _, told in others:
            told.set()

        assert [first.result()[0], second.result()[0]] == [200, 200]
    assert (is_alone, [each for each, _ in others]) == (True, [False] * 3)


def test_a_log_that_cannot_be_written_lets_nothing_pass(tmp_path: Path) -> None:
    """The program is told why, and that it need not try again."""
    log = tmp_path / "run.jsonl"
    found: list[Any] = []

    def record_one(upstream: Upstream) -> None:
        with recorded(log, upstream.openai_url) as base:
            log.unlink()
            with asked(base, question("Hello")) as response:
                found.extend([response.status, response.getheader("x-should-retry")])
                found.append(response.read())

    with Upstream() as upstream, pytest.raises(LogPoisoned):
        record_one(upstream)

    assert found[:2] == [500, "false"]
    assert str(log).encode() in found[2]
    assert upstream.received == []


def test_entries_stand_in_the_order_of_completion(tmp_path: Path) -> None:
    """Which is not that of asking."""
    log = tmp_path / "run.jsonl"
    rules = [
        Rule(name="slow", when={"user": "slow"}, then=Reply(text="1"), manner={"hold": True}),
        Rule(name="fast", when={"user": "fast"}, then=Reply(text="2")),
    ]
    with Upstream(rules) as upstream, recorded(log, upstream.openai_url) as base:
        slow = threading.Thread(target=said, args=(base, question("slow")))
        slow.start()
        upstream.wait_for_open(1)
        said(base, question("fast"))
        upstream.release()
        slow.join()

    answers = [entry.call for entry in read_entries(log) if entry.kind == "model.answered"]
    assert answers == ["0/2#1", "0/1#1"]


class Noting(Failing):
    """A desk that is told which addresses lead past the proxy."""

    def __init__(self, url: str) -> None:
        super().__init__("", url)
        self.notes: list[str] = []

    def begin(self, incoming: Incoming) -> Forward | Serve:
        """Pass on."""
        decided = super().begin(incoming)
        assert isinstance(decided, Forward)
        return attrs.evolve(decided, past=self.notes.append)


@pytest.mark.parametrize(("megabytes", "count"), [(1, 0), (9, 1)])
def test_a_body_that_is_too_large_to_look_for_addresses_is_noted(
    megabytes: int, count: int
) -> None:
    body = json.dumps({"text": "x" * (megabytes << 20)}).encode()
    told = ("HTTP/1.1 200 OK", "content-type: application/json", f"content-length: {len(body)}")
    head = "\r\n".join([*told, "", ""]).encode()
    with (
        RawServer(answering(head, body)) as server,
        served(desk := Noting(server.url), ["a"]) as base,
    ):
        answer = said(base, path="/a/files", method="GET")[1]

    assert answer == body
    assert len(desk.notes) == count


HERE = "http://127.0.0.1:1234/word/openai"
THERE = "https://api.example.com/v1"


def at(target: str = "/batches/b?limit=1") -> Addresses:
    return Addresses(f"{THERE}{target}", target, HERE)


@given(
    name=st.sampled_from(["url", "results_url", "fileUri", "next", "href"]),
    rest=st.text(),
    is_escaped=st.booleans(),
)
def test_an_address_in_a_member_comes_back_from_the_proxy(
    name: str, rest: str, *, is_escaped: bool
) -> None:
    """In either spelling of a slash; what follows it stays."""
    said = json.dumps({"a": [{name: f"{THERE}/{rest}"}]})
    body = (said.replace("/", "\\/") if is_escaped else said).encode()

    told = at().answered(body)

    assert json.loads(told) == {"a": [{name: f"{HERE}/{rest}"}]}
    assert at().asked(told) == body
    assert at().past(told) == ""


@for_each(
    "body",
    [
        {"text": f"{THERE}/chat"},
        {"content": f"see {THERE}/chat"},
        {"url": f"{THERE}2/chat"},
        {"url": f"{THERE}.evil.com/chat"},
        {"url": f"x {THERE}/chat"},
        {"url": ["https://api.example.org/v1/chat"]},
    ],
)
def test_texts_and_other_servers_stay_as_they_are(body: Any) -> None:
    """A model may have written the address of its server."""
    content = json.dumps(body).encode()

    assert at().answered(content) == content


def test_a_place_at_the_server_that_no_route_reaches_is_named() -> None:
    """Requests there bypass the proxy."""
    body = {"a": {"url": "https://api.example.com/files/1?sig=x"}}

    assert at().past(json.dumps(body).encode()) == "https://api.example.com/files/1"


class _Server(BaseHTTPRequestHandler):
    """Tells the program where to go on: in a header, in a member, in a member of that."""

    protocol_version = "HTTP/1.1"

    def _answer(self, body: Any, **headers: str) -> None:
        content = json.dumps(body).encode()
        self.send_response(200)
        for name, value in {"content-type": "application/json", **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_POST(self) -> None:
        """Begin an upload, or take it."""
        body = self.rfile.read(int(self.headers["content-length"]))
        base = f"http://{self.headers['host']}"
        if b"begin" in body:
            self._answer({}, x_goog_upload_url=f"{base}/v1/upload?id=1")
        else:
            self._answer({"file": {"uri": f"{base}/v1/files/1"}, "was": body.decode()})

    def do_GET(self) -> None:
        """Give the file."""
        self._answer({"text": "tide"})

    def log_message(self, *_: Any) -> None:
        """Print nothing."""


@contextmanager
def _serving() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Server)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _followed(base: str) -> list[Any]:
    """Go wherever the answers lead; each address is used as it is."""

    def said(method: str, url: str, body: Any = None) -> tuple[Any, Any]:
        place = urlsplit(url)
        connection = http.client.HTTPConnection(place.netloc, timeout=60)
        path = place._replace(scheme="", netloc="").geturl()
        connection.request(method, path, body and json.dumps(body), KEY)
        answer = connection.getresponse()
        found = json.loads(answer.read())
        connection.close()
        return answer.headers, found

    headers, _ = said("POST", f"{base}/openai/begin", "begin")
    _, told = said("POST", headers["x-goog-upload-url"], "tide")
    _, used = said("POST", f"{base}/openai/generate", {"uri": told["file"]["uri"]})
    return [said("GET", told["file"]["uri"])[1], json.loads(used["was"])["uri"]]


def test_a_program_that_follows_addresses_stays_in_the_record(tmp_path: Path) -> None:
    """All four requests are in it; a replay serves them without the server."""
    log = tmp_path / "run.jsonl"
    with _serving() as upstream:
        with recorded(log, upstream) as base:
            found, named = _followed(base)
        assert named == f"{upstream}/files/1"  # what the server was told

    with replayed(log) as (again, desk):
        assert _followed(again)[0] == found == {"text": "tide"}
    assert desk.served == 4
