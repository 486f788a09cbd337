"""Addresses of a server are places at the proxy for the program, in a record and in its replay."""

import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from hypothesis import given
from hypothesis import strategies as st

from refold.proxy.http.addresses import Addresses
from tests.support.loops import for_each
from tests.support.proxied import KEY, recorded, replayed

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
