"""Models of Pydantic AI's providers: through the framework, against a server on this machine."""

import asyncio
import datetime as dt
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import refold
from refold.cli import main
from refold.engine.errors import ExtraMissing, ModelError, ModelNotFound, OptionRefused
from refold.engine.log.reader import read_entries
from refold.engine.models import model_from
from refold.engine.ports.ports import ModelReply, ModelRequest, ToolDefinition
from tests.support.later import Later
from tests.support.loops import for_each
from tests.support.model_server import OPENAI_PATH, Answer, ModelServer

if TYPE_CHECKING:
    from tests.support import pydantic_sdk as sdk
else:
    sdk = Later("tests.support.pydantic_sdk")

NOON = dt.datetime(2026, 1, 2, 12, tzinfo=dt.UTC)
ASKED = ModelRequest(messages=({"role": "user", "content": "Tides?"},))


def test_an_answer_comes_back_as_it_was() -> None:
    """All but the moment and what the framework writes on it afterwards."""
    cases: list[list[Any]] = [
        [sdk.TextPart("hi")],
        [sdk.TextPart("a"), sdk.ToolCallPart("look", {"at": [1]}, tool_call_id="c1")],
        [sdk.ToolCallPart("look", '{ "at": 1 }', tool_call_id="c1"), sdk.TextPart("after")],
        [sdk.ToolCallPart("look", "no json", tool_call_id="c1")],
        [
            sdk.ThinkingPart("hm", signature="s", provider_name="p"),
            sdk.TextPart("a"),
            sdk.TextPart("b"),
        ],
        [],
    ]
    for parts in cases:
        usage = sdk.RequestUsage(input_tokens=3, output_tokens=2, details={"reasoning": 1})
        answer = sdk.ModelResponse(
            parts,
            usage=usage,
            model_name="m",
            timestamp=NOON,
            provider_response_id="r1",
            provider_details={"finish": "stop"},
            finish_reason="stop",
        )

        reply = sdk.reply_of("m", answer, 1)

        assert sdk.answer_of("m", reply, NOON) == answer
        assert (reply.usage.input_tokens, reply.usage.output_tokens, reply.usage.requests) == (
            3,
            2,
            1,
        )
        assert sdk.neutral_answer(sdk.answer_of("m", reply, NOON)) == reply.message


def test_a_plain_answer_is_not_said_twice() -> None:
    """Its parts stand in the neutral shape alone."""
    answer = sdk.ModelResponse(
        [sdk.TextPart("hi"), sdk.ToolCallPart("look", {"n": 1}, tool_call_id="c")]
    )

    message = sdk.neutral_answer(answer)

    assert message["content"] == "hi"
    assert message["tool_calls"] == [{"id": "c", "name": "look", "arguments": {"n": 1}}]
    assert "parts" not in message["provider"]["pydantic_ai"]


def test_what_is_no_answer_is_malformed() -> None:
    """Somebody edited it."""
    message = {"role": "assistant", "content": "", "provider": {"pydantic_ai": {"parts": [1]}}}
    with pytest.raises(ModelError, match="no answer of Pydantic AI"):
        sdk.answer_of("m", ModelReply(message=message), NOON)


def test_an_edited_answer_is_its_neutral_shape() -> None:
    """As a fork writes one: without `provider`."""
    message = {"role": "assistant", "content": "what if"}

    assert sdk.answer_of("m", ModelReply(message=message), NOON).parts == [sdk.TextPart("what if")]


def test_a_call_without_an_id_is_named_by_its_place() -> None:
    """Not by the one that the framework draws: a live run would differ from the record."""
    own = sdk.ToolCallPart("look", tool_call_id="own")
    served = [sdk.NativeToolCallPart("find"), sdk.NativeToolCallPart("find")]
    ends = [sdk.NativeToolReturnPart("find", {}, one.tool_call_id) for one in reversed(served)]
    parts: list[Any] = [
        sdk.ToolCallPart("look"),
        own,
        *served,
        *ends,
        sdk.ToolCallPart("look"),
        own,
    ]

    message = sdk.reply_of("m", sdk.ModelResponse(parts), 4).message
    kept = [part["tool_call_id"] for part in message["provider"]["pydantic_ai"]["parts"]]

    assert [call["id"] for call in message["tool_calls"]] == [kept[n] for n in (0, 1, 6, 7)]
    assert kept == [
        *("call_4_0", "own", "served_4_0", "served_4_1", "served_4_1", "served_4_0"),
        *("call_4_2", "call_4_3"),
    ]


def test_a_refusal_is_sent_back_as_its_text() -> None:
    """The framework would leave it out; its agents get the answer as it came."""
    details = {"refusal": "I cannot help with that."}
    came = sdk.ModelResponse([], finish_reason="content_filter", provider_details=details)
    reply = sdk.reply_of("m", came, 1)
    with ModelServer({OPENAI_PATH: [said("Twice a day.")]}) as server:
        asked = (*ASKED.messages, reply.message, {"role": "user", "content": "And now?"})
        complete(
            model_from("pydantic:openai-chat:m", server.openai_url), ModelRequest(messages=asked)
        )
        body = server.received[-1].body

    assert (reply.message["content"], reply.stop_reason) == (details["refusal"], "refusal")
    assert [each["content"] for each in body["messages"]] == [
        "Tides?", details["refusal"], "And now?",
    ]  # fmt: skip
    assert sdk.answer_of("m", reply, NOON).parts == []


def complete(model: Any, request: ModelRequest = ASKED) -> ModelReply:
    reply: ModelReply = asyncio.run(model.complete(request))
    return reply


def said(text: str) -> Answer:
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    usage = {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}
    kinds = {"id": "c1", "object": "chat.completion", "created": 1, "model": "m"}
    return Answer(body={**kinds, "choices": [choice], "usage": usage})


def test_a_conversation_is_sent_as_the_provider_has_it() -> None:
    """Messages, calls, results, tools and settings; the reply is neutral, with what it cost."""
    request = ModelRequest(
        messages=(
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Tides?"},
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [
                    {"id": "a", "name": "look", "arguments": {"at": 1}},
                    {"id": "b", "name": "look", "arguments": {}, "invalid": "{at"},
                ],
            },
            {"role": "tool", "tool_call_id": "b", "name": "look", "content": "bad"},
            {"role": "tool", "tool_call_id": "a", "name": "look", "content": "x", "is_error": True},
        ),
        tools=(ToolDefinition(name="look", description="Look.", parameters={"type": "object"}),),
        parameters={"temperature": 0.5, "agent": "root"},
    )
    with ModelServer({OPENAI_PATH: [said("Twice a day.")]}) as server:
        model = model_from("pydantic:openai-chat:small-1", server.openai_url)
        reply = complete(model, request)
        body = server.received[-1].body

    assert model.name == "pydantic:openai-chat:small-1"
    assert (reply.message["content"], reply.stop_reason) == ("Twice a day.", "stop")
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (9, 3)
    roles = ["system", "user", "assistant", "tool", "tool"]
    assert [each["role"] for each in body["messages"]] == roles
    assert [call["function"] for call in body["messages"][2]["tool_calls"]] == [
        {"name": "look", "arguments": '{"at":1}'},
        {"name": "look", "arguments": '{"invalid_json":"{at"}'},
    ]
    assert body["tools"][0]["function"]["name"] == "look"
    assert body["temperature"] == 0.5


def test_a_model_named_by_a_text_is_recorded_and_replayed(tmp_path: Path) -> None:
    """In Python as on the command line; a replay asks nobody."""

    async def ask(run: refold.Run, question: str) -> Any:
        reply = await run.model([{"role": "user", "content": question}])
        return reply.message["content"]

    log = tmp_path / "run.jsonl"
    recording = refold.record(ask, "Tides?", model="pydantic:test", log=log)

    assert recording.output == "success (no tool calls)", recording.error
    assert refold.reexecute(recording, ask).identical
    assert next(iter(read_entries(log))).data["models"] == {"": "pydantic:test"}


def test_the_command_line_opens_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An agent of a file asks it, for itself and for the child in a process of its own."""
    monkeypatch.chdir(tmp_path)
    Path("AGENT.md").write_text("---\nname: a\ndescription: d\ntools: [list_files]\n---\nLook.\n")

    with pytest.raises(SystemExit) as ended:
        main(["run", "AGENT.md", "--task", "t", "--model", "pydantic:test", "--log", "a.jsonl"])

    assert ended.value.code == 0
    assert "list_files" in capsys.readouterr().out


CHILD = """
import refold


async def asks(run, question):
    reply = await run.model([{"role": "user", "content": question}])
    return reply.message["content"]

async def program(run, question):
    child = await run.start(refold.Delegation(program=asks, input=question, runner="subprocess"))
    [outcome] = await run.join(child)
    return outcome.output
"""


@pytest.mark.long
def test_a_child_in_a_process_of_its_own_asks_with_its_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The variable is the one that the provider reads; its value stands in no log."""
    key = "key-of-a-provider-0123456789"
    monkeypatch.setenv("OLLAMA_API_KEY", key)
    (tmp_path / "kin.py").write_text(CHILD)
    with ModelServer({OPENAI_PATH: [said(f"You have {key}.")]}) as server:
        model = model_from("pydantic:ollama:small-1", server.openai_url)
        program = f"{tmp_path / 'kin.py'}:program"
        recording = refold.record(program, "Tides?", model=model, log=tmp_path / "run.jsonl")

    assert recording.output == "You have [redacted:OLLAMA_API_KEY].", recording.error
    assert server.received[-1].headers["authorization"] == f"Bearer {key}"
    assert not any(key in log.read_text() for log in tmp_path.rglob("*.jsonl"))


@for_each(
    "spec, says",
    [
        ("pydantic:gpt-5", "Pydantic AI does not have a provider 'gpt-5': pydantic:PROVIDER:NAME"),
        ("pydantic:opnai:gpt-5", "does not have a provider 'opnai': .* anthropic, "),
        ("pydantic:openai:", "does not have a provider"),
    ],
)
def test_an_unknown_provider_is_refused_at_once(spec: str, says: str) -> None:
    """In Python, too, before a log is begun; the message says which there are."""
    with pytest.raises(ModelNotFound, match=says):
        model_from(spec)
    with pytest.raises(OptionRefused, match="pydantic:PROVIDER:NAME"):
        refold.record(lambda _run, _input: None, model=spec)


def test_a_provider_without_a_base_url_is_given_none() -> None:
    """Else every request would fail."""
    with pytest.raises(ModelNotFound, match="together takes no base URL"):
        model_from("pydantic:together:m", "http://127.0.0.1:1")


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The extra of Refold, and the package of the provider."""
    monkeypatch.setitem(sys.modules, "mistralai", None)
    monkeypatch.delitem(sys.modules, "pydantic_ai.providers.mistral", raising=False)
    with pytest.raises(ModelNotFound, match=r"pydantic-ai-slim\[mistral\]"):
        model_from("pydantic:mistral:m")

    monkeypatch.setitem(sys.modules, "pydantic_ai", None)
    with pytest.raises(ExtraMissing, match=r"pip install 'refold\[pydantic-ai\]'"):
        model_from("pydantic:openai:m")


@pytest.mark.long
def test_failures_have_codes(monkeypatch: pytest.MonkeyPatch) -> None:
    """No key, an unknown setting or an odd value of one, no such role, a status, nobody."""
    monkeypatch.delenv("DEEPSEEK_API_KEY", raising=False)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
    odd = ModelRequest(messages=({"role": "developer", "content": "x"},))
    wrong = ModelRequest(messages=ASKED.messages, parameters={"thinking": {"type": "enabled"}})
    misspelled = ModelRequest(messages=ASKED.messages, parameters={"temprature": 1})
    with ModelServer({OPENAI_PATH: [Answer(status=401, body={"error": {"message": "no"}})]}) as at:
        local = model_from("pydantic:openai-chat:m", at.openai_url)
        found = [
            _code(local, ASKED),
            _code(model_from("pydantic:anthropic:claude-opus-4-5", at.url), wrong),
            _code(local, misspelled),
            _code(local, odd),
            _code(model_from("pydantic:deepseek:m"), ASKED),
        ]
    found.append(_code(local, ASKED))

    assert found == ["http_401", "raised", "parameters", "messages", "credentials", "connection"]


def _code(model: Any, request: ModelRequest) -> str:
    with pytest.raises(ModelError) as raised:
        complete(model, request)
    return raised.value.code
