"""Each message stands in a log once: requests name the prefix that it has (CONTRACT.md §2.4)."""

import gc
import math
import sys
import tracemalloc
from types import FrameType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refold.engine.encoding import digest
from refold.engine.encoding.conversation import Conversations
from refold.engine.errors import NotCanonical
from tests.support.loops import for_each

ONE, TWO, THREE, FOUR = ({"role": "user", "content": text} for text in ("1", "2", "3", "4"))


def chain(*messages: Any) -> str:
    """Return the chain digest of a conversation, as the contract says it."""
    at = ""
    for message in messages:
        at = digest.chained(at, message)
    return at


def test_a_new_conversation_has_no_predecessor() -> None:
    """All its messages are added."""
    prefix = Conversations().prefix((ONE, TWO))

    assert (prefix.predecessor, prefix.base, len(prefix.added)) == ("", 0, 2)
    assert prefix.end == chain(ONE, TWO)


def test_an_answer_need_not_be_repeated() -> None:
    """The next request names what was asked and what was answered, and adds the rest."""
    known = Conversations()
    prefix = known.prefix((ONE,))
    known.asked(prefix)
    known.answered(prefix.end, TWO)

    following = known.prefix((ONE, TWO, THREE))

    assert (following.predecessor, following.base) == (chain(ONE, TWO), 2)
    assert following.end == chain(ONE, TWO, THREE)


def test_a_conversation_that_turned_off_shares_its_beginning() -> None:
    """An edited message begins a branch; what stands before it is named."""
    known = Conversations()
    known.asked(known.prefix((ONE, TWO, THREE)))

    branch = known.prefix((ONE, FOUR, THREE))

    assert (branch.predecessor, branch.base) == (chain(ONE), 1)


def test_a_request_that_adds_nothing_names_all_of_it() -> None:
    """The same request again stores no message."""
    known = Conversations()
    known.asked(known.prefix((ONE, TWO)))

    again = known.prefix((ONE, TWO))

    assert (again.base, again.end) == (2, chain(ONE, TWO))


@settings(deadline=None)
@given(st.lists(st.lists(st.sampled_from([ONE, TWO, THREE]), max_size=6), max_size=6))
def test_prefix_and_rest_are_always_the_whole(conversations: list[list[Any]]) -> None:
    """Whatever was asked before: the digest at the end is that of all messages."""
    known = Conversations()
    for messages in conversations:
        prefix = known.prefix(tuple(messages))
        known.asked(prefix)

        assert prefix.end == chain(*messages)
        assert prefix.predecessor == chain(*messages[: prefix.base])
        assert prefix.base + len(prefix.added) == len(messages)


def calls_of_prefix(known: Conversations, messages: tuple[Any, ...]) -> int:
    """Return how many Python functions are called to find what the log has."""
    calls = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    gc.collect()
    gc.disable()  # what is called when it comes by is no step
    sys.setprofile(count)
    try:
        known.prefix(messages)
    finally:
        sys.setprofile(before)
        gc.enable()
    return calls


def test_a_message_that_stays_is_hashed_once() -> None:
    """A request of a long conversation costs what it adds; the rest is recognised.

    Whatever another conversation has asked in between.
    """
    messages = tuple({"role": "user", "content": f"{n}", "extra": [n, {"n": n}]} for n in range(99))
    first = calls_of_prefix(Conversations(), messages)
    known = Conversations()
    known.asked(known.prefix(messages))
    known.asked(known.prefix((ONE,)))

    again = calls_of_prefix(known, messages)

    assert again < first / 2


@for_each("values", [(1, 1.0, True), (0.0, -0.0, 0, False, None), ("1", 1), ([], {})])
def test_values_that_python_takes_for_equal_are_other_messages(values: tuple[Any, ...]) -> None:
    """What is recognised is what has the same canonical bytes."""
    known = Conversations()
    for value in values:
        message = {"role": "user", "content": "n", "value": [value]}

        assert known.prefix((message,)).end == chain(message)


def test_a_message_that_was_changed_in_place_is_another() -> None:
    """A program may edit what it passed before; the digest is of what it passes now."""
    known = Conversations()
    call: dict[str, Any] = {"id": "a", "name": "search", "arguments": {"query": "tides"}}
    message = {"role": "assistant", "content": "", "tool_calls": [call]}
    known.asked(known.prefix((message,)))

    call["arguments"]["query"] = "moon"

    assert known.prefix((message,)).end == chain(message)
    assert known.prefix((message,)).base == 0


@for_each("value", [math.nan, 2**63, {1: "n"}, {"n"}, "\ud800"])
def test_what_no_log_holds_is_refused_beside_what_one_does(value: Any) -> None:
    """A message that cannot be written is refused each time, whatever was recognised before."""
    known = Conversations()
    known.prefix(({"role": "user", "content": None}, {"role": "user", "content": {"1": "n"}}))

    for _ in range(2):
        with pytest.raises(NotCanonical):
            known.prefix(({"role": "user", "content": value},))


@pytest.mark.long
def test_what_a_program_has_dropped_is_forgotten() -> None:
    """Texts of conversations that are over are let go."""
    known = Conversations()
    tracemalloc.start()
    try:
        for n in range(2500):
            known.prefix(({"role": "user", "content": f"{n:5000}"},))
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert kept < 2500 * 5000 * 0.6


def test_who_has_the_digests_need_not_show_the_messages() -> None:
    """The answer is the same, for any beginning that is known."""
    known = Conversations()
    known.asked(known.prefix((ONE, TWO)))

    for messages in ((), (ONE,), (ONE, TWO, THREE), (FOUR, ONE), (ONE, FOUR, TWO)):
        digests = [chain(*messages[: at + 1]) for at in range(len(messages))]
        assert known.held(digests) == known.prefix(messages)


_FLAT = st.sampled_from(["a", "b", None, 0, 0.0, -0.0, False, 1, 1.0, True])
_VALUES = _FLAT | _FLAT.map(lambda value: [value]) | _FLAT.map(lambda value: {"n": [0, value]})
_EDITS = st.lists(
    st.tuples(st.integers(0, 9), st.sampled_from(["add", "set", "edit", "turn", "cut"]), _VALUES)
)


@settings(deadline=None)
@given(_EDITS)
def test_whatever_is_changed_in_place_the_digests_are_of_what_is_passed(edits: list[Any]) -> None:
    """Messages are added, changed and taken off, as a program may between two requests."""
    known, messages = Conversations(), list[dict[str, Any]]([{"role": "user", "content": "0"}])
    for place, edit, value in edits:
        if edit == "set":
            messages[place % len(messages)]["content"] = value
        elif edit == "edit":
            for inner in (each["content"] for each in messages if type(each["content"]) is dict):
                inner["n"][place % len(inner["n"])] = value
        elif edit == "cut":
            del messages[1 + place :]
        elif edit == "turn":
            messages[place % len(messages)]["role"] = "assistant" if place % 2 else "user"
        else:
            messages.append({"role": "user" if place % 2 else "assistant", "content": value})

        prefix = known.prefix(tuple(messages))

        assert prefix.end == chain(*messages)
        assert [repr(each) for each in prefix.given] == [repr(each) for each in messages]
        assert prefix.replies == [each["role"] for each in messages].count("assistant")
        known.asked(prefix)


def test_a_model_that_changes_what_it_is_given_changes_nothing_else() -> None:
    """The next request has the messages as the program passes them, and as the log has them."""
    known, messages = Conversations(), ({"role": "user", "content": "1", "calls": [{}]}, TWO)
    given: Any = known.prefix(messages).given
    given[0]["content"], given[0]["calls"][0]["id"] = "changed", "a"

    again = known.prefix((*messages, THREE))

    assert again.given == (*messages, THREE)
    assert again.end == chain(*messages, THREE)


def test_a_number_that_model_and_program_both_drop_makes_another_message() -> None:
    """A model may edit its copies; that they are equal to the program's again proves nothing."""
    known, calls = Conversations(), list[Any]([{"limit": 3}])
    message = {**ONE, "calls": calls}
    given: Any = known.prefix((message,)).given

    given[0]["calls"][0] = calls[0] = "none"

    assert known.prefix((message,)).end == chain(message)


@pytest.mark.parametrize("number", [{}, {"number": 7}])
def test_a_turn_takes_no_more_steps_in_a_long_conversation(number: dict[str, int]) -> None:
    """What is known is recognised in one comparison; of numbers alone, each has one of its own."""
    steps = {}
    for turns in (50, 5000):
        messages = tuple({"role": "user", "content": f"{n}"} for n in range(turns))
        known = Conversations()
        known.asked(known.prefix(({**ONE, **number}, *messages)))

        steps[turns] = calls_of_prefix(known, ({**ONE, **number}, *messages, TWO))

    assert steps[50] == steps[5000]
