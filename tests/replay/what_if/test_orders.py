"""Orders of keys: moved, compared, and shrunk to the fewest moves (CONTRACT.md §12.8)."""

import random

from hypothesis import given
from hypothesis import strategies as st

from refold.replay.what_if.explore import (
    DeliveryOrder,
    Move,
    continued,
    displaced,
    moved,
    moves,
    shrunk,
)
from tests.support.loops import for_each

RECORDED: DeliveryOrder = tuple("abcdef")


def test_a_key_is_put_before_or_after_another() -> None:
    assert moved(RECORDED, Move("d", "before", "b")) == tuple("adbcef")
    assert moved(RECORDED, Move("b", "after", "d")) == tuple("acdbef")


def test_a_prefix_goes_on_as_recorded() -> None:
    assert continued("ca", RECORDED) == tuple("cabdef")
    assert continued("xc", RECORDED) == tuple("xcabdef")


@for_each(
    "order, expected",
    [
        ("abcdef", []),
        ("bacdef", [Move("b", "before", "a")]),
        ("adbcef", [Move("d", "before", "b")]),
        ("bcdaef", [Move("a", "after", "d")]),
        ("abcdexf", []),
    ],
)
def test_moves_are_the_fewest(order: str, expected: list[Move]) -> None:
    """One that comes early stands before the first it overtakes, a late one after the last."""
    assert list(moves(tuple(order), RECORDED)) == expected


@given(st.permutations(RECORDED))
def test_what_is_displaced_leaves_a_part_of_the_record(order: list[str]) -> None:
    gone = displaced(order, RECORDED)

    rest = [key for key in order if key not in gone]
    assert rest == [key for key in RECORDED if key in rest]
    assert bool(gone) == (tuple(order) != RECORDED)


@given(st.permutations(RECORDED), st.permutations(RECORDED))
def test_an_order_is_shrunk_to_what_matters(order: list[str], pair: list[str]) -> None:
    """Where one pair matters, one move is left; and it still shows what was looked for."""
    early, late = sorted(pair[:2])

    def holds(one: DeliveryOrder) -> bool:
        return one.index(late) < one.index(early)

    if holds(tuple(order)):
        found = shrunk(tuple(order), RECORDED, holds)

        assert holds(found)
        assert len(moves(found, RECORDED)) == 1


def test_a_moved_key_overtakes_no_more_than_it_must() -> None:
    def holds(one: DeliveryOrder) -> bool:
        return one.index("f") < one.index("c")

    found = shrunk(tuple("fedcba"), RECORDED, holds)

    assert moves(found, RECORDED) == (Move("f", "before", "c"),)


def test_a_late_key_is_overtaken_by_no_more_than_it_must() -> None:
    def holds(one: DeliveryOrder) -> bool:
        return one.index("c") < one.index("a")

    assert shrunk(tuple("bcdefa"), RECORDED, holds) == tuple("bcadef")


def test_two_that_have_to_be_early_stay_two() -> None:
    def holds(one: DeliveryOrder) -> bool:
        return one.index("c") < one.index("a") and one.index("d") < one.index("b")

    found = shrunk(tuple("cdaebf"), RECORDED, holds)

    assert moves(found, RECORDED) == (Move("c", "before", "a"), Move("d", "before", "b"))


def test_what_does_not_matter_is_put_back() -> None:
    """Also where no key alone would do."""

    def holds(one: DeliveryOrder) -> bool:
        return one.index("b") < one.index("a") and one.index("d") < one.index("c")

    assert shrunk(tuple("badcfe"), RECORDED, holds) == tuple("badcef")


def test_the_nearest_is_the_next_in_the_record() -> None:
    """Whatever the keys are called."""

    def holds(one: DeliveryOrder) -> bool:
        return one.index("x") > one.index("c")

    assert shrunk(tuple("cbax"), tuple("xcba"), holds) == tuple("cxba")


def test_what_the_record_does_not_have_overtakes_nothing() -> None:
    """It has no place there."""

    def holds(one: DeliveryOrder) -> bool:
        return "x" in one and max(one.index("x"), one.index("c")) < one.index("a")

    assert shrunk(tuple("bcxadef"), RECORDED, holds) == tuple("bcxadef")


def test_shrinking_comes_to_an_end() -> None:
    """A long order is not tried for ever."""
    recorded = tuple(str(number) for number in range(300))
    order = list(recorded)
    random.Random(1).shuffle(order)
    tries: list[DeliveryOrder] = []

    def holds(one: DeliveryOrder) -> bool:
        tries.append(one)
        return one.index("299") < one.index("0")

    order.remove("299")
    shrunk(("299", *order), recorded, holds)

    assert len(tries) <= 120
