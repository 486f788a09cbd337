"""Laws of limits over random trees of runs.

No child's spending ends the run that started it (§8.3).  Whatever limit a fork or a drift newly
meets, it ends as a recording does.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refold import Delegation, Limits, Run, Sources, drift, fork, record, reexecute, verify
from refold.engine.children.anchor import anchored
from refold.engine.errors import LimitReached
from refold.engine.events.events import (
    ChildFinished,
    ChildStarted,
    LimitHit,
    ModelAnswered,
    ModelAsked,
)
from refold.engine.events.outcome import failed
from refold.engine.log.names import child_path, tree
from refold.engine.log.reader import Entry, read_entries
from refold.engine.ports.ports import ChildRequest, Identity, Policy
from refold.engine.runners.recorded import Recording
from refold.engine.state.folding import Fold
from tests.support import spending
from tests.support.spending import MICROS, MODEL, Step, how_often, limits_of, spend

BUDGETS: Final = ("model_tokens", "cost_usd")
WAY: Final[dict[str, Any]] = {"tools": [how_often], "model": MODEL}
LIVE: Final = Sources(model="live", tools="live", children="live", may_change=True)


def _steps(depth: int, most: int) -> st.SearchStrategy[list[Step]]:
    """Return steps of runs to that depth; each is made up to `most` times."""
    times = st.integers(min(1, most - 1), most)
    asks: dict[str, Any] = {"times": times, "tokens": st.integers(1, 60)}
    kinds = [st.fixed_dictionaries(asks)]
    if depth:
        own = st.none() | st.integers(1, 120)
        child: dict[str, Any] = {"times": times, "child": _steps(depth - 1, most), "cap": own}
        kinds.append(st.fixed_dictionaries(child | {"joins": st.booleans()}))
    return st.lists(st.one_of(kinds), min_size=1, max_size=6 // most)


CAPS: Final = st.integers(20, 400)


def _check(log: Path, budget: str) -> None:
    """Hold one log to both laws, counting for itself what was spent."""
    price = 1 if budget == "model_tokens" else MICROS
    rounding = 0 if price == 1 else 1  # parts of money are halved
    fold, own, charged, spent, last = Fold(), 0, 0, 0, 0
    granted: dict[str, int] = {}
    reads = False
    for entry in read_entries(log):
        event, call = entry.event, entry.call or ""
        cap = _of(fold.limits.as_json(), budget)
        match event:
            case ChildStarted():
                part = _of(event.delegation["limits"], budget)
                assert own + spent + sum(granted.values()) + part + last <= cap + rounding, entry
                granted[call] = part
            case ChildFinished() if call in granted:
                part, used = granted.pop(call), event.outcome.usage.input_tokens * price
                spent, charged = spent + used, charged + min(used, part)
                code = event.outcome.error.code if event.outcome.error else ""
                reads = reads or code in BUDGETS
            case ModelAsked():
                reads = False
            case ModelAnswered():
                last = event.usage.input_tokens * price
                own += last
            case LimitHit(limit=name, scope="effect") if name == budget:
                assert not reads, entry
                assert own + charged + sum(granted.values()) >= cap - rounding, entry
        if entry.kind == "tokens.granted" and entry.data["to"]:
            granted[entry.data["to"]] += entry.data["tokens"]
        fold.apply(event, entry.call, entry.seq)


def _of(limits: dict[str, Any], budget: str) -> int:
    cap = limits.get(budget, 0)
    return int(cap) if budget == "model_tokens" else round(cap * 1e6)


@pytest.fixture(autouse=True)
def _as_recorded() -> Iterator[None]:
    yield
    spending.more["times"] = 0


def _recorded(folder: Path, steps: list[Step], budget: str, cap: float, **way: Any) -> Any:
    given = {"steps": steps, "budget": budget}
    limits = limits_of(budget, cap)
    return record(spend, given, log=folder / "a.jsonl", limits=limits, **WAY, **way)


def _holds(steps: list[Step], cap: int, budget: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        log = _recorded(Path(folder), steps, budget, cap, durability="fast").log
        for each in tree(log):
            _check(each, budget)
        report = reexecute(log, spend)
        assert report.identical, report


@given(steps=_steps(3, 1), cap=CAPS, budget=st.sampled_from(BUDGETS))
def test_no_childs_spending_ends_the_run_above_it(steps: list[Step], cap: int, budget: str) -> None:
    """After a child's budget ended it, the next request is made; overshoots are not charged to it.

    What a child is granted leaves its parent what its last request took.
    """
    _holds(steps, cap, budget)


def _answered(entries: list[Entry]) -> int:
    answers = [each.data["usage"] for each in entries if each.kind == "model.answered"]
    return sum(usage["input_tokens"] for usage in answers)


@settings(max_examples=20)
@given(steps=_steps(2, 1), part=st.floats(0, 1))
def test_a_child_that_was_killed_used_what_its_logs_say(steps: list[Step], part: float) -> None:
    """It sent no reply: wherever its log breaks off, its answers and those below it count."""
    step = {"times": 1, "child": steps, "cap": None, "joins": True}
    with tempfile.TemporaryDirectory() as folder:
        log = child_path(_recorded(Path(folder), [step], "model_tokens", 400).log, 1)
        entries = list(read_entries(log))
        kept = entries[: 1 + int(part * (len(entries) - 1))]
        log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[: len(kept)]))
        started = [each.data["number"] for each in kept if each.kind == "child.started"]
        below = [each for number in started for each in tree(child_path(log, number))]
        expected = sum(_answered(list(read_entries(each))) for each in below) + _answered(kept)
        own = entries[0].data
        named = {name: own[name] for name in ("run_id", "root_id", "path", "depth", "seed")}
        request = ChildRequest(
            program=spend, program_name="spend", input=None, identity=Identity(**named), log=log,
            limits=Limits(), policy=Policy(),
        )  # fmt: skip

        outcome = anchored(failed("failed", "crashed", "killed"), request)

        tools = {each.data["tool"] for each in kept if each.kind == "tool.called"}
        assert (outcome.usage.input_tokens, set(outcome.tools_used)) == (expected, tools)


@pytest.mark.long
@settings(max_examples=500)
@given(steps=_steps(3, 1), cap=CAPS, budget=st.sampled_from(BUDGETS))
def test_the_law_holds_over_many_trees(steps: list[Step], cap: int, budget: str) -> None:
    """The same, 500 times."""
    _holds(steps, cap, budget)


# --- forks and drifts ------------------------------------------------------------------------

LIMITS: Final = st.one_of(
    st.tuples(st.sampled_from(BUDGETS), CAPS),
    st.tuples(st.sampled_from(["max_children", "max_iterations"]), st.integers(1, 6)),
    st.tuples(st.just("max_depth"), st.integers(0, 2)),
    st.tuples(st.just("output_bytes"), st.integers(3, 12)),
)
CHANGES: Final = st.tuples(LIMITS, _steps(2, 2), st.floats(0, 1), st.integers(1, 8))


def _ends_as_recorded(change: Any, runner: str) -> None:
    """Fork and drift with an edit of one number, and with all numbers changed."""
    (limit, cap), steps, where, times = change
    spending.more["times"] = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        origin = _recorded(folder, steps, limit, cap, runner=runner, durability="fast")
        told = [entry for entry in read_entries(origin.log) if entry.kind == "tool.returned"]
        edited = told[round(where * (len(told) - 1))]
        same, drifted = folder / "s.jsonl", folder / "d.jsonl"
        report = drift(origin.log, spend, sources=LIVE, into=same, **WAY)
        entries = (entry for each in tree(origin.log) for entry in read_entries(each))
        is_cut = runner == "subprocess" and any(b'"status":"cancelled"' in e.line for e in entries)
        assert is_cut or not report.drifted, report  # a process ends at any of its steps
        forked = folder / "f.jsonl"
        edits = {edited.call or "": times}
        fork(origin.log, None, spend, into=forked, edits=edits, sources=LIVE, **WAY)
        spending.more["times"] = 1
        drift(origin.log, spend, sources=LIVE, into=drifted, **WAY)
        for log in (origin.log, same, forked, drifted):
            _is_whole(log, limit)


def _is_whole(log: Path, limit: str) -> None:
    verified = verify(log)
    assert verified.intact, verified
    assert verified.complete, verified
    report = reexecute(log, spend)
    assert report.identical, report
    granted = 0
    for each in tree(log):
        if limit in BUDGETS:
            _check(each, limit)
        for entry in read_entries(each):
            if entry.kind == "tokens.granted":
                granted += entry.data["tokens"] if entry.data["to"] else -entry.data["tokens"]
            elif entry.kind == "value.drawn":
                granted -= entry.data["value"]
    assert granted == 0, "each grant is an entry of both logs"


@settings(max_examples=2)
@given(change=CHANGES)
def test_forks_and_drifts_end_at_limits_as_recordings_do(change: Any) -> None:
    """They ask for more tokens, are refused, and end; a drift of nothing is empty."""
    _ends_as_recorded(change, "in-process")


@pytest.mark.long
@pytest.mark.parametrize("runner", ["in-process", "subprocess"])
@pytest.mark.parametrize("_part", range(5))
@settings(max_examples=100)
@given(change=CHANGES)
def test_they_do_over_many_trees(change: Any, runner: str, _part: int) -> None:
    """The same, 500 times for each runner; a single test ends after ten minutes."""
    _ends_as_recorded(change, runner)


ASKS: Final[Step] = {"times": 0, "tokens": 30}
CHILD: Final[Step] = {"times": 1, "cap": None, "joins": True}
SLEEPS: Final[Step] = {"times": 0, "sleeps": 60}
NEEDED: Final[dict[str, tuple[float, list[Step], str]]] = {
    "max_depth": (1, [CHILD | {"child": [CHILD | {"times": 0, "child": []}]}], "0#2 > 0#1"),
    "max_children": (2, [CHILD | {"child": []}, CHILD | {"times": 0, "child": []}], "0#3"),
    "max_iterations": (3, [ASKS], "0#1"),
    "output_bytes": (4, [ASKS], "0#1"),
    "model_tokens": (100, [CHILD | {"child": [ASKS]}], "0#2 > 0#1"),
    "cost_usd": (100, [CHILD | {"child": [ASKS]}], "0#2 > 0#1"),
    "timeout_seconds": (1, [SLEEPS], "0#1"),
    "join_seconds": (1, [CHILD | {"child": [SLEEPS]}], "0#2 > 0#1"),
}
"""By limit: its value, steps that stay within it, and the call whose edit needs more."""


@pytest.mark.parametrize(
    "limit",
    [
        *(name for name in NEEDED if not name.endswith("seconds")),
        *(
            pytest.param(name, marks=pytest.mark.long)
            for name in NEEDED
            if name.endswith("seconds")
        ),
    ],
)
def test_each_limit_that_an_edit_needs_is_met_in_the_fork(limit: str, tmp_path: Path) -> None:
    """The run, or its child, ends by it, as the same recording would; and so does a drift."""
    assert NEEDED.keys() == {each.name for each in attrs.fields(Limits)}
    cap, steps, edited = NEEDED[limit]
    log = _recorded(tmp_path, steps, limit, cap).log
    assert not _hits(log)

    forked = tmp_path / "f.jsonl"
    fork(log, None, spend, into=forked, edits={edited: 8}, sources=LIVE, **WAY)
    spending.more["times"] = 8
    drift(log, spend, sources=LIVE, into=tmp_path / "d.jsonl", **WAY)

    assert limit.replace("join", "timeout") in _hits(forked) & _hits(tmp_path / "d.jsonl")
    assert verify(forked).complete
    assert reexecute(forked, spend).identical


def _hits(log: Path) -> set[str]:
    entries = [entry for each in tree(log) for entry in read_entries(each)]
    codes = [(entry.data.get("outcome") or entry.data).get("error") for entry in entries]
    hits = {code["code"] for code in codes if code}
    return hits | {entry.data["limit"] for entry in entries if entry.kind == "limit.hit"}


def _spends(tokens: int, times: int, cap: int | None) -> Delegation:
    given = {"steps": [{"times": times, "tokens": tokens}], "budget": "model_tokens"}
    return Delegation(program=spend, input=given, limits=Limits(model_tokens=cap) if cap else None)


def limited(program: Any, folder: Path, tokens: int) -> Recording:
    log, limits = folder / "run.jsonl", Limits(model_tokens=tokens)
    return record(program, log=log, model=MODEL, tools=[how_often], limits=limits)


def test_a_run_that_only_delegates_keeps_nothing_and_may_still_ask_once(tmp_path: Path) -> None:
    """Before its first request a run's children may have all; it may still ask once."""

    async def lead(run: Run, _input: Any) -> list[str]:
        spends = _spends(50, 4, 100)
        outcome = await run.delegate(spends)
        told = [f"{outcome.status} {outcome.usage.input_tokens}"]
        for _ in range(2):
            try:
                await run.model([{"role": "user", "content": "10"}])
                told.append("asked")
            except LimitReached as error:
                told.append(error.limit)
        return told

    run = limited(lead, tmp_path, 100)

    assert run.output == ["limit 100", "asked", "model_tokens"]


def test_less_than_the_margin_starts_no_child_and_still_lets_the_run_ask(tmp_path: Path) -> None:
    """What is left is the run's own; the refusal says so."""

    async def lead(run: Run, _input: Any) -> list[str]:
        told: list[str] = []
        for tokens in (60, 30):
            await run.model([{"role": "user", "content": str(tokens)}])
            outcome = await run.delegate(_spends(1, 1, None))
            told.append(outcome.error.message if outcome.error else outcome.status)
        return told

    run = limited(lead, tmp_path, 110)

    refused = "model_tokens: all of 110 are used or reserved (60 used, 0 reserved by running "
    refused += "children, 60 kept for this run's own next request). No child can be started: "
    refused += "finish with what you have."
    assert run.result()[0] == refused
    assert run.result()[1].startswith("model_tokens: all of 110")
