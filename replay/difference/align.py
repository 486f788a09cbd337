"""Aligns two sequences of calls, so that one inserted call shows as one inserted call.

It finds the alignment with the lowest cost. The steps are those a person would name: the same call,
the same call with changed arguments, a replaced tool, an extra call or a missing call. Pure: it
handles keys, not logs. `replay.compare.diff` interprets the pairs.
"""

import operator
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import accumulate, zip_longest
from typing import Final, TypeVar

import attrs

from refold.replay.difference.pointer_diff import shared_ends

T = TypeVar("T")

Key = tuple[str, str, bytes]
"""Kind, name, and digest of the request."""

Pair = tuple[int | None, int | None]
"""Places in a and in b; `None` where the other side has nothing there."""

CELLS_MAX: Final = 1_000_000
"""Largest product of two lengths that is aligned exactly."""

GAP: Final = 4
"""The cost of a call that is only on one side."""
_SAME, _RENAMED, _OTHER_ARGUMENTS, _OTHER_NAME, _OTHER_KIND = 0, 4, 5, 7, 8
_PAIRED, _ONLY_A, _ONLY_B = 0, 1, 2


@attrs.frozen
class Alignment:
    """Pairs in an order that keeps the order of both sides."""

    pairs: list[Pair]
    is_exact: bool
    """False where a stretch was too long: its calls were paired place by place."""


def align(
    a: Sequence[Key], b: Sequence[Key], *, cells_max: int = CELLS_MAX, early: bool = False
) -> Alignment:
    """Return the cheapest alignment of `a` and `b`; pairs are preferred to gaps.

    Among equally cheap ones, the latest pairs win, or with `early` the earliest, so that the first
    difference is reported first.
    The common start and end are paired first. If the rest is too long for a full table, it is cut
    at calls that occur once on each side, and then paired by position.
    """
    start, end = shared_ends(a, b, operator.eq)
    middle_a, middle_b = a[start : len(a) - end], b[start : len(b) - end]
    inner, is_exact = _place_by_place(middle_a, middle_b), True
    if middle_a and middle_b:
        if len(middle_a) * len(middle_b) <= cells_max:
            if len(middle_a) > 1 and len(middle_b) > 1:  # each key is compared several times
                middle_a, middle_b = [*middle_a], [*middle_b]
            inner = cheapest(middle_a, middle_b, cost, lambda _: GAP, early=early)
        else:
            inner, is_exact = _anchored(middle_a, middle_b, cells_max, early=early)
    pairs: list[Pair] = [(at, at) for at in range(start)]
    pairs += _shifted(inner, start, start)
    pairs += [(len(a) - at, len(b) - at) for at in range(end, 0, -1)]
    return Alignment(pairs, is_exact)


def _anchored(
    a: Sequence[Key], b: Sequence[Key], cells_max: int, *, early: bool
) -> tuple[list[Pair], bool]:
    """Cut at keys that occur once on each side, in the same order, and align between them."""
    once = _once_in_both(a, b)
    anchors = [once[at] for at in longest_rise([at_b for _, at_b in once])]
    if not anchors:
        return _place_by_place(a, b), False
    pairs: list[Pair] = []
    all_exact = True
    last_a = last_b = 0
    for at_a, at_b in [*anchors, (len(a), len(b))]:
        inner = align(a[last_a:at_a], b[last_b:at_b], cells_max=cells_max, early=early)
        pairs += _shifted(inner.pairs, last_a, last_b)
        all_exact = all_exact and inner.is_exact
        if at_a < len(a):
            pairs.append((at_a, at_b))
        last_a, last_b = at_a + 1, at_b + 1
    return pairs, all_exact


def _once_in_both(a: Sequence[Key], b: Sequence[Key]) -> list[tuple[int, int]]:
    """Return the places of keys that occur once in each; compares hashes, which are smaller."""
    in_a, in_b = (Counter(map(hash, side)) for side in (a, b))
    once = {key for key, count in in_a.items() if count == in_b[key] == 1}
    places = {hash(key): at for at, key in enumerate(b) if hash(key) in once}
    return [(at, places[hash(key)]) for at, key in enumerate(a) if hash(key) in once]


def longest_rise(numbers: Sequence[int]) -> list[int]:
    """Return the places of a longest part that rises; a negative number is never part of it."""
    tails: list[int] = []
    ends: list[int] = []
    before: dict[int, int] = {}
    for at, number in enumerate(numbers):
        if number < 0:
            continue
        length = bisect_left(tails, number)
        tails[length : length + 1] = [number]
        ends[length : length + 1] = [at]
        before[at] = ends[length - 1] if length else -1
    found, at = [], ends[-1] if ends else -1
    while at >= 0:
        found.append(at)
        at = before[at]
    return found[::-1]


def _place_by_place(a: Sequence[Key], b: Sequence[Key]) -> list[Pair]:
    return list(zip_longest(range(len(a)), range(len(b))))


def cheapest(
    a: Sequence[T],
    b: Sequence[T],
    price: Callable[[T, T], int],
    gap: Callable[[T], int],
    *,
    early: bool,
) -> list[Pair]:
    """Return the cheapest pairs; among equals, the latest, or with `early` the earliest.

    `price` returns the cost of pairing two, `gap` the cost of leaving one alone. The table of costs
    is filled row by row, and only the path to each cell is kept. It is traced back from its end,
    which prefers late pairs; for early ones, both sides are reversed.
    """
    if early:
        pairs = cheapest(a[::-1], b[::-1], price, gap, early=False)
        last_a, last_b = len(a) - 1, len(b) - 1
        return [
            (None if one is None else last_a - one, None if other is None else last_b - other)
            for one, other in reversed(pairs)
        ]
    alone = [gap(other) for other in b]
    costs = list(accumulate(alone, initial=0))
    ways = bytearray([_ONLY_B]) * len(costs)
    for key in a:
        gone = gap(key)
        diagonal, costs[0] = costs[0], costs[0] + gone
        way = bytearray([_ONLY_A]) * len(costs)
        for column, other in enumerate(b, 1):
            best, step = diagonal + price(key, other), _PAIRED
            if costs[column] + gone < best:
                best, step = costs[column] + gone, _ONLY_A
            if costs[column - 1] + alone[column - 1] < best:
                best, step = costs[column - 1] + alone[column - 1], _ONLY_B
            diagonal, costs[column] = costs[column], best
            way[column] = step
        ways += way
    return _way_back(ways, len(a), len(b))


def _way_back(ways: bytearray, row: int, column: int) -> list[Pair]:
    width = column + 1
    pairs: list[Pair] = []
    while row or column:
        step = ways[row * width + column]
        row -= step != _ONLY_B
        column -= step != _ONLY_A
        pairs.append((None if step == _ONLY_B else row, None if step == _ONLY_A else column))
    return pairs[::-1]


def cost(one: Key, other: Key) -> int:
    """Return the cost of one call becoming the other: lower is likelier."""
    if one == other:
        return _SAME
    if one[0] != other[0]:
        return _OTHER_KIND
    if one[1] == other[1]:
        return _OTHER_ARGUMENTS
    return _RENAMED if one[2] and one[2] == other[2] else _OTHER_NAME


def _shifted(pairs: list[Pair], by_a: int, by_b: int) -> list[Pair]:
    return [(None if a is None else a + by_a, None if b is None else b + by_b) for a, b in pairs]
