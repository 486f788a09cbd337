from typing import Any

import attrs
import pytest

from refold.engine.events.events import ChildFinished, ChildStarted, LimitHit, ModelAsked
from refold.engine.events.limits import Limits
from refold.engine.events.outcome import Usage
from refold.engine.kernel.decide import RequestChild, decide, granted
from refold.engine.ports.ports import Delegation
from refold.engine.state.folding import Fold
from refold.engine.state.run_state import Margin, RunState
from tests.support.loops import for_each

ASKED = ModelAsked("scripted", "", 0, [], {})


def start(**asks: Any) -> RequestChild:
    return RequestChild(Delegation(program="dig", **asks), program="dig", number=1, run_id="c1")


def reject(state: RunState, command: RequestChild) -> tuple[LimitHit, str, str]:
    """Return the limit hit, and code and message of the outcome that rejects `command`."""
    hit, finished = decide(state, command)
    assert isinstance(hit, LimitHit)
    assert isinstance(finished, ChildFinished)
    assert finished.outcome.status == "rejected"
    assert finished.outcome.error is not None
    return hit, finished.outcome.error.code, finished.outcome.error.message


def test_a_model_request_is_granted_as_it_is() -> None:
    assert decide(RunState(), ASKED) == (ASKED,)


def test_a_fold_is_judged_like_the_state_that_it_makes() -> None:
    """The kernel passes its fold, a test a state; the answer is one."""
    fold = Fold(depth=1, limits=Limits(max_depth=1, max_iterations=2), iterations=2)

    for command in (start(), ASKED):
        assert decide(fold, command) == decide(fold.state(), command)


@for_each("made, is_granted", [(7, True), (8, False), (9, False)])
def test_no_more_model_requests_than_max_iterations(made: int, *, is_granted: bool) -> None:
    """The request that would be one too many is refused, and the refusal says which it was."""
    state = RunState(limits=Limits(max_iterations=8), iterations=made)

    (event,) = decide(state, ASKED)

    expected = ASKED if is_granted else LimitHit("max_iterations", 8, "effect", made + 1)
    assert event == expected


@for_each("spent, is_granted", [(99, True), (100, False), (140, False)])
def test_no_model_request_when_the_tokens_are_spent(spent: int, *, is_granted: bool) -> None:
    """Those that children used of their grants count; the last answer may overshoot."""
    state = RunState(
        limits=Limits(model_tokens=100),
        usage=Usage(input_tokens=40),
        children_usage=Usage(output_tokens=spent - 40),
        margin=Margin(tokens=spent - 40),
    )

    (event,) = decide(state, ASKED)

    assert event == (ASKED if is_granted else LimitHit("model_tokens", 100, "effect", spent))


@for_each("cost, observed", [(999_999, None), (1_000_000, 1.0), (1_250_000, 1.25), (None, 1.0)])
def test_no_model_request_when_the_money_is_spent(cost: int | None, observed: float | None) -> None:
    """A request whose cost nobody knows may have taken all of it."""
    usage = Usage(requests=1, cost_usd_micros=cost)

    (event,) = decide(RunState(limits=Limits(cost_usd=1), usage=usage), ASKED)

    assert event == (ASKED if observed is None else LimitHit("cost_usd", 1, "effect", observed))


def test_a_granted_child_is_started_under_its_parents_limits() -> None:
    state = RunState(limits=Limits(max_depth=3, timeout_seconds=60.0, max_iterations=9))

    (event,) = decide(state, start(brief="look"))

    assert event == ChildStarted(
        {
            "program": "dig",
            "brief": "look",
            "input": None,
            "limits": {
                "max_depth": 3,
                "timeout_seconds": 60.0,
                "max_iterations": 9,
            },
        },
        1,
        "c1",
    )


@for_each("depth", [0, 1, 2])
def test_a_run_at_max_depth_may_not_delegate(depth: int) -> None:
    """A run at depth `max_depth` may exist; its child is rejected and never started."""
    state = RunState(depth=depth, limits=Limits(max_depth=depth))

    hit, code, message = reject(state, start())

    assert hit == LimitHit("max_depth", depth, "child", depth + 1)
    assert code == "max_depth"
    assert message == (
        f"max_depth is {depth}, and the child would be at depth {depth + 1}: the run at depth "
        f"{depth} may not delegate this. Do the work in this run instead."
    )


def test_a_child_for_which_no_money_is_left_is_rejected_by_its_name() -> None:
    """The message tells who could leave some."""
    state = RunState(limits=Limits(cost_usd=1), usage=Usage(requests=1, cost_usd_micros=1_000_000))

    hit, code, message = reject(state, start())

    assert (hit, code) == (LimitHit("cost_usd", 1, "child", 1.0), "cost_usd")
    assert message.startswith("cost_usd: all of 1 are used or reserved (1.0 used")


def test_levels_count_below_the_caller() -> None:
    """One level below a run at depth 2 is depth 3: that child may exist and not delegate."""
    state = RunState(depth=2, limits=Limits(max_depth=8))

    (event,) = decide(state, start(levels=1))

    assert isinstance(event, ChildStarted)
    assert event.delegation["limits"]["max_depth"] == 3


@pytest.mark.parametrize("levels", [0, -1])
def test_no_levels_are_no_child(levels: int) -> None:
    hit, code, _ = reject(RunState(depth=2), start(levels=levels))

    assert (hit.limit, hit.observed, code) == ("max_depth", 3, "max_depth")


def test_levels_never_reach_below_the_parents_own_limit() -> None:
    """Limits only narrow: a policy of ten levels under a limit of one is one."""
    assert (
        granted(RunState(limits=Limits(max_depth=1)), Delegation(program="p", levels=10)).max_depth
        == 1
    )


def test_no_more_children_than_max_children_over_a_whole_life() -> None:
    """Ended children count; rejected ones do not, for they were never started."""
    state = RunState(limits=Limits(max_children=2), children_started=2)

    hit, code, message = reject(state, start())

    assert hit == LimitHit("max_children", 2, "child", 3)
    assert code == "max_children"
    assert message == (
        "max_children is 2, and this run has started as many over its life. "
        "Do the rest in this run instead."
    )


def test_the_last_child_that_max_children_allows_is_started() -> None:
    (event,) = decide(RunState(limits=Limits(max_children=2), children_started=1), start())

    assert isinstance(event, ChildStarted)


def test_a_childs_own_max_children_does_not_count_its_siblings() -> None:
    """What is asked for the child binds the child, not the run that starts it."""
    (event,) = decide(RunState(children_started=5), start(limits=Limits(max_children=1)))

    assert isinstance(event, ChildStarted)
    assert event.delegation["limits"]["max_children"] == 1


def test_a_child_is_granted_the_tokens_that_are_left() -> None:
    """Without a request it gets all that is neither used nor reserved, and never more."""
    state = RunState(
        limits=Limits(model_tokens=1000), usage=Usage(input_tokens=300), tokens_reserved=200
    )

    assert granted(state, Delegation(program="p")).model_tokens == 500
    assert (
        granted(state, Delegation(program="p", limits=Limits(model_tokens=100))).model_tokens == 100
    )
    assert (
        granted(state, Delegation(program="p", limits=Limits(model_tokens=900))).model_tokens == 500
    )


def test_a_child_without_tokens_is_rejected() -> None:
    state = RunState(
        limits=Limits(model_tokens=1000), usage=Usage(input_tokens=300), tokens_reserved=700
    )

    hit, code, message = reject(state, start())

    assert hit == LimitHit("model_tokens", 1000, "child", 1000)
    assert code == "model_tokens"
    assert message.startswith("model_tokens: all of 1000 are used or reserved (300 used, 700 rese")


def test_a_childs_timeout_is_the_shorter_one() -> None:
    state = RunState(limits=Limits(timeout_seconds=10))

    longer = granted(state, Delegation(program="p", limits=Limits(timeout_seconds=120)))
    shorter = granted(state, Delegation(program="p", limits=Limits(timeout_seconds=2)))

    assert (longer.timeout_seconds, shorter.timeout_seconds) == (10, 2)


def test_deciding_changes_nothing() -> None:
    """The judge is pure: what it says takes effect when the kernel appends it."""
    fold = Fold(limits=Limits(model_tokens=10))
    before = fold.state()

    decide(fold, start())
    decide(fold, ASKED)

    assert fold.state() == before == attrs.evolve(before)
