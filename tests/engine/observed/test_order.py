"""Results of one turn are compared by call, notices and listings in any order (§16.6, §16.13)."""

from typing import Any

from refold.engine.observed.volatile import VolatileRules, match_key
from tests.support.loops import for_each
from tests.support.watched import ask, result, says, user

CALLS = says("", ("a", "read", {}), ("b", "read", {}))
ONE, TWO = result("a", "one"), result("b", "two")


def _key(*messages: dict[str, Any], unordered: str = "NOTICE") -> str:
    return match_key(VolatileRules(unordered=[unordered]).applied(ask(*messages)))


def test_results_of_one_turn_are_compared_by_call() -> None:
    """In whichever order they came; what they say is compared."""
    assert _key(user("go"), CALLS, ONE, TWO) == _key(user("go"), CALLS, TWO, ONE)
    assert _key(user("go"), CALLS, ONE, TWO) != _key(
        user("go"), CALLS, result("b", "one"), result("a", "two")
    )


@for_each(
    "one, other",
    [
        ([user("x"), user("y")], [user("y"), user("x")]),
        ([user("NOTICE x"), user("y")], [user("y"), user("NOTICE x")]),
        ([CALLS, ONE, user("y"), TWO], [CALLS, TWO, user("y"), ONE]),
        ([CALLS, result("c", "1"), result("d", "2")], [CALLS, result("d", "2"), result("c", "1")]),
        ([CALLS, ONE, CALLS, TWO], [CALLS, TWO, CALLS, ONE]),
    ],
)
def test_any_other_order_is_compared(one: list[Any], other: list[Any]) -> None:
    """Of what a user says, of what is apart, of results that no call of the turn has."""
    assert _key(*one) != _key(*other)


def test_notices_beside_each_other_stand_in_any_order() -> None:
    notices = [user("NOTICE x"), user("NOTICE y")]

    assert _key(*notices) == _key(*reversed(notices))
    assert _key(*notices) != _key(*reversed(notices), unordered="OTHER")


def test_where_a_turn_begins_stays_where_it_was() -> None:
    """It is told of places, and not of results."""
    again = {**TWO, "provider": {"turn": "new"}}
    turned = {**ONE, "provider": {"turn": "new"}}

    assert _key(user("go"), CALLS, ONE, again) == _key(user("go"), CALLS, TWO, turned)


def _listed(*texts: str, tool: str = "find", volatile: str = r"took \d+") -> str:
    calls = says("", *((f"c{at}", tool, {}) for at in range(len(texts))))
    results = (result(f"c{at}", text) for at, text in enumerate(texts))
    rules = VolatileRules(texts=[volatile], unordered_lines=["find"])
    return match_key(rules.applied(ask(user("go"), calls, *results)))


def test_lines_of_a_listing_stand_in_any_order() -> None:
    """Each as often as it was there; what is volatile in one does not say where it stands."""
    assert _listed("a\nb\nc") == _listed("c\na\nb")
    assert _listed("b took 1\nb\na took 2") == _listed("a took 7\nb took 9\nb")
    assert _listed("took 1 a\ntook 2 b") == _listed("took 2 a\ntook 1 b")
    assert _listed("a\na\nb") != _listed("a\nb\nb")


@for_each(
    "one, other",
    [
        (["a\nb", "c\nd"], ["a\nd", "c\nb"]),
        (["a b\nc"], ["b a\nc"]),
        (["a\nb"], ["a\nb\n"]),
    ],
)
def test_what_lines_say_and_which_listing_has_them_is_compared(
    one: list[str], other: list[str]
) -> None:
    assert _listed(*one) != _listed(*other)


def test_lines_that_another_tool_returns_are_compared_as_they_stand() -> None:
    assert _listed("a\nb", tool="read") != _listed("b\na", tool="read")


def test_a_request_in_order_is_itself() -> None:
    """So that what is known of it is not made again."""
    asked = ask(user("go"), CALLS, ONE, TWO)

    assert VolatileRules().applied(asked) is asked
    assert VolatileRules(unordered_lines=["read"]).applied(asked) is asked


def test_a_message_of_nobody_stays_where_it_is() -> None:
    """As a log of somebody else may hold one."""
    nobody = {"content": "x"}

    assert _key(user("go"), CALLS, ONE, TWO, nobody) == _key(user("go"), CALLS, TWO, ONE, nobody)
    assert _key(nobody, user("go")) != _key(user("go"), nobody)
