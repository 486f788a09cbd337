"""Messages have the neutral shape before a client or a script is asked (CONTRACT.md §11.5)."""

from pathlib import Path
from typing import Any

import pytest

import refold
from refold.engine.errors import ModelError
from refold.engine.models import FunctionModel, ScriptedModel
from refold.engine.models.messages import check_messages
from refold.engine.ports.ports import ModelRequest
from tests.support.loops import for_each

ANSWERED: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "2 + 2?"},
    {"role": "assistant", "tool_calls": [{"id": "c", "name": "add", "arguments": {}}]},
    {"role": "tool", "tool_call_id": "c", "content": "4"},
    {"role": "assistant"},
]
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"content": "?"}, "unknown role ''"),
    ({"role": "usr", "content": "?"}, "did you mean 'user'?"),
    ({"role": "user"}, "a message has no content, only role"),
    ({"role": "tool", "content": "4"}, "a tool message has no tool_call_id (the id of the call"),
    (
        {"role": "tool", "tool_call_id": "c"},
        "a tool message has no content, only role, tool_call_id",
    ),
]


def test_the_neutral_shape_passes() -> None:
    check_messages("m", ANSWERED)


@for_each("message, said", WRONG)
def test_a_message_that_lacks_a_member_is_refused(message: dict[str, Any], said: str) -> None:
    with pytest.raises(ModelError) as refused:
        check_messages("m", [*ANSWERED, message])

    assert refused.value.code == "messages"
    assert said in refused.value.message


def test_no_message_at_all_is_refused() -> None:
    """By clients and scripts; a script that is asked to go on from its own answer does."""
    for refuses in (check_messages, lambda _, none: ScriptedModel(["a"]).complete(request(none))):
        with pytest.raises(ModelError, match="there is no message to answer"):
            refuses("m", [])

    assert ScriptedModel(["a", "b"]).complete(request(ANSWERED[:3])).message["content"] == "b"


def request(messages: list[dict[str, Any]]) -> ModelRequest:
    return ModelRequest(messages=tuple(messages), tools=(), parameters={})


@for_each("message, said", WRONG)
def test_a_script_refuses_it_too_and_a_function_gets_it(
    message: dict[str, Any], said: str, tmp_path: Path
) -> None:
    """A program that a provider would refuse fails in its test; models of one's own are free."""

    async def asks(run: refold.Run, _input: object) -> str:
        return str((await run.model([*ANSWERED, message])).message["content"])

    script = ScriptedModel(["a", "b", "c"])
    refused = refold.record(asks, log=tmp_path / "a.jsonl", model=script)
    answered = refold.record(asks, log=tmp_path / "b.jsonl", model=FunctionModel(lambda _: "d"))

    assert refused.error is not None
    assert (refused.error.code, said in refused.error.message) == ("messages", True)
    assert answered.output == "d"
    assert refold.reexecute(refused, asks).identical
