"""Which call opened a conversation: by evidence of its own, and never by coincidence (§16.5)."""

from typing import Any

from refold.engine.observed.links import delegated
from refold.engine.observed.openers import Opened, opener_of, texts_in
from refold.engine.observed.profile import Profile
from refold.engine.observed.threads import Thread, UnansweredCall, system_of
from refold.engine.wire.parts.exchange import Asked
from tests.support.loops import for_each


def _thread(scope: str, *calls: tuple[str, dict[str, Any]]) -> Thread:
    thread = Thread(scope, scope, system=system_of(_asked("")))
    for number, (tool, arguments) in enumerate(calls):
        key = f"{scope}-{number}"
        whom = delegated(tool, arguments)
        thread.open[key] = UnansweredCall(key, key, tool, number, texts_in(arguments), whom)
    return thread


def _asked(
    first: str, *results: str, system: str = "You are A.", tools: tuple[Any, ...] = ()
) -> Asked:
    shown = [{"role": "tool", "tool_call_id": result, "content": ""} for result in results]
    said = ({"role": "system", "content": system}, {"role": "user", "content": first}, *shown)
    return Asked(api="chat", model="m", messages=said, tools=tools)


def _told(found: Opened | None) -> tuple[str, str, str] | None:
    if found is None:
        return None
    return found.thread.scope, found.call.call if found.call else "", found.how


def _follow(found: Opened | None) -> tuple[str, str, str] | None:
    """Take note of the conversation that a call opened."""
    assert found is not None
    assert found.call is not None
    found.call.below.append(Thread("", ""))
    return _told(found)


FOOD = ("ask_guide", {"subject": "a tip about food in Bergen"})
WALKS = ("ask_guide", {"subject": "a tip about walks in Bergen"})
WEATHER = ("weather", {"city": "Bergen"})
HANDS = ("delegate_to_guide", {"task": "food"})
PLAIN, OTHER = "You are A.", "You are B."


@for_each(
    "calls, asked, expected",
    [
        ([FOOD, WALKS], _asked("I want a tip about food in Bergen."), "0/1-0 prompt"),
        ([FOOD, WALKS], _asked("a tip about walks in Bergen", system=OTHER), "0/1-1 prompt"),
        ([WEATHER], _asked("Bergen"), "0/1-0 prompt"),
        ([("look", {"q": "Find walks in Oslo, and in Bergen, please"}), WEATHER],
         _asked("walks in Oslo, and in Bergen"), "0/1-0 prompt"),
        ([("look", {"q": "walks", "at": FOOD[1]["subject"]}), ("ask", {"q": "walks"})],
         _asked("Say: a tip about food in Bergen, and walks"), "0/1-0 prompt"),
        ([HANDS, WEATHER], _asked("Where to eat?", system=OTHER), "0/1-0 delegation"),
        ([HANDS, WEATHER], _asked("Where to eat?", tools=({"name": "x"},)), "0/1-0 delegation"),
        ([("transfer_to_b", {}), WEATHER], _asked("Hi", "0/1-0"), "0/1-0 handoff"),
    ],
)  # fmt: skip
def test_what_has_evidence_of_its_own_is_linked(
    calls: list[tuple[str, dict[str, Any]]], asked: Asked, expected: str
) -> None:
    """A whole brief, the whole message, a handoff, or a name and another agent."""
    scope, call, how = _told(opener_of(asked, [_thread("0/1", *calls)])) or ("", "", "")

    assert (scope, f"{call} {how}") == ("0/1", expected)


def test_a_short_brief_is_the_whole_message_but_for_what_is_no_part_of_a_task() -> None:
    """What a profile leaves out of briefs: each message may begin with the time."""
    asked, thread = (
        _asked("<now>10:30</now>\n\nCount a"),
        _thread("0/1", ("task", {"q": "Count a"})),
    )
    profile = Profile(name="x", left_out=("<now>[^<]*</now>",))

    assert opener_of(asked, [thread]) is None
    assert _told(opener_of(asked, [thread], plain=profile.plain)) == ("0/1", "0/1-0", "prompt")


@for_each(
    "calls, asked",
    [
        ([WEATHER], _asked("Which hotel in Bergen is best?")),
        ([WEATHER], _asked("Which hotel in Bergen is best?", system=OTHER)),
        ([WEATHER], _asked("Something else", system=OTHER)),
        ([FOOD], _asked("a tip about food")),
        ([FOOD, WALKS], _asked("Seafood in Oslo?", system=OTHER)),
        ([HANDS], _asked("Where to eat?")),
        ([HANDS, ("delegate_to_b", {"task": "walks"})], _asked("Hello", system=OTHER)),
        ([("final_result", {"answer": FOOD[1]["subject"]})], _asked(FOOD[1]["subject"])),
        ([("complete_task", {"result": "Bergen"})], _asked("Bergen")),
        ([], _asked("Hello there")),
    ],
)
def test_a_coincidence_is_no_link(calls: list[tuple[str, dict[str, Any]]], asked: Asked) -> None:
    """A word, being the only open call, the name alone, or a tool that takes the answer."""
    assert opener_of(asked, [_thread("0/1", *calls)]) is None


def test_a_call_whose_conversation_continued_without_it_opens_nothing() -> None:
    """It waits for nothing."""
    thread = _thread("0/1", FOOD)
    thread.open["0/1-0"].waits = False

    assert opener_of(_asked(FOOD[1]["subject"]), [thread]) is None


def test_a_name_alone_opens_one_conversation() -> None:
    """Whatever else the program asks before it continues is not below it."""
    thread = _thread("0/1", HANDS)
    asked = _asked("Where to eat?", system=OTHER)
    _follow(opener_of(asked, [thread]))

    assert opener_of(asked, [thread]) is None


@for_each(
    "call, system, is_strong",
    [
        (FOOD, OTHER, True),
        (FOOD, PLAIN, False),
        (("look", FOOD[1] | {"more": "the whole of Norway, and its coast"}), OTHER, False),
        (("delegate_to_guide", FOOD[1]), PLAIN, True),
    ],
)
def test_evidence_is_strong_if_it_is_the_whole_brief_of_another_agent(
    call: tuple[str, dict[str, Any]], system: str, *, is_strong: bool
) -> None:
    """Or if the name hands work over; the rest counts for caps once it is confirmed."""
    found = opener_of(_asked(FOOD[1]["subject"], system=system), [_thread("0/1", call)])

    assert found is not None
    assert found.is_strong is is_strong


def test_calls_that_pass_the_same_open_one_conversation_each() -> None:
    """In their order."""
    thread = _thread("0/1", FOOD, FOOD)
    found = [_follow(opener_of(_asked(FOOD[1]["subject"]), [thread])) for _ in range(2)]

    assert found == [("0/1", "0/1-0", "prompt"), ("0/1", "0/1-1", "prompt")]


def test_who_is_named_is_below_a_call_that_names_him() -> None:
    """The first that has no conversation; what stands in the prompt says less."""
    calls = [("Task", {"subagent_type": one, "prompt": "Look"}) for one in ("bob", "ann", "ann")]
    thread = _thread("0/1", *calls)
    found = [_follow(opener_of(_asked("bob"), [thread], agent="/root/ann")) for _ in range(2)]

    assert found == [("0/1", "0/1-1", "header"), ("0/1", "0/1-2", "header")]


def test_of_calls_whose_texts_are_found_one_that_hands_work_over_goes_first() -> None:
    """A path that another agent reads at that moment stands in many prompts."""
    above = _thread(
        "0/1", ("Task", {"prompt": "Read docs/one.md, all"}), ("Task", {"prompt": "Go on"})
    )
    beside = _thread("0/2", ("Read", {"path": "Read docs/one.md, all"}))

    found = opener_of(_asked("Read docs/one.md, all"), [above, beside])

    assert _told(found) == ("0/1", "0/1-0", "prompt")


def test_texts_of_arguments_are_found_at_any_depth() -> None:
    """Those that are long enough to be found again."""
    assert texts_in({"a": ["long enough", {"b": "no"}], "c": 3}) == ("long enough",)


def test_of_several_conversations_of_one_thread_the_call_says_which() -> None:
    """A title is asked for in the name of the same session (opencode)."""
    title, main = _thread("0/1"), _thread("0/2", ("task", {"prompt": "Count the words"}))

    found = opener_of(_asked("Count the words"), [], [title, main], "general")

    assert _told(found) == ("0/2", "0/2-0", "prompt")
