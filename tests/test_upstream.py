"""The local upstream does what the tests that use it rely on: in content, in manner, in its end."""

import gzip
import http.client
import json
import threading
from collections.abc import Callable
from typing import Any, Final

import pytest

from tests.support.loops import for_each
from tests.support.serving import APIS
from tests.support.traffic import Call, Reply, Rule, all_traffic, rules_in
from tests.support.upstream import PLACEHOLDER_KEY, Upstream

SYSTEM: Final = "You are the weather desk."
KEY: Final = {"authorization": f"Bearer {PLACEHOLDER_KEY}"}
EACH_API = pytest.mark.parametrize("path", APIS)
GREETING: Final = "Hello! Which city do you ask about?"


def body_of(path: str, user: str = "Hello", *, stream: bool = False) -> dict[str, Any]:
    """Return a request of the weather desk, in the interface of that path."""
    turn = [{"role": "user", "content": user}]
    shapes: dict[str, dict[str, Any]] = {
        "/v1/chat/completions": {"messages": [{"role": "system", "content": SYSTEM}, *turn]},
        "/v1/responses": {"instructions": SYSTEM, "input": turn},
        "/v1/messages": {"system": SYSTEM, "messages": turn, "max_tokens": 64},
    }
    return {"model": "small", "stream": stream, **shapes[path]}


def ask(
    upstream: Upstream, path: str, body: Any, **headers: str
) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
    """Send a request and return the connection, and the answer as far as its head."""
    connection = http.client.HTTPConnection(upstream.url.removeprefix("http://"), timeout=60)
    connection.request("POST", path, json.dumps(body), {**KEY, **headers})
    return connection, connection.getresponse()


def answer(upstream: Upstream, path: str, body: Any, **headers: str) -> tuple[int, bytes]:
    """Return the status and the body of an answer."""
    connection, response = ask(upstream, path, body, **headers)
    try:
        return response.status, response.read()
    finally:
        connection.close()


def datas(stream: bytes) -> list[Any]:
    """Return the data of all events but `[DONE]`."""
    lines = [line for line in stream.decode().split("\n") if line.startswith("data: ")]
    return [json.loads(line[6:]) for line in lines if line != "data: [DONE]"]


TEXT_OF: Final[dict[str, Callable[[Any], str]]] = {
    "/v1/chat/completions": lambda event: "".join(
        choice["delta"].get("content") or "" for choice in event["choices"]
    ),
    "/v1/responses": lambda event: (
        event["delta"] if event["type"] == "response.output_text.delta" else ""
    ),
    "/v1/messages": lambda event: event.get("delta", {}).get("text", ""),
}
WHOLE_OF: Final[dict[str, Callable[[Any], str]]] = {
    "/v1/chat/completions": lambda body: body["choices"][0]["message"]["content"],
    "/v1/responses": lambda body: body["output"][0]["content"][0]["text"],
    "/v1/messages": lambda body: body["content"][0]["text"],
}


# --- content -----------------------------------------------------------------------------------


@EACH_API
@pytest.mark.parametrize("chunk_bytes", [1, 7, 4096])
def test_a_stream_says_what_the_plain_answer_says(path: str, chunk_bytes: int) -> None:
    """However small its chunks are."""
    with Upstream() as upstream:
        upstream.use("weather", chunk_bytes=chunk_bytes)
        _, plain = answer(upstream, path, body_of(path))
        _, stream = answer(upstream, path, body_of(path, stream=True))

    assert WHOLE_OF[path](json.loads(plain)) == GREETING
    assert "".join(map(TEXT_OF[path], datas(stream))) == GREETING


def test_an_answer_follows_from_the_request_alone() -> None:
    """The same question gets the same text, whatever was asked between."""
    path = "/v1/messages"
    with Upstream() as upstream:
        for user in ("Hello", "Oslo and Lisbon", "Hello", "Oslo and Lisbon"):
            answer(upstream, path, body_of(path, user))

    rules = [request.rule for request in upstream.received]
    assert rules == ["weather-greets", "weather-asks"] * 2


def test_each_request_is_refused_as_often_as_the_rule_says() -> None:
    """And then answered; another request has a count of its own."""
    path = "/v1/chat/completions"
    first, second = body_of(path, "Hello, when busy"), body_of(path, "Hello, only when busy")
    with Upstream() as upstream:
        found = [answer(upstream, path, body)[0] for body in (first, second, first, first)]
        connection, limited = ask(upstream, path, body_of(path, "Hello, once more when busy"))
        connection.close()

    assert found == [429, 429, 200, 200]
    assert limited.getheader("retry-after") == "1"


@for_each(
    "path, body, status, says",
    [
        ("/v1/chat/completions", {"model": "m", "messages": []}, 400, "no rule"),
        ("/v1/responses", ["odd"], 400, "malformed"),
        ("/v1/messages", {"messages": 3}, 400, "malformed"),
        ("/v1/elsewhere", {}, 404, "POST /v1/elsewhere"),
        ("/v1/messages", body_of("/v1/messages", "when broken"), 500, "unwell"),
    ],
)
def test_what_fits_no_rule_is_refused_with_a_reason(
    path: str, body: Any, status: int, says: str
) -> None:
    """A script whose words changed too much is told what the upstream saw."""
    with Upstream() as upstream:
        found, said = answer(upstream, path, body)

    assert found == status
    assert says in said.decode()


def test_a_request_without_a_key_is_refused() -> None:
    """So that whoever forwards requests has to forward their keys."""
    with Upstream() as upstream:
        connection = http.client.HTTPConnection(upstream.url.removeprefix("http://"), timeout=60)
        connection.request("POST", "/v1/messages", "{}")
        found = connection.getresponse().status
        connection.close()

    assert found == 401


def test_what_came_is_kept() -> None:
    """Headers in lower case, the body's bytes and value, also of a body in chunks."""
    path = "/v1/messages?beta=true"
    raw = json.dumps(body_of("/v1/messages")).encode()
    with Upstream() as upstream:
        connection = http.client.HTTPConnection(upstream.url.removeprefix("http://"), timeout=60)
        parts = iter([raw[:5], raw[5:]])
        connection.request("POST", path, parts, {"X-Api-Key": "k"}, encode_chunked=True)
        connection.getresponse().read()
        connection.close()

    (request,) = upstream.received
    assert (request.method, request.path, request.api) == ("POST", path, "messages")
    assert (request.raw, request.body, request.rule) == (raw, json.loads(raw), "weather-greets")
    assert request.headers["x-api-key"] == "k"


def test_every_rule_can_be_reached() -> None:
    """Names are unique; none is shadowed by an equal condition above it, but by counted errors."""
    rules = rules_in(all_traffic())
    plain = [rule for rule in rules if isinstance(rule.then, Reply)]

    assert len({rule.name for rule in rules}) == len(rules)
    assert len({json.dumps(rule.when, sort_keys=True) for rule in plain}) == len(plain)


# --- manner ------------------------------------------------------------------------------------


def test_held_answers_begin_when_they_are_released() -> None:
    """Until then nothing comes, and all of them are open at once."""
    path = "/v1/messages"
    found: list[bytes] = []
    with Upstream() as upstream:
        upstream.use("weather", hold=True)
        asking = [
            threading.Thread(target=lambda: found.append(answer(upstream, path, body_of(path))[1]))
            for _ in range(3)
        ]
        for thread in asking:
            thread.start()
        upstream.wait_for_open(3)
        before = len(found)
        upstream.release()
        for thread in asking:
            thread.join()
        upstream.wait_until_idle()

    assert (before, len(found), upstream.open_most) == (0, 3, 3)


def test_a_stream_can_be_held_after_its_beginning() -> None:
    """What came before is there to be read."""
    path = "/v1/messages"
    with Upstream() as upstream:
        upstream.use("weather", hold_after=2)
        connection, response = ask(upstream, path, body_of(path, stream=True))
        begun = response.read1()
        held = upstream.open_now
        upstream.release()
        rest = response.read()
        connection.close()

    assert (held, b"message_start" in begun, b"message_stop" in rest) == (1, True, True)


@EACH_API
def test_a_stream_can_be_cut_ended_or_failed(path: str) -> None:
    """A cut breaks the connection; the two others end it properly, without the last events."""
    asked = body_of(path, stream=True)
    with Upstream() as upstream:
        upstream.use("weather", cut_after=4)
        with pytest.raises(http.client.IncompleteRead) as cut:
            answer(upstream, path, asked)
        upstream.use("weather", cut_after=None, end_after=4)
        _, ended = answer(upstream, path, asked)
        upstream.use("weather", end_after=None, fail_after=4)
        _, failed = answer(upstream, path, asked)

    assert len(datas(cut.value.partial)) == len(datas(ended)) == 4
    assert len(datas(failed)) == 5
    assert b"the model went away" in failed


def test_a_plain_answer_can_be_cut() -> None:
    """After that many bytes, short of its content length."""
    path = "/v1/responses"
    with Upstream() as upstream:
        upstream.use("weather", cut_after=10)
        with pytest.raises(http.client.IncompleteRead) as cut:
            answer(upstream, path, body_of(path))

    assert len(cut.value.partial) == 10


@EACH_API
def test_a_stream_can_be_a_flood(path: str) -> None:
    """Of that many mebibytes of text, about, with the reply at its end."""
    with Upstream() as upstream:
        upstream.use("weather", flood_mb=2)
        _, stream = answer(upstream, path, body_of(path, stream=True))

    text = "".join(map(TEXT_OF[path], datas(stream)))
    assert 1.9 * 2**20 < len(text) < 2.1 * 2**20
    assert text.endswith(GREETING)


@pytest.mark.parametrize("stream", [False, True])
def test_answers_can_be_compressed(*, stream: bool) -> None:
    """For whoever accepts it, and for nobody else."""
    path = "/v1/chat/completions"
    asked = body_of(path, stream=stream)
    with Upstream() as upstream:
        upstream.use("weather", gzip=True)
        _, packed = answer(upstream, path, asked, **{"accept-encoding": "gzip, deflate"})
        _, plain = answer(upstream, path, asked)

    assert b"choices" in plain
    assert b"choices" in gzip.decompress(packed)


@pytest.mark.parametrize("manner", [{"hold": True}, {"drip_seconds": 0.01}])
def test_a_reader_that_leaves_is_noticed(manner: dict[str, Any]) -> None:
    """Before the first byte and in the middle of a stream."""
    path = "/v1/messages"
    with Upstream() as upstream:
        upstream.use("weather", **manner)
        connection = http.client.HTTPConnection(upstream.url.removeprefix("http://"), timeout=60)
        connection.request("POST", path, json.dumps(body_of(path, stream=True)), KEY)
        upstream.wait_for_open(1)
        connection.close()
        upstream.wait_for_hung_up()
        upstream.wait_until_idle()

    assert upstream.hung_up == 1


def test_a_misspelt_manner_or_rule_is_refused() -> None:
    """Where it is written, not in a thread that answers."""
    with Upstream([Rule(name="only", then=Reply(text="yes"))]) as upstream:
        with pytest.raises(TypeError, match="hodl"):
            upstream.use("only", hodl=True)
        with pytest.raises(LookupError, match="only"):
            upstream.use("another", hold=True)


# --- the end -----------------------------------------------------------------------------------


def test_after_its_end_nothing_listens_and_no_thread_is_left() -> None:
    """Though answers were held and connections open; closing again is fine."""
    path = "/v1/messages"
    before = threading.active_count()
    with Upstream() as upstream:
        idle, response = ask(upstream, path, body_of(path))
        response.read()
        upstream.use("weather", hold=True)
        held = http.client.HTTPConnection(upstream.url.removeprefix("http://"), timeout=60)
        held.request("POST", path, json.dumps(body_of(path)), KEY)
        upstream.wait_for_open(1)
    upstream.close()

    assert threading.active_count() <= before  # fewer where an earlier test's has ended
    assert upstream.hung_up == 0
    with pytest.raises(ConnectionRefusedError):
        ask(upstream, path, {})
    idle.close()
    held.close()


@pytest.mark.parametrize("how", ["generate", "streamGenerate"])
def test_gemini_says_in_its_path_which_model_and_how(how: str) -> None:
    """Its results are of the turn, and its calls and text come whole or part by part."""
    path = f"/v1beta/models/gemini-small:{how}Content"
    asked = {"role": "user", "parts": [{"text": "Read it."}]}
    called = {"role": "model", "parts": [{"functionCall": {"name": "read", "args": {"at": "a"}}}]}
    gave = {"functionResponse": {"name": "read", "response": {"output": "six words"}}}
    system = {"parts": [{"text": SYSTEM}]}
    calls = (Call(id="c", name="read", arguments='{"at": "a"}'),)
    rules = [
        Rule(name="reads", when={"model": "small", "system": "desk"}, then=Reply(calls=calls)),
        Rule(name="says", when={"results": ["six"]}, then=Reply(text="There are six words.")),
    ]

    def parts(raw: bytes) -> list[Any]:
        found = datas(raw) if how == "streamGenerate" else [json.loads(raw)]
        assert found[-1]["candidates"][0]["finishReason"] == "STOP"
        return [part for each in found for part in each["candidates"][0]["content"]["parts"]]

    with Upstream(rules) as upstream:
        first = answer(upstream, path, {"systemInstruction": system, "contents": [asked]})
        turns = [asked, called, {"role": "user", "parts": [gave]}]
        second = answer(upstream, path, {"systemInstruction": system, "contents": turns})

    assert parts(first[1]) == called["parts"]
    assert "".join(each["text"] for each in parts(second[1])) == "There are six words."
    assert (len(parts(second[1])) > 1) == (how == "streamGenerate")
