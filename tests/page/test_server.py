"""The page from loopback: who may ask, and that what is sent is what lies on disk."""

import contextlib
import json
import os
import socket
import threading
from collections.abc import Iterator
from email.message import Message
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.engine.log.lock import lock
from refold.page.document import page
from refold.page.server import CONNECTIONS_MAX, PAGES_MAX, Server, patch

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
        (TOKEN, "", "page?log=one&other=../secret", 404),
        (TOKEN, "", "part?log=one&name=agents", 404),
        (TOKEN, "", "part?log=one&name=links", 200),
        (TOKEN, "", "raw?log=one&run=0123456789abcdef", 404),
        (TOKEN, "", "raw?log=one&run=../a.jsonl", 404),
        (TOKEN, "", "?log=two", 404),
        (TOKEN, "", "blob?log=one&digest=00", 404),
        (TOKEN, "", "raw?log=one&from=9223372036854775807", 416),
        (TOKEN, "", "raw?log=one&from=1" + "0" * 99, 416),
        (TOKEN, "", "raw?log=one&from=-1&to=-9", 200),
        (TOKEN, "", "raw?log=one&to=1" + "0" * 99, 200),
    ],
)
def test_who_has_no_token_or_asks_for_what_is_not_listed_gets_nothing(
    served: tuple[Server, Path], token: str, host: str, path: str, status: int
) -> None:
    assert _get(served[0], path, token=token, host=host)[0] == status


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET http://[/ HTTP/1.1\r\n\r\n", b"400"),
        (b"GET //[x/?token=a HTTP/1.1\r\n\r\n", b"403"),
        (b"GET / HTTP/9.9\r\n\r\n", b"505"),
        (b"\x16\x03\x01\r\n\r\n", b"400"),
        (b"", b""),
    ],
)
def test_what_is_no_request_is_answered_or_left_quietly(
    served: tuple[Server, Path], sent: bytes, status: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    """Without a token, and with nothing said in the terminal."""
    with socket.create_connection(("127.0.0.1", served[0].server_port), timeout=60) as connection:
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        with contextlib.closing(connection.makefile("rb")) as file:
            said = file.read()

    assert status in said
    assert bool(said) is bool(status)
    assert "Traceback" not in capfd.readouterr().err


def test_a_page_that_cannot_be_made_is_said_and_the_log_left(
    served: tuple[Server, Path], capfd: pytest.CaptureFixture[str]
) -> None:
    """A folder in the place of a log: an answer, and no traceback in the terminal."""
    server, log = served
    log.unlink()
    log.mkdir()

    assert _get(server, "page?log=one")[0] in (404, 422, 500)
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.long
def test_who_only_connects_is_closed(survey_log: Path) -> None:
    """After its time; at once where as many as are served do so already."""
    with (
        contextlib.ExitStack() as stack,
        Server(_Runs(survey_log), TOKEN, idle_seconds=0.2) as server,
    ):
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        before, address = threading.active_count(), ("127.0.0.1", server.server_port)
        many = [
            stack.enter_context(socket.create_connection(address, timeout=60))
            for _ in range(4 * CONNECTIONS_MAX)
        ]
        most = threading.active_count() - before
        ends = [each.recv(1) for each in many]
        status = _get(server, "runs")[0]
        server.shutdown()

    assert most <= CONNECTIONS_MAX
    assert ends == [b""] * len(many)
    assert status == 200


def test_the_last_pages_are_kept(survey_log: Path, tmp_path: Path) -> None:
    """So that whoever looks at many runs fills no memory."""
    logs = [tmp_path / f"{number}.jsonl" for number in range(PAGES_MAX + 1)]
    for log in logs:
        log.write_bytes(survey_log.read_bytes())
    with Server(_Runs(logs[0]), TOKEN) as server:
        made = [server.page(log) for log in logs]

        assert server.page(logs[1]) is made[1]
        assert server.page(logs[-1]) is made[-1]
        assert server.page(logs[0]) is not made[0]
        assert server.page(logs[1]) is made[1]
        assert server.page(logs[2]) is not made[2]


def test_a_run_that_is_not_there_is_answered_with_words(served: tuple[Server, Path]) -> None:
    status, headers, text = _get(served[0], "?log=two")

    assert (status, headers["Content-Type"]) == (404, "text/plain; charset=utf-8")
    assert text.decode() == f"Run 'two' was not found. All runs: /?token={TOKEN}"


def _running(server: Server, log: Path) -> tuple[int, Any]:
    """Let a log be one of a run that goes on; return its writer's descriptor, and its page."""
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:3]))
    writer = os.open(log, os.O_RDWR)
    lock(writer, log)
    return writer, json.loads(_get(server, "page?log=one")[2])


def test_a_run_that_loses_its_writer_is_told_though_no_byte_came(
    served: tuple[Server, Path],
) -> None:
    """It is running, and then it broke off."""
    server, log = served
    writer, shown = _running(server, log)
    connection = HTTPConnection("127.0.0.1", server.server_port, timeout=60)

    with contextlib.closing(connection):
        connection.request("GET", f"/events?log=one&token={TOKEN}&made={shown['made']}")
        with connection.getresponse() as stream:
            assert stream.readline() == b": still there\n"
            os.close(writer)
            line = next(line for line in stream if line.startswith(b"data: "))

    later = patched(shown, json.loads(line[6:]))
    statuses = [each["agents"][0]["status"] for each in (shown, later)]
    assert statuses == ["running", "broke_off"]


def test_a_tab_is_told_of_a_document_that_was_made_before_it_listened(
    served: tuple[Server, Path],
) -> None:
    """Though no log has grown since: its writer left between the page and the first look."""
    server, log = served
    writer, shown = _running(server, log)
    os.close(writer)
    later = json.loads(_get(server, "page?log=one")[2])
    connection = HTTPConnection("127.0.0.1", server.server_port, timeout=60)

    with contextlib.closing(connection):
        connection.request("GET", f"/events?log=one&token={TOKEN}&made={shown['made']}")
        with connection.getresponse() as stream:
            told = json.loads(next(line for line in stream if line.startswith(b"data: "))[6:])

    statuses = [each["agents"][0]["status"] for each in (shown, later)]
    assert statuses == ["running", "broke_off"]
    assert told == {"=": later}


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
    root = shown["logs"][0]["id"]
    parts = [_get(server, f"raw?log=one&run={root}&from={at}&to={at + 500}")[2] for at in (0, 500)]

    assert shown.pop("made") == 1
    assert shown == json.loads(json.dumps(page(log).document))
    assert b"".join(parts) == log.read_bytes()[:1000]
    assert json.loads(_get(server, "runs")[2]) == {"runs": [{"id": "one"}]}


@pytest.mark.parametrize("is_known", [True, False])
def test_a_log_that_grows_is_told(served: tuple[Server, Path], is_known: bool) -> None:  # noqa: FBT001 - a case
    """Also where it has grown before anybody listened."""
    server, log = served
    whole = log.read_bytes()
    log.write_bytes(whole[: whole.rindex(b"\n", 0, -1) + 1])
    shown = json.loads(_get(server, "page?log=one")[2])
    connection = HTTPConnection("127.0.0.1", server.server_port, timeout=60)

    with contextlib.closing(connection):
        more = f"&made={shown['made'] if is_known else 0}"
        connection.request("GET", f"/events?log=one&token={TOKEN}{more}")
        with connection.getresponse() as stream:
            assert is_known == (stream.readline() == b": still there\n")
            log.write_bytes(whole)
            for line in stream:
                if line.startswith(b"data: "):
                    shown = patched(shown, json.loads(line[6:]))
                    if shown["agents"][0]["status"] == "completed":
                        break
            assert shown == json.loads(_get(server, "page?log=one")[2])


_VALUES: Any = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(0, 2)
    | st.sampled_from(["", "a", "=", "~", "__proto__"]),
    lambda inside: (
        st.lists(inside, max_size=4)
        | st.dictionaries(st.sampled_from(["a", "b", "=", "~", "n", "-", "0"]), inside, max_size=4)
    ),
    max_leaves=12,
)


def patched(value: Any, change: Any) -> Any:
    """Return the value after a patch, as `apply` of `model.js` does."""
    if "=" in change:
        return change["="]
    if isinstance(value, list):
        made = {str(at): each for at, each in enumerate(value[: change["n"]])}
        made |= {at: patched(made.get(at), each) for at, each in change["~"].items()}
        return [made[str(at)] for at in range(change["n"])]
    found = {name: each for name, each in value.items() if name not in change["-"]}
    return found | {name: patched(value.get(name), each) for name, each in change["~"].items()}


@given(_VALUES, _VALUES)
def test_a_patch_makes_one_value_of_another(before: Any, after: Any) -> None:
    change = patch(before, after)

    made = before if change is None else patched(before, change)
    assert (made, str(made)) == (after, str(after)) or sorted(str(made)) == sorted(str(after))
    assert (change is None) == (patch(after, before) is None)


def test_only_what_changed_is_in_a_patch() -> None:
    steps = [{"n": n} for n in range(1000)]
    before = {"agents": [{"steps": steps}, {"steps": []}]}
    after = {"agents": [{"steps": [*steps, {"n": 1000}]}, {"steps": []}]}

    assert patch(before, after) == {
        "~": {
            "agents": {
                "~": {
                    "0": {"~": {"steps": {"~": {"1000": {"=": {"n": 1000}}}, "n": 1001}}, "-": []}
                },
                "n": 2,
            }
        },
        "-": [],
    }
