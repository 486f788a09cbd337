"""The page from loopback: who may ask, and that what is sent is what lies on disk."""

import contextlib
import json
import threading
from collections.abc import Iterator
from email.message import Message
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from refold.page.document import page
from refold.page.server import Server

TOKEN = "a-token"


class _Runs:
    def __init__(self, log: Path) -> None:
        self._logs = {"one": log}

    def rows(self) -> list[dict[str, Any]]:
        return [{"id": name} for name in self._logs]

    def log(self, run: str) -> Path:
        return self._logs[run]


@pytest.fixture
def served(survey_log: Path, tmp_path: Path) -> Iterator[tuple[Server, Path]]:
    log = tmp_path / survey_log.name
    for path in survey_log.parent.glob("*.jsonl"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    with Server(_Runs(log), TOKEN) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server, log
        server.shutdown()


def _get(
    server: Server, path: str, *, token: str = TOKEN, host: str = ""
) -> tuple[int, Message, bytes]:
    connection = HTTPConnection("127.0.0.1", server.server_port, timeout=60)
    with contextlib.closing(connection):
        address = f"/{path}{'&' if '?' in path else '?'}token={token}"
        connection.request("GET", address, headers={"Host": host} if host else {})
        reply = connection.getresponse()
        return reply.status, reply.headers, reply.read()


@pytest.mark.parametrize(
    ("token", "host", "path", "status"),
    [
        ("", "", "", 403),
        ("a-tokem", "", "runs", 403),
        (TOKEN, "evil.example", "runs", 403),
        (TOKEN, "", "etc/passwd", 404),
        (TOKEN, "", "page", 404),
        (TOKEN, "", "page?log=../secret", 404),
        (TOKEN, "", "raw?log=one&n=99", 404),
        (TOKEN, "", "raw?log=one&n=-1", 404),
        (TOKEN, "", "raw?log=one&n=x", 404),
        (TOKEN, "", "blob?log=one&digest=00", 404),
    ],
)
def test_who_has_no_token_or_asks_for_what_is_not_listed_gets_nothing(
    served: tuple[Server, Path], token: str, host: str, path: str, status: int
) -> None:
    assert _get(served[0], path, token=token, host=host)[0] == status


def test_the_page_allows_nothing_but_itself(served: tuple[Server, Path]) -> None:
    _, headers, text = _get(served[0], "")

    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "connect-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert b'"live": true' in text


def test_the_document_and_the_bytes_are_those_of_the_log(served: tuple[Server, Path]) -> None:
    server, log = served

    shown = json.loads(_get(server, "page?log=one")[2])
    parts = [_get(server, f"raw?log=one&n=0&from={at}&to={at + 500}")[2] for at in (0, 500)]

    assert shown == json.loads(json.dumps(page(log).document))
    assert b"".join(parts) == log.read_bytes()[:1000]
    assert json.loads(_get(server, "runs")[2]) == {"runs": [{"id": "one"}]}


@pytest.mark.parametrize("is_known", [True, False])
def test_a_log_that_grows_is_told(served: tuple[Server, Path], is_known: bool) -> None:  # noqa: FBT001 - a case
    """Also where it has grown before anybody listened."""
    server, log = served
    whole, sizes = log.read_bytes(), [path.stat().st_size for path in log.parent.iterdir()]
    log.write_bytes(whole[: whole.rindex(b"\n", 0, -1) + 1])
    connection = HTTPConnection("127.0.0.1", server.server_port, timeout=60)

    with contextlib.closing(connection):
        more = "" if is_known else f"&bytes={sum(sizes) - 7}"
        connection.request("GET", f"/events?log=one&token={TOKEN}{more}")
        with connection.getresponse() as stream:
            assert is_known == (stream.readline() == b": still there\n")
            log.write_bytes(whole)
            documents = (json.loads(line[6:]) for line in stream if line.startswith(b"data: "))
            statuses = (each["page"]["tree"]["status"] for each in documents)
            assert "completed" in statuses
