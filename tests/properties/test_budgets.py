"""Laws of budgets over random trees: no child's spending ends the run that started it (§8.3)."""

import functools
import tempfile
from pathlib import Path
from typing import Any, Final

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from refold import Delegation, Limits, Run, record, reexecute
from refold.engine.errors import LimitReached
from refold.engine.events.events import (
    ChildFinished,
    ChildStarted,
    LimitHit,
    ModelAnswered,
    ModelAsked,
)
from refold.engine.events.outcome import Usage
from refold.engine.log.names import tree
from refold.engine.log.reader import read_entries
from refold.engine.models import FunctionModel
from refold.engine.ports.ports import ModelReply, ModelRequest
from refold.engine.state.folding import Fold

BUDGETS: Final = ("model_tokens", "cost_usd")
MICROS: Final = 1000
"""What a token costs."""


@attrs.frozen
class Node:
    """A run: what it does, in order."""

    steps: tuple[Any, ...]
    """Tokens of a request, or a child: a node, its own budget, and if it is only started."""


def _nodes(depth: int) -> st.SearchStrategy[Node]:
    asks = st.integers(1, 60)
    if depth == 0:
        return st.lists(asks, min_size=1, max_size=6).map(lambda steps: Node((*steps,)))
    own = st.none() | st.integers(1, 120)
    child = st.tuples(_nodes(depth - 1), own, st.booleans())
    return st.lists(asks | child, min_size=1, max_size=6).map(lambda steps: Node((*steps,)))


TREES: Final = _nodes(3)
CAPS: Final = st.integers(20, 400)


def _reply(request: ModelRequest) -> ModelReply:
    tokens = int(request.messages[-1]["content"])
    usage = Usage(requests=1, input_tokens=tokens, cost_usd_micros=tokens * MICROS)
    return ModelReply(message={"role": "assistant", "content": "ok"}, usage=usage)


class Priced(FunctionModel):
    """A model that says what it costs."""

    is_priced = True


async def _follow(node: Node, budget: str, run: Run, _input: Any) -> int:
    """Ask, start and join as `node` says; what was only started is joined at the end."""
    running, answered = [], 0
    for step in (*node.steps, 1):
        match step:
            case int():
                await run.model([{"role": "user", "content": str(step)}])
                answered += 1
            case (child, own, is_deferred):
                started = await run.start(_delegation(child, budget, own))
                running.append(started)
                if not is_deferred:
                    await run.join(started)
    await run.join(*running)
    if running:  # reads what came of them
        await run.model([{"role": "user", "content": "1"}])
    return answered


def _delegation(child: Node, budget: str, own: int | None) -> Delegation:
    cap = own if own is None or budget == "model_tokens" else own * MICROS / 1e6
    limits = None if cap is None else _limits(budget, cap)
    return Delegation(program=_program(child, budget), limits=limits)


def _limits(budget: str, cap: float) -> Limits:
    return Limits.from_json({budget: cap})


def _program(node: Node, budget: str) -> Any:
    program = functools.partial(_follow, node, budget)

    async def follows(run: Run, given: Any) -> int:
        return await program(run, given)

    return follows


def _holds(node: Node, cap: int, budget: str) -> None:
    limit = cap if budget == "model_tokens" else cap * MICROS / 1e6
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "run.jsonl"
        program = _program(node, budget)
        record(
            program,
            log=log,
            model=Priced(_reply, "priced"),
            limits=_limits(budget, limit),
            durability="fast",
        )
        for each in tree(log):
            _check(each, budget)
        report = reexecute(log, program)
        assert report.identical, report


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


LAW: Final = settings(deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)


@settings(LAW, max_examples=50)
@given(node=TREES, cap=CAPS, budget=st.sampled_from(BUDGETS))
def test_no_childs_spending_ends_the_run_above_it(node: Node, cap: int, budget: str) -> None:
    """After a child's budget ended it, the next request is made; overshoots are not charged to it.

    What a child is granted leaves its parent what its last request took.
    """
    _holds(node, cap, budget)


@pytest.mark.long
@settings(LAW, max_examples=500)
@given(node=TREES, cap=CAPS, budget=st.sampled_from(BUDGETS))
def test_the_law_holds_over_many_trees(node: Node, cap: int, budget: str) -> None:
    """The same, 500 times."""
    _holds(node, cap, budget)


def test_a_run_that_only_delegates_keeps_nothing_and_may_still_ask_once(tmp_path: Path) -> None:
    """Before its first request a run's children may have all; it may still ask once."""

    async def lead(run: Run, _input: Any) -> list[str]:
        spends = _delegation(Node((50,) * 4), "model_tokens", 100)
        outcome = await run.delegate(spends)
        told = [f"{outcome.status} {outcome.usage.input_tokens}"]
        for _ in range(2):
            try:
                await run.model([{"role": "user", "content": "10"}])
                told.append("asked")
            except LimitReached as error:
                told.append(error.limit)
        return told

    run = record(
        lead,
        log=tmp_path / "run.jsonl",
        model=FunctionModel(_reply),
        limits=Limits(model_tokens=100),
    )

    assert run.output == ["limit 100", "asked", "model_tokens"]


def test_less_than_the_margin_starts_no_child_and_still_lets_the_run_ask(tmp_path: Path) -> None:
    """What is left is the run's own; the refusal says so."""

    async def lead(run: Run, _input: Any) -> list[str]:
        told: list[str] = []
        for tokens in (60, 30):
            await run.model([{"role": "user", "content": str(tokens)}])
            outcome = await run.delegate(_delegation(Node((1,)), "model_tokens", None))
            told.append(outcome.error.message if outcome.error else outcome.status)
        return told

    run = record(
        lead,
        log=tmp_path / "run.jsonl",
        model=FunctionModel(_reply),
        limits=Limits(model_tokens=110),
    )

    refused = "model_tokens: all of 110 are used or reserved (60 used, 0 reserved by running "
    refused += "children, 60 kept for this run's own next request). No child can be started: "
    refused += "finish with what you have."
    assert run.result()[0] == refused
    assert run.result()[1].startswith("model_tokens: all of 110")
