"""Which call opened a conversation: by name, by what it passes, or as the only one (§16.5)."""

from typing import Any

import attrs
import pytest

from refold.engine.observed.delegations import delegated
from refold.engine.observed.openers import Opened, opener_of, texts_in
from refold.engine.observed.threads import Thread, UnansweredCall, system_of
from refold.engine.wire.parts.exchange import Asked


def _thread(scope: str, *calls: tuple[str, dict[str, Any]]) -> Thread:
    thread = Thread(scope, scope)
    for number, (tool, arguments) in enumerate(calls):
        key = f"{scope}-{number}"
        whom = delegated(tool, arguments)
        thread.open[key] = UnansweredCall(key, key, tool, number, texts_in(arguments), whom)
    return thread


def _asked(first: str, *results: str) -> Asked:
    shown = [{"role": "tool", "tool_call_id": result, "content": ""} for result in results]
    return Asked(api="chat", model="m", messages=({"role": "user", "content": first}, *shown))


def _told(found: Opened | None) -> tuple[str, str, str] | None:
    if found is None:
        return None
    return found.thread.scope, found.call.call if found.call else "", found.how


TASKS = [("Task", {"prompt": f"part {one}", "type": "general-purpose"}) for one in "ab"]
GUIDE = ("ask_guide", {"subject": "food"})
WALKS = ("ask_guide", {"subject": "walks"})
WEATHER = ("weather", {"city": "Bergen"})


@pytest.mark.parametrize(
    ("calls", "asked", "expected"),
    [
        ([GUIDE, WALKS, WEATHER], _asked("A tip about food, please."), ("0/1", "0/1-0", "prompt")),
        ([GUIDE, WALKS, WEATHER], _asked("A tip about walks."), ("0/1", "0/1-1", "prompt")),
        ([GUIDE, WALKS, WEATHER], _asked("Seafood in Oslo?"), ("0/1", "", "open")),
        (TASKS, _asked("You are a general one.\npart b"), ("0/1", "0/1-1", "prompt")),
        (TASKS, _asked("Do the part b of it."), ("0/1", "", "open")),
        ([WEATHER], _asked("Something else"), ("0/1", "0/1-0", "open")),
        ([("Task", {"prompt": "…"}), WEATHER], _asked("Hello"), ("0/1", "0/1-0", "delegation")),
        ([("transfer_to_b", {}), WEATHER], _asked("Hi", "0/1-0"), ("0/1", "0/1-0", "handoff")),
        ([("final_result", {"answer": "Bergen"})], _asked("Go to Bergen"), None),
        ([("complete_task", {"result": "Bergen"})], _asked("Go to Bergen"), None),
        ([], _asked("Hello there"), None),
        ([("look", {"q": "walks", "at": "walks in Oslo"}), ("ask", {"q": "walks"})],
         _asked("Say: walks in Oslo"), ("0/1", "0/1-0", "prompt")),
        ([("look", {"q": "Find walks in Oslo, please"}), WEATHER],
         _asked("walks in Oslo"), ("0/1", "0/1-0", "prompt")),
        ([("look", {"q": "Find walks in Oslo, please"}), WEATHER],
         _asked("Oslo"), ("0/1", "", "open")),
        ([("look", {"q": "an Oslo walk"}), WEATHER], _asked("Than an Oslo walker knows"),
         ("0/1", "0/1-0", "prompt")),
    ],
)  # fmt: skip
def test_the_likely_call_is_found(
    calls: list[tuple[str, dict[str, Any]]], asked: Asked, expected: tuple[str, str, str] | None
) -> None:
    """Short texts as whole words; a tool that takes the answer opens nothing."""
    assert _told(opener_of(asked, [_thread("0/1", *calls)])) == expected


def test_a_program_beside_another_one_is_not_opened_by_what_that_has_open() -> None:
    """Both have the same system prompt; what a call passes still tells."""
    system = {"role": "system", "content": "You are A."}
    alike, told, other = (
        attrs.evolve(_asked(said), messages=({**system, **more}, *_asked(said).messages))
        for said, more in (
            ("Something else", {}),
            ("A tip about food", {}),
            ("Something else", {"content": "You are B."}),
        )
    )
    threads = [attrs.evolve(_thread("0/1", GUIDE), system=system_of(alike))]

    assert opener_of(alike, threads) is None
    assert _told(opener_of(told, threads)) == ("0/1", "0/1-0", "prompt")
    assert _told(opener_of(other, threads)) == ("0/1", "0/1-0", "open")
    assert _told(opener_of(alike, [], threads)) == ("0/1", "0/1-0", "open")


def test_calls_that_pass_the_same_open_one_conversation_each() -> None:
    """In their order."""
    thread = _thread("0/1", GUIDE, GUIDE)
    first = opener_of(_asked("A tip about food"), [thread])
    assert first is not None
    assert first.call is not None
    first.call.opened += 1

    assert _told(opener_of(_asked("A tip about food"), [thread])) == ("0/1", "0/1-1", "prompt")


def test_who_is_named_is_below_a_call_that_names_him() -> None:
    """The first that has no conversation; what stands in the prompt says less."""
    calls = [("Task", {"subagent_type": one, "prompt": "Look"}) for one in ("bob", "ann", "ann")]
    thread = _thread("0/1", *calls)
    found = []
    for _ in range(2):
        opened = opener_of(_asked("bob"), [thread], agent="/root/ann")
        assert opened is not None
        assert opened.call is not None
        opened.call.opened += 1
        found.append(_told(opened))

    assert found == [("0/1", "0/1-1", "delegation"), ("0/1", "0/1-2", "delegation")]


def test_of_calls_whose_texts_are_found_one_that_hands_work_over_goes_first() -> None:
    """A path that another agent reads at that moment stands in many prompts."""
    above = _thread("0/1", ("Task", {"prompt": "Read docs/one.md"}), ("Task", {"prompt": "Go on"}))
    beside = _thread("0/2", ("Read", {"path": "docs/one.md"}))

    found = opener_of(_asked("Read docs/one.md"), [above, beside])

    assert _told(found) == ("0/1", "0/1-0", "prompt")


def test_open_calls_of_several_conversations_say_nothing() -> None:
    """It could be below either."""
    threads = [_thread("0/1", WEATHER), _thread("0/2", WEATHER)]

    assert opener_of(_asked("Something else"), threads) is None


def test_texts_of_arguments_are_found_at_any_depth() -> None:
    """Those that are long enough to be found again."""
    assert texts_in({"a": ["long enough", {"b": "no"}], "c": 3}) == ("long enough",)


def test_of_several_conversations_of_one_thread_the_call_says_which() -> None:
    """A title is asked for in the name of the same session (opencode)."""
    title, main = _thread("0/1"), _thread("0/2", ("task", {"prompt": "Count the words"}))

    found = opener_of(_asked("Count the words"), [], [title, main], "general")

    assert _told(found) == ("0/2", "0/2-0", "prompt")
