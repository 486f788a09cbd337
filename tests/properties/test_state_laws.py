"""Laws of the fold and of the judge, over all kinds of events in all kinds of states."""

import functools
import types
import typing
from collections.abc import Callable
from typing import Any

import attrs
import hypothesis
import pytest
from hypothesis import strategies as st

from refold.engine.encoding import digest
from refold.engine.errors import NotCanonical
from refold.engine.events import events
from refold.engine.events.limits import Limits
from refold.engine.events.outcome import Outcome, Usage
from refold.engine.kernel.decide import RequestChild, decide, granted
from refold.engine.ports.ports import Delegation
from refold.engine.state.digests import state_digest, state_json
from refold.engine.state.folding import Fold
from refold.engine.state.run_state import RunState

ALL: tuple[Any, ...] = (*events.KINDS.values(), events.Extension)
CALLS = st.sampled_from([None, "0#1", "0#2", "0/1#1", "0@1", "no key at all"])

# --- any event: strategies made from the classes, so that a new kind is in at once -----------

MESSAGES = ({"role": "user", "content": "a"}, {"role": "assistant", "content": "b"})
CHAIN = digest.chained("", MESSAGES[0])
CHAINS = ["", CHAIN, digest.chained(CHAIN, MESSAGES[1]), "unknown"]
NAMES = st.sampled_from(
    ["limits", "brief", "agent", "program", "state", "model_tokens", "max_depth", "other"]
)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
NESTED = LEAVES | st.lists(LEAVES, max_size=2) | st.dictionaries(NAMES, LEAVES, max_size=2)
JSON = LEAVES | st.lists(NESTED, max_size=2) | st.dictionaries(NAMES, NESTED, max_size=2)
OBJECTS = st.dictionaries(NAMES, JSON, max_size=4)
BY_NAME: dict[str, st.SearchStrategy[Any]] = {
    "predecessor": st.sampled_from(CHAINS),
    "added": st.lists(st.sampled_from(MESSAGES) | OBJECTS, max_size=3),
    "message": st.none() | st.sampled_from(MESSAGES) | OBJECTS,
    "limits": st.builds(lambda tokens: {"model_tokens": tokens}, st.integers(1, 9)) | OBJECTS,
    "tool": st.sampled_from(["search", "add"]) | st.text(max_size=3),
}
BY_TYPE: dict[Any, st.SearchStrategy[Any]] = {
    Any: JSON,
    str: st.sampled_from(["", "a"]) | st.text(max_size=3),
    int: st.integers(-3, 9) | st.integers(),
    float: st.floats() | st.integers(),
    bool: st.booleans(),
    type(None): st.none(),
}


def any_of(kind: Any) -> st.SearchStrategy[Any]:
    """Return a strategy for a type as it stands in an annotation."""
    if kind in BY_TYPE:
        return BY_TYPE[kind]
    if attrs.has(kind):
        return any_instance(kind)
    inner = typing.get_args(kind)
    match typing.get_origin(kind):
        case typing.Literal:
            made: st.SearchStrategy[Any] = st.sampled_from(inner)
        case typing.Union | types.UnionType:
            made = st.one_of([any_of(part) for part in inner])
        case origin if origin is dict:
            texts = st.dictionaries(NAMES, st.text(max_size=3), max_size=3)
            made = OBJECTS if inner[1] is Any else texts
        case origin if origin is list:
            made = st.lists(any_of(inner[0]), max_size=3)
        case origin if origin is tuple:
            made = st.lists(any_of(inner[0]), max_size=3).map(tuple)
        case _:
            raise AssertionError(f"no strategy for {kind}")
    return made


@functools.cache
def any_instance(kind: Any) -> st.SearchStrategy[Any]:
    hints = typing.get_type_hints(kind)
    fields = [field.name for field in attrs.fields(kind)]
    return st.builds(
        kind,
        **{name: BY_NAME[name] if name in BY_NAME else any_of(hints[name]) for name in fields},
    )


LINES = st.lists(st.tuples(st.one_of([any_instance(kind) for kind in ALL]), CALLS), max_size=8)

Lines = list[tuple[Any, str | None]]


def folded(lines: Lines) -> RunState:
    so_far = Fold()
    so_far.follow((event, call, seq) for seq, (event, call) in enumerate(lines))
    return so_far.state()


# --- the fold --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
@pytest.mark.usefixtures("many_times")
@hypothesis.settings(max_examples=3, deadline=None)
@hypothesis.given(data=st.data())
def test_no_event_is_refused_in_any_state(kind: Any, data: st.DataObject) -> None:
    """Every pair of a state and an event gives a state with one entry more."""
    lines = data.draw(LINES)
    before = folded(lines)
    kept = attrs.evolve(before)

    after = folded([*lines, (data.draw(any_instance(kind)), data.draw(CALLS))])

    assert after.entries == before.entries + 1
    assert repr(before) == repr(kept)


@hypothesis.given(lines=LINES)
def test_equal_states_have_equal_digests(lines: Lines) -> None:
    """A digest is a function of the state alone, however the state came about."""
    state = folded(lines)

    def shown(what: Callable[[RunState], Any]) -> Any:
        try:
            return what(state)
        except NotCanonical as error:
            return str(error)

    assert shown(state_digest) == shown(lambda same: state_digest(attrs.evolve(same)))
    assert list(state_json(state)) == sorted(state_json(state))


# --- the judge -------------------------------------------------------------------------------

CAPS = st.none() | st.integers(1, 50)
LIMITS = st.builds(
    Limits,
    max_depth=st.integers(0, 4),
    max_children=st.integers(0, 4),
    timeout_seconds=st.none() | st.floats(0.1, 9),
    max_iterations=CAPS,
    output_bytes=CAPS,
    model_tokens=CAPS,
)
DELEGATIONS = st.builds(
    Delegation,
    program=st.just("p"),
    levels=st.none() | st.integers(-1, 4),
    limits=st.none() | LIMITS,
)
FIELDS = [field.name for field in attrs.fields(Limits)]


@hypothesis.given(limits=LIMITS, depth=st.integers(0, 4), delegation=DELEGATIONS)
def test_limits_only_narrow(limits: Limits, depth: int, delegation: Delegation) -> None:
    """No cap of a child is wider than its parent's, whatever is asked."""
    given = granted(RunState(limits=limits, depth=depth), delegation)

    for name in FIELDS:
        cap, child = getattr(limits, name), getattr(given, name)
        assert cap is None or (child is not None and child <= cap)
    if delegation.levels is not None and delegation.levels >= 0:
        assert given.max_depth is not None
        assert given.max_depth <= depth + delegation.levels


@hypothesis.given(limits=LIMITS, depth=st.integers(0, 4), data=st.data())
def test_no_run_uses_more_than_its_limits(limits: Limits, depth: int, data: st.DataObject) -> None:
    """Whatever is asked, in whatever order: children, requests and reserved tokens keep the caps.

    Children spend at most what they were granted; the run itself asks for nothing here.
    """
    so_far = Fold(limits=limits, depth=depth)
    running: dict[str, int] = {}
    for number in range(data.draw(st.integers(0, 12))):
        joins: bool = data.draw(st.booleans())
        if running and joins:
            call, tokens = running.popitem()
            spent = Usage(input_tokens=data.draw(st.integers(0, tokens)))
            so_far.apply(events.ChildFinished(Outcome(status="completed", usage=spent)), call)
            continue
        delegation, call = data.draw(DELEGATIONS), f"0#{number}"
        decided = decide(so_far, RequestChild(delegation, program="p", number=1, run_id=call))
        for event in decided:
            so_far.apply(event, call)
        if isinstance(decided[0], events.ChildStarted):
            running[call] = decided[0].delegation["limits"].get("model_tokens", 0)

    assert so_far.children_started <= (limits.max_children or 0)
    if limits.model_tokens is not None:
        assert so_far.tokens_used + so_far.tokens_reserved <= limits.model_tokens
    if depth >= (limits.max_depth or 0):
        assert so_far.children_started == 0


@hypothesis.given(limits=LIMITS, asks=st.integers(0, 60))
def test_no_run_asks_a_model_more_often_than_it_may(limits: Limits, asks: int) -> None:
    so_far = Fold(limits=limits)
    for number in range(asks):
        for event in decide(so_far, events.ModelAsked("m", "", 0, [], {})):
            so_far.apply(event, f"0#{number}")

    cap = limits.max_iterations
    assert so_far.iterations == (asks if cap is None else min(asks, cap))
