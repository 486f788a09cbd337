import attrs

from refold.engine.events import events
from refold.engine.state.folding import Fold
from refold.engine.state.run_state import RunState, ToolCount

STARTED = events.RunStarted("demo", None, 0, {}, "00", [], {}, {}, {}, "", "r", "r")
ASKED = events.ModelAsked("m", "", 0, [{"role": "user", "content": "hello"}], {})
ANSWERED = events.ModelAnswered("ok", {"role": "assistant", "content": "good day"})
CHILD = events.ChildStarted({"program": "dig"}, 1, "c1")


def test_a_long_log_of_tool_calls_folds_to_a_small_state() -> None:
    """Case 106: memory is flat: ten thousand calls leave what one leaves, and other counts."""

    def after(calls: int) -> RunState:
        so_far = Fold()
        for number in range(calls):
            so_far.apply(events.ToolCalled("a", {"n": number}, "pure"), f"0#{number}")
            so_far.apply(events.ToolReturned("ok", "x" * 100), f"0#{number}")
        return so_far.state()

    long = after(10_000)

    assert long == attrs.evolve(
        after(1), entries=20_000, tools=(ToolCount("a", called=10_000, ok=10_000),)
    )


def test_no_container_is_copied_while_folding() -> None:
    """A fold is linear: each event changes the fold in place."""
    so_far = Fold()
    containers = {
        field.name: id(value)
        for field in attrs.fields(Fold)
        if isinstance(value := getattr(so_far, field.name), dict | list)
    }

    for event in (
        STARTED,
        events.ToolCalled("a", {}, "pure"),
        ASKED,
        CHILD,
        events.LimitHit("max_depth", 1, "child", 2),
        events.PatchMarked("p"),
    ):
        so_far.apply(event, "0#1")

    assert len(containers) > 5
    assert {name: id(getattr(so_far, name)) for name in containers} == containers


def test_a_state_does_not_change_when_its_fold_goes_on() -> None:
    so_far = Fold()
    so_far.apply(events.ToolCalled("a", {}, "pure"), "0#1")
    so_far.apply(ASKED, "0#2")
    state = so_far.state()
    kept = attrs.evolve(state)

    so_far.apply(events.ToolReturned("ok"), "0#1")
    so_far.apply(ANSWERED, "0#2")

    assert state == kept


def test_a_fold_shows_what_a_state_shows() -> None:
    """Whoever judges may be given either."""
    so_far = Fold()
    so_far.apply(events.ToolCalled("a", {}, "pure"), "0#1")

    assert so_far.tools_used == so_far.state().tools_used == ("a",)
    assert so_far.tokens_used == so_far.state().tokens_used == 0


def test_a_request_that_goes_on_from_elsewhere_begins_there() -> None:
    """Its scope's conversation is no part of it: only the number and digest of what was before."""
    so_far = Fold()
    so_far.apply(STARTED, None)
    so_far.apply(ASKED, "0#1")
    elsewhere = attrs.evolve(ASKED, predecessor="ab" * 32, base=7)

    so_far.apply(elsewhere, "0#2")

    (talk,) = so_far.state().conversations
    assert (talk.prefix, talk.prefix_messages, len(talk.turns)) == ("ab" * 32, 7, 1)
