"""Which interface a request speaks; nothing of it is lost, and what asks the same is equal."""

import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.engine.encoding.canonical import encode, encode_sorted
from refold.engine.events.events import ModelAnswered
from refold.engine.wire.apis import provider_of, read_request, reader_of, spoken, with_model
from refold.engine.wire.parts.exchange import Asked
from tests.support.api_bodies import BODIES, PATHS, changed, plain
from tests.support.corpus import RecordedExchange, corpus, recorded_exchanges
from tests.support.loops import for_each, table

CHAT = PATHS["chat"]


@for_each("method, path, api", table("""
    POST  /v1/chat/completions                                  chat
    post  /chat/completions/                                    chat
    POST  /openai/deployments/d/chat/completions?api-version=1  chat
    POST  /v1/responses                                         responses
    POST  /v1/messages?beta=true                                messages
    GET   /v1/chat/completions                                  other
    POST  /v1/messages/count_tokens                             other
    POST  /v1/messages/batches                                  other
    GET   /v1/responses/resp_1                                  responses
    GET   /v1/responses/resp_1/input_items                      other
    GET   /v1/forms/1/responses/2                               other
    POST  /v1/responses/resp_1/cancel                           responses
    POST  /v1/embeddings                                        other
    GET   /v1/models                                            other
    POST  /v1/completions                                       other
    POST  /x?y=/v1/messages                                     other
    -     -                                                     other
"""))  # fmt: skip
def test_the_end_of_a_path_names_the_interface(method: str, path: str, api: str) -> None:
    """With the method: most are POST."""
    found = spoken(method, path)

    assert (found[0].name if found else "other") == api


def test_anthropic_on_bedrock_is_read_as_anthropics() -> None:
    """The model stands in the path, escaped; bodies of other models' formats are not read."""
    body = {"anthropic_version": "bedrock-2023-05-31", "max_tokens": 9}
    body |= {"messages": [{"role": "user", "content": "Hi"}]}
    content = json.dumps(body).encode()
    name = "arn:aws:bedrock:eu-west-1:1:inference-profile/eu.anthropic.claude-v1:0"
    for action, is_stream in (("invoke", False), ("invoke-with-response-stream", True)):
        path = f"/model/{name.replace('/', '%2F')}/{action}"
        found = read_request("POST", path, content)
        assert (found.api, found.model) == ("messages", name)
        assert found.streamed == is_stream
        assert found.parameters["$path"] == path
        assert provider_of(found) == "aws"
        nova = content.replace(b"anthropic_version", b"schemaVersion")
        assert read_request("POST", path, nova).api == "other"


@for_each(
    "body, kept",
    [
        (b"", None),
        (b'{"a": [1]}', {"a": [1]}),
        (b"[1, 2]", [1, 2]),
        (b'"text"', '"text"'),
        (b"text", "text"),
        (b"null", "null"),
        (b"\xff\xfe", {"base64": "//4="}),
        (b'{"base64": "//4="}', '{"base64": "//4="}'),
        (b'{"a": 1, "a": 2}', '{"a": 1, "a": 2}'),
        (b'{"a": 18446744073709551616}', {"a": {"$json": "18446744073709551616"}}),
        (b"[" * 5000, "[" * 5000),
    ],
)
def test_what_is_no_request_to_a_model_is_kept_as_it_is(body: bytes, kept: Any) -> None:
    """As JSON, else as text, else as bytes; each in a form that no other has."""
    for path in (CHAT, "/v1/embeddings?x=1"):
        asked = read_request("POST", path, body)

        assert asked == Asked(
            api="other", model="", parameters={"method": "POST", "path": path, "body": kept}
        )
        encode(asked.as_json())


@for_each(
    "api, body",
    [
        ("chat", {"messages": "Hello"}),
        ("chat", {"messages": [{"content": "Hello"}]}),
        ("chat", {"messages": ["Hello"]}),
        ("chat", {"input": "Hello"}),
        ("responses", {"input": 1}),
        ("responses", {"input": ["Hello"]}),
        ("responses", {"input": "Hello", "instructions": ["Be brief"]}),
        ("messages", {"messages": [{"role": "user"}]}),
        ("messages", {"messages": [], "system": 1}),
    ],
)
def test_a_body_of_another_shape_is_other(api: str, body: dict[str, Any]) -> None:
    """Nothing is guessed."""
    asked = read_request("POST", PATHS[api], json.dumps(body).encode())

    assert asked.api == "other"
    assert asked.parameters["body"] == body


def test_a_path_that_says_something_is_kept() -> None:
    """A deployment names the model, a query the version; a wrong path, that it would fail."""
    body = b'{"messages": []}'
    places = [CHAT, f"{CHAT}?api-version=1", "/openai/deployments/a/chat/completions"]
    places += [f"/v2{CHAT}", f"{CHAT}/", f"/v1/v1{CHAT}"]

    found = [encode_sorted(read_request("POST", path, body).as_json()) for path in places]

    assert len(set(found)) == len(places)


@pytest.mark.parametrize("api", BODIES)
@pytest.mark.usefixtures("many_times")
@given(data=st.data())
def test_two_bodies_are_equal_exactly_if_they_ask_the_same(api: str, data: st.DataObject) -> None:
    """One change, wherever it is, is seen unless it is one of notation."""
    one = data.draw(BODIES[api])
    two = data.draw(changed(one))

    asked = [read_request("POST", PATHS[api], json.dumps(body).encode()) for body in (one, two)]

    are_of_it = [found.api == api for found in asked]
    if all(are_of_it):
        are_same = plain(api, one) == plain(api, two)
    else:
        are_same = json.dumps(one, sort_keys=True) == json.dumps(two, sort_keys=True)
    keys = [encode_sorted(found.as_json()) for found in asked]
    assert (keys[0] == keys[1]) is are_same


@pytest.mark.parametrize("api", BODIES)
@pytest.mark.usefixtures("many_times")
@given(data=st.data())
def test_messages_do_not_depend_on_what_follows_them(api: str, data: st.DataObject) -> None:
    """So that a request that goes on with a conversation begins with the same messages."""
    body = data.draw(BODIES[api])
    member = "input" if api == "responses" else "messages"
    whole = read_request("POST", PATHS[api], json.dumps(body).encode())
    if not isinstance(body.get(member), list) or not body[member]:
        return

    less = {**body, member: body[member][:-1]}
    start = read_request("POST", PATHS[api], json.dumps(less).encode())

    shared = len(start.messages) - (api == "responses")  # the next item may join the last message
    assert encode_sorted(list(start.messages[: max(shared, 0)])) == encode_sorted(
        list(whole.messages[: max(shared, 0)])
    )


@pytest.mark.usefixtures("many_times")
@given(
    method=st.sampled_from(["POST", "GET"]),
    path=st.sampled_from([*PATHS.values(), "/x", "/v1/responses?a=\udcff"]),
    body=st.one_of(
        st.binary(max_size=40),
        st.recursive(
            st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(
                    st.sampled_from(
                        ["messages", "input", "role", "content", "tools", "type", "text"]
                    ),
                    inner,
                    max_size=4,
                )
            ),
        ).map(lambda value: json.dumps(value).encode()),
    ),
)
def test_whatever_a_body_is_a_log_can_hold_what_is_read(
    method: str, path: str, body: bytes
) -> None:
    """And nothing raises."""
    asked = read_request(method, path, body)

    encode(asked.as_json())
    assert len(asked.tools_digest()) in (0, 64)


@pytest.mark.usefixtures("many_times")
@given(
    api=st.sampled_from([*PATHS]),
    status=st.sampled_from([200, 204, 302, 400, 429, 500]),
    content_type=st.sampled_from(["text/event-stream", "application/json", "", "text/html"]),
    chunks=st.lists(
        st.one_of(
            st.binary(max_size=20),
            st.sampled_from(
                [
                    b"data: ", b"\n\n", b"event: error\n", b"[DONE]", b"{}", b'{"choices": [{}]}',
                    b'{"choices": [{"delta": {"tool_calls": [{"index": 0}, 1, {"id": 2}]}}]}',
                    b'{"type": "content_block_delta", "index": 0, "delta": {"x": [1]}}',
                    b'{"type": "content_block_start", "index": 0, "content_block": {"input": 3}}',
                    b'{"type": "message_start", "message": {"content": [1, {}], "usage": 4}}',
                    b'{"type": "message_stop"}', b'{"type": ["x"], "output_index": 1}',
                    b'{"type": "response.output_item.added", "output_index": 0, "item": {}}',
                    b'{"type": "response.completed", "response": {"output": [{}, 3]}}',
                    b'{"output": [{"type": "message", "role": 3, "content": {"a": 1}}]}',
                    b'{"content": [{"type": "tool_use", "input": []}], "usage": []}',
                    b'{"choices": [{"message": {"content": {"a": 1}, "tool_calls": {"b": 2}}}]}',
                    b'{"error": {"message": 5}}', b'{"error": "no"}',
                ]
            ),
        ),
        max_size=12,
    ),
)  # fmt: skip
def test_whatever_an_answer_is_a_log_can_hold_what_is_read(
    api: str, status: int, content_type: str, chunks: list[bytes]
) -> None:
    """Whatever bytes come: after each chunk there is an answer, and nothing raises."""
    asked = read_request("POST", PATHS[api], b'{"messages": [], "stream": true}')
    reader = reader_of(asked, status, content_type)

    for chunk in chunks:
        reader.feed(chunk)
        answered = reader.answered()

        assert answered == reader.answered()
        encode([answered.message, answered.error])
        assert answered.status == "error" or answered.message is not None
        assert (answered.error is None) is (answered.status == "ok")


def test_of_other_answers_only_failures_are_read() -> None:
    """They have no message."""
    asked = read_request("GET", "/v1/models", b"")
    fine, lost = reader_of(asked, 200, "application/json"), reader_of(asked, 404, "")
    for reader in (fine, lost):
        reader.feed(b'{"error": {"message": "no such thing"}}')

    assert fine.answered() == ModelAnswered("ok")
    assert lost.answered().error == {"code": "http_404", "message": "no such thing"}


# --- recorded traffic ------------------------------------------------------------------------


def _read(exchange: RecordedExchange, size: int) -> tuple[Asked, ModelAnswered]:
    path = "/" + exchange.uri.partition("://")[2].partition("/")[2]
    asked = read_request(exchange.method, path, exchange.asked)
    reader = reader_of(asked, exchange.status, exchange.content_type)
    for at in range(0, len(exchange.answered), size):
        reader.feed(exchange.answered[at : at + size])
    return asked, reader.answered()


def test_recorded_traffic_reads() -> None:
    """Requests and answers of all three interfaces, streams included: none is malformed."""
    seen: Counter[str] = Counter()
    for exchange in recorded_exchanges(corpus()):
        asked, answered = _read(exchange, 7)

        encode([asked.as_json(), answered.message])
        expected = "ok" if exchange.status < 400 else "error"
        assert answered.status == expected, (exchange.source, answered.error)
        if asked.api != "other" and expected == "ok":
            assert answered.message is not None, exchange.source
            assert answered.usage.requests == 1
            seen[f"{asked.api} {'stream' if asked.streamed else 'body'}"] += 1

    kinds = {f"{api} {form}" for api in PATHS for form in ("stream", "body")}
    assert set(seen) == kinds | {"generate body"}  # nobody recorded a stream of Gemini's there


def test_recorded_conversations_repeat_their_answers() -> None:
    """Nearly every answer stands in the next request as it was read: it is stored once."""
    answers: dict[str, list[Any]] = {}
    equal, other = 0, []
    for exchange in recorded_exchanges(corpus()):
        asked, answered = _read(exchange, 1000)
        cassette = exchange.source.partition("[")[0]
        said = [message for message in asked.messages if message["role"] == "assistant"]
        for message in answers.get(cassette, []):
            if message in said:
                equal += 1
            elif message["content"] in [one["content"] for one in said if one["content"]]:
                other.append(exchange.source)
        if answered.message is not None:
            answers.setdefault(cassette, []).append(answered.message)

    assert equal > 50
    assert len(other) < equal / 5, other


@for_each(
    "path, body, asks",
    [
        (CHAT, b'{"model": "a", "messages": [], "n": 1}', "b/\u00e9"),
        ("/v1/models/a:generateContent?x=1", b'{"contents": []}', "b"),
        ("/model/a%3A0/invoke", b'{"anthropic_version": "x", "messages": []}', "arn:x/b"),
        ("/p/publishers/anthropic/models/a@1:rawPredict", b'{"messages": []}', "b@2"),
    ],
)
def test_a_request_can_ask_another_model(path: str, body: bytes, asks: str) -> None:
    """Wherever its format names it; nothing else of it changes."""
    before = read_request("POST", path, body)

    after = read_request("POST", *with_model("POST", path, body, asks))

    assert (before.model[0], after.model) == ("a", asks)
    assert after.api == before.api != "other"
    assert after.messages == before.messages
    assert after.parameters.keys() == before.parameters.keys()


@for_each("path, body", [("/v1/models", b"{}"), (CHAT, b"[1]"), (CHAT, b"\xff")])
def test_what_names_no_model_stays_as_it_is(path: str, body: bytes) -> None:
    assert with_model("POST", path, body, "b") == (path, body)


def test_the_boundary_of_a_multipart_body_is_no_difference() -> None:
    """Clients draw it for each request; what stands between is compared."""
    body = "--{0}\r\nContent-Disposition: form-data; name=file\r\n\r\n{1}\r\n--{0}--\r\n"
    one, two, other = (
        read_request("POST", "/v1/files", body.format(*pair).encode())
        for pair in (("8f3a", "sea"), ("77b1", "sea"), ("8f3a", "hills"))
    )
    torn = read_request("POST", "/v1/files", body.format("8f3a", "sea").encode()[:-5])

    assert one == two
    assert one != other
    assert "--8f3a\r\n" in str(torn.parameters["body"])


def test_drawn_ids_of_calls_are_no_difference() -> None:
    path = "/v1beta/models/a:generateContent"
    call = {"functionCall": {"id": "drawn", "name": "look", "args": {}}}
    body = json.dumps({"contents": [{"role": "model", "parts": [call]}]}).encode()

    (now,) = read_request("POST", path, body).messages

    assert now["tool_calls"][0]["id"] == "look#1"


def test_a_request_to_a_place_of_ones_own_has_the_prices_of_its_interface() -> None:
    """One that is no interface's has none."""
    assert provider_of(Asked(api="messages", model="m", parameters={})) == "anthropic"
    assert provider_of(Asked(api="other", model="m", parameters={})) == ""
