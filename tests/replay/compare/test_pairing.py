from pathlib import Path
from typing import Any

from refold.replay.compare.calls import RunCalls
from refold.replay.compare.pairing import pairs_of
from tests.support.delegating import recorded


def paired(tmp_path: Path, a: Any, b: Any) -> list[tuple[str | None, str | None]]:
    """Return the pairs of two recordings as what their tools returned; None for no call."""
    runs = [
        RunCalls(recorded(tmp_path / f"{name}.jsonl", plan).log)
        for name, plan in (("a", a), ("b", b))
    ]
    one, other = runs
    pairs = pairs_of(one, other).pairs
    return [
        (
            one.ending(pair.call_a)["result"] if pair.call_a else None,
            other.ending(pair.call_b)["result"] if pair.call_b else None,
        )
        for pair in pairs
    ]


X, Y, Z = ("search", "x"), ("search", "y"), ("search", "z")
FX, FY, FZ = "found x", "found y", "found z"


def test_pairs_know_scope_and_order(tmp_path: Path) -> None:
    pairs = paired(tmp_path, [X, ("both", [Y], [Z])], [X, ("both", [Z], [Y])])

    assert pairs == [(FX, FX), (FY, FZ), (FZ, FY)]


def test_a_call_that_moved_is_one_call(tmp_path: Path) -> None:
    a, b = [X, Y, Z, ("read", "f")], [Y, Z, ("read", "f"), X]
    runs = [
        RunCalls(recorded(tmp_path / f"{n}.jsonl", plan).log) for n, plan in (("a", a), ("b", b))
    ]

    pairs = [*pairs_of(*runs).pairs]

    assert [pair.is_moved for pair in pairs] == [True, False, False, False]
    assert pairs[0].call_a is not None
    assert pairs[0].call_b is not None
    assert (pairs[0].call_a.key, pairs[0].call_b.key) == ("0#1", "0#4")
