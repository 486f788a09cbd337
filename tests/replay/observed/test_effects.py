"""A record says which tool calls a command carries out that is given its answers."""

import json
from pathlib import Path

import pytest

from refold.engine.wire.parts.exchange import Asked
from refold.replay.observed.effects import NO_EFFECTS, OwnCall, OwnCalls, effects_of
from refold.replay.observed.record import read_record
from tests.support.watched import Exchange, ask, record, result, says, talk, user

TALK = talk(
    user("Tidy up."),
    says("First", ("a", "Bash", {"cmd": "ls"}), ("b", "Write", {"path": "x"})),
    result("a", "x"),
    result("b", "ok"),
    says("Then", ("c", "Bash", {"cmd": "rm x"})),
    result("c", ""),
    says("Done."),
)


@pytest.mark.parametrize("api", ["chat", "messages", "responses", "generate"])
@pytest.mark.parametrize("is_streamed", [False, True])
def test_the_calls_of_all_answers_are_listed_in_order(
    api: str, tmp_path: Path, *, is_streamed: bool
) -> None:
    """With the conversation and the request, in each format."""
    more = {"stream": True} if is_streamed else {}
    exchanges = [
        Exchange(
            Asked(api=api, model="m", messages=one.asked.messages, parameters=more), one.answer
        )
        for one in TALK
    ]
    log = record(tmp_path / "run.jsonl", exchanges)

    found = effects_of(read_record(log))

    assert [(each.tool, each.arguments, each.call) for each in found.calls] == [
        ("Bash", {"cmd": "ls"}, "0/1#1"),
        ("Write", {"path": "x"}, "0/1#1"),
        ("Bash", {"cmd": "rm x"}, found.calls[2].call),
    ]
    assert found.calls[2].call != "0/1#1"
    assert {each.conversation for each in found.calls} == {"main"}
    assert (str(found), found.unread) == (
        "this recording contains 3 tool calls that COMMAND will execute: Bash 2, Write 1",
        0,
    )


def test_folders_are_those_in_which_a_command_would_run(tmp_path: Path) -> None:
    """As a replay serves them."""
    talked = talk(user("Hi"), says("", ("a", "Bash", {"cmd": "rm /home/ada/work/x /home/bob"})))
    log = record(tmp_path / "run.jsonl", talked, folders={"folder": "/home/ada/work", "home": "/"})

    (call,) = effects_of(read_record(log), {"folder": "/srv/mine", "home": "/root"}).calls

    assert call.arguments == {"cmd": "rm /srv/mine/x /home/bob"}


def test_calls_that_a_message_has_no_place_for_are_listed(tmp_path: Path) -> None:
    """Shells, patches and computers of the responses API; what the server runs itself is not."""
    ours = ["local_shell_call", "shell_call", "apply_patch_call", "computer_call"]
    kinds = [*ours, "web_search_call", "code_interpreter_call", "mcp_call"]
    items = [{"type": kind, "call_id": f"c{at}", "action": {}} for at, kind in enumerate(kinds)]
    log = tmp_path / "run.jsonl"
    text = json.dumps({"id": "r", "status": "completed", "output": items})
    asked = Asked(api="responses", model="m", messages=(user("Hi"),))
    exchange = Exchange(asked, says("Hi"))
    record(log, [exchange], came={"text": text, "sizes": [len(text)]})

    found = effects_of(read_record(log))

    assert [each.tool for each in found.calls] == [
        "local_shell", "shell", "apply_patch", "computer",
    ]  # fmt: skip
    assert found.calls[0].arguments == {"call_id": "c0", "action": {}}


def test_what_cannot_be_read_to_its_end_may_ask_for_more(tmp_path: Path) -> None:
    """An answer with too much text before its calls, and one of no format that is read."""
    calls = [{"id": "c", "type": "function", "function": {"name": "Bash", "arguments": "{}"}}]
    said = {"role": "assistant", "content": "a" * 5_000_000, "tool_calls": calls}
    text = json.dumps({"choices": [{"message": said, "finish_reason": "stop"}]})
    came = {"text": text, "sizes": [len(text)]}
    log = record(tmp_path / "a.jsonl", [Exchange(ask(user("Hi")), says("Hi"))], came=came)
    place = {"method": "POST", "path": "/v1/completions", "body": {"prompt": "Hi"}}
    other = Exchange(Asked(api="other", model="", parameters=place), None)
    only_read = Exchange(
        Asked(api="other", model="", parameters={**place, "path": "/count_tokens"}), None
    )

    assert effects_of(read_record(log)).unread == 1
    log = record(tmp_path / "b.jsonl", [other, only_read])
    assert str(effects_of(read_record(log))) == (
        "this recording contains 0 tool calls that COMMAND will execute; "
        "1 answer that Refold cannot read may request more"
    )


def test_few_tools_are_named_in_a_line() -> None:
    """A record may have thousands, and names without end."""
    calls = [
        OwnCall(tool=f"{at}{'n' * 100}", arguments={}, call="0/1#1", conversation="")
        for at in range(100)
    ]

    told = str(OwnCalls(calls=tuple(calls), unread=0))

    assert told.endswith("and 92 more tools")
    assert len(told) < 500
    assert NO_EFFECTS.calls == ()
