"""The Gemini generateContent interface, read from outside: requests."""

from typing import Any

from refold.engine.wire.generate.request import asked, is_shaped, without_ids
from tests.support.loops import for_each


def model(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": "model", "parts": list(parts)}


def user(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "parts": list(parts)}


def call(name: str = "look", **more: Any) -> dict[str, Any]:
    return {"functionCall": {"name": name, "args": {"q": 1}, **more}}


def result(name: str = "look", **more: Any) -> dict[str, Any]:
    return {"functionResponse": {"name": name, "response": {"result": "ok"}, **more}}


def said(*turns: dict[str, Any], **members: Any) -> list[dict[str, Any]]:
    return list(asked({"contents": list(turns), **members}).messages)


def test_a_conversation_in_neutral_messages() -> None:
    """Calls have ids of their own, and results name them; nothing beside is needed."""
    found = said(
        user({"text": "Look"}),
        model({"text": "Yes."}, call(), call()),
        user(result(), result()),
        systemInstruction=user({"text": "Be brief"}),
    )
    made = [{"id": f"look#{at}", "name": "look", "arguments": {"q": 1}} for at in (1, 2)]
    told = {"role": "tool", "name": "look", "content": '{"result": "ok"}'}
    assert found == [
        {"role": "system", "content": "Be brief"},
        {"role": "user", "content": "Look"},
        {"role": "assistant", "content": "Yes.", "tool_calls": made},
        {**told, "tool_call_id": "look#1"},
        {**told, "tool_call_id": "look#2", "provider": {"turn": "same"}},
    ]


def test_ids_that_a_client_draws_say_which_result_is_whose() -> None:
    """Gemini CLI draws one for each call, its subagents for results alone."""

    def read(*turns: dict[str, Any]) -> list[dict[str, Any]]:
        body, _ = without_ids({"contents": [user({"text": "x"}), *turns]})
        return list(asked(body).messages)

    plain = read(model(call(), call(), call("wait")), user(result(), result(), result("wait")))
    for one, two, three in (("a_1", "a_2", "b_1"), ("c", "d", "e")):
        calls = model(call(id=one), call(id=two), call("wait", id=three))
        assert read(calls, user(*map_ids(one, two), result("wait", id=three))) == plain
        crossed = read(calls, user(*map_ids(two, one), result("wait", id=three)))
        assert [each.get("tool_call_id") for each in crossed[2:]] == ["look#2", "look#1", "wait#1"]
        lost = read(calls, user(*map_ids(one, "none of them"), result("wait", id=three)))
        assert lost != plain
    alone = model(call(), call(), call("wait"))
    assert read(alone, user(*map_ids("r#0", "r#1"), result("wait", id="r#2"))) == plain


def map_ids(*ids: str) -> list[dict[str, Any]]:
    return [result(id=each) for each in ids]


def test_chunks_that_a_client_repeats_are_one_message() -> None:
    """As they came, or put together."""
    chunks = (model({"text": "a"}), model({"text": "b"}), model({"text": ""}))
    assert said(user({"text": "x"}), *chunks) == said(user({"text": "x"}), model({"text": "ab"}))


@for_each(
    "other",
    [
        [user({"text": "y"})],
        [user({"text": "x"}, {"text": ""})],
        [{"parts": [{"text": "x"}]}],
        [user({"text": "x"}), user({"text": "x"})],
        [user({"text": "x", "thought": False})],
        [user({"inlineData": {"data": "QQ==", "mimeType": "image/png"}})],
        [model({"text": "x"})],
        [],
    ],
)
def test_what_says_something_else_reads_differently(other: list[dict[str, Any]]) -> None:
    assert said(*other) != said(user({"text": "x"}))


def test_thoughts_and_signatures_are_kept_and_are_no_text() -> None:
    part = {"text": "hm", "thought": True}
    (found,) = said(model(part, {"text": "Yes", "thoughtSignature": "c2ln"}))
    assert found["content"] == "Yes"
    assert found["provider"]["generate"]["parts"][0] == part


@for_each(
    "body",
    [
        {},
        {"contents": "x"},
        {"contents": [{"parts": "x"}]},
        {"contents": [{"parts": ["x"]}]},
        {"contents": [], "systemInstruction": "x"},
    ],
)
def test_a_body_of_another_shape_is_not_read(body: dict[str, Any]) -> None:
    assert not is_shaped(body)
