"""What was made of values is taken over as far as they are shared, and is that of all anew."""

from collections.abc import Sequence
from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from refold.engine.wire.parts.series import NO_LISTS, Series, series_in

VALUES = st.lists(st.integers(0, 3), max_size=6)


def told(at: str, value: int) -> str:
    return f"{at}.{value}"


def runs(found: list[int], values: Sequence[int], at: int) -> int:
    """Take a run of zeros as one, like items that are one message; all else alone."""
    end = at + 1
    while values[at] == 0 and end < len(values) and values[end] == 0:
        end += 1
    before = found[-1] if found else 100
    found.append(10 * values[at] + (end - at) + before)
    return end


STEPS = st.tuples(st.integers(0, 6), VALUES, st.booleans())


@given(st.lists(STEPS, min_size=1, max_size=5), VALUES)
def test_what_is_made_is_that_of_all_anew(
    steps: list[tuple[int, list[int], bool]], first: list[int]
) -> None:
    """However the values go on from those before, and whether anything was made of those."""
    series = Series([])
    for keep, added, is_asked in steps:
        shared = min(keep, len(series.values))
        series = Series(series.values[:shared] + added, series, shared)
        if not is_asked:
            continue
        alone = Series(list(series.values))

        assert series.each(str).values == [str(value) for value in series.values]
        told_all = list(accumulate(series.values, told, initial=""))[1:]
        assert series.running(told).values == told_all
        assert series.grouped(runs, first).values == alone.grouped(runs, first).values
        assert series.grouped(runs, first).each(str).values == list(
            map(str, alone.grouped(runs, first).values)
        )
        assert series.whole(sum) == sum(series.values)


def test_a_shared_value_is_not_looked_at_again() -> None:
    """Neither by what is made of what was made of it."""
    seen: list[int] = []

    def look(value: int) -> int:
        seen.append(value)
        return value

    before = Series([1, 2, 3])
    before.each(str).each(int).each(look)
    after = Series([*before.values, 4], before, 3)
    after.each(str).each(int).each(look)
    after.each(str).each(int).each(look)

    assert seen == [1, 2, 3, 4]


def test_another_state_makes_all_of_it_again() -> None:
    """What was made under another one does not hold."""
    state = ["a"]

    def under(value: int) -> str:
        return f"{state[0]}{value}"

    before = Series([1])
    assert before.each(under, "a").values == ["a1"]
    after = Series([1, 2], before, 1)
    state[0] = "b"

    assert after.each(under, "b").values == ["b1", "b2"]


def test_what_comes_first_is_part_of_what_is_made() -> None:
    """Another system prompt begins another conversation."""
    before = Series([1, 2])
    before.grouped(runs, [5])
    after = Series([1, 2], before, 2)

    for first in ([7], [5], []):
        assert after.grouped(runs, first).values == Series([1, 2]).grouped(runs, first).values


def test_what_comes_first_is_another_where_only_its_kind_is() -> None:
    """1, 1.0 and true are equal in Python, and say different things."""
    before = Series([2])
    before.grouped(runs, [1])
    after = Series([2, 3], before, 1)

    for first in (True, 1.0, 1):
        assert type(after.grouped(runs, [first]).values[0]) is type(first)


def test_nobody_looks_further_back_than_one() -> None:
    """Or all that was ever said would stay in memory."""
    first = Series([1])
    second = Series([1, 2], first, 1)
    third = Series([1, 2, 3], second, 2)

    assert first.each(str).values == ["1"]
    assert second._base is None
    assert third._base is second


def test_a_series_is_that_of_a_list_by_its_identity() -> None:
    """Of another list, though it be equal, it is another."""
    known = Series([1])

    assert series_in({"a": known}, "a", known.values) is known
    assert series_in({"a": known}, "a", [1]) is not known
    assert series_in(NO_LISTS, "a", [1]).values == [1]
