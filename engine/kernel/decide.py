"""Checks a program's requests against limits before they are logged.

`decide` takes a state and a command and returns the events to append: the request itself, or its
refusal. It is pure: `engine.state` records, and the kernel appends and acts. Only requests that a
limit may refuse are checked here; no limit refuses a tool call. Time and bytes are checked where
they are measured: by the driver and the runners, and by the kernel when a program returns.

The rules are CONTRACT.md §8: limits only narrow, a refusal is logged before the program gets it,
and a rejected child has no `child.started` and no log.
"""

from typing import Final

import attrs

from refold.engine.events.events import ChildFinished, ChildStarted, Event, LimitHit, ModelAsked
from refold.engine.events.limits import Limits
from refold.engine.events.outcome import Usage, failed
from refold.engine.ports.ports import Delegation
from refold.engine.state.folding import Fold
from refold.engine.state.run_state import RunState
from refold.engine.values import Value


@attrs.frozen
class RequestChild(Value):
    """Start a child run."""

    delegation: Delegation
    program: str = attrs.field(kw_only=True)
    """The program's name, as the log shows it."""
    number: int = attrs.field(kw_only=True)
    """1-based, in the order of starts; a rejected one takes none."""
    run_id: str = attrs.field(kw_only=True)
    """The child's, derived from the root's id and the child's path."""


def decide(state: Fold | RunState, command: ModelAsked | RequestChild) -> tuple[Event, ...]:
    """Return the events that `command` leads to in `state`, in the order to append them.

    A granted request is the one event that asks for it; of a model, that is the command itself.  A
    refused one is a `LimitHit`; a refused child is a `LimitHit` and the `ChildFinished` that
    rejects it, both under the child's call key.
    """
    if isinstance(command, ModelAsked):
        cap = state.limits.max_iterations
        if cap is not None and state.iterations >= cap:
            return (LimitHit("max_iterations", cap, "effect", state.iterations + 1),)
        if state.margin.owes_request:
            return (command,)
        return (_used_up(state, "effect") or command,)
    limits = granted(state, command.delegation)
    asked = command.delegation.as_json(program=command.program, limits=limits)
    refusal = _refusal(state, limits)
    if refusal is None:
        return (ChildStarted(asked, command.number, command.run_id),)
    hit, message = refusal
    return hit, ChildFinished(failed("rejected", hit.limit, message), delegation=asked)


def granted(state: Fold | RunState, delegation: Delegation) -> Limits:
    """Return the limits that a child started now would run under.

    The parent's, narrowed by the request, by the levels below the caller, and by the tokens that
    are left after what running children have reserved and the parent keeps for its own next
    request (at least 1: none left is a refusal).
    """
    limits = state.limits.narrowed(Limits(timeout_seconds=state.limits.join_seconds))
    if delegation.limits is not None:
        limits = limits.narrowed(delegation.limits)
    if delegation.levels is not None:
        asked = state.depth + delegation.levels
        deepest = max(0, asked if limits.max_depth is None else min(limits.max_depth, asked))
        limits = attrs.evolve(limits, max_depth=deepest)
    left = tokens_to_give(state)
    if (money := _money(state)) is not None:
        own = delegation.limits.cost_usd if delegation.limits is not None else None
        part = money.left(money.used, money.kept) / (1e6 if own is not None else 2e6)
        limits = attrs.evolve(limits, cost_usd=max(1e-6, min(part, own or part)))
    if left is not None:
        caps = (left, limits.model_tokens, delegation.part)
        wanted = min(cap for cap in caps if cap is not None)
        limits = attrs.evolve(limits, model_tokens=max(1, wanted))
    return limits


def lacks_tokens(events: tuple[Event, ...]) -> bool:
    """Return whether the request is refused only because tokens are missing."""
    return isinstance(events[0], LimitHit) and events[0].limit == "model_tokens"


def _refusal(state: Fold | RunState, limits: Limits) -> tuple[LimitHit, str] | None:
    """Return the refusal of a child with these `limits`, and its message for the parent."""
    depth, children, own = state.depth + 1, state.children_started + 1, state.limits
    if limits.max_depth is not None and depth > limits.max_depth:
        return LimitHit("max_depth", limits.max_depth, "child", depth), (
            f"max_depth is {limits.max_depth}, and the child would be at depth {depth}: the run at "
            f"depth {depth - 1} may not delegate this. Do the work in this run instead."
        )
    if own.max_children is not None and children > own.max_children:
        return LimitHit("max_children", own.max_children, "child", children), (
            f"max_children is {own.max_children}, and this run has started as many over its life. "
            "Do the rest in this run instead."
        )
    hit = _used_up(state, "child")
    return None if hit is None else (hit, _spent(state, hit))


def _spent(state: Fold | RunState, hit: LimitHit) -> str:
    """Return the parent's message for a budget that leaves nothing for a child."""
    budget = _tokens(state) if hit.limit == "model_tokens" else _money(state)
    if budget is None or budget.used is None:
        return f"{hit.limit}: the price of an answer is not known. {_FINISH}"
    used, held, kept = map(budget.amount, (budget.used, budget.reserved, budget.kept))
    return (
        f"{hit.limit}: all of {hit.allowed} are used or reserved ({used} used, {held} reserved by "
        f"running children, {kept} kept for this run's own next request). {_FINISH}"
    )


_FINISH: Final = "No child can be started: finish with what you have."


@attrs.frozen
class _Budget(Value):
    """A cap on what runs spend, in tokens or in millionths of a dollar."""

    limit: str
    cap: float
    """As the limits have it."""
    total: int
    used: int | None
    """By the run and its children; `None` if the price of an answer is not known."""
    own: int | None
    """By the run itself and by ended children, each at most its grant: no child took more."""
    reserved: int
    """By children that run."""
    kept: int
    """For the run's own next request."""

    def left(self, used: int | None, kept: int = 0) -> int:
        """Return what is left; nothing if a part of the cap is unknown."""
        return 0 if used is None else max(0, self.total - used - self.reserved - kept)

    def amount(self, part: int) -> float:
        """Return a part in the unit of the cap."""
        return part if self.limit == "model_tokens" else part / 1e6


def _tokens(state: Fold | RunState) -> _Budget | None:
    cap, own, margin = state.limits.model_tokens, state.usage, state.margin
    if cap is None:
        return None
    spent = own.tokens + margin.tokens
    used, reserved, kept = state.tokens_used, state.tokens_reserved, margin.last.tokens
    return _Budget("model_tokens", cap, cap, used, spent, reserved, kept)


def _money(state: Fold | RunState) -> _Budget | None:
    cap, own, margin = state.limits.cost_usd, _cost(state.usage), state.margin
    if cap is None:
        return None
    spent = None if own is None else own + margin.micros
    used, kept = _cost(state.usage.plus(state.children_usage)), margin.last.cost_usd_micros or 0
    reserved = sum(child.cost_reserved for child in state.children)
    return _Budget("cost_usd", cap, round(cap * 1e6), used, spent, reserved, kept)


def _cost(usage: Usage) -> int | None:
    """Return what was spent; `None` if the price of an answer is not known."""
    return 0 if usage == Usage() else usage.cost_usd_micros


def _used_up(state: Fold | RunState, scope: str) -> LimitHit | None:
    """Return the limit of what runs spend that leaves nothing, if one does."""
    for budget in filter(None, (_tokens(state), _money(state))):
        used, kept = (budget.own, 0) if scope == "effect" else (budget.used, budget.kept)
        if budget.left(used, kept) == 0:
            taken = None if budget.used is None else budget.used + budget.reserved + kept
            observed = budget.cap if taken is None else budget.amount(taken)
            return LimitHit(budget.limit, budget.cap, scope, observed)
    return None


def tokens_left(state: Fold | RunState) -> int | None:
    """Return the tokens that are neither used nor reserved; `None` without a cap."""
    budget = _tokens(state)
    return None if budget is None else budget.left(budget.used)


def tokens_to_give(state: Fold | RunState) -> int | None:
    """Return the tokens available to children: the rest, less the run's own margin."""
    budget = _tokens(state)
    return None if budget is None else budget.left(budget.used, budget.kept)


def children_left(state: Fold | RunState) -> int | None:
    """Return how many more children may be started; `None` without a cap."""
    cap = state.limits.max_children
    return None if cap is None else max(0, cap - state.children_started)
