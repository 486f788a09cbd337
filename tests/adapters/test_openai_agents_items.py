"""Items of OpenAI Agents become neutral messages, and an answer comes back as it was."""

from typing import TYPE_CHECKING, Any

import pytest

from refold.engine.errors import ModelError
from refold.engine.ports.ports import ModelReply
from tests.support.later import Later

if TYPE_CHECKING:
    from tests.support import agents_sdk as sdk
else:
    sdk = Later("tests.support.agents_sdk")


def answer() -> "sdk.ModelResponse":
    text = sdk.ResponseOutputText(type="output_text", text="look", annotations=[])
    said = sdk.ResponseOutputMessage(
        id="m1", type="message", role="assistant", status="completed", content=[text]
    )
    call = sdk.ResponseFunctionToolCall(
        id="f1", call_id="c1", name="count", arguments='{"n": 1}', type="function_call"
    )
    thought = sdk.ResponseReasoningItem(id="r1", type="reasoning", summary=[])
    usage = sdk.Usage(requests=1, input_tokens=3, output_tokens=2, total_tokens=5)
    return sdk.ModelResponse([thought, said, call], usage, response_id="resp_1")


def test_an_answer_comes_back_as_it_was() -> None:
    """And its neutral shape says what it says."""
    reply = sdk.reply_of("m", answer())

    assert sdk.answer_of("m", reply) == answer()
    assert reply.message["content"] == "look"
    assert reply.message["tool_calls"] == [{"id": "c1", "name": "count", "arguments": {"n": 1}}]
    assert (reply.usage.input_tokens, reply.stop_reason) == (3, "tool_calls")


def test_a_refusal_is_told_and_no_other_reason() -> None:
    """The framework does not say why an answer ended."""
    plain = sdk.ResponseOutputText(type="output_text", text="look", annotations=[])
    refusal = sdk.ResponseOutputRefusal(type="refusal", refusal="I cannot.")
    told = []
    for part in (plain, refusal):
        said = sdk.ResponseOutputMessage(
            id="m1", type="message", role="assistant", status="completed", content=[part]
        )
        reply = sdk.reply_of("m", sdk.ModelResponse([said], sdk.Usage(), None))
        told.append((reply.message["content"], reply.stop_reason))

    assert told == [("look", ""), ("I cannot.", "refusal")]


def test_an_answer_that_goes_back_is_the_message_that_came() -> None:
    """So that the log has it once; a result knows the name of its call."""
    conversation = sdk.AnswersSoFar()
    reply = sdk.reply_of("m", answer())
    conversation.came(answer(), reply.message)
    output: Any = {"type": "function_call_output", "call_id": "c1", "output": "1"}
    given: list[Any] = [{"role": "user", "content": "hi"}, *answer().to_input_items(), output]

    messages = conversation.messages("Be brief.", given)

    assert messages == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "hi"},
        reply.message,
        {
            "role": "tool",
            "tool_call_id": "c1",
            "name": "count",
            "content": "1",
            "is_error": False,
        },
    ]


def test_a_history_from_elsewhere_is_told_by_its_items() -> None:
    """What is no text is under `provider`."""
    picture = [{"type": "input_text", "text": "see"}, {"type": "input_image", "image_url": "u"}]
    given: list[Any] = [
        {"role": "user", "content": picture},
        {"role": "assistant", "content": "seen"},
        {"type": "function_call_output", "call_id": "c9", "output": picture},
    ]

    user, assistant, result = sdk.AnswersSoFar().messages(None, given)

    assert (user["content"], user["provider"]["openai_agents"]["content"]) == ("see", picture)
    assert (assistant["role"], assistant["content"]) == ("assistant", "seen")
    assert result["provider"]["openai_agents"] == given[2]


def test_what_is_offered_has_a_name_and_a_schema() -> None:
    """Functions, hosted tools and handoffs."""

    @sdk.function_tool
    def count(n: int) -> int:
        """Count."""
        return n

    found = sdk.neutral_tools([count, sdk.WebSearchTool()], [sdk.handoff(sdk.Agent(name="clerk"))])

    assert [tool.name for tool in found] == ["count", "web_search", "transfer_to_clerk"]
    assert found[0].description == "Count."
    assert "n" in found[0].parameters["properties"]
    assert found[1].parameters["search_context_size"] == "medium"
    assert sdk.AnswersSoFar().messages("Be brief.", "hi") == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "hi"},
    ]


def test_an_item_that_is_plain_is_taken_as_it_is() -> None:
    """Models of users put such in, too."""
    said: Any = {"type": "message", "role": "assistant", "content": [{"text": "hello"}]}
    answered = sdk.ModelResponse([], sdk.Usage(), response_id=None)
    answered.output.append(said)

    reply = sdk.reply_of("m", answered)

    assert reply.message["content"] == "hello"
    assert reply.message["provider"]["openai_agents"]["output"] == [said]


def test_settings_hold_neither_headers_nor_cache_keys() -> None:
    """The names of headers stay; a drawn key would be another one in each replay."""
    settings = sdk.ModelSettings(
        temperature=0.5,
        extra_headers={"x-key": "sk-1"},
        extra_args={"prompt_cache_key": "agents-sdk:run:1", "seed": 1},
    )

    assert sdk.neutral_parameters(
        settings, None, previous_response_id="r0", conversation_id=None
    ) == {
        "temperature": 0.5,
        "extra_headers": ["x-key"],
        "extra_args": {"seed": 1},
        "openai_agents": {"previous_response_id": "r0"},
    }


def test_what_is_no_answer_is_malformed() -> None:
    """Another version wrote it."""
    message = {"role": "assistant", "content": "", "provider": {"openai_agents": {"old": 1}}}
    with pytest.raises(ModelError, match="not an answer of OpenAI Agents"):
        sdk.answer_of("m", ModelReply(message=message))


def test_an_edited_answer_is_its_neutral_shape() -> None:
    """As a fork writes one: without `provider`."""
    call = {"id": "c1", "name": "count", "arguments": {"n": 2}}
    message = {"role": "assistant", "content": "what if", "tool_calls": [call]}

    said, called = sdk.answer_of("m", ModelReply(message=message)).output

    assert isinstance(said, sdk.ResponseOutputMessage)
    assert isinstance(called, sdk.ResponseFunctionToolCall)
    assert isinstance(said.content[0], sdk.ResponseOutputText)
    assert (said.content[0].text, called.arguments) == ("what if", '{"n":2}')
