"""What holds for both HTTP adapters: keys, connections, failures, threads."""

import json
import pickle
import socket
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import refold
from refold.engine.errors import ExtraMissing, ModelError
from refold.engine.models import AnthropicModel, OpenAICompatibleModel
from refold.engine.models.endpoint import LazyClient, call_of, distinct_id, objects_in
from refold.engine.ports.ports import ModelRequest
from tests.support.loops import for_each
from tests.support.model_server import ANTHROPIC_PATH, OPENAI_PATH, Answer, ModelServer

ASKED = ModelRequest(messages=({"role": "user", "content": "Tides?"},))
SDKS = {AnthropicModel: "anthropic", OpenAICompatibleModel: "openai"}
KEYS = {AnthropicModel: "ANTHROPIC_API_KEY", OpenAICompatibleModel: "OPENAI_API_KEY"}
ANSWERS: dict[str, Any] = {
    OPENAI_PATH: {"choices": [{"message": {"content": "Moon."}, "finish_reason": "stop"}]},
    ANTHROPIC_PATH: {"content": [{"type": "text", "text": "Moon."}], "stop_reason": "end_turn"},
}

_OWN = {"model", "messages", "max_tokens"}
Adapter = type[AnthropicModel] | type[OpenAICompatibleModel]


@pytest.fixture(params=[OpenAICompatibleModel, AnthropicModel], ids=["openai", "anthropic"])
def adapter(request: pytest.FixtureRequest) -> Adapter:
    chosen: Adapter = request.param
    return chosen


@pytest.fixture
def server() -> Iterator[ModelServer]:
    """A server with forty good answers for either protocol."""
    answers = {path: [Answer(body=body)] * 40 for path, body in ANSWERS.items()}
    with ModelServer(answers) as running:
        yield running


def at(adapter: Adapter, url: str, **options: Any) -> AnthropicModel | OpenAICompatibleModel:
    """Return a model of the adapter's at a server."""
    return adapter("m", base_url=url if adapter is AnthropicModel else f"{url}/v1", **options)


def failure(model: AnthropicModel | OpenAICompatibleModel, asked: ModelRequest) -> ModelError:
    with pytest.raises(ModelError) as caught:
        model.complete(asked)
    model.close()
    return caught.value


@pytest.mark.parametrize("way", ["argument", "variable"])
def test_a_local_server_needs_no_key(
    adapter: Adapter, server: ModelServer, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the environment holds none, a server that somebody names gets a placeholder."""
    model = at(adapter, server.url)
    if way == "variable":
        given = (model.reference.arguments or {})["base_url"]
        monkeypatch.setenv(f"{model.provider.upper()}_BASE_URL", given)
        model = type(model)("some-model")

    assert model.complete(ASKED).message["content"] == "Moon."

    assert "none-needed" in str(server.received[0].headers)
    model.close()


@pytest.mark.parametrize("path", ["/openai/v1/", "/api/v1"], ids=["azure", "gateway"])
@pytest.mark.parametrize("way", ["argument", "variable"])
def test_the_path_of_a_base_url_is_kept(
    path: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Azure and gateways serve the chat API below a path of their own."""
    asked_at = path.rstrip("/") + "/chat/completions"
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-gateway")
    with ModelServer({asked_at: [Answer(body=ANSWERS[OPENAI_PATH])]}) as running:
        url = running.url + path
        monkeypatch.setenv("OPENAI_BASE_URL", url if way == "variable" else "http://127.0.0.1:9")
        given = url if way == "argument" else None
        model = OpenAICompatibleModel("my-deployment", base_url=given)
        answer = model.complete(ASKED)
        model.close()

    assert answer.message["content"] == "Moon."
    (received,) = running.received
    assert (received.path, received.body["model"]) == (asked_at, "my-deployment")
    assert received.headers["authorization"] == "Bearer sk-of-the-gateway"


def test_the_key_of_the_environment_is_sent(
    adapter: Adapter, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys come from the variables that the SDKs read."""
    monkeypatch.setenv(KEYS[adapter], "sk-from-environment")
    model = at(adapter, server.url)

    model.complete(ASKED)

    assert "sk-from-environment" in str(server.received[0].headers)
    model.close()


def test_no_key_and_no_server_is_a_model_error(adapter: Adapter) -> None:
    """It says which variable to set, before anything is sent."""
    error = failure(adapter("m"), ASKED)

    assert error.code == "credentials"
    assert KEYS[adapter] in error.message


def test_a_broken_profile_is_no_key(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The Anthropic SDK also looks for profiles on disk; its path stays out of the message."""
    monkeypatch.setenv("ANTHROPIC_CONFIG_DIR", str(tmp_path))

    error = failure(AnthropicModel("m"), ASKED)
    local = at(AnthropicModel, server.url)

    assert (error.code, str(tmp_path) in error.message) == ("credentials", False)
    assert local.complete(ASKED).message["content"] == "Moon."
    local.close()


def test_a_profile_with_a_token_is_one(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Of a login, say: it is sent, and no placeholder in its place."""
    monkeypatch.setenv("ANTHROPIC_CONFIG_DIR", str(tmp_path))
    files = {"configs": {"authentication": {"type": "user_oauth"}},
             "credentials": {"type": "oauth_token", "access_token": "of-a-login"}}  # fmt: skip
    for folder, said in files.items():
        path = tmp_path / folder / "default.json"
        path.parent.mkdir()
        path.write_text(json.dumps(said))
        path.chmod(0o600)

    model = at(AnthropicModel, server.url)

    assert model.complete(ASKED).message["content"] == "Moon."
    assert server.received[-1].headers["authorization"] == "Bearer of-a-login"
    model.close()


def test_nobody_listening_is_a_connection_error(adapter: Adapter) -> None:
    """A server that is gone is told from one that answers badly."""
    with ModelServer({}) as server:
        gone = server.url

    error = failure(at(adapter, gone, max_retries=0), ASKED)

    assert error.code == "connection"
    assert error.message.endswith(f"Connection refused at {gone}")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", int(gone.rpartition(":")[2])))


def test_a_proxy_that_is_gone_is_named(adapter: Adapter, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its variable, and without the password that its address may hold."""
    with ModelServer({}) as server:
        gone = server.url.removeprefix("http://")
    monkeypatch.setenv("HTTP_PROXY", f"http://me:hush@{gone}")
    monkeypatch.setenv("NO_PROXY", "")

    error = failure(at(adapter, "http://models.invalid", max_retries=0), ASKED)

    assert error.message.endswith(
        f"at http://models.invalid, through the proxy {gone} of HTTP_PROXY"
    )


def test_a_base_url_that_is_none_is_shown(adapter: Adapter) -> None:
    error = failure(at(adapter, "models", max_retries=0), ASKED)

    assert "The base URL is 'models" in error.message


def test_no_answer_in_time_is_timed_out(adapter: Adapter) -> None:
    """The SDK's own timeout ends the wait."""
    held = [Answer(hold=True)]
    with ModelServer({OPENAI_PATH: held, ANTHROPIC_PATH: held}) as server:
        error = failure(at(adapter, server.url, timeout_seconds=0.2, max_retries=0), ASKED)

    assert error.code == "timed_out"


def test_an_error_keeps_nothing_of_the_request(
    adapter: Adapter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither message nor chained exceptions hold the key, even where the key is at fault."""
    monkeypatch.setenv(KEYS[adapter], "my-secret-key\n")

    with ModelServer({}) as server:
        error = failure(at(adapter, server.url, max_retries=0), ASKED)

    assert "my-secret-key" not in str(error)
    assert error.__context__ is None
    assert error.__cause__ is None
    assert pickle.loads(pickle.dumps(error)).code == error.code


def test_a_word_in_place_of_a_key_is_no_secret(
    adapter: Adapter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Local servers are given `x` or a blank; messages stay readable."""
    monkeypatch.setenv(KEYS[adapter], "e ")

    with ModelServer({}) as server:
        error = failure(at(adapter, server.url, max_retries=0), ASKED)

    assert "…" not in error.message


def test_threads_share_one_model(adapter: Adapter, server: ModelServer) -> None:
    """First requests at the same moment are all answered."""
    model, barrier = at(adapter, server.url), threading.Barrier(8)

    def ask(_: int) -> str:
        barrier.wait(timeout=60)
        text: str = model.complete(ASKED).message["content"]
        return text

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(ask, range(8))) == ["Moon."] * 8
    model.close()


def test_a_client_is_made_once() -> None:
    """Who asks while it is being made waits for it, and makes no second."""
    made: list[threading.Thread] = []
    got: list[object] = []

    def make() -> object:
        if not made:
            made.append(threading.Thread(target=lambda: got.append(client.get())))
            made[0].start()
            made[0].join(timeout=0.2)  # ends at once only where it did not have to wait
        return object()

    client = LazyClient(make)
    first = client.get()
    made[0].join(timeout=60)

    assert got == [first]


def test_a_closed_model_can_be_asked_again(adapter: Adapter, server: ModelServer) -> None:
    """`close` lets go of connections, not of the model."""
    model = at(adapter, server.url)
    model.complete(ASKED)

    model.close()
    model.close()

    assert model.complete(ASKED).message["content"] == "Moon."
    model.close()


@pytest.mark.parametrize("name", ["model", "messages", "tools", "stream", "system", "parameters"])
def test_a_parameter_cannot_contradict_the_request(
    adapter: Adapter, server: ModelServer, name: str
) -> None:
    """What the adapter says itself is refused as a parameter, and nothing is sent."""
    asked = ModelRequest(messages=ASKED.messages, parameters={name: True})

    assert failure(at(adapter, server.url), asked).code == "parameters"

    assert server.received == []


@pytest.mark.parametrize(
    ("name", "meant"),
    [("temperatur", "temperature"), ("max_token", "max_tokens"), ("tool_choise", "tool_choice")],
)
def test_a_misspelt_parameter_is_refused_with_the_right_one(
    adapter: Adapter, server: ModelServer, name: str, meant: str
) -> None:
    """A server ignores what it does not know: the request would be another than was meant."""
    asked = ModelRequest(messages=ASKED.messages, parameters={name: 1})

    error = failure(at(adapter, server.url), asked)

    assert (error.code, server.received) == ("parameters", [])
    assert f"{name} is not a parameter: use {meant}" in str(error)


@pytest.mark.parametrize(
    ("parameters", "sent"),
    [
        ({"top_k": 4, "min_p": 0.1}, {"top_k": 4, "min_p": 0.1}),
        ({"seed": 1, "extra_body": {"temperatur": 1}}, {"seed": 1, "temperatur": 1}),
        ({"agent": "a", "extra_body": {}}, {}),
    ],
)
def test_other_names_are_sent_as_they_are(
    adapter: Adapter, server: ModelServer, parameters: dict[str, Any], sent: dict[str, Any]
) -> None:
    at(adapter, server.url).complete(ModelRequest(messages=ASKED.messages, parameters=parameters))

    body = server.received[0].body
    assert {name: body[name] for name in body.keys() - _OWN} == sent


@pytest.mark.parametrize("given", [{"model": "other"}, {"stream": True}, "text", None])
def test_an_extra_body_contradicts_nothing(
    adapter: Adapter, server: ModelServer, given: Any
) -> None:
    asked = ModelRequest(messages=ASKED.messages, parameters={"extra_body": given})

    assert failure(at(adapter, server.url), asked).code == "parameters"

    assert server.received == []


@pytest.mark.parametrize(
    ("message", "told"),
    [
        (
            {"role": "developer", "content": "?"},
            "unknown role 'developer': expected system, user, assistant or",
        ),
        (
            {"role": "usr", "content": "?"},
            "unknown role 'usr': expected system, user, assistant or tool, did you mean 'user'?",
        ),
        ({"content": "?"}, "unknown role ''"),
        ({"role": "user", "contents": "?"}, "a message has no content, only role, contents"),
        ({"role": "user", "content": 5}, "must be a string or a list of parts; found int 5"),
        (
            {"role": "tool", "id": "c", "content": "4"},
            "a tool message has no tool_call_id (the id of the call that it answers), only role",
        ),
        (
            {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "t"}}]},
            "a tool call has no name, only id, function",
        ),
    ],
)
def test_a_message_of_another_shape_is_refused_and_not_sent(
    adapter: Adapter, server: ModelServer, message: dict[str, Any], told: str
) -> None:
    """The neutral shape has four roles, each with content."""
    error = failure(at(adapter, server.url), ModelRequest(messages=(message,)))

    assert (error.code, server.received) == ("messages", [])
    assert told in str(error)


@pytest.mark.parametrize("given", [{"temperatur": 1}, {"stream": True}, {"role": "usr"}])
def test_a_recording_names_what_its_client_does_not_send(
    adapter: Adapter, server: ModelServer, tmp_path: Path, given: dict[str, Any]
) -> None:
    async def asks(run: refold.Run, _: object) -> str:
        role, parameters = given.get("role", "user"), {**given}
        parameters.pop("role", None)
        reply = await run.model([{"role": role, "content": "Tides?"}], **parameters)
        return str(reply.message["content"])

    recording = refold.record(asks, None, log=tmp_path / "a.jsonl", model=at(adapter, server.url))

    assert recording.error is not None
    assert (recording.status, recording.error.code) == (
        "failed",
        "messages" if "role" in given else "parameters",
    )
    assert server.received == []
    assert refold.reexecute(recording, asks).identical


def test_a_missing_sdk_names_its_extra(adapter: Adapter, monkeypatch: pytest.MonkeyPatch) -> None:
    """The adapter can be made without its SDK; only a request needs it."""
    monkeypatch.setitem(sys.modules, SDKS[adapter], None)
    model = adapter("m")

    with pytest.raises(ExtraMissing) as caught:
        model.complete(ASKED)

    assert caught.value.extra == SDKS[adapter]


def test_another_process_can_make_the_same_model(adapter: Adapter) -> None:
    """The reference names the class and its arguments, and no key."""
    model = adapter("m:8b", base_url="http://127.0.0.1:1/v1", timeout_seconds=2.5, max_retries=1)

    reference = model.reference
    assert reference.arguments is not None
    made = getattr(sys.modules[reference.source], reference.name)(**reference.arguments)

    assert (made.name, made.reference) == (model.name, reference)
    assert made.name == f"{SDKS[adapter]}:m:8b"


def test_what_a_log_cannot_keep_is_malformed(adapter: Adapter) -> None:
    """Members to be sent back verbatim are kept exactly or not at all."""
    huge = 2**80
    call = {"id": "a", "function": {"name": "f"}, "extra_content": {"n": huge}}
    answers = {
        OPENAI_PATH: [Answer(body={"choices": [{"message": {"tool_calls": [call]}}]})],
        ANTHROPIC_PATH: [Answer(body={"content": [{"type": "thinking", "n": huge}]})],
    }
    with ModelServer(answers) as server:
        error = failure(at(adapter, server.url), ASKED)

    assert error.code == "malformed"
    assert "64-bit" in error.message


def test_ids_are_distinct_within_a_reply() -> None:
    """A missing or repeated id is replaced by the call's place in the conversation."""
    taken: set[str] = set()

    given = [distinct_id(one, index, 1, taken) for index, one in enumerate(["a", None, "a"])]

    assert given == ["a", "call_1_1", "call_1_2"]


@for_each("arguments", ["[]", "1", "{", '{"a": NaN}', '{"a": "\\ud800"}', "[" * 9999, [1]])
def test_arguments_that_are_no_object_are_invalid(arguments: Any) -> None:
    """They are kept as text, so that the model can be told."""
    call = call_of("m", "a", "search", arguments)

    assert call["arguments"] == {}
    assert call["invalid"] == (arguments if isinstance(arguments, str) else "[1]")


@for_each("items", [[{}, 1], "ab", {"a": 1}])
def test_an_answer_whose_list_holds_no_objects_is_malformed(items: Any) -> None:
    """The place is named; null is the empty list."""
    assert objects_in("m", None, "choices") == []
    assert objects_in("m", [{"a": 1}], "choices") == [{"a": 1}]
    with pytest.raises(ModelError, match="choices: expected a list of objects"):
        objects_in("m", items, "choices")
