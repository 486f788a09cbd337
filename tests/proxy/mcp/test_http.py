"""MCP on streamable HTTP passes through, is recorded, and is served with the server absent.

(CONTRACT.md §16.11.)
"""

import http.client
import json
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import refold
from refold.engine.errors import UsageError
from refold.engine.log.reader import read_entries
from refold.proxy.mcp.http import _event, proxy_url
from refold.proxy.mcp.parties import Sent
from tests.support.forging import forged
from tests.support.loops import for_each
from tests.support.mcp_clients import entries, kinds
from tests.support.mcp_streams import (
    HttpClient,
    McpHttp,
    events,
    mcp_http,
    proxied,
)
from tests.support.proxied import RawServer, answering

NOWHERE = "http://127.0.0.1:9/mcp"


def twice(log: Path, use: Any) -> tuple[Any, Any]:
    """Return what a client is told while it is recorded, and from the record."""
    with mcp_http() as server, proxied(server.url, log=log) as (client, _):
        before = use(client)
    with proxied(NOWHERE, replay=log) as (client, done):
        now = use(client)
    assert done[0].report is not None
    assert [str(one) for one in done[0].report.divergences] == []
    assert refold.verify(log).complete
    return before, now


def test_a_call_answered_as_json(tmp_path: Path) -> None:
    """The same events as on standard input and output."""
    log = tmp_path / "log.jsonl"

    before, now = twice(log, lambda client: client.called("echo", text="høy"))

    assert before == now
    assert before[0] == 200
    assert before[1]["result"] == {"content": [{"type": "text", "text": "høy"}]}
    called = next(each for each in entries(log) if each.kind == "tool.called")
    assert (called.call, called.data["tool"]) == ("0/mcp-tiny#1", "echo")
    assert kinds(log) == ["tool.called", "tool.returned"]


def test_a_call_answered_as_a_stream(tmp_path: Path) -> None:
    """Notifications before the response, in their stream; the token is that of now."""
    log = tmp_path / "log.jsonl"

    def use(client: HttpClient) -> Any:
        with client.tool("progress", {"progressToken": 5}) as answer:
            return list(events(answer))

    before, now = twice(log, use)

    assert now == before
    assert [each.get("method") for each in before] == ["notifications/progress", None]
    assert kinds(log) == ["tool.called", "server notification", "tool.returned"]


def test_a_server_asks_back_in_the_stream_of_a_call(tmp_path: Path) -> None:
    """The client answers by another request, and the stream goes on."""
    log = tmp_path / "log.jsonl"

    def use(client: HttpClient) -> Any:
        with client.tool("ask") as answer:
            stream = events(answer)
            asked = next(stream)
            status = client.responded(asked["id"], {"action": "accept"})
            return [asked["method"], status, list(stream)]

    before, now = twice(log, use)

    assert now == before
    assert before[1] == 202
    assert before[2][-1]["result"]["content"][0]["text"] == '{"action": "accept"}'


def test_what_belongs_to_no_request_comes_by_the_stream_of_a_get(tmp_path: Path) -> None:
    """It is recorded beside, and said again to whoever opens that stream."""
    log = tmp_path / "log.jsonl"

    def use(client: HttpClient) -> Any:
        client.called("echo", text="a")
        with client.request("GET") as answer:
            return next(events(answer))

    before, now = twice(log, use)

    assert now == before
    assert before["method"] == "notifications/resources/list_changed"


def test_a_stream_that_broke_is_taken_up_by_another(tmp_path: Path) -> None:
    """In a replay nothing breaks, and the response comes at once."""
    log = tmp_path / "log.jsonl"

    def use(client: HttpClient) -> Any:
        with client.tool("broken") as answer:
            if answer.headers["content-type"] == "application/json":
                return json.loads(answer.read())["result"]
            with pytest.raises(http.client.IncompleteRead):
                answer.read()
        with client.request("GET", more={"last-event-id": "e-1"}) as answer:
            return next(events(answer))["result"]

    before, now = twice(log, use)

    assert before == now == {"content": [{"type": "text", "text": "done"}]}
    assert kinds(log) == ["tool.called", "tool.returned", "server response"]


def test_a_notification_is_accepted_and_a_session_ends(tmp_path: Path) -> None:
    """Status 202, and that of DELETE; each session is a connection."""
    log = tmp_path / "log.jsonl"

    def use(client: HttpClient) -> Any:
        with client.posted("initialize", params={}) as answer:
            answer.read()
            session = answer.headers["mcp-session-id"]
        own = HttpClient(client.url, mcp_session_id=session)
        with own.posted("notifications/initialized", id=None) as answer:
            statuses = [answer.status]
        with own.request("DELETE") as answer:
            return [*statuses, answer.status, bool(session)]

    before, now = twice(log, use)

    assert before == now == [202, 200, True]


def test_each_session_of_a_replay_has_an_id_of_its_own(tmp_path: Path) -> None:
    """Also one that begins when another has ended."""
    log = tmp_path / "log.jsonl"

    def begun(client: HttpClient) -> str:
        with client.posted("initialize", params={}) as answer:
            answer.read()
            return str(answer.headers["mcp-session-id"])

    def use(client: HttpClient) -> list[str]:
        first, second = begun(client), begun(client)
        with HttpClient(client.url, mcp_session_id=first).request("DELETE"):
            return [first, second, begun(client)]

    _, now = twice(log, use)

    assert len(set(now)) == 3


@pytest.mark.parametrize(("tool", "status"), [("locked", 401), ("text", 200)])
def test_what_comes_in_the_place_of_a_response_comes_again(
    tmp_path: Path, tool: str, status: int
) -> None:
    """A status, a type and a text are recorded as an error."""
    log = tmp_path / "log.jsonl"

    before, now = twice(log, lambda client: client.called(tool))

    assert before == now
    assert before[0] == status
    returned = next(each for each in entries(log) if each.kind == "tool.returned")
    assert returned.data["error"]["code"] == f"http_{status}"
    result = returned.data["result"]
    assert result.keys() == {"status", "content_type", "text"}
    assert (result["status"], result["text"]) == before


@pytest.mark.parametrize(
    ("forgery", "status"),
    [
        ({"status": 101}, 502),
        ({"status": 204}, 502),
        ({"status": 304}, 502),
        ({"status": 10**9}, 502),
        ({"status": "401"}, 502),
        ({"status": None}, 502),
        ({"status": [200]}, 502),
        ({"status": 307, "content_type": "a\r\nlocation: http://127.0.0.1:9/"}, 307),
        ({"content_type": "a\u2028b"}, 401),
    ],
)
def test_a_forged_failure_leads_no_client_elsewhere(
    tmp_path: Path, forgery: dict[str, Any], status: int
) -> None:
    """What is no status of an answer is 502, what is no value of a header is left out."""
    log, other = tmp_path / "log.jsonl", tmp_path / "forged.jsonl"
    with mcp_http() as server, proxied(server.url, log=log) as (client, _):
        before = client.called("locked")

    def change(kind: str, data: dict[str, Any]) -> None:
        if kind == "tool.returned":
            data["result"].update(forgery)

    with proxied(NOWHERE, replay=forged(log, other, change)) as (client, _):
        assert client.called("locked") == (status, before[1])


def test_a_message_of_several_lines_is_one_event() -> None:
    """A forged one says no other field of the stream: no `event: endpoint`, and no `retry`."""
    text = b'{"a":\n1}\r\nevent: endpoint\rdata: http://127.0.0.1:9/\nretry: 9'

    assert _event(Sent(content=text)).split(b"\n") == [
        b"event: message", b'data: {"a":', b"data: 1}", b"data: event: endpoint",
        b"data: data: http://127.0.0.1:9/", b"data: retry: 9", b"", b"",
    ]  # fmt: skip


def test_a_server_that_cannot_be_reached_is_an_error(tmp_path: Path) -> None:
    """Status 502 for the client; `connection` in the log."""
    log = tmp_path / "log.jsonl"

    with proxied(NOWHERE, log=log) as (client, _):
        status, _text = client.called("echo", text="a")

    assert status == 502
    returned = next(each for each in entries(log) if each.kind == "tool.returned")
    assert returned.data["error"]["code"] == "connection"
    result = returned.data["result"]
    assert (result["status"], result["content_type"]) == (502, "text/plain")
    assert result["text"].startswith("refold: ")


def test_a_client_that_leaves_a_stream_has_given_up(tmp_path: Path) -> None:
    """`effect.cancelled`, and nothing else of the call."""
    log = tmp_path / "log.jsonl"

    with mcp_http() as server, proxied(server.url, log=log) as (client, _):
        with client.tool("never") as answer:
            assert answer.status == 200
        client.called("echo", text="on")

    cancelled = [each for each in entries(log) if each.kind == "effect.cancelled"]
    assert [each.call for each in cancelled] == ["0/mcp-tiny#1"]


def test_equal_ids_of_clients_without_a_session_are_told_apart(tmp_path: Path) -> None:
    """A response belongs to the request that it answers, by the stream that it comes by."""
    log = tmp_path / "log.jsonl"

    def use(client: HttpClient) -> Any:
        other = HttpClient(client.url)
        with client.tool("ask") as answer:
            stream = events(answer)
            asked = next(stream)
            said = other.called("echo", text="beside")[1]["result"]["content"][0]["text"]
            client.responded(asked["id"], 1)
            return [said, list(stream)[-1]["result"]]

    before, now = twice(log, use)

    assert now == before
    assert before[0] == "beside"


def test_what_authorises_passes_and_is_in_no_log(tmp_path: Path) -> None:
    """Where it comes back, it is taken out."""
    log = tmp_path / "log.jsonl"

    def asked(server: McpHttp) -> str:
        return next(value for _, headers in server.received for name, value in headers.items()
                    if name.lower() == "authorization")  # fmt: skip

    with mcp_http() as server, proxied(server.url, log=log) as (client, _):
        client.called("echo", text="it is token-1234567890")
        assert asked(server) == "Bearer token-1234567890"

    assert b"token-1234567890" not in log.read_bytes()
    assert b"[redacted:authorization]" in log.read_bytes()


def test_what_was_not_recorded_is_refused(tmp_path: Path) -> None:
    """With an error of JSON-RPC that names the nearest call, and a report."""
    log = tmp_path / "log.jsonl"
    with mcp_http() as server, proxied(server.url, log=log) as (client, _):
        client.called("echo", text="a")

    with proxied(NOWHERE, replay=log) as (client, done):
        status, said = client.called("echo", text="b")

    assert status == 200
    assert said["error"]["code"] == -32000
    assert 'echo {"text": "a"} (0/mcp-tiny#1)' in said["error"]["message"]
    assert done[0].report is not None
    assert [one.category for one in done[0].report.divergences] == ["args_changed"]


def test_a_url_is_asked_for(tmp_path: Path) -> None:
    """Anything else is refused before anything is listened to."""
    with pytest.raises(UsageError, match="expected http"):
        proxy_url("host/mcp", log=tmp_path / "log.jsonl")


def test_no_page_and_nobody_without_the_word_reaches_the_server(tmp_path: Path) -> None:
    """The server may change the world, and the client's token goes with each request."""
    word = "a-word-of-our-own"
    with mcp_http() as server, proxied(server.url, log=tmp_path / "a.jsonl", word=word) as made:
        client, _ = made
        assert urlsplit(client.url).path == f"/{word}/mcp"
        told = []
        for url, more in (
            (client.url, {"origin": "http://evil.example"}),
            (client.url, {"host": "evil.example"}),
            (client.url.replace(word, "another-word-of-it"), {}),
            (f"{client.url}/../../x", {}),
            (client.url, {}),
        ):
            with HttpClient(url, **more).tool("echo", text="a") as answer:
                told.append(answer.status)

    assert told == [403, 403, 403, 403, 200]
    assert [one.kind for one in read_entries(tmp_path / "a.jsonl")].count("tool.called") == 1


@for_each("below", [".evil.example", "@127.0.0.1:9/", "/@127.0.0.1:9", "/a?b=1", "/"])
def test_what_stands_below_names_no_other_server(below: str, tmp_path: Path) -> None:
    """A server's URL without a path is no beginning of another's."""
    with RawServer(answering(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n")) as server:
        with (
            proxied(server.url, log=tmp_path / "a.jsonl") as (client, _),
            HttpClient(client.url + below).request("GET") as answer,
        ):
            status = answer.status
        heads = [head.split(b" ")[1].decode() for head in server.heads]

    is_below = below.startswith("/")
    assert (status, heads) == ((202, [below]) if is_below else (404, []))
