"""A replay says which request of which conversation was changed, and what is likely behind it."""

from pathlib import Path
from typing import Any

import attrs
import pytest

from refold.engine.observed.volatile import VolatileRules
from refold.engine.wire.parts.exchange import Asked
from refold.replay.explain.divergence import Divergence
from refold.replay.observed.explaining import REFUSAL
from refold.replay.observed.report import ObservedReport
from tests.support.watched import Exchange, ask, record, replayed, result, says, system, talk, user

WEATHER = {
    "type": "function",
    "function": {"name": "get_weather", "description": "Weather.", "parameters": {}},
}
LOOKS = "it looks like a date, a time or an id that changes on every run; to ignore it"
OSLO = ("c1", "get_weather", {"city": "Oslo"})

DESK = talk(
    system("You are the weather desk. Be brief."),
    user("How is it in Oslo?"),
    says("I look.", OSLO),
    result("c1", "snow"),
    says("It snows."),
    user("And tomorrow?"),
    says("Snow again."),
    tools=[WEATHER],
    temperature=0.5,
)
GUIDE = talk(
    system("You are the guide of Bergen. One tip only, and say why."),
    user("Something about food, please."),
    says("The fish hall."),
    user("Another one?"),
    says("The bakery."),
)
POET = talk(
    system("You write short poems about whatever you are told."),
    user("Rain on the harbour of Bergen"),
    says("Grey rain, grey sea."),
)


def asks(*conversations: list[Exchange]) -> list[Asked]:
    """Return the requests of conversations, one after the other."""
    return [one.asked for each in conversations for one in each]


def changed(asked: Asked, at: int, **members: Any) -> Asked:
    """Return a request with one message changed."""
    messages = list(asked.messages)
    messages[at] = {**messages[at], **members}
    return attrs.evolve(asked, messages=tuple(messages))


def only(report: ObservedReport) -> Divergence:
    """Return the one divergence of a report."""
    (found,) = report.divergences
    return found


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Return the record of three conversations."""
    return record(tmp_path / "a.jsonl", [*DESK, *GUIDE, *POET])


def test_the_same_requests_are_identical(log: Path) -> None:
    """Each is served once; nothing is left."""
    report = replayed(log, asks(DESK, GUIDE, POET))

    assert report.identical
    assert (report.requests, report.served, report.conversations) == (6, 6, 3)
    assert report.as_json()["guarantee"] == "matched"


def test_a_changed_system_prompt_is_named_as_a_message_diff(log: Path) -> None:
    """In its conversation, by the number of the request; what follows is counted."""
    now = [changed(each, 0, content="You are the weather desk. Be short.") for each in asks(DESK)]

    found = only(replayed(log, [*now, *asks(GUIDE, POET)]))

    assert found.category == "args_changed"
    assert "(How is it in Oslo?) > request 1 (gpt-5)" in found.where
    assert found.texts[0].what == "message 0 (system)"
    assert found.texts[0].lines == ("…the weather desk. Be [-brief.-]{+short.+}",)
    assert found.cause == "the system prompt was changed"
    assert (found.call, found.later_count) == ("0/1#1", 2)


def test_the_second_of_parallel_conversations_is_the_one_that_is_named(log: Path) -> None:
    """Though the first request of another one is asked only after it."""
    other = [changed(each, 1, content="Something about walks, please.") for each in asks(GUIDE)]
    desk, poet = asks(DESK), asks(POET)

    found = only(replayed(log, [desk[0], other[0], poet[0], *desk[1:], other[1]]))

    assert "food" in found.where
    assert found.cause == "the prompt was changed (message 1)"
    assert "[-food,-]{+walks,+}" in found.texts[0].lines[0]


def test_two_changed_conversations_are_told_apart(log: Path) -> None:
    """Each is compared with the recorded one that it is likest."""
    poet = changed(POET[0].asked, 1, content="Rain on the harbour of Oslo")
    guide = changed(GUIDE[0].asked, 1, content="Something about walks, please.")

    report = replayed(log, [*asks(DESK), poet, guide])

    assert ["Rain on" in one.where for one in report.divergences] == [True, False]
    assert ["food" in one.where for one in report.divergences] == [False, True]


def test_the_same_change_in_many_conversations_is_one_cause(tmp_path: Path) -> None:
    """Of agents without a name, too; another change has its own."""
    talks = [
        talk(system("You review. Be brief."), user(f"Review part {n}"), says("ok"))
        for n in range(6)
    ]
    log = record(tmp_path / "a.jsonl", [one for each in talks for one in each])
    words = ["You review. Be long."] * 5 + ["You check. Be brief."]
    now = [changed(one, 0, content=said) for one, said in zip(asks(*talks), words, strict=True)]

    first, other = replayed(log, now).causes

    assert (len(first.leaves), len(other.leaves)) == (5, 1)
    assert (first.agent, first.turn) == ("agent.py > conversation", 1)
    assert first.words == ("You review. Be [-brief.-]{+long.+}",)


def test_a_tool_that_returned_something_else_is_named(log: Path) -> None:
    """With what it was called with."""
    now = changed(DESK[1].asked, 3, content="rain")

    found = replayed(log, [DESK[0].asked, now, *asks(GUIDE, POET)]).divergences[0]

    assert found.cause == 'the tool get_weather(city="Oslo") returned something else (message 3)'
    assert "> request 2 (gpt-5)" in found.where


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        ({"model": "gpt-6"}, "the model changed: gpt-5 → gpt-6"),
        (
            {"parameters": {"temperature": 0.7}},
            "the parameter temperature was changed",
        ),
        (
            {"parameters": {"temperature": 0.5, "seed": 3}},
            "the parameter seed was added: 3",
        ),
        ({"parameters": {}}, "the parameter temperature is no longer set: 0.5"),
        (
            {
                "tools": (
                    {**WEATHER, "function": {**WEATHER["function"], "description": "Other."}},  # type: ignore[dict-item]  # it is one
                )
            },
            "the definition of the tool get_weather was changed (/function/description)",
        ),
        ({"tools": ()}, "the tool get_weather is no longer offered"),
        (
            {"tools": (WEATHER, {"name": "search"})},
            "the tool search is offered, but was not before",
        ),
        (
            {"messages": (*DESK[0].asked.messages, user("Quickly!"))},
            "message 2 (user) was not in the recording",
        ),
        (
            {"messages": DESK[0].asked.messages[:1]},
            "message 1 (user) is missing now",
        ),
        (
            {"messages": DESK[0].asked.messages[::-1]},
            "the same messages are in a different order, from message 0 on",
        ),
    ],
)
def test_the_cause_is_said_in_words(log: Path, change: dict[str, Any], cause: str) -> None:
    """Which parameter, which tool and which member of it, which message."""
    now = attrs.evolve(DESK[0].asked, **change)

    found = replayed(log, [now, *asks(GUIDE, POET)]).divergences[0]

    assert found.cause == cause
    assert found.category == ("name_changed" if "model" in change else "args_changed")


def test_a_tools_definition_is_pointed_at_by_its_name(log: Path) -> None:
    """The pointer says which tool, whatever its place."""
    function = {**WEATHER["function"], "description": "Other."}  # type: ignore[dict-item]  # it is one
    now = attrs.evolve(DESK[0].asked, tools=({"name": "new"}, {**WEATHER, "function": function}))

    found = replayed(log, [now, *asks(GUIDE, POET)]).divergences[0]

    pointers = {one.pointer for one in found.diff}
    assert "/arguments/tools/get_weather/function/description" in pointers


def test_the_same_request_made_too_often_is_counted(log: Path) -> None:
    """Asked three times, recorded once: a loop or a retry, and no other request changed."""
    report = replayed(log, [*asks(DESK, GUIDE, POET), POET[0].asked, POET[0].asked])

    first = report.divergences[0]
    assert first.category == "extra_call"
    assert first.cause.endswith("made 2 times, recorded once")
    assert report.served == report.requests


def test_a_new_conversation_is_no_changed_one(log: Path) -> None:
    """What is like nothing that was left is told as what it is."""
    found = only(replayed(log, [*asks(DESK, GUIDE, POET), ask(user("Count the sheep in Wales."))]))

    assert found.category == "extra_call"
    assert "a conversation that was not recorded (Count the sheep in Wales.)" in found.where
    assert "is new" in found.cause


def test_what_a_stopped_command_never_came_to_is_said_to_be_that(tmp_path: Path) -> None:
    """Its record ends with Ctrl-C; what comes after is no other agent."""
    stopped = {"exit_code": 130, "stdout": "", "stdout_bytes": 0}
    log = record(tmp_path / "b.jsonl", POET, output=stopped)
    found = replayed(log, [*asks(POET), ask(user("Count the sheep in Wales."))]).divergences[0]

    assert found.category == "extra_call"
    assert "the recorded command was stopped (exit code 130)" in found.cause


def test_a_conversation_that_goes_on_is_said_to(log: Path) -> None:
    """Where its record ends."""
    more = ask(*POET[0].asked.messages, says("Grey rain, grey sea."), user("More!"))

    found = only(replayed(log, [*asks(DESK, GUIDE, POET), more]))

    assert found.cause == "the conversation continues after the end of its recording"
    assert found.where.startswith("agent.py > conversation 3 (Rain on the harbour")
    assert found.where.endswith("> request 1 (gpt-5) > a request after the end of its recording")


def test_what_was_not_asked_is_told_of_each_conversation(log: Path) -> None:
    """One that was not begun, and one that was left; how many requests are missing."""
    report = replayed(log, [DESK[0].asked, *asks(POET)])

    left, unbegun = report.divergences
    assert (left.category, left.later_count) == ("unconsumed", 1)
    assert left.cause.startswith("2 recorded requests were not made")
    assert unbegun.cause.startswith("this conversation did not start")


def test_a_request_that_was_passed_over_is_missing(log: Path) -> None:
    """The conversation went on after it."""
    report = replayed(log, [DESK[0].asked, DESK[2].asked, *asks(GUIDE, POET)])

    assert only(report).category == "missing_call"
    assert only(report).call == "0/1#3"


def test_the_end_of_the_command_is_compared_last(log: Path) -> None:
    """Exit code and standard output; that it printed something else may follow."""
    now = changed(DESK[0].asked, 0, content="Other.")
    output = {"exit_code": 1, "stdout": "Traceback\n", "stdout_bytes": 10}

    report = replayed(log, [now, *asks(GUIDE, POET)], output=output)

    end = report.divergences[-1]
    assert end.category == "output_changed"
    assert "status 1 instead of 0" in end.cause
    assert "may follow from the first difference" in end.cause
    assert end.texts[0].lines == ("-done", "+Traceback")


def test_volatile_text_in_what_was_printed_is_not_compared(tmp_path: Path) -> None:
    """Nor how long it is then; that it was another is said."""
    log = record(tmp_path / "a.jsonl", POET, rules=VolatileRules(texts=(r"do\w+",)))
    output = {"exit_code": 0, "stdout": "done\n", "stdout_bytes": 5}
    other = {"stdout": "doubtful\n", "stdout_bytes": 9}

    same, volatile, changed_ = (
        replayed(log, asks(POET), output=output | each) for each in ({}, other, {"stdout": "no\n"})
    )

    assert [each.identical for each in (same, volatile, changed_)] == [True, True, False]
    told = "the command's output matches the recorded one, except for ignored text"
    assert [told in each.notes for each in (same, volatile, changed_)] == [False, True, False]


@pytest.mark.parametrize("how", ["lines", "ignore"])
def test_output_may_hold_volatile_texts_and_be_compared_otherwise(how: str, tmp_path: Path) -> None:
    """Claude Code's events have both: times in them, and an order of their own."""
    rules = VolatileRules(texts=(r"don?e",))
    log = record(tmp_path / "a.jsonl", POET, rules=rules)
    output = {"exit_code": 0, "stdout": "doe   \n", "stdout_bytes": 7}

    assert replayed(log, asks(POET), output=output, how=how).identical
    assert not replayed(log, asks(POET), output=output | {"exit_code": 1}, how=how).identical


def test_conversations_below_a_changed_one_follow_from_it(tmp_path: Path) -> None:
    """They are counted with it, for they were opened by what it would have answered."""
    brief = "Find three restaurants near the harbour"
    lead = talk(
        system("You lead the planning of a trip."),
        user("Plan a day in Bergen."),
        says("", ("t1", "Task", {"subagent_type": "scout", "prompt": brief})),
        result("t1", "fish hall"),
        says("Go to the fish hall."),
    )
    scout = talk(system("You scout places."), user(brief), says("fish hall"))
    log = record(tmp_path / "a.jsonl", [lead[0], *scout, lead[1]])

    found = only(replayed(log, [changed(lead[0].asked, 0, content="You lead the planning.")]))

    assert found.category == "args_changed"
    assert found.later_count == 2


def test_what_an_agent_is_told_of_a_refusal_is_no_difference_of_its_own(tmp_path: Path) -> None:
    """It is counted with the change below it; and so is what the command prints of it."""
    brief = "Count the words of a.txt, please"
    calls = says("", ("c1", "Agent", {"prompt": brief}))
    lead = talk(user("Go."), calls, result("c1", "six words"), says("Six."))
    sub = talk(system("You count."), user(brief), says("six words"))
    log = record(tmp_path / "a.jsonl", [lead[0], *sub, lead[1]])
    refused = f"API Error: 400 {REFUSAL} (agent.py; the system prompt was changed)."
    output = {"exit_code": 1, "stdout": refused, "stdout_bytes": len(refused)}

    report = replayed(
        log,
        [
            lead[0].asked,
            ask(system("You count well."), user(brief)),
            ask(user("Go."), calls, result("c1", refused)),
        ],
        output=output,
    )

    (told,) = report.divergences
    assert "the system prompt was changed" in told.cause
    assert told.later_count == 1
    assert REFUSAL not in str(report)


def test_what_is_tried_again_otherwise_is_a_retry(tmp_path: Path) -> None:
    """Fewer times than recorded, and more often."""
    (one,) = talk(user("Plan."), says("By bus."))
    failed = Exchange(one.asked, None, "http_429")
    again = record(tmp_path / "again.jsonl", [failed, one])
    failing = record(tmp_path / "failing.jsonl", [failed])

    (left,) = replayed(again, [one.asked]).divergences
    (more,) = replayed(failing, [one.asked, one.asked]).divergences

    assert left.cause == "the request was repeated after http_429, and is not repeated now"
    assert more.cause == (
        "the request is repeated after http_429 more often than in the recording: "
        "made 2 times, recorded once"
    )
