from pathlib import Path
from typing import Any

import pytest

from refold.replay.compare.calls import RunCalls
from refold.replay.compare.pairing import ArgumentMode, MatchMode, is_alike, pairs_of
from refold.replay.difference.pointer_diff import Difference, DifferenceKind
from tests.support.delegating import recorded
from tests.support.loops import for_each


def paired(
    tmp_path: Path, a: Any, b: Any, match: MatchMode, arguments: ArgumentMode = "exact"
) -> list[tuple[str | None, str | None]]:
    """Return the pairs of two recordings as what their tools returned; None for no call."""
    runs = [
        RunCalls(recorded(tmp_path / f"{name}.jsonl", plan).log)
        for name, plan in (("a", a), ("b", b))
    ]
    one, other = runs
    pairs = pairs_of(one, other, match=match, arguments=arguments).pairs
    return [
        (
            one.ending(pair.call_a)["result"] if pair.call_a else None,
            other.ending(pair.call_b)["result"] if pair.call_b else None,
        )
        for pair in pairs
    ]


X, Y, Z = ("search", "x"), ("search", "y"), ("search", "z")
FX, FY, FZ = "found x", "found y", "found z"


def test_strict_knows_scope_and_order(tmp_path: Path) -> None:
    pairs = paired(tmp_path, [X, ("both", [Y], [Z])], [X, ("both", [Z], [Y])], "strict")

    assert pairs == [(FX, FX), (FY, FZ), (FZ, FY)]


@for_each(
    "match, expected",
    [
        ("unordered", [(FX, FX), (FY, None), (None, FZ)]),
        ("subset", [(FX, FX), (FY, None)]),
        ("superset", [(FX, FX), (None, FZ)]),
    ],
)
def test_the_other_modes_leave_out_what_may_be_more(
    tmp_path: Path, match: MatchMode, expected: Any
) -> None:
    """With calls of different names; those of one name are paired whatever they asked for."""
    pairs = paired(tmp_path, [X, ("search", "y")], [("read", "f"), X], match)

    shown = [tuple(FZ if text == "all of f" else text for text in pair) for pair in pairs]
    assert shown == expected


def test_unordered_pairs_the_most_alike(tmp_path: Path) -> None:
    pairs = paired(tmp_path, [X, Y, X], [Z, ("both", [X], [X])], "unordered")

    assert pairs == [(FX, FX), (FY, FZ), (FX, FX)]


@pytest.mark.parametrize("arguments", ["subset", "superset"])
def test_arguments_that_fit_are_paired_before_names(
    tmp_path: Path, arguments: ArgumentMode
) -> None:
    less, more, else_ = ("read", "f"), ("read", "f", 3), ("read", "g", 3)
    a, b = ([less], [else_, more]) if arguments == "subset" else ([more], [("read", "g"), less])

    (first, *_) = paired(tmp_path, a, b, "unordered", arguments)

    assert set(first) == {"all of f", "3 of f"}


def test_a_call_that_moved_is_one_call(tmp_path: Path) -> None:
    a, b = [X, Y, Z, ("read", "f")], [Y, Z, ("read", "f"), X]
    runs = [
        RunCalls(recorded(tmp_path / f"{n}.jsonl", plan).log) for n, plan in (("a", a), ("b", b))
    ]

    pairs = [*pairs_of(*runs, match="strict", arguments="exact").pairs]

    assert [pair.is_moved for pair in pairs] == [True, False, False, False]
    assert pairs[0].call_a is not None
    assert pairs[0].call_b is not None
    assert (pairs[0].call_a.key, pairs[0].call_b.key) == ("0#1", "0#4")


@for_each(
    "arguments, alike",
    [
        ("exact", set()),
        ("ignore", {"added", "removed", "changed"}),
        ("subset", {"added"}),
        ("superset", {"removed"}),
    ],
)
def test_what_a_mode_lets_be(arguments: ArgumentMode, alike: set[str]) -> None:
    kinds: tuple[DifferenceKind, ...] = ("added", "removed", "changed")

    assert {kind for kind in kinds if is_alike(Difference("/a", kind), arguments)} == alike
