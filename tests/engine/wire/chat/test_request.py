"""The chat-completions interface, read from outside: requests."""

from typing import Any

from refold.engine.wire.chat import request as chat
from tests.support.loops import for_each


def message(said: dict[str, Any]) -> dict[str, Any]:
    """Return the neutral message that a message of a request is."""
    (found,) = chat.asked({"model": "m", "messages": [said]}).messages
    return found


def call(call_id: str = "c", name: str = "f", arguments: Any = '{"a": 1}') -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {"id": call_id, "type": "function", "function": function}


CALLED = {"id": "c", "name": "f", "arguments": {"a": 1}}


@for_each(
    "said, expected",
    [
        ({"role": "system", "content": "a"}, {"role": "system", "content": "a"}),
        (
            {"role": "user", "content": [{"type": "text", "text": "a"}]},
            {"role": "user", "content": "a"},
        ),
        (
            {"role": "assistant", "content": None, "tool_calls": [call()]},
            {"role": "assistant", "content": "", "tool_calls": [CALLED]},
        ),
        (
            {"role": "assistant", "tool_calls": [call() | {"index": 0}]},
            {"role": "assistant", "content": "", "tool_calls": [CALLED]},
        ),
        (
            {"role": "tool", "tool_call_id": "c", "content": "a"},
            {"role": "tool", "tool_call_id": "c", "content": "a"},
        ),
    ],
)
def test_a_plain_message_is_just_neutral(said: dict[str, Any], expected: dict[str, Any]) -> None:
    """Nothing is beside it."""
    assert message(said) == expected


@for_each(
    "said, role, content",
    [
        ({"role": "developer", "content": "a"}, "system", "a"),
        ({"role": "user", "content": "a", "name": "Ada"}, "user", "a"),
        ({"role": "critic", "content": "a"}, "user", "a"),
        ({"role": "assistant", "content": "a", "reasoning_content": "b"}, "assistant", "a"),
        ({"role": "assistant", "refusal": "no"}, "assistant", "no"),
        ({"role": "function", "name": "f", "content": "a"}, "tool", "a"),
        (
            {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image_url"}]},
            "user",
            "a",
        ),
        ({"role": "user", "content": 3}, "user", ""),
        ({"role": "user"}, "user", ""),
    ],
)
def test_what_has_no_neutral_place_stands_beside_it(
    said: dict[str, Any], role: str, content: str
) -> None:
    """The whole original, beside the neutral text."""
    found = message(said)

    assert (found["role"], found["content"]) == (role, content)
    assert found["provider"] == {"chat": said}


def test_the_neutral_shape_shows_other_kinds_of_calls_too() -> None:
    """Custom tools take text; functions of the old form have no id but their name."""
    custom = {"id": "c", "type": "custom", "custom": {"name": "sql", "input": "select"}}
    old = {"role": "assistant", "function_call": {"name": "f", "arguments": "{}"}}

    calls = [*message({"role": "assistant", "tool_calls": [custom]})["tool_calls"]]
    calls += message(old)["tool_calls"]

    assert calls == [
        {"id": "c", "name": "sql", "arguments": {"input": "select"}},
        {"id": "f", "name": "f", "arguments": {}},
    ]


def test_all_other_members_are_parameters() -> None:
    """Null offers no tools; an empty list, or no name of a model, are kept as they are."""
    asked = chat.asked(
        {"model": "m", "messages": [], "tools": [{"type": "function"}], "stream": True, "n": 2**64}
    )

    assert (asked.model, asked.tools) == ("m", ({"type": "function"},))
    assert asked.streamed
    assert asked.parameters == {"stream": True, "n": {"$json": str(2**64)}}
    assert chat.asked({"messages": [], "tools": None}) == chat.asked({"messages": []})
    assert chat.asked({"messages": [], "tools": []}).parameters == {"tools": []}
    assert chat.asked({"messages": [], "model": None}).parameters == {"model": None}


def test_a_call_of_a_kind_that_is_not_known_has_the_name_of_its_kind() -> None:
    """And no arguments; the original stands beside it."""
    found = message({"role": "assistant", "tool_calls": [{"id": "c", "type": "look_up"}]})

    assert found["tool_calls"] == [{"id": "c", "name": "look_up", "arguments": {}}]
