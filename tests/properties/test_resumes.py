"""A law of resumed runs: at whatever moment a whole tree breaks off, its end is whole (§4.7)."""

import functools
import tempfile
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refold import Limits, record, reexecute, resume, verify
from tests.support.spending import MODEL, how_often, spend
from tests.support.trees import Latency, programs, random_tree, tools_with, tree_program
from tests.support.unfinished import cut_at

MOMENTS: Final = st.floats(0, 1)
TORN: Final = st.integers(0, 40)
SPENDS: Final = st.lists(st.integers(1, 4), min_size=1, max_size=3)
WAY: Final[dict[str, Any]] = {"tools": [how_often], "model": MODEL}


@pytest.fixture
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start no process for a run that is unfinished."""
    monkeypatch.setitem(programs, "child", functools.partial(tree_program))


def _check_tree(seed: int, moment: float, torn: int, runner: str) -> None:
    """Cancelled children and all that is below them, among others."""
    node, tools = ["timeout", seed % 50, [_below(seed, 2)]], tools_with(Latency(seed))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "x").mkdir()
        whole = record(
            tree_program, node, log=folder / "a.jsonl", tools=tools, runner=runner, seed=1
        )
        log = cut_at(whole.log, folder / "x" / "a.jsonl", moment, torn)
        if not log.exists() or whole.log.read_bytes() == log.read_bytes():
            return
        resumed = resume(log, tree_program, tools=tools, check=False)
        assert resumed.status == "completed", resumed
        _is_whole(log, tree_program)


def _below(seed: int, depth: int) -> Any:
    tree = random_tree(seed + depth, size=8, children=True)
    return ["child", 0, [["gather", 0, [tree, _below(seed, depth - 1)] if depth else [tree]]]]


def _check_spending(times: list[int], moment: float, torn: int, runner: str) -> None:
    """Tokens that were granted, too; children one after the other take the same each time."""
    asks = {"tokens": 30, "times": 1}
    child = {"times": 1, "cap": None, "joins": True}
    steps = [
        child | {"child": [asks | {"times": each}, child | {"child": [asks]}]} for each in times
    ]
    given = {"steps": steps, "budget": "model_tokens"}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "x").mkdir()
        limits = Limits(model_tokens=200)
        whole = record(
            spend, given, log=folder / "a.jsonl", limits=limits, runner=runner, seed=1, **WAY
        )
        log = cut_at(whole.log, folder / "x" / "a.jsonl", moment, torn)
        if not log.exists() or whole.log.read_bytes() == log.read_bytes():
            return
        resumed = resume(log, spend, check=False, **WAY)
        assert (resumed.output, resumed.status) == (whole.output, whole.status)
        assert resumed.tree_digest == whole.tree_digest
        _is_whole(log, spend)


def _is_whole(log: Path, program: Any) -> None:
    verified = verify(log)
    assert verified.intact, verified
    assert verified.complete, verified
    report = reexecute(log, program)
    assert report.identical, report


@pytest.mark.usefixtures("_here")
@given(seed=st.integers(0, 100_000), moment=MOMENTS, torn=TORN)
def test_a_tree_that_breaks_off_at_any_moment_is_whole_once_it_is_resumed(
    seed: int, moment: float, torn: int
) -> None:
    _check_tree(seed, moment, torn, "in-process")


@given(times=SPENDS, moment=MOMENTS, torn=TORN)
def test_nothing_that_was_granted_is_lost(times: list[int], moment: float, torn: int) -> None:
    _check_spending(times, moment, torn, "in-process")


@pytest.mark.long
@pytest.mark.parametrize("runner", ["in-process", "subprocess"])
@pytest.mark.parametrize("part", range(5))
@settings(max_examples=100)
@given(seed=st.integers(0, 100_000), moment=MOMENTS, torn=TORN, times=SPENDS)
def test_both_hold_over_many_trees(
    seed: int, moment: float, torn: int, times: list[int], runner: str, part: int
) -> None:
    """500 of each, for each runner; a single test ends after ten minutes."""
    _check_tree(seed + part * 100_001, moment, torn, runner)
    _check_spending(times, moment, torn, runner)
