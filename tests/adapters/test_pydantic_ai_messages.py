"""Messages of Pydantic AI become neutral ones, and an answer comes back as it was."""

import datetime as dt
from typing import Any

import pytest
from pydantic_ai.messages import (
    BinaryContent,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.usage import RequestUsage

from refold.adapters.pydantic_ai_messages import (
    answer_of,
    neutral_answer,
    neutral_messages,
    neutral_parameters,
    neutral_tools,
    reply_of,
)
from refold.engine.errors import ModelError
from refold.engine.ports.ports import ModelReply

NOON = dt.datetime(2026, 1, 2, 12, tzinfo=dt.UTC)
PLAIN = ModelRequestParameters()


@pytest.mark.parametrize(
    "parts",
    [
        [TextPart("hi")],
        [TextPart("a"), ToolCallPart("look", {"at": [1]}, tool_call_id="c1")],
        [ToolCallPart("look", '{ "at": 1 }', tool_call_id="c1"), TextPart("after")],
        [ToolCallPart("look", "no json", tool_call_id="c1")],
        [ThinkingPart("hm", signature="s", provider_name="p"), TextPart("a"), TextPart("b")],
        [],
    ],
)
def test_an_answer_comes_back_as_it_was(parts: list[Any]) -> None:
    """All but the moment and what the framework writes on it afterwards."""
    usage = RequestUsage(input_tokens=3, output_tokens=2, details={"reasoning": 1})
    answer = ModelResponse(
        parts,
        usage=usage,
        model_name="m",
        timestamp=NOON,
        provider_response_id="r1",
        provider_details={"finish": "stop"},
        finish_reason="stop",
    )

    reply = reply_of("m", answer, 1)

    assert answer_of("m", reply, NOON) == answer
    assert (reply.usage.input_tokens, reply.usage.output_tokens, reply.usage.requests) == (3, 2, 1)
    assert neutral_answer(answer_of("m", reply, NOON)) == reply.message


def test_a_plain_answer_is_not_said_twice() -> None:
    """Its parts stand in the neutral shape alone."""
    answer = ModelResponse([TextPart("hi"), ToolCallPart("look", {"n": 1}, tool_call_id="c")])

    message = neutral_answer(answer)

    assert message["content"] == "hi"
    assert message["tool_calls"] == [{"id": "c", "name": "look", "arguments": {"n": 1}}]
    assert "parts" not in message["provider"]["pydantic_ai"]


def test_neither_moments_nor_ids_are_in_a_request() -> None:
    """Two of the same words are the same."""

    def history(run: str, hour: int) -> list[dict[str, Any]]:
        when = NOON.replace(hour=hour)
        request = ModelRequest(
            [SystemPromptPart("s", timestamp=when), UserPromptPart("u", timestamp=when)],
            timestamp=when,
            run_id=run,
            metadata={"of": run},
        )
        answer = ModelResponse([TextPart("a")], timestamp=when, run_id=run, conversation_id=run)
        returned = ToolReturnPart("look", {"b": 1}, "c1", timestamp=when)
        return neutral_messages([request, answer, ModelRequest([returned])], PLAIN)

    messages = history("one", 1)

    assert messages == history("two", 2)
    assert [message["role"] for message in messages] == ["system", "user", "assistant", "tool"]
    assert messages[-1]["content"] == '{"b":1}'


def test_files_are_part_of_a_request() -> None:
    """Under `provider`, as the neutral shape has texts only."""
    picture = BinaryContent(b"\x00", media_type="image/png")
    request = ModelRequest([UserPromptPart(["look", picture])])
    [message] = neutral_messages([request], PLAIN)

    assert message["content"] == "look"
    assert message["provider"]["pydantic_ai"][1]["media_type"] == "image/png"


def test_headers_are_named_and_not_shown() -> None:
    """They may hold keys; other settings are parameters by their names."""
    settings = ModelSettings(temperature=0.5, extra_headers={"authorization": "sk-1"})
    parameters = ModelRequestParameters(output_mode="tool", allow_text_output=False)

    found = neutral_parameters(settings, parameters)

    assert found == {
        "temperature": 0.5,
        "extra_headers": ["authorization"],
        "pydantic_ai": {"allow_text_output": False, "output_mode": "tool"},
    }


def test_output_tools_are_offered_too() -> None:
    """With what they ask for."""
    offered = ToolDefinition(name="final_result", parameters_json_schema={"type": "object"})
    [tool] = neutral_tools(ModelRequestParameters(output_tools=[offered]))

    assert (tool.name, tool.parameters) == ("final_result", {"type": "object"})


def test_what_is_no_answer_is_malformed() -> None:
    """Somebody edited it."""
    message = {"role": "assistant", "content": "", "provider": {"pydantic_ai": {"parts": [1]}}}
    with pytest.raises(ModelError, match="no answer of Pydantic AI"):
        answer_of("m", ModelReply(message=message), NOON)


def test_an_edited_answer_is_its_neutral_shape() -> None:
    """As a fork writes one: without `provider`."""
    message = {"role": "assistant", "content": "what if"}

    assert answer_of("m", ModelReply(message=message), NOON).parts == [TextPart("what if")]


def test_a_call_without_an_id_is_named_by_its_place() -> None:
    """Not by the one that the framework draws: a live run would differ from the record."""
    parts = [ToolCallPart("look"), ToolCallPart("look", tool_call_id="own"), ToolCallPart("look")]

    message = reply_of("m", ModelResponse(parts), 4).message

    assert [call["id"] for call in message["tool_calls"]] == ["call_4_0", "own", "call_4_1"]
