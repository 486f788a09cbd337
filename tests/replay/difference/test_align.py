import operator

from hypothesis import given
from hypothesis import strategies as st

from refold.replay.difference.align import Key, align
from refold.replay.difference.pointer_diff import shared_ends
from tests.support.loops import for_each


def keys(text: str) -> list[Key]:
    """Return one call a word: `s1` is tool `s` with arguments `1`; `m:s1` is of kind `m`."""
    found = []
    for word in text.split():
        kind, _, rest = word.rpartition(":")
        found.append((kind or "tool", rest[0], rest[1:].encode()))
    return found


KEYS = st.lists(st.sampled_from(keys("s1 s2 s3 r1 r2 m:s1")), max_size=12)


@for_each(
    "a, b, pairs",
    [
        ("s1 s2", "s1 s2", [(0, 0), (1, 1)]),
        ("s1 s2 s3", "s1 r1 s2 s3", [(0, 0), (None, 1), (1, 2), (2, 3)]),
        ("s1 s2 s3", "s1 s3", [(0, 0), (1, None), (2, 1)]),
        ("s1 s2 s3", "s1 s9 s3", [(0, 0), (1, 1), (2, 2)]),
        ("s1", "r1", [(0, 0)]),
        ("s1", "m:s1", [(0, 0)]),
        ("s1 s2", "s2 s3", [(0, None), (1, 0), (None, 1)]),
        ("", "s1", [(None, 0)]),
        ("s1 s1 s1", "s1 s1", [(0, 0), (1, 1), (2, None)]),
    ],
)
def test_a_change_reads_as_a_person_would_tell_it(
    a: str, b: str, pairs: list[tuple[int | None, int | None]]
) -> None:
    """One inserted call is one inserted call; changed arguments are one changed call."""
    assert align(keys(a), keys(b)).pairs == pairs


@for_each(
    "a, b, pairs",
    [
        ("s1", "s2 s3 s4", [(0, 0), (None, 1), (None, 2)]),
        ("s1 s2 s3", "s4", [(0, 0), (1, None), (2, None)]),
        ("s1 s2", "r1 s3", [(0, 0), (1, 1)]),
        ("s1", "r1 s2", [(0, 0), (None, 1)]),
    ],
)
def test_the_earliest_of_equally_cheap_pairs(
    a: str, b: str, pairs: list[tuple[int | None, int | None]]
) -> None:
    """So that what differs first is named first; another name is less than other arguments."""
    assert align(keys(a), keys(b), early=True).pairs == pairs


@given(KEYS, KEYS, st.sampled_from([1, 4, 20, 1_000_000]))
def test_every_call_of_both_sides_has_one_place_in_order(
    a: list[Key], b: list[Key], cells_max: int
) -> None:
    pairs = align(a, b, cells_max=cells_max).pairs

    assert [x for x, _ in pairs if x is not None] == list(range(len(a)))
    assert [y for _, y in pairs if y is not None] == list(range(len(b)))


@given(KEYS, KEYS)
def test_what_both_share_at_start_and_end_is_the_same_call(a: list[Key], b: list[Key]) -> None:
    """However much lies between, it never disturbs what is the same around it."""
    start, end = shared_ends(a, b, operator.eq)

    pairs = align(a, b).pairs

    assert pairs[:start] == [(at, at) for at in range(start)]
    assert pairs[len(pairs) - end :] == [(len(a) - at, len(b) - at) for at in range(end, 0, -1)]


def test_a_stretch_that_is_too_long_says_so() -> None:
    """Without a call that occurs once on each side there is nothing to cut at."""
    a, b = keys("s1 " * 40 + "s2 " * 40), keys("s2 " * 40 + "s1 " * 40)

    assert align(a, b).is_exact
    assert not align(a, b, cells_max=100).is_exact
    assert not align(keys("s1 s1"), keys("r1 s1 r1"), cells_max=4).is_exact


def test_a_long_stretch_is_cut_at_calls_that_occur_once() -> None:
    """So one insertion into a long scope is found without a full table."""
    a = [("tool", "s", str(at).encode()) for at in range(3_000)]
    b = [*a[:10], ("tool", "s", b"new"), *a[10:2_000], *a[2_001:]]

    aligned = align(a, b, cells_max=1_000)

    assert aligned.is_exact
    assert [pair for pair in aligned.pairs if None in pair] == [(None, 10), (2_000, None)]
