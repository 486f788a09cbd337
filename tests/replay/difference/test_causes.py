"""The causes among the differences of a comparison (CONTRACT.md §13.8)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.replay.compare.log_diff import DiffCategory, LogDifference
from refold.replay.difference.causes import cause_texts, causes
from refold.replay.difference.pointer_diff import Difference

SHARED = ("same of all " * 20).strip()


def leaf(
    run: str, what: str, now: str, was: str = "b", category: DiffCategory = "arguments"
) -> LogDifference:
    """Return the difference of one word in a long text."""
    place = Difference("/q", "changed", f"{SHARED} {was}", f"{SHARED} {now}")
    return LogDifference(category=category, run=run, what=what, differences=(place,))


@given(
    st.lists(
        st.builds(
            leaf,
            st.sampled_from(["root", "root > dig[1]", "root > dig[2]", "root > dig[1] > dig[1]"]),
            st.sampled_from(["search#1", "dig[1]", "dig[2]"]),
            st.sampled_from("cd"),
            category=st.sampled_from(["arguments", "result"]),
        ),
        max_size=12,
    )
)
def test_each_difference_has_one_cause(found: list[LogDifference]) -> None:
    """It is one, is like one, or comes later; and of a run with a different result, none is."""
    told = causes(found, spread=True)

    assert sum(1 + len(each.alike) + each.follows for each in told) == len(found)
    assert [each.leaves[0] for each in told[:1]] == found[:1]
    for at, one in enumerate(told):
        if one.what == "result":
            assert one.run not in {each.run for each in told[at + 1 :]}


def test_a_request_follows_only_if_its_run_got_something_different() -> None:
    """A program that gets the same and asks differently was changed there, too."""
    one, other = leaf("root", "search#1", "c"), leaf("root", "search#2", "d")
    got = leaf("root", "search#1", "new", was="old", category="result")

    apart = causes([one, other], spread=True)
    folded = causes([one, got, other], spread=True)

    assert [(each.where, each.follows) for each in apart] == [
        ("root > search#1", 0),
        ("root > search#2", 0),
    ]
    assert [(each.where, each.follows) for each in folded] == [("root > search#1", 2)]


def test_a_result_may_follow_from_every_earlier_request_of_its_run() -> None:
    """What was asked differently may have changed what a later call reads."""
    wrote = leaf("root", "write#1", "c")
    read = leaf("root", "read#1", "new", was="old", category="result")

    assert [each.follows for each in causes([wrote, read], spread=True)] == [1]


def test_all_in_a_run_that_was_started_differently_may_follow() -> None:
    start = leaf("root", "dig[1]", "c")
    inside = leaf("root > dig[1] > dig[1]", "search#1", "d")

    assert [each.follows for each in causes([start, inside], spread=True)] == [1]


@given(st.lists(st.sampled_from("cdef"), max_size=12), st.booleans())
def test_different_words_never_share_a_cause(words: list[str], spread: bool) -> None:  # noqa: FBT001 - drawn
    found = [leaf(f"root > dig[{at}]", "search#1", word) for at, word in enumerate(words)]

    told = causes(found, spread=spread)

    assert [len(each.leaves) for each in told] == [words.count(w) for w in dict.fromkeys(words)]
    for each, word in zip(told, dict.fromkeys(words), strict=True):
        assert each.words[0].endswith(f"[-b-]{{+{word}+}}")


@pytest.mark.parametrize(("spread", "count"), [(True, 1), (False, 2)])
def test_words_that_are_repeated_inside_of_others_follow(*, spread: bool, count: int) -> None:
    """As a parent's next request has the changed answer of its child; not in a replay."""
    first = leaf("root > dig[1]", "model#1", "new", was="old")
    repeated = leaf("root", "note#1", "<new> and <new>", was="<old> and <old>")

    told = causes([first, repeated], spread=spread)

    assert len(told) == count
    assert told[0].follows == 2 - count


def test_the_texts_of_a_report_begin_with_the_first_cause() -> None:
    found = causes([leaf(f"root > dig[{at}]", "search#1", "cd"[at % 2]) for at in range(6)])

    texts = list(cause_texts(found, 1))

    assert texts[0].startswith("\n3 times: root > dig[0] > search#1: arguments")
    assert texts[1] == "\n1 more cause"
