"""Rule: who needs a part of a call key asks for it (CONTRACT.md §9.1)."""

from refold.engine.events.events import (
    in_order,
    key_in,
    number_of,
    parts_of,
    run_and_call,
    scope_above,
    scope_of,
)
from tests.support.loops import for_each


@for_each("call, scope", [("0#1", "0"), ("0/1/2#13", "0/1/2"), ("0/1@4", "0/1"), ("", "")])
def test_the_scope_of_a_key_is_what_stands_before_its_ordinal(call: str, scope: str) -> None:
    """For calls and for timers."""
    assert scope_of(call) == scope


@for_each("call, number", [("0#1", 1), ("0/1/2#13", 13), ("0/1@4", 4)])
def test_the_number_of_a_key_is_its_ordinal(call: str, number: int) -> None:
    assert number_of(call) == number


def test_a_key_is_a_task_a_mark_and_a_number() -> None:
    assert parts_of("0/1/2#13") == ("0/1/2", "#", "13")
    assert parts_of("0/1@4") == ("0/1", "@", "4")
    assert parts_of("odd") == ("", "", "odd")


@for_each(
    "run, call, key",
    [
        ("", "0/1#2", "0/1#2"),
        ("0#1", "0/1#2", "0#1 > 0/1#2"),
        ("0#1 > 0#3", "0@1", "0#1 > 0#3 > 0@1"),
    ],
)
def test_in_a_tree_of_runs_a_key_names_the_run_as_well(run: str, call: str, key: str) -> None:
    assert key_in(run, call) == key
    assert run_and_call(key) == (run, call)


@for_each("scope, above", [("0/1/2", "0/1"), ("0/1", "0"), ("0", "")])
def test_above_a_task_stands_the_one_that_began_it(scope: str, above: str) -> None:
    assert scope_above(scope) == above


def test_siblings_stand_in_the_order_of_their_call_keys() -> None:
    keys = ["0/10#1", "0#2", "0/2#1", "0#10", "0/2/1#1"]

    assert sorted(keys, key=in_order) == ["0#2", "0#10", "0/2#1", "0/2/1#1", "0/10#1"]
