"""Messages of Pydantic AI become neutral ones."""

import datetime as dt
import warnings
from typing import TYPE_CHECKING, Any

from tests.support.later import Later

if TYPE_CHECKING:
    from tests.support import pydantic_sdk as sdk
else:
    sdk = Later("tests.support.pydantic_sdk")


NOON = dt.datetime(2026, 1, 2, 12, tzinfo=dt.UTC)


def test_neither_moments_nor_ids_are_in_a_request() -> None:
    """Two of the same words are the same."""

    def history(run: str, hour: int) -> list[dict[str, Any]]:
        when = NOON.replace(hour=hour)
        request = sdk.ModelRequest(
            [sdk.SystemPromptPart("s", timestamp=when), sdk.UserPromptPart("u", timestamp=when)],
            timestamp=when,
            run_id=run,
            metadata={"of": run},
        )
        answer = sdk.ModelResponse(
            [sdk.TextPart("a")], timestamp=when, run_id=run, conversation_id=run
        )
        returned = sdk.ToolReturnPart("look", {"b": 1}, "c1", timestamp=when)
        return sdk.neutral_messages([request, answer, sdk.ModelRequest([returned])], sdk.PLAIN)

    messages = history("one", 1)

    assert messages == history("two", 2)
    assert [message["role"] for message in messages] == ["system", "user", "assistant", "tool"]
    assert messages[-1]["content"] == '{"b":1}'


def test_what_is_to_be_tried_again_is_said_by_the_tool_or_else_by_the_user() -> None:
    """A call with wrong arguments has a failing result; an answer of the wrong form has none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # later versions make others, and still read these
        wrong = sdk.RetryPromptPart("no such place", tool_name="look", tool_call_id="c1")
        form = sdk.RetryPromptPart("say it as JSON")

    of_tool, of_user = sdk.neutral_messages([sdk.ModelRequest([wrong, form])], sdk.PLAIN)

    assert (of_tool["role"], of_user["role"]) == ("tool", "user")
    assert (of_tool["tool_call_id"], of_tool["name"]) == ("c1", "look")
    assert "no such place" in of_tool["content"]
    assert "say it as JSON" in of_user["content"]


def test_files_are_part_of_a_request() -> None:
    """Under `provider`, as the neutral shape has texts only."""
    picture = sdk.BinaryContent(b"\x00", media_type="image/png")
    request = sdk.ModelRequest([sdk.UserPromptPart(["look", picture])])
    [message] = sdk.neutral_messages([request], sdk.PLAIN)

    assert (message["role"], message["content"]) == ("user", "look")
    assert message["provider"]["pydantic_ai"][1]["media_type"] == "image/png"


def test_headers_are_named_and_not_shown() -> None:
    """They may hold keys; other settings are parameters by their names."""
    settings = sdk.ModelSettings(temperature=0.5, extra_headers={"authorization": "sk-1"})
    parameters = sdk.ModelRequestParameters(output_mode="tool", allow_text_output=False)

    found = sdk.neutral_parameters(settings, parameters)

    assert found == {
        "temperature": 0.5,
        "extra_headers": ["authorization"],
        "pydantic_ai": {"allow_text_output": False, "output_mode": "tool"},
    }


def test_output_tools_are_offered_too() -> None:
    """With what they ask for."""
    offered = sdk.ToolDefinition(name="final_result", parameters_json_schema={"type": "object"})
    [tool] = sdk.neutral_tools(sdk.ModelRequestParameters(output_tools=[offered]))

    assert (tool.name, tool.parameters) == ("final_result", {"type": "object"})


def test_a_tool_without_a_description_is_offered_with_an_empty_one() -> None:
    tools = [sdk.ToolDefinition(name="a"), sdk.ToolDefinition(name="b", description="Count.")]

    offered = sdk.neutral_tools(sdk.ModelRequestParameters(function_tools=tools))

    assert [(tool.name, tool.description) for tool in offered] == [("a", ""), ("b", "Count.")]
