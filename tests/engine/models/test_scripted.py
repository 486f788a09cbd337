"""Models without a network: the conversation chooses the reply."""

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import attrs
import pytest

from refold.engine.errors import ModelError, ScriptRefused
from refold.engine.events.outcome import Usage
from refold.engine.models import FunctionModel, ScriptedModel, scripted
from refold.engine.ports.ports import ModelReply, ModelRequest, Reference
from tests.support.loops import for_each


def asked(replies: int, **parameters: Any) -> ModelRequest:
    """Return a request after so many replies."""
    said: tuple[dict[str, Any], ...] = ({"role": "user", "content": "Go."},)
    turn = ({"role": "assistant", "content": "…"}, {"role": "user", "content": "On."})
    return ModelRequest(messages=said + turn * replies, parameters=parameters)


def test_messages_that_another_model_passes_on_are_counted_again() -> None:
    model, whole = ScriptedModel(["first", "second", "third"]), asked(2)
    whole = attrs.evolve(whole, counted=(whole.messages, 2))
    shorter = attrs.evolve(whole, messages=whole.messages[:-2])

    assert model.complete(whole).message["content"] == "third"
    assert model.complete(shorter).message["content"] == "second"


def test_the_conversation_chooses_the_reply() -> None:
    """Whatever the order of arrival and however often asked, place n has reply n."""
    model = ScriptedModel(["one", "two", "three"])
    places = [2, 0, 1, 1, 2, 0] * 20

    with ThreadPoolExecutor(4) as pool:
        replies = list(pool.map(lambda place: model.complete(asked(place)), places))

    assert [reply.message["content"] for reply in replies] == [
        ["one", "two", "three"][place] for place in places
    ]


def test_each_agent_has_its_script() -> None:
    """The parameter `agent` chooses; `*` is any agent without one."""
    model = ScriptedModel({"researcher": ["found"], "*": ["other"]})

    told = [model.complete(asked(0, agent=agent)) for agent in ("researcher", "writer")]

    assert [reply.message["content"] for reply in told] == ["found", "other"]
    assert model.complete(asked(0)).message["content"] == "other"


def test_inherited_messages_do_not_count() -> None:
    """A child that took over its parent's conversation begins at its own first reply."""
    model = ScriptedModel({"child": ["first", "second"]})

    replies = [model.complete(asked(n, agent="child", inherited=5)) for n in (2, 3)]

    assert [reply.message["content"] for reply in replies] == ["first", "second"]


@for_each("inherited", [0, 1, 2, 5, 7])
def test_replies_that_a_run_has_counted_are_not_counted_again(inherited: int) -> None:
    """The place is the same, and messages before the last reply are not looked at."""
    counted = asked(4, agent="child", inherited=inherited)
    own, last = counted.messages[inherited:-2], counted.messages[-2:]
    messages = (*counted.messages[: -2 - len(own)], *[{}] * len(own), *last)
    known = ModelRequest(messages=messages, parameters=counted.parameters, counted=(messages, 4))
    model = ScriptedModel({"child": ["0", "1", "2", "3", "4"]})

    assert model.complete(known) == model.complete(counted)


def test_calls_usage_and_stop_reasons() -> None:
    """Calls get ids by their place in the conversation; what is not said has a default."""
    search = {"name": "search", "arguments": {"query": "tides"}}
    model = ScriptedModel(
        [
            search,
            {"text": "Look.", "tool_calls": [search, {"name": "now", "id": "mine"}]},
            {"text": "", "stop_reason": "refusal", "usage": {"input_tokens": 7}},
        ]
    )

    one, two, three = (model.complete(asked(place)) for place in range(3))

    assert one == ModelReply(
        message={"role": "assistant", "content": "", "tool_calls": [{"id": "call_1_0"} | search]},
        usage=Usage(requests=1),
        stop_reason="tool_calls",
    )
    assert two.message["tool_calls"] == [
        {"id": "call_3_0"} | search,
        {"id": "mine", "name": "now", "arguments": {}},
    ]
    assert three == ModelReply(
        message={"role": "assistant", "content": ""},
        usage=Usage(input_tokens=7, requests=1),
        stop_reason="refusal",
    )


def test_ready_replies_come_back_as_they_are() -> None:
    """A `ModelReply` is given unchanged, calls with invalid arguments and provider members too."""
    call = {"id": "a", "name": "search", "arguments": {}, "invalid": "{"}
    message = {"role": "assistant", "content": "", "tool_calls": [call], "provider": {"x": [1]}}
    reply = ModelReply(
        message=message,
        usage=Usage(input_tokens=1, output_tokens=2, requests=3),
        stop_reason="tool_calls",
    )

    assert ScriptedModel([reply]).complete(asked(0)) == reply


def test_a_script_cannot_be_changed_from_outside() -> None:
    """Neither by who made it nor by who received a reply."""
    arguments = {"query": "tides"}
    model = ScriptedModel([{"name": "search", "arguments": arguments}])

    arguments["query"] = "changed"
    model.complete(asked(0)).message["tool_calls"][0]["arguments"].clear()

    [call] = model.complete(asked(0)).message["tool_calls"]
    assert call["arguments"] == {"query": "tides"}


@pytest.mark.parametrize(
    "reply",
    [ModelError("any", "busy", "http_529"), {"error": {"code": "http_529", "message": "busy"}}],
)
def test_a_scripted_failure_is_raised(reply: Any) -> None:
    """It carries the model's own name."""
    with pytest.raises(ModelError) as caught:
        ScriptedModel([reply], name="mine").complete(asked(0))

    told = (caught.value.model, caught.value.message, caught.value.code)
    assert told == ("mine", "busy", "http_529")


def test_an_exhausted_script_says_whose() -> None:
    """Agent, replies there were, and the number asked for."""
    model = ScriptedModel({"writer": ["one"]})

    with pytest.raises(ModelError) as caught:
        model.complete(asked(1, agent="writer"))

    assert caught.value.code == "script_exhausted"
    assert caught.value.message == "agent 'writer' has 1 reply and asks for number 2"
    with pytest.raises(ModelError, match=r"no script for agent 'writr' \(scripts: writer\)"):
        model.complete(asked(0, agent="writr"))


def test_another_process_can_make_the_same_model() -> None:
    """The reference holds the script itself as JSON: no file need be there."""
    model = ScriptedModel({"a": ["one", {"name": "now"}], "*": [ModelError("m", "no", "x")]}, "s")

    reference = model.reference
    made = getattr(sys.modules[reference.source], reference.name)(**reference.arguments or {})

    assert made.reference == reference
    assert made.name == "s"
    assert made.complete(asked(0, agent="a")) == model.complete(asked(0, agent="a"))


def test_the_file_in_the_docstring_is_a_script(tmp_path: Path) -> None:
    """The documented example works: YAML, and so JSON."""
    lines = (scripted.__doc__ or "").partition("JSON:\n")[2].partition("\nA list")[0]
    path = tmp_path / "replies.yaml"
    path.write_text(lines)

    model = ScriptedModel.from_file(path)

    first = model.complete(asked(0, agent="researcher"))
    assert [call["name"] for call in first.message["tool_calls"]] == ["search", "search"]
    assert first.message["content"] == "Let me look."
    assert first.usage == Usage(input_tokens=120, output_tokens=30, requests=1)
    assert model.complete(asked(1, agent="researcher")).stop_reason == "tool_calls"
    with pytest.raises(ModelError, match="overloaded"):
        model.complete(asked(2, agent="researcher"))
    last = model.complete(asked(3, agent="researcher"))
    assert last.message["content"] == "The tides follow the moon."
    assert model.complete(asked(0, agent="else")).stop_reason == "refusal"


@for_each(
    "replies, pointer, expected",
    [
        (None, "", "a list of replies"),
        ("hello", "", "a list of replies"),
        ({"a": "hello"}, "/a", "a list of replies"),
        ({1: []}, "/1", "an agent's name"),
        ([1], "/0", "a string or an object"),
        ([{"tool_call": []}], "/0/tool_call", "'tool_calls'"),
        (
            [{"zzz": 1}],
            "/0/zzz",
            "one of text, tool_calls, stop_reason, usage, provider, error",
        ),
        ([{"nam": "f", "arguments": {}}], "/0/tool_calls/0/name", "required"),
        ([{"text": None}], "/0/text", "a string"),
        ([{"tool_calls": ["search"]}], "/0/tool_calls/0", "an object"),
        ([{"tool_calls": [{"arguments": {}}]}], "/0/tool_calls/0/name", "required"),
        ([{"name": "f", "argument": {}}], "/0/tool_calls/0/argument", "'arguments'"),
        ([{"name": "f", "arguments": {"n": 2**80}}], "/0/tool_calls/0/arguments/n", "64-bit"),
        ([{"usage": {"input_token": 1}}], "/0/usage/input_token", "'input_tokens'"),
        ([{"usage": {"input_tokens": True}}], "/0/usage/input_tokens", "an integer"),
        ([{"error": {"code": "x"}}], "/0/error/message", "required"),
        (["a", {"usage": {"input_tokens": -1}}], "/1/usage/input_tokens", "at least 0, not -1"),
        ([{"error": {"code": "x", "message": "y"}, "text": "z"}], "/0", "error alone, not text"),
        ({"a": [{"name": ""}]}, "/a/0/tool_calls/0/name", "a tool's name, not an empty text"),
    ],
)
def test_a_script_is_refused_where_it_is_wrong(replies: Any, pointer: str, expected: str) -> None:
    """When made, not in the middle of a run; the nearest known member is named."""
    with pytest.raises(ScriptRefused) as caught:
        ScriptedModel(replies)

    assert caught.value.pointer == pointer
    assert expected in f"{caught.value.expected}, not {caught.value.found}"
    assert str(caught.value).startswith("replies")


@for_each("content", [b"a: [", b"\xff", b"", b"- {text: 2026-01-01}", None])
def test_a_file_that_is_no_script_is_refused(tmp_path: Path, content: bytes | None) -> None:
    """Unreadable, not text, not YAML, empty, or not there: the error names the file."""
    path = tmp_path / "replies.yaml"
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(ScriptRefused) as caught:
        ScriptedModel.from_file(path)

    assert caught.value.path == str(path)
    if content is None:
        assert str(caught.value) == f"{path}: no such file"


def test_a_function_can_be_a_model() -> None:
    """It says what a script may say; a reference is the caller's to give."""
    given = Reference("somewhere", "make", {})
    model = FunctionModel(lambda request: request.messages[-1]["content"], "echo", reference=given)

    assert (model.name, model.reference) == ("echo", given)
    assert model.complete(asked(1)).message == {"role": "assistant", "content": "On."}
    with pytest.raises(ModelError, match="http_500"):
        FunctionModel(lambda _: ModelError("", "lost", "http_500")).complete(asked(0))
    with pytest.raises(ScriptRefused):
        FunctionModel(lambda _: {"txt": "x"}).complete(asked(0))
