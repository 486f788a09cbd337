"""The Anthropic messages interface, read from outside: requests."""

from typing import Any

import pytest

from refold.engine.wire.messages import request as messages
from tests.support.loops import for_each

CACHED = {"cache_control": {"type": "ephemeral"}}


def asked(*turns: dict[str, Any], **members: Any) -> list[dict[str, Any]]:
    """Return the neutral messages of a request with these turns."""
    return list(messages.asked({"messages": list(turns), **members}).messages)


def user(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def text(said: str, **members: Any) -> dict[str, Any]:
    return {"type": "text", "text": said, **members}


def use(call_id: str = "c", **members: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": "f", "input": {"a": 1}, **members}


def result(call_id: str = "c", /, **members: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": "found", **members}


def found(call_id: str = "c", **members: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": "found", **members}


@pytest.mark.parametrize("system", ["Be brief", [text("Be brief")]])
def test_the_system_prompt_is_the_first_message(system: Any) -> None:
    """As a text, or as one block."""
    assert asked({"role": "user", "content": "a"}, system=system) == [
        {"role": "system", "content": "Be brief"},
        {"role": "user", "content": "a"},
    ]
    assert asked(system=None) == asked() == []


def test_blocks_of_a_system_prompt_are_kept() -> None:
    """Where one text does not say it all."""
    system = [text("Be "), text("brief", **CACHED)]

    assert asked(system=system) == [
        {"role": "system", "content": "Be brief", "provider": {"messages": system}}
    ]


def test_results_are_messages_of_their_own() -> None:
    """In their order; parallel ones in one turn are the rule, and need no mark."""
    turns = [
        {"role": "assistant", "content": [text("Look"), use("a"), use("b")]},
        user(result("a"), result("b", is_error=True), result("d", content=[text("found")])),
    ]

    call = {"name": "f", "arguments": {"a": 1}}
    assert asked(*turns) == [
        {
            "role": "assistant",
            "content": "Look",
            "tool_calls": [{"id": "a", **call}, {"id": "b", **call}],
        },
        found("a"),
        found("b", is_error=True),
        found("d"),
    ]


def test_how_turns_are_divided_is_kept() -> None:
    """What goes on with a turn, or begins one, against the rule says so."""
    together = asked(user(result("a"), text("Go on")))
    apart = asked(user(result("a")), user(text("Go on")))
    divided = asked(user(result("a")), user(result("b")))
    before = asked(user(text("See"), result("a")))

    assert together == [
        found("a"),
        {"role": "user", "content": "Go on", "provider": {"turn": "same"}},
    ]
    assert apart == [found("a"), {"role": "user", "content": "Go on"}]
    assert divided == [found("a"), found("b", provider={"turn": "new"})]
    assert before == [{"role": "user", "content": "See"}, found("a", provider={"turn": "same"})]


@for_each(
    "turn, neutral, original",
    [
        (
            user(text("a", **CACHED)),
            {"role": "user", "content": "a"},
            [text("a", **CACHED)],
        ),
        (
            user(text("a"), {"type": "image", "source": {}}),
            {"role": "user", "content": "a"},
            [text("a"), {"type": "image", "source": {}}],
        ),
        (
            user(result(**CACHED, content=[text("found")])),
            found(),
            result(**CACHED),
        ),
        (
            user({"type": "tool_result", "tool_use_id": "c"}),
            {"role": "tool", "tool_call_id": "c", "content": ""},
            {"type": "tool_result", "tool_use_id": "c"},
        ),
        (
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "b"}, text("a")]},
            {"role": "assistant", "content": "a"},
            [{"type": "thinking", "thinking": "b"}, text("a")],
        ),
        (
            {"role": "assistant", "content": [text(""), use()]},
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"id": "c", "name": "f", "arguments": {"a": 1}}],
            },
            [text(""), use()],
        ),
        (
            {"role": "user", "content": "a", "id": "m"},
            {"role": "user", "content": "a"},
            {"id": "m", "content": "a"},
        ),
        (
            {"role": "system", "content": "a"},
            {"role": "system", "content": "a"},
            {"role": "system", "content": "a"},
        ),
        (
            {"role": "user", "content": []},
            {"role": "user", "content": ""},
            [],
        ),
    ],
)
def test_what_has_no_neutral_place_stands_beside_it(
    turn: dict[str, Any], neutral: dict[str, Any], original: Any
) -> None:
    """The blocks of the message, with what else the turn holds."""
    assert asked(turn) == [{**neutral, "provider": {"messages": original}}]


def test_the_default_caller_is_notation() -> None:
    """Answers have it, and clients that build their history anew leave it out."""
    turns = [{"role": "assistant", "content": [use(**more)]} for more in _CALLERS]

    plain, direct, other = (asked(turn) for turn in turns)

    assert plain == direct != other


_CALLERS: list[dict[str, Any]] = [
    {},
    {"caller": {"type": "direct"}},
    {"caller": {"type": "code_execution"}},
]


def test_marks_of_caching_stand_apart() -> None:
    """They move on with each turn: in the messages, each would be another one each time."""
    turns = [
        user(text("a")),
        {"role": "assistant", "content": "b"},
        user(result(), text("c", **CACHED)),
    ]
    body = {"messages": turns}

    plain, _ = messages.without_marks(body, {})

    assert plain[messages.MARKS] == {"2/1": {"type": "ephemeral"}}
    assert asked(*plain["messages"]) == asked(turns[0], turns[1], user(result(), text("c")))
    assert messages.without_marks({"messages": turns[:2]}, {})[0] == {"messages": turns[:2]}
    assert turns[2]["content"][1] == text("c", **CACHED)
