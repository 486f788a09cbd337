"""The OpenAI responses interface, read from outside: requests."""

import json
from typing import Any

from refold.engine.wire.apis import read_request
from refold.engine.wire.responses import request as responses
from tests.support.loops import for_each


def asked(given_input: Any = None, **members: Any) -> list[dict[str, Any]]:
    """Return the neutral messages of a request with this input."""
    return list(responses.asked({"input": given_input, **members}).messages)


def said(role: str, text: str, kind: str = "input_text", **members: Any) -> dict[str, Any]:
    return {"role": role, "content": [{"type": kind, "text": text}], **members}


def call(call_id: str = "c", **members: Any) -> dict[str, Any]:
    arguments = '{"a": 1}'
    return {
        "type": "function_call", "call_id": call_id, "name": "f", "arguments": arguments, **members
    }  # fmt: skip


def result(call_id: str = "c", **members: Any) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": "found", **members}


def called(call_id: str = "c") -> dict[str, Any]:
    return {"id": call_id, "name": "f", "arguments": {"a": 1}}


REASONING = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"}


@for_each(
    "given_input",
    [
        "Hello",
        [{"role": "user", "content": "Hello"}],
        [said("user", "Hello")],
        [said("user", "Hello", type="message")],
    ],
)
def test_a_text_is_what_the_user_says(given_input: Any) -> None:
    """In each notation; instructions are the system message before it."""
    assert asked(given_input, instructions="Be brief") == [
        {"role": "system", "content": "Be brief"},
        {"role": "user", "content": "Hello"},
    ]


def test_instructions_and_a_system_item_are_not_the_same() -> None:
    """Nor is a developer's message; the original says which it was."""
    item = {"role": "system", "content": "Be brief"}
    developer = {"role": "developer", "content": "Be brief"}

    assert asked([], instructions="Be brief") == [item]
    assert asked([item]) == [{**item, "provider": {"responses": [item]}}]
    assert asked([developer]) == [{**item, "provider": {"responses": [developer]}}]
    assert asked([item], instructions="Hi") == [{"role": "system", "content": "Hi"}, item]
    assert asked([], instructions=None) == []


@for_each("members", [{"input": 7}, {"input": [7]}, {"instructions": ["Be brief"]}])
def test_what_has_no_known_shape_is_a_parameter(members: dict[str, Any]) -> None:
    """Nothing of a request is lost, and none of it is taken for something that was said."""
    body = {"model": "m", "input": "Hello", **members}
    found = read_request("POST", "/v1/responses", json.dumps(body).encode())

    assert (found.api, found.messages) == ("other", ())
    assert found.parameters["body"] == body


def test_neighbouring_items_of_the_assistant_are_one_message() -> None:
    """As one answer has them; a text and calls with nothing beside them need no original."""
    items = [
        said("assistant", "Look", "output_text"),
        call("a"),
        call("b"),
        result("a"),
        result("b", output=[{"type": "input_text", "text": "found"}]),
        {"role": "assistant", "content": "Done"},
    ]

    assert asked(items) == [
        {"role": "assistant", "content": "Look", "tool_calls": [called("a"), called("b")]},
        {"role": "tool", "tool_call_id": "a", "content": "found"},
        {"role": "tool", "tool_call_id": "b", "content": "found"},
        {"role": "assistant", "content": "Done"},
    ]


def test_items_are_kept_as_they_are_where_more_is_said() -> None:
    """All of one message, without what says nothing."""
    spoken = said("assistant", "Look", "output_text", id="msg_1", status="completed", phase=None)

    (found,) = asked([REASONING, {**spoken, "type": "message"}, call(id="fc_1")])

    assert found == {
        "role": "assistant",
        "content": "Look",
        "tool_calls": [called()],
        "provider": {
            "responses": [
                REASONING,
                {"role": "assistant", "content": "Look", "id": "msg_1"},
                call(id="fc_1"),
            ]
        },
    }


def test_an_empty_text_before_a_call_is_not_nothing() -> None:
    """The neutral message is the same; the original tells them apart."""
    empty = {"role": "assistant", "content": ""}
    plain = {"role": "assistant", "content": "", "tool_calls": [called()]}

    assert asked([empty]) == [empty]
    assert asked([call()]) == [plain]
    assert asked([empty, call()]) == [
        {
            **plain,
            "provider": {"responses": [empty, call()]},
        }
    ]


@for_each(
    "item, neutral",
    [
        (
            {"type": "custom_tool_call", "call_id": "c", "name": "sql", "input": "select"},
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"id": "c", "name": "sql", "arguments": {"input": "select"}}],
            },
        ),
        (
            {"type": "custom_tool_call_output", "call_id": "c", "output": "1"},
            {"role": "tool", "tool_call_id": "c", "content": "1"},
        ),
        (
            {"type": "mcp_approval_response", "approval_request_id": "c", "approve": True},
            {"role": "tool", "tool_call_id": "c", "content": ""},
        ),
        ({"type": "item_reference", "id": "msg_1"}, {"role": "assistant", "content": ""}),
        ({"type": "web_search_call", "id": "ws_1"}, {"role": "assistant", "content": ""}),
        (said("user", "a", "input_image"), {"role": "user", "content": "a"}),
        ({"role": "critic", "content": "a"}, {"role": "user", "content": "a"}),
        (result(id="o_1"), {"role": "tool", "tool_call_id": "c", "content": "found"}),
    ],
)
def test_other_items_stand_beside_what_is_neutral_of_them(
    item: dict[str, Any], neutral: dict[str, Any]
) -> None:
    """As they came."""
    assert asked([item]) == [{**neutral, "provider": {"responses": [item]}}]


def test_a_request_may_go_on_from_an_answer() -> None:
    """Its id is a parameter too, so that it is compared."""
    found = responses.asked({"model": "m", "input": "a", "previous_response_id": "resp_1"})

    assert found.follows == "resp_1"
    assert found.parameters == {"previous_response_id": "resp_1"}
    assert responses.asked({"input": []}).parameters == {"input": []}
