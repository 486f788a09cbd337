from collections.abc import Sequence
from typing import Any

import attrs

from refold.engine.encoding import digest
from refold.engine.events import events
from refold.engine.events.limits import Limits
from refold.engine.events.outcome import Fault, Outcome, Usage, failed
from refold.engine.state.folding import RULES, Fold
from refold.engine.state.run_state import (
    ChildState,
    Conversation,
    LimitCount,
    OpenCall,
    RunState,
    Seal,
    TalkPoint,
    ToolCount,
)

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


USER = {"role": "user", "content": "hello"}
REPLY = {"role": "assistant", "content": "good day"}
MORE = {"role": "user", "content": "go on"}


def folded(*lines: Any) -> RunState:
    """Fold lines: an event, or (event, call key)."""
    pairs = [line if isinstance(line, tuple) else (line, None) for line in lines]
    so_far = Fold()
    so_far.follow((event, call, seq) for seq, (event, call) in enumerate(pairs))
    return so_far.state()


def started(**caps: Any) -> events.RunStarted:
    return events.RunStarted(
        "demo", None, 1, caps, "00", [], {"state": 1}, {}, {}, "0#1", "r1", "r0"
    )


def asked(added: Sequence[dict[str, Any]], predecessor: str = "", base: int = 0) -> Any:
    return events.ModelAsked("scripted", predecessor, base, list(added), {})


def answered(message: dict[str, Any] | None = None, **usage: Any) -> events.ModelAnswered:
    return events.ModelAnswered("ok" if message else "error", message, Usage(**usage))


def child_started(number: int = 1, **asks: Any) -> events.ChildStarted:
    return events.ChildStarted({"program": "dig", "input": None, "limits": {}} | asks, number, "c1")


def chained(*messages: dict[str, Any]) -> str:
    chain = ""
    for message in messages:
        chain = digest.chained(chain, message)
    return chain


def test_every_kind_has_exactly_one_rule() -> None:
    """The transition table is the closed set of kinds."""
    assert set(RULES) == set(events.KINDS.values())


def test_the_first_entry_says_who_the_run_is_and_what_it_may_use() -> None:
    state = folded(started(max_depth=2, timeout_seconds=1.5))

    assert (state.program, state.depth, state.path) == ("demo", 1, "0#1")
    assert (state.run_id, state.root_id, state.state_version) == ("r1", "r0", 1)
    assert state.limits == Limits(max_depth=2, timeout_seconds=1.5)
    assert (state.status, state.reason, state.entries) == ("running", "", 1)


def test_limits_that_make_no_sense_leave_the_ceilings() -> None:
    """A fold never raises; that a log says nonsense is for verify to say."""
    assert folded(started(max_depth="many")).limits == Limits()


def test_open_calls_stand_in_the_order_of_asking_until_they_end() -> None:
    """What is asked and not ended is in flight, or in doubt once nobody runs it."""
    state = folded(
        started(),
        (events.ToolCalled("a", {}, "pure"), "0#1"),
        (events.ToolCalled("b", {}, "changes"), "0/1#1"),
        (events.InputAsked("sure?"), "0#2"),
        (events.ToolReturned("ok", 1), "0#1"),
    )

    assert state.open == (OpenCall("0/1#1", "tool", "b", 2), OpenCall("0#2", "input", "", 3))


def test_closed_tool_calls_become_counts() -> None:
    state = folded(
        started(),
        (events.ToolCalled("b", {}, "pure"), "0#1"),
        (events.ToolReturned("ok"), "0#1"),
        (events.ToolCalled("a", {}, "pure"), "0#2"),
        (events.ToolReturned("error"), "0#2"),
        (events.ToolCalled("b", {}, "pure"), "0#3"),
        (events.EffectCancelled("tool"), "0#3"),
        (events.EffectLate("tool", "ok"), "0#3"),
    )

    assert state.tools == (ToolCount("b", 2, 1, 0, 1), ToolCount("a", 1, 0, 1, 0))
    assert (state.open, state.cancelled, state.late) == ((), 1, 1)


def test_a_conversation_holds_where_messages_are_and_the_digest_of_them_all() -> None:
    """Messages are chained in the order said: those asked, then the answer (§2.4)."""
    head = chained(USER, REPLY)
    state = folded(
        started(),
        (asked([USER]), "0/1#1"),
        (answered(REPLY, input_tokens=5, output_tokens=2, requests=1), "0/1#1"),
        (asked([MORE], head, 2), "0/1#2"),
    )

    assert state.conversations == (
        Conversation(
            "0/1",
            "",
            0,
            (
                TalkPoint(1, 1, chained(USER)),
                TalkPoint(2, 2, head),
                TalkPoint(3, 3, chained(USER, REPLY, MORE)),
            ),
        ),
    )
    assert state.usage == Usage(input_tokens=5, output_tokens=2, requests=1)
    assert (state.iterations, state.tokens_used) == (2, 7)


def test_an_edited_conversation_goes_on_from_where_it_was_left() -> None:
    """A request that names an earlier chain drops what came after it."""
    state = folded(
        started(),
        (asked([USER]), "0#1"),
        (answered(REPLY), "0#1"),
        (asked([MORE], chained(USER), 1), "0#2"),
    )

    (talk,) = state.conversations
    assert [turn.seq for turn in talk.turns] == [1, 3]
    assert talk.chain == chained(USER, MORE)


def test_messages_that_this_scope_never_stored_are_a_prefix() -> None:
    """A branch of another scope's conversation names it by its chain digest."""
    state = folded(started(), (asked([MORE], "f" * 64, 7), "0/2#1"))

    (talk,) = state.conversations
    assert (talk.prefix, talk.prefix_messages, talk.messages) == ("f" * 64, 7, 8)


def test_a_new_conversation_replaces_the_last_of_its_scope() -> None:
    """One conversation a scope: a loop of single questions does not make the state grow."""
    state = folded(
        started(), (asked([USER]), "0#1"), (answered(REPLY), "0#1"), (asked([MORE]), "0#2")
    )

    (talk,) = state.conversations
    assert talk.turns == (TalkPoint(3, 1, chained(MORE)),)


def test_a_failed_answer_adds_no_message() -> None:
    state = folded(started(), (asked([USER]), "0#1"), (answered(), "0#1"))

    assert state.model_errors == 1
    assert state.conversations[0].messages == 1
    assert state.open == ()


def test_a_message_that_no_log_can_hold_breaks_the_chain_and_nothing_else() -> None:
    """An event is a fact: even a nonsensical one never raises."""
    state = folded(started(), (asked([{"content": float("nan")}, {"n": 10**400}]), "0#1"))

    assert state.conversations[0].chain == ""


def test_children_are_listed_with_what_they_were_asked_and_how_they_ended() -> None:
    """Rejected ones too: they have no number, and never count as started."""
    ended = Outcome(status="completed", usage=Usage(input_tokens=9), duration_ms=12)
    state = folded(
        started(),
        (child_started(brief="b" * 300, agent="digger", tool="subagent"), "0#1"),
        (child_started(2), "0#2"),
        (events.ChildFinished(ended), "0#1"),
        (events.ChildFinished(failed("rejected", "max_children", "no more")), "0#3"),
    )

    assert state.children == (
        ChildState(
            "0#1", 1, "dig", "digger", "b" * 200, "subagent", "c1", "completed", duration_ms=12
        ),
        ChildState("0#2", 2, "dig", run_id="c1"),
        ChildState("0#3", None, status="rejected", duration_ms=0),
    )
    assert state.open == (OpenCall("0#2", "child", "dig", 2),)
    assert state.children_started == 2
    assert state.children_usage == Usage(input_tokens=9)


def test_a_childs_tokens_are_reserved_at_its_start_and_what_is_unspent_comes_back() -> None:
    """Budget is shared: what a child spent stays spent (CONTRACT.md §8)."""
    given = (started(model_tokens=1000), (child_started(limits={"model_tokens": 600}), "0#1"))
    ended = Outcome(status="completed", usage=Usage(input_tokens=70, output_tokens=30))
    before, after = folded(*given), folded(*given, (events.ChildFinished(ended), "0#1"))

    assert (before.tokens_reserved, before.left.tokens) == (600, 400)
    assert (after.tokens_reserved, after.left.tokens) == (0, 900)


def test_nothing_is_reserved_where_there_is_no_cap() -> None:
    state = folded(started(), (child_started(limits={"model_tokens": 600}), "0#1"))

    assert state.tokens_reserved == 0


def test_a_cancelled_child_runs_until_its_outcome_is_there() -> None:
    """To give up on a child is to ask for its end; join still delivers its outcome."""
    given = (started(), (child_started(), "0#1"), (events.EffectCancelled("child"), "0#1"))
    end = events.ChildFinished(failed("cancelled", "cancelled", ""))
    cancelled, ended = folded(*given), folded(*given, (end, "0#1"))

    assert [call.call for call in cancelled.open] == ["0#1"]
    assert (ended.open, ended.children[0].status) == ((), "cancelled")


def test_a_child_that_ended_too_late_keeps_what_it_reserved() -> None:
    """Its outcome was never delivered, so nobody knows what it spent."""
    state = folded(
        started(model_tokens=100),
        (child_started(limits={"model_tokens": 60}), "0#1"),
        (events.EffectLate("child", "timed_out"), "0#1"),
    )

    assert (state.open, state.children[0].status, state.left.tokens) == ((), "timed_out", 40)


def test_a_cancelled_run_says_so() -> None:
    state = folded(started(), events.EffectCancelled("run"))

    assert (state.cancel_asked, state.cancelled) == (True, 0)


def test_limit_hits_are_counted_by_limit_and_scope() -> None:
    """A program that asks again and again after a refusal does not make the state grow."""
    state = folded(
        started(),
        (events.LimitHit("max_children", 2, "child", 3), "0#1"),
        (events.LimitHit("max_iterations", 8, "effect", 9), "0#2"),
        (events.LimitHit("max_children", 2, "child", 4), "0#3"),
    )

    assert state.limit_hits == (
        LimitCount("max_children", "child", 2, 4, 2, 1),
        LimitCount("max_iterations", "effect", 8, 9, 1, 2),
    )


def test_small_facts_are_counted() -> None:
    state = folded(
        started(),
        (events.TimerFired(1, nth=1), "0@1"),
        events.ClockRead(1, 2),
        (events.ValueDrawn("uuid", "", "u"), "0#1"),
        (events.InputAsked("?"), "0#2"),
        (events.InputGiven("yes"), "0#2"),
        events.SessionSeeded({}),
        events.SessionRestored({}),
        events.PatchMarked("q"),
        events.PatchMarked("p"),
        events.PatchMarked("q"),
        events.NoteAdded("n"),
        events.RunResumed(2),
    )

    assert (state.timers_fired, state.clock_reads, state.values_drawn) == (1, 1, 1)
    assert (state.inputs_given, state.notes, state.attempts) == (1, 1, 2)
    assert (state.patches, state.session_seq) == (("q", "p"), 7)


def test_the_end_is_kept_with_its_digests() -> None:
    state = folded(
        started(),
        events.RunFinished(
            "limit",
            "max_iterations",
            error=Fault(code="max_iterations", message="no more"),
            in_doubt=["0#4"],
            data_digest="d",
            state_digest="s",
            children_root="m",
        ),
    )

    assert (state.status, state.reason) == ("limit", "max_iterations")
    assert state.seal == Seal(("0#4",), "max_iterations", "d", "s", "m", None)


def test_an_extension_is_counted_and_ignored() -> None:
    """A third party's event is an entry like any other, and changes nothing else."""
    before = folded(started())
    after = folded(started(), events.Extension("x-acme.mark", {"n": 1}))

    assert after == attrs.evolve(before, entries=2)


def test_tokens_that_are_given_are_reserved_by_the_child_and_raise_its_cap() -> None:
    """§8.3: in the parent's log under the child's start, in the child's as a value."""
    begun = (child_started(limits={"model_tokens": 50}), "0#1")

    given = (started(model_tokens=100), begun, events.TokensGranted(40, "0#1"))
    parent = folded(*given)
    child = folded(started(model_tokens=50), (events.ValueDrawn("tokens", "", 40), "0#2"))
    above = folded(started(model_tokens=50), events.TokensGranted(50, ""))

    assert (parent.tokens_reserved, parent.children[0].tokens_reserved) == (90, 90)
    assert parent.limits.model_tokens == 100
    assert child.limits.model_tokens == 90
    assert above.limits.model_tokens == 100
    ended = events.ChildFinished(Outcome(status="completed", usage=Usage(input_tokens=80)))
    joined = folded(*given, (ended, "0#1"))
    assert (joined.tokens_reserved, joined.tokens_used) == (0, 80)


def test_what_makes_no_sense_as_tokens_is_passed_over() -> None:
    """A fold never raises."""
    state = folded(
        started(model_tokens=50),
        events.TokensGranted(40, "0#9"),
        (events.ValueDrawn("tokens", "", "many"), "0#2"),
        (events.ValueDrawn("tokens", "", -1), "0#3"),
    )

    assert (state.limits.model_tokens, state.tokens_reserved) == (50, 0)
