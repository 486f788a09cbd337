"""Each request and each answer is written down as it passed, whole, in order, and without fault."""

import base64
import gzip
import json
import socket
import threading
from pathlib import Path
from urllib.parse import quote

import pytest

import refold
from refold.engine.log.reader import read_entries
from refold.engine.wire.parts.framing import FRAMES, FrameParser, frame_of
from refold.proxy.desks.keys import ADDRESS, Secrets
from refold.proxy.desks.recording import RecordingDesk
from refold.proxy.desks.replaying import Nowhere
from refold.proxy.http.turns import Incoming
from tests.support.loops import some
from tests.support.proxied import (
    KEY,
    TIMEOUT_SECONDS,
    RawServer,
    all_bytes,
    answering,
    asked,
    data_of,
    kinds,
    question,
    recorded,
    replayed,
    said,
)
from tests.support.upstream import Upstream

ANSWERED = ["x-refold.conversation", "model.asked", "x-refold.wire", "model.answered"]
JSON = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: application/json\r\n"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    "path", ["/openai/chat/completions", "/openai/responses", "/openai/messages"]
)
def test_a_request_and_its_answer_are_two_events(
    path: str, tmp_path: Path, *, stream: bool
) -> None:
    """And how it came over the wire a third, before the answer."""
    log = tmp_path / "run.jsonl"
    bodies = {
        "/openai/chat/completions": question("Hello", stream=stream),
        "/openai/responses": {
            "model": "small", "input": "Hello", "stream": stream,
            "instructions": "the weather desk",
        },
        "/openai/messages": {
            "model": "small", "system": "the weather desk", "max_tokens": 9, "stream": stream,
            "messages": [{"role": "user", "content": "Hello"}],
        },
    }  # fmt: skip
    with Upstream() as upstream, recorded(log, upstream.openai_url) as base:
        status, body = said(base, bodies[path], path=path)

    (answer,) = data_of(log, "model.answered")
    (wire,) = data_of(log, "x-refold.wire")
    assert status == 200
    assert kinds(log) == ANSWERED
    assert answer["message"]["content"] == "Hello! Which city do you ask about?"
    assert (wire["status"], wire["end"], wire["text"]) == (200, "whole", body.decode())
    assert refold.verify(log).complete


def test_a_login_passes_and_is_never_written(tmp_path: Path) -> None:
    """The token of a subscription, as a header and where the model repeats it, packed or not."""
    log = tmp_path / "run.jsonl"
    token = f"sk-ant-oat01-{'Xq7-v2_' * 9}AA"
    body = {
        "model": "small",
        "system": "the weather desk",
        "max_tokens": 9,
        "messages": [{"role": "user", "content": f"Hello {token} {quote(token)}"}],
    }
    heads = {"authorization": f"Bearer {token}", "anthropic-beta": "oauth-2025-04-20"}
    answer = {"type": "message", "role": "assistant", "stop_reason": "end_turn"}
    content = [{"type": "text", "text": f"Your token is {token}."}]
    told = json.dumps({**answer, "content": content, "usage": {}}).encode()
    whole = JSON + f"content-length: {len(told)}\r\n\r\n".encode() + told
    with RawServer(answering(whole)) as server, recorded(log, server.url) as base:
        status, passed = said(base, body, path="/anthropic/v1/messages", headers=heads)
        head = server.heads[0]
    with replayed(log) as (base, _):
        again, _ = said(base, body, path="/anthropic/v1/messages", headers=heads)

    assert (status, again, passed) == (200, 200, told)
    assert f"authorization: Bearer {token}".encode() in head
    assert b"anthropic-beta: oauth-2025-04-20" in head
    written = all_bytes(tmp_path)
    assert token.encode() not in written
    assert token[13:].encode() not in written
    assert b"Hello [redacted:" in written


CLAUDE = {
    "anthropic_version": "bedrock-2023-05-31",
    "max_tokens": 9,
    "messages": [{"role": "user", "content": "Hello"}],
}
SIGNED = {"authorization": "AWS4-HMAC-SHA256 Credential=AKIA/eu/bedrock, Signature=5d6"}


@pytest.mark.parametrize(
    ("more", "headers", "what_to_do"),
    [
        ("", SIGNED, "AWS_BEARER_TOKEN_BEDROCK"),
        ("?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Signature=5d6", {}, "AWS_BEARER_TOKEN_BEDROCK"),
        ("", {}, "set AWS_REGION"),
    ],
    ids=["signed", "presigned", "nowhere"],
)
def test_what_cannot_pass_is_refused_by_name(
    more: str, headers: dict[str, str], what_to_do: str, tmp_path: Path
) -> None:
    """At the first request, in the form of its interface; no server hears of it."""
    log = tmp_path / "run.jsonl"
    path = f"/bedrock/model/anthropic.claude-v1:0/invoke{more}"
    with Upstream() as upstream, recorded(log, upstream.openai_url) as base:
        status, body = said(base, CLAUDE, path=path, headers=headers)
        heard = upstream.received
    with replayed(log) as (base, _):
        again = said(base, CLAUDE, path=path)

    assert (status, heard) == (400, [])
    assert again == (status, body)
    assert what_to_do in json.loads(body)["error"]["message"]
    (answer,) = data_of(log, "model.answered")
    assert answer["error"]["code"] == "refused"
    assert what_to_do in answer["error"]["message"]


@pytest.mark.parametrize(
    "body",
    [b"", b"\xff\xfe", b"[1, 2", b'{"messages": 3}', b'{"a": 1, "a": 2}', b'"\\ud800"', b"{}" * 9],
)
def test_a_request_that_makes_no_sense_passes_and_is_matched(body: bytes, tmp_path: Path) -> None:
    log = tmp_path / "run.jsonl"
    answer = JSON + b"content-length: 2\r\n\r\n{}"
    with RawServer(answering(answer)) as server, recorded(log, server.url) as base:
        first = said(base, body)
    with replayed(log) as (base, desk):
        second = said(base, body)

    assert first == second == (200, b"{}")
    assert desk.matcher.misses == []
    assert refold.verify(log).complete


@pytest.mark.parametrize(
    "answer", [b"", b"\xff\xfe\x00", b"{", b"null", b'{"choices": 3}', b"x" * 300_000]
)
def test_an_answer_that_makes_no_sense_passes_and_is_served(answer: bytes, tmp_path: Path) -> None:
    """Byte by byte; the event says that it is malformed."""
    log = tmp_path / "run.jsonl"
    head = JSON + b"content-length: %d\r\n\r\n" % len(answer)
    with RawServer(answering(head, answer)) as server, recorded(log, server.url) as base:
        first = said(base, question("Hello"))
    with replayed(log) as (base, _):
        second = said(base, question("Hello"))

    assert first == second == (200, answer)
    assert data_of(log, "model.answered")[0]["status"] == "error"
    assert refold.verify(log).complete


@pytest.mark.parametrize("status", [204, 304, 401, 529])
def test_any_status_is_kept(status: int, tmp_path: Path) -> None:
    log = tmp_path / "run.jsonl"
    answer = f"HTTP/1.1 {status} X\r\nretry-after: 3\r\nx-secret: 1\r\n\r\n".encode()
    with RawServer(answering(answer)) as server, recorded(log, server.url) as base:
        first = said(base, question("Hello"))[0]
    with replayed(log) as (base, _), asked(base, question("Hello")) as response:
        second = response.status, response.getheader("retry-after"), response.getheader("x-secret")

    assert first == status
    assert second == (status, "3", None)


def test_the_proxys_own_address_is_a_fixed_word(tmp_path: Path) -> None:
    """In requests and answers, so that the next run asks the same; served, it is itself again."""
    log = tmp_path / "run.jsonl"

    def echo(connection: socket.socket, head: bytes) -> None:
        size = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        body = head.partition(b"\r\n\r\n")[2]
        while len(body) < size:
            body += connection.recv(65536)
        connection.sendall(JSON + b"content-length: %d\r\n\r\n" % len(body) + body)

    def ask(base: str) -> bytes:
        place = base.rpartition("/")[0]
        body = said(base, question(f"I am at {base}, {base}/openai, {place} and {place}/other"))[1]
        return body.replace(base.encode(), b"HERE").replace(place.encode(), b"PLACE")

    with RawServer(echo) as server, recorded(log, server.url) as base:
        first = ask(base)
    with replayed(log) as (base, desk):
        second = ask(base)

    assert first == second
    assert b"HERE, HERE/openai, PLACE and PLACE/other" in second
    assert desk.matcher.misses == []
    assert f"http://{ADDRESS}" in json.dumps(data_of(log, "model.asked"))


def test_a_conversation_may_be_named_by_its_program(tmp_path: Path) -> None:
    """With a header that goes no further."""
    log = tmp_path / "run.jsonl"
    with Upstream() as upstream, recorded(log, upstream.openai_url) as base:
        said(base, question("Hello"), headers={"x-refold-conversation": "greeter"})
        (request,) = upstream.received

    assert [each["agent"] for each in data_of(log, "x-refold.conversation")] == ["greeter"]
    assert "x-refold-conversation" not in request.headers


def test_a_long_answer_is_written_while_it_comes(tmp_path: Path) -> None:
    """In parts; none of it waits in memory for the end."""
    log = tmp_path / "run.jsonl"
    with Upstream() as upstream:
        upstream.use("weather", flood_mb=2, hold_after=20)
        body = question("Hello", stream=True)
        with recorded(log, upstream.openai_url) as base, asked(base, body) as response:
            seen = 0
            while seen < 600_000:
                seen += len(response.read1())
            written = [entry.kind for entry in read_entries(log, torn_ok=True)]
            upstream.release()
            response.read()

    assert written.count("x-refold.wire") >= 1


def test_a_secret_that_a_stream_says_in_pieces_is_in_no_piece(tmp_path: Path) -> None:
    """Each of its events is harmless, and together they say it: the answer is spelled anew."""
    log, key = tmp_path / "run.jsonl", "sk-proj-q7Rk2Zt9Xw4LmB8vYc3N55"
    words = ["It is ", *(key[at : at + 5] for at in range(0, len(key), 5)), ", yes"]
    events = [{"choices": [{"index": 0, "delta": {"content": word}}]} for word in words]
    text = "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"
    head = f"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {len(text)}"
    answer = answering(f"{head}\r\n\r\n{text}".encode())
    with RawServer(answer) as server, recorded(log, server.url) as base:
        first = said(base, question("Which key?", stream=True))[1].decode()
    with replayed(log) as (base, _):
        second = said(base, question("Which key?", stream=True))[1].decode()

    (wire,) = data_of(log, "x-refold.wire")
    assert first == text
    assert wire["text"] == second
    assert "It is [redacted:key], yes" in second
    assert key[5:10] not in second


@pytest.mark.parametrize("words", some(1, [1, 1500]))
def test_a_secret_in_a_frame_is_taken_out_and_the_frame_made_anew(
    words: int, tmp_path: Path
) -> None:
    """Of Bedrock's streams, however long: lengths and sums are those of what is kept."""
    log, key = tmp_path / "run.jsonl", KEY["authorization"].removeprefix("Bearer ")
    texts = [*["A word. "] * words, f"It is {key}, yes. ", *["A word. "] * words]
    deltas = [{"type": "text_delta", "text": text} for text in texts]
    frames = [
        {"type": "message_start", "message": {"role": "assistant", "usage": {"input_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *({"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        {"type": "message_stop"},
    ]
    content = b"".join(map(frame_of, frames))
    head = f"HTTP/1.1 200 OK\r\ncontent-type: {FRAMES}\r\ncontent-length: {len(content)}\r\n\r\n"
    asking = {"anthropic_version": "bedrock-2023-05-31", "max_tokens": 9, "messages": []}
    path = "/openai/model/a/invoke-with-response-stream"
    with RawServer(answering(head.encode() + content)) as server, recorded(log, server.url) as base:
        assert said(base, asking, path=path)[1] == content
    with replayed(log) as (base, _):
        second = said(base, asking, path=path)[1]

    read = [json.loads(event.data) for event in FrameParser().feed(second)]
    heard = "".join(each["delta"].get("text", "") for each in read if "delta" in each)
    assert heard.replace("A word. ", "") == "It is [redacted:authorization], yes. "
    assert data_of(log, "model.answered")[0]["status"] == "ok"
    packed = [base64.b64encode(b"x" * at + key.encode())[8:20] for at in range(3)]
    assert not any(each in all_bytes(log) for each in (key.encode(), *packed))
    if words > 1:
        assert len(data_of(log, "x-refold.wire")) > 1
        assert len(read) == len(frames)


_SAID = b'data: {"choices":[{"index":0,"delta":{"content":"Snow."},"finish_reason":"stop"}]}\n\n'
_USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":20,"completion_tokens":10}}\n\n'


def test_a_stream_is_whole_when_all_is_said(tmp_path: Path) -> None:
    """Programs leave at its last event, and do not wait for the end of the connection."""
    log = tmp_path / "run.jsonl"
    stream = _SAID + _USAGE + b"data: [DONE]\n\n"
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
    left = threading.Event()

    def handle(connection: socket.socket, _head: bytes) -> None:
        connection.sendall(head + stream)
        left.wait(TIMEOUT_SECONDS)  # and no end of it

    body = question("Hello", stream=True)
    with RawServer(handle) as server, recorded(log, server.url) as base:
        with asked(base, body) as response:
            seen = response.read(len(stream))
        left.set()
    with replayed(log) as (base, desk):
        again = said(base, body)

    (answer,) = data_of(log, "model.answered")
    assert seen == stream
    assert (answer["message"]["content"], answer["usage"]["input_tokens"]) == ("Snow.", 20)
    assert data_of(log, "x-refold.wire")[0]["end"] == "whole"
    assert (again, desk.matcher.misses) == ((200, stream), [])


def test_a_message_that_was_read_before_is_searched_again_for_what_is_secret_since(
    tmp_path: Path,
) -> None:
    """A key that a request authorises itself with is in nothing that is written from then on."""
    log, key = tmp_path / "run.jsonl", "drawn-and-not-known-at-first"
    body = question(f"My key is {key}")
    longer = {**body, "messages": [*body["messages"], {"role": "user", "content": "Hello"}]}
    with Upstream() as upstream, recorded(log, upstream.openai_url) as base:
        said(base, body)
        said(base, longer)
        said(base, longer, headers={"x-api-key": key})

    added = [entry["added"] for entry in data_of(log, "model.asked")]
    assert [len(each) for each in added] == [2, 1, 2]
    assert added[2][0]["content"] == "My key is [redacted:x-api-key]"
    assert refold.verify(log).complete


def test_a_conversation_that_goes_on_is_not_read_from_its_beginning() -> None:
    """What a request repeats are the objects that were read before, up to the log."""
    desk = RecordingDesk(Nowhere(), Secrets(), ())
    found = [
        desk.read(
            Incoming(
                route="openai", method="POST", target="/chat/completions", headers=(), body=body
            )
        )
        for body in (talk(10), talk(11))
    ]

    before, after = (each.messages for each in found)
    assert all(one is other for one, other in zip(before, after, strict=False))
    assert [len(each.messages) for each in found] == [10, 11]


def talk(count: int) -> bytes:
    messages = [{"role": "user", "content": f"Question {at}"} for at in range(count)]
    return json.dumps({"model": "m", "messages": messages}).encode()


def test_half_a_character_is_escaped_and_no_secret_of_an_address_is_kept(tmp_path: Path) -> None:
    """The server gets both as they came; where nothing follows a path, so does no question mark."""
    log = tmp_path / "run.jsonl"
    body = b'{"input": "\\ud800", "user": "Xq7-v2_Xq7-v2_Xq7"}'
    answer = JSON + b"content-length: 2\r\n\r\n{}"
    with RawServer(answering(answer)) as server, recorded(log, server.url) as base:
        said(base, body, path="/openai/embeddings?api_key=Xq7-v2_Xq7-v2_Xq7")
        said(base, question("Hello"))
        heads = [head.partition(b"\r\n")[0] for head in server.heads]

    first, _ = data_of(log, "model.asked")
    assert heads == [
        b"POST /embeddings?api_key=Xq7-v2_Xq7-v2_Xq7 HTTP/1.1",
        b"POST /chat/completions HTTP/1.1",
    ]
    assert first["parameters"] == {
        "api": "other",
        "method": "POST",
        "path": "/embeddings?api_key=[redacted:api_key]",
        "body": {"input": {"$esc": {"$json": '"\\ud800"'}}, "user": "[redacted:api_key]"},
    }
    assert b"Xq7-v2_Xq7" not in all_bytes(tmp_path)


def test_a_packed_request_is_read_and_passes_as_it_is(tmp_path: Path) -> None:
    log = tmp_path / "run.jsonl"
    packed = gzip.compress(json.dumps(question("Hello")).encode())
    answer = JSON + b"content-length: 2\r\n\r\n{}"
    with RawServer(answering(answer)) as server, recorded(log, server.url) as base:
        said(base, packed, headers={"content-encoding": "gzip"})
        (head,) = server.heads

    (request,) = data_of(log, "model.asked")
    assert request["model"] == "small"
    assert request["added"][-1] == {"role": "user", "content": "Hello"}
    assert b"content-encoding: gzip" in head


def test_a_server_that_is_not_there_is_an_error_of_its_own(tmp_path: Path) -> None:
    """The program is told in JSON, and so is whoever reads the log."""
    log = tmp_path / "run.jsonl"
    with recorded(log, "http://127.0.0.1:9/v1") as base:
        status, body = said(base, question("Hello"))

    (answer,) = data_of(log, "model.answered")
    error = json.loads(body)["error"]
    assert status == 502
    assert error.keys() == {"message", "type"}
    assert error["type"] == f"refold_{answer['error']['code']}"
    assert answer["error"]["message"] in error["message"]
