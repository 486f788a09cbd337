"""A diff of two recorded commands says what they did otherwise, and nothing of how it came."""

from pathlib import Path
from typing import Any

import attrs

from refold.engine.observed.volatile import VolatileRules
from refold.engine.wire.parts.exchange import Asked
from refold.replay.compare.diff import LogDiff, diff
from tests.support.watched import Exchange, record, result, says, system, talk, user

EAT, WALK = "Find a place to eat", "Find a place to walk"


def lead(*ids: str) -> list[Exchange]:
    """Return a conversation that asks two others, the ids of its calls drawn by a server."""
    return talk(
        system("You plan."),
        user("Plan a day."),
        says("", (ids[0], "ask", {"what": EAT}), (ids[1], "ask", {"what": WALK})),
        result(ids[0], "fish hall"),
        result(ids[1], "Fløyen"),
        says("Done."),
    )


def guide(brief: str, answer: str) -> list[Exchange]:
    """Return the conversation of a subagent, which is thanked."""
    said = says(answer), user("Thanks."), says("Bye.")
    return talk(system("You are a guide."), user(brief), *said)


def compared(tmp_path: Path, a: list[Exchange], b: list[Exchange], **more: Any) -> LogDiff:
    """Return the diff of two commands."""
    return diff(record(tmp_path / "a.jsonl", a, **more), record(tmp_path / "b.jsonl", b, **more))


def test_neither_ids_nor_the_order_of_conversations_are_differences(tmp_path: Path) -> None:
    """Ids are a server's; which subagent asked first is chance, and who stored a message, too."""
    one, other = lead("c1", "c2"), lead("x-91", "x-77")
    eat, walk = guide(EAT, "fish hall"), guide(WALK, "Fløyen")

    found = compared(tmp_path, [one[0], *eat, *walk, one[1]], [other[0], *walk, *eat, other[1]])

    assert found.count == 0, found


def test_results_that_changed_places_are_a_difference(tmp_path: Path) -> None:
    """An id still says which result belongs to which call."""
    one = lead("c1", "c2")
    other = [one[0], Exchange(_swapped(one[1]), one[1].answer)]

    assert compared(tmp_path, one, other).count > 0


def _swapped(one: Exchange) -> Asked:
    *before, first, second = one.asked.messages
    swapped = ({**first, "tool_call_id": "c2"}, {**second, "tool_call_id": "c1"})
    return attrs.evolve(one.asked, messages=(*before, *swapped))


def test_a_changed_answer_is_told_once_where_it_was_given(tmp_path: Path) -> None:
    """Of the subagent that gave it; in the next request of its own conversation it is no news."""
    eat = guide(EAT, "fish hall")
    other = guide(EAT, "the bakery")

    found = compared(tmp_path, [*eat, *guide(WALK, "Fløyen")], [*guide(WALK, "Fløyen"), *other])

    (difference,) = found.differences
    assert (difference.category, difference.scope) == ("result", "0/1")
    assert difference.differences[0].pointer == "/message/content"


def test_changed_tool_definitions_are_told_where_they_are_offered_first(tmp_path: Path) -> None:
    """And not in every request after it."""
    messages = [user("Go."), says("Where?"), user("Home."), says("Home it is.")]
    one = talk(*messages, tools=[{"name": "drive", "description": "Drive."}])
    other = talk(*messages, tools=[{"name": "drive", "description": "Walk."}])

    (difference,) = compared(tmp_path, one, other).differences

    assert difference.differences[0].pointer == "/tools/0/description"


def test_volatile_places_are_not_compared(tmp_path: Path) -> None:
    """As the rules of the logs say."""
    rules = VolatileRules(["model:*/parameters/user"], [r"\d\d:\d\d"])
    one = talk(user("It is 12:30."), says("So."), user="ann")
    other = talk(user("It is 09:10."), says("So."), user="bob")

    assert compared(tmp_path, one, other, rules=rules).count == 0


def test_what_a_tool_returned_is_compared_without_what_is_volatile(tmp_path: Path) -> None:
    """In the request that shows it, and in the end of the call."""
    rules = VolatileRules(texts=[r"took \d+ ms"])
    one, other, third = (
        talk(user("Go."), says("", ("c", "run", {})), result("c", said), says("So."))
        for said in ("six took 7 ms", "six took 11 ms", "five took 7 ms")
    )

    same = diff(
        *(record(tmp_path / n, x, rules=rules) for n, x in (("1.jsonl", one), ("2.jsonl", other)))
    )
    (first, *_) = diff(
        tmp_path / "1.jsonl", record(tmp_path / "3.jsonl", third, rules=rules)
    ).differences

    assert same.count == 0
    assert first.differences[0].before == "six [volatile]"


def test_a_conversation_more_is_only_in_one(tmp_path: Path) -> None:
    """With all its requests, and what each of them was."""
    found = compared(tmp_path, guide(EAT, "fish hall"), [*guide(EAT, "fish hall"), *lead("1", "2")])

    assert {one.category for one in found.differences} == {"only_in_b"}
    first = found.differences[0].differences[0].after
    assert (first["api"], first["model"], first["added"][1]) == (
        "chat", "gpt-5", user("Plan a day.")
    )  # fmt: skip
