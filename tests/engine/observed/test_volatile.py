"""What is not compared, and when two requests are the same (CONTRACT.md §16.6, §16.7)."""

from typing import Any

import pytest

from refold.engine.errors import UsageError
from refold.engine.observed.volatile import VolatileRules, match_key
from refold.engine.wire.parts.exchange import Asked
from tests.support.loops import for_each
from tests.support.watched import ask, result, says, user


def _asked(text: str = "Today is 2026-01-02.", **more: Any) -> Asked:
    message = {"role": "user", "content": text}
    return Asked(**{"api": "chat", "model": "gpt", "messages": (message,), **more})


def test_nothing_is_ignored_by_default() -> None:
    """Whatever differs."""
    asked = _asked()

    assert match_key(VolatileRules().applied(asked)) == match_key(asked)
    assert match_key(asked) != match_key(_asked("Today is 2026-01-03."))
    assert match_key(asked) != match_key(_asked(model="other"))
    assert match_key(asked) != match_key(_asked(api="responses"))
    assert match_key(asked) != match_key(_asked(parameters={"user": "1"}))
    assert match_key(asked) != match_key(_asked(tools=({"name": "f"},)))


def test_a_text_rule_makes_its_matches_equal() -> None:
    """And nothing else."""
    rules = VolatileRules(texts=[r"\d{4}-\d\d-\d\d"])
    keys = [
        match_key(rules.applied(_asked(text)))
        for text in ("Today is 2026-01-02.", "Today is 2026-11-21.", "Today is Monday.")
    ]

    assert keys[0] == keys[1] != keys[2]


@pytest.mark.parametrize("path", ["model:gpt/parameters/user", "model:*/parameters/user"])
def test_a_place_is_not_compared(path: str) -> None:
    """Of the models that it names."""
    rules = VolatileRules([path])
    one, two = _asked(parameters={"user": "1", "n": 1}), _asked(parameters={"user": "2", "n": 1})

    assert match_key(rules.applied(one)) == match_key(rules.applied(two))
    assert match_key(rules.applied(one)) != match_key(
        rules.applied(_asked(parameters={"user": "1", "n": 2}))
    )


def test_a_place_of_another_model_is_compared() -> None:
    """Names are not prefixes."""
    rules = VolatileRules(["model:gp/parameters/user"])

    assert rules.applied(_asked(parameters={"user": "1"})) == _asked(parameters={"user": "1"})


def test_rules_are_listed_and_joined() -> None:
    """Each once."""
    one = VolatileRules(["model:*/parameters/user"], ["a+"])

    assert one.plus(VolatileRules(["model:*/parameters/user"], ["b+"])).as_json() == {
        "volatile": ["model:*/parameters/user"],
        "volatile_texts": ["a+", "b+"],
    }
    assert VolatileRules().as_json() == {}


@for_each(
    "rules",
    [{"paths": ["parameters/user"]}, {"texts": ["("]}, {"texts": ["x*"]}, {"texts": ["(a+)+b"]}],
)
def test_rules_that_make_no_sense_are_refused(rules: dict[str, Any]) -> None:
    """A place of nothing, a pattern that is none, a pattern that matches everywhere."""
    with pytest.raises(UsageError):
        VolatileRules(**rules)


def test_what_a_record_lists_and_nobody_would_take_is_left_out_and_said() -> None:
    """An earlier version took patterns that could take for ever; more is compared without them."""
    rules, notes = VolatileRules.recorded(
        {"volatile": ["model:*/parameters/user"], "volatile_texts": ["(a+)+b", "[0-9]+", 5, ""]}
    )

    assert rules == VolatileRules(["model:*/parameters/user"], ["[0-9]+"])
    assert len(notes) == 3
    assert (
        "'(a+)+b' is not used: a group with a repeat or alternatives is itself repeated" in notes[0]
    )
    assert all("--volatile text:" in note for note in notes)


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
