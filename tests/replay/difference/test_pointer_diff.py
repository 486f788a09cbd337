from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from refold.replay.difference.pointer_diff import (
    Difference,
    cut,
    differences,
    differing,
    same,
    shown,
)
from tests.support.loops import for_each

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(-9, 9) | st.text("ab~/", max_size=2),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text("ab~/", max_size=2), inner, max_size=3)
    ),
    max_leaves=8,
)


@for_each(
    "before, after, expected",
    [
        ({"a": 1}, {"a": 2}, [Difference("/a", "changed", 1, 2)]),
        ({"a": 1}, {}, [Difference("/a", "removed", 1)]),
        ({}, {"a": None}, [Difference("/a", "added", after=None)]),
        ({"a": {"b": [1]}}, {"a": {"b": [2]}}, [Difference("/a/b/0", "changed", 1, 2)]),
        ({"a/b~c": 1}, {"a/b~c": 2}, [Difference("/a~1b~0c", "changed", 1, 2)]),
        (1, "1", [Difference("", "changed", 1, "1")]),
        ([1], {"0": 1}, [Difference("", "changed", [1], {"0": 1})]),
    ],
)
def test_each_place_is_named_by_its_pointer(
    before: Any, after: Any, expected: list[Difference]
) -> None:
    assert list(differences(before, after)) == expected


@for_each("one, other", [(1, 1.0), (1, True), (0, False), (0.0, -0.0), ("", None)])
def test_values_that_are_written_differently_differ(one: Any, other: Any) -> None:
    """`1`, `1.0` and `true` are equal to Python, and three values to a log."""
    assert not same([one], [other])
    assert [each.kind for each in differences({"a": one}, {"a": other})] == ["changed"]


def test_the_order_of_members_does_not_matter() -> None:
    assert differences({"a": 1, "b": [{"c": 2, "d": 3}]}, {"b": [{"d": 3, "c": 2}], "a": 1}) == ()


def test_a_tuple_is_an_array() -> None:
    assert differences({"a": (1, 2)}, {"a": [1, 2]}) == ()


def test_an_inserted_element_is_one_addition() -> None:
    """What two arrays share at the start and at the end is not compared place by place."""
    assert differences([1, 2, 3], [1, 9, 2, 3]) == (Difference("/1", "added", after=9),)
    assert differences([1, 9, 2, 3], [1, 2, 3]) == (Difference("/1", "removed", before=9),)


@given(JSON, JSON)
def test_there_is_no_difference_if_and_only_if_the_two_are_the_same(one: Any, other: Any) -> None:
    assert (differences(one, other) == ()) is same(one, other)
    assert differences(one, one) == ()


@given(JSON, JSON)
def test_the_other_way_round_is_the_mirror_image(one: Any, other: Any) -> None:
    there, back = differences(one, other), differences(other, one)
    mirrored = {"changed": "changed", "added": "removed", "removed": "added"}
    assert sorted((mirrored[each.kind], each.pointer) for each in there) == sorted(
        (each.kind, each.pointer) for each in back
    )


def test_plain_data_leaves_out_the_side_that_has_nothing() -> None:
    (changed,), (added,) = differences([1], [2]), differences({}, {"a": 1})

    assert changed.as_json() == {"pointer": "/0", "kind": "changed", "before": 1, "after": 2}
    assert added.as_json() == {"pointer": "/a", "kind": "added", "after": 1}


def test_text_for_people_is_one_safe_line() -> None:
    """A value from a log cannot move a cursor or hide text, and a long one is cut."""
    (evil,) = differences({"a": "\x1b[2J\n"}, {"a": "\u202e"})
    (long,) = differences({"a": "x" * 500 + "1" + "y" * 500}, {"a": "x" * 500 + "2" + "y" * 500})

    assert str(evil) == '/a: "\\u001b[2J\\n" → "\\u202e"'
    assert "x1y" in str(long)
    assert "x2y" in str(long)
    assert len(str(long)) < 300
    assert len(shown("z" * 10_000)) < 150


def test_of_a_value_in_little_space_both_ends_are_shown() -> None:
    """Of a path the name of the file, and not how many characters are left out."""
    path = "/home/ada/projects/a-long-name/and-another/engine/state.py"

    assert shown(path, 40) == '"/home/ada/projects…er/engine/state.py"'
    assert len(shown(path, 40)) <= 40
    assert "more)" in shown(path * 3, 80)


def test_where_texts_differ_from_the_start_no_place_is_named() -> None:
    """There is nothing before it."""
    (found,) = differences(None, {"reason": "x" * 200})

    assert "null → {" in str(found)
    assert "from character" not in str(found)


@for_each("places, more", [(1, []), (2, ["1 more place"]), (3, ["2 more places"])])
def test_the_first_places_are_told_and_how_many_more_there_are(
    places: int, more: list[str]
) -> None:
    found = differences(list(range(places)), [None] * places)

    assert differing(found, 1) == [
        "  differs   /0: 0 → null",
        *(f"            … and in {one}" for one in more),
    ]


def test_what_is_too_long_is_cut_in_its_middle() -> None:
    """Both ends are kept, or one of them."""
    cuts = [cut("abcdef", 1), cut("abcdef", 0, 2), cut("abcdef", 2, 0), cut("abcdef", 3)]

    assert cuts == ["a…f", "…ef", "ab…", "abcdef"]
