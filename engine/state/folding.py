"""State under construction: `Fold` runs the rule of each event, and freezes it on demand.

The live kernel keeps one for the length of a run.  Nothing is copied per event, so a fold is
linear.  A rule records.  It never refuses and never raises for any event and fold, because an event
is a fact; `engine.kernel.decide` refuses requests.

To add an event: write its rule and name it in `RULES`.  The rules are CONTRACT.md §2 and §6.1.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

import attrs

from refold.engine.encoding import digest
from refold.engine.errors import LimitRefused, NotCanonical
from refold.engine.events import events
from refold.engine.events.events import scope_of
from refold.engine.events.limits import Limits
from refold.engine.state.run_state import (
    CallKind,
    Chained,
    ChildState,
    Conversation,
    Counted,
    LimitCount,
    OpenCall,
    RunState,
    Seal,
    TalkPoint,
    ToolCount,
)

BRIEF_CHARACTERS_MAX: Final = 200
"""How much of a child's brief a state shows; all of it is in `child.started`."""

_OK, _ERROR, _CANCELLED = 1, 2, 3  # places in a tool's counts; 0 is `called`
_SHARED: Final = tuple(field.name for field in attrs.fields(Counted))


@attrs.define(weakref_slot=False)
class Talk(Chained):
    """A conversation while it grows."""

    prefix: str
    prefix_messages: int
    turns: list[TalkPoint]


Fact = tuple[Any, str | None, int]
"""Event, call key and seq of an entry."""


@attrs.define(weakref_slot=False, eq=False)
class Fold(Counted):
    """A state under construction."""

    models: dict[str, None] = attrs.field(factory=dict)
    """Names of those asked, as an ordered set; no part of a state."""
    open: dict[str, tuple[CallKind, str, int]] = attrs.field(factory=dict)
    """By call key: kind, name, seq."""
    tools: dict[str, list[int]] = attrs.field(factory=dict)
    """By tool: called, ok, error, cancelled."""
    children: list[ChildState] = attrs.field(factory=list)
    places: dict[str, int] = attrs.field(factory=dict)
    """By call key: the place in `children`."""
    talks: dict[str, Talk] = attrs.field(factory=dict)
    """By scope."""
    hits: dict[tuple[str, str], LimitCount] = attrs.field(factory=dict)
    """By limit and scope."""
    marked: dict[str, None] = attrs.field(factory=dict)
    """Patches, as an ordered set."""

    def apply(self, event: Any, call: str | None = None, seq: int | None = None) -> None:
        """Record `event` at `seq` (default: the next) with the call key `call`.

        Total: never validates, never raises.  An extension's event only counts as an entry.
        """
        entries = self.entries
        self.entries = entries + 1
        rule = RULES.get(event.__class__)
        if rule is not None:
            rule(self, event, call or "", entries if seq is None else seq)

    def follow(self, facts: Iterable[Fact], until: type | None = None) -> Fact | None:
        """Apply the events of `facts` in their order, as `apply` does, in one loop.

        Stops at the first event of the class `until`, and returns its fact, which is not applied.
        """
        rules = RULES
        for fact in facts:
            event, call, seq = fact
            kind = event.__class__
            if kind is until:
                return fact
            self.entries += 1
            rule = rules.get(kind)
            if rule is not None:
                rule(self, event, call or "", seq)
        return None

    @property
    def tools_used(self) -> tuple[str, ...]:
        """The tools called, in the order of first use."""
        return tuple(self.tools)

    def state(self) -> RunState:
        """Return the state so far; later events do not change it."""
        return RunState(
            **{name: getattr(self, name) for name in _SHARED},
            open=tuple(OpenCall(call, *opened) for call, opened in self.open.items()),
            tools=tuple(ToolCount(tool, *counts) for tool, counts in self.tools.items()),
            children=tuple(self.children),
            conversations=tuple(
                Conversation(scope, talk.prefix, talk.prefix_messages, tuple(talk.turns))
                for scope, talk in self.talks.items()
            ),
            limit_hits=tuple(self.hits.values()),
            patches=tuple(self.marked),
        )


# --- one rule a kind -----------------------------------------------------------------------


def _run_started(fold: Fold, event: events.RunStarted, _call: str, _seq: int) -> None:
    fold.program = event.program
    fold.path = event.path
    fold.depth = event.depth
    fold.run_id = event.run_id
    fold.root_id = event.root_id
    fold.limits = _limits(event.limits)
    version = event.versions.get("state")
    fold.state_version = version if type(version) is int else None


def _tool_called(fold: Fold, event: events.ToolCalled, call: str, seq: int) -> None:
    tool = event.tool
    fold.open[call] = ("tool", tool, seq)
    counts = fold.tools.get(tool)
    if counts is None:
        fold.tools[tool] = [1, 0, 0, 0]
    else:
        counts[0] += 1


def _tool_returned(fold: Fold, event: events.ToolReturned, call: str, _seq: int) -> None:
    opened = fold.open.pop(call, None)
    if opened is not None and (counts := fold.tools.get(opened[1])) is not None:
        counts[_OK if event.status == "ok" else _ERROR] += 1


def tool_served(fold: Fold, tool: str) -> None:
    """Record a `ToolCalled` and the `ToolReturned` that answers it with `ok`: both entries."""
    fold.entries += 2
    counts = fold.tools.get(tool)
    if counts is None:
        fold.tools[tool] = [1, 1, 0, 0]
    else:
        counts[0] += 1
        counts[_OK] += 1


def _model_asked(fold: Fold, event: events.ModelAsked, call: str, seq: int) -> None:
    fold.open[call] = ("model", event.model, seq)
    fold.iterations += 1
    if event.model:
        fold.models[event.model] = None
    if fold.margin.owes_request:
        fold.margin = attrs.evolve(fold.margin, owes_request=False)
    scope = scope_of(call)
    talk = _resumed(fold.talks.get(scope), event)
    fold.talks[scope] = talk
    chain = talk.chain
    for message in event.added:
        chain = _chained(chain, message)
    talk.turns.append(TalkPoint(seq, talk.messages + len(event.added), chain))


def _resumed(talk: Talk | None, event: events.ModelAsked) -> Talk:
    """Return the scope's conversation, cut back to the point at which the request continues."""
    if talk is not None and event.predecessor:
        turns = talk.turns
        while turns and turns[-1].chain != event.predecessor:
            turns.pop()  # said once, dropped once: linear over a log
        if turns or talk.prefix == event.predecessor:
            return talk
    return Talk(event.predecessor, event.base, [])


def _model_answered(fold: Fold, event: events.ModelAnswered, call: str, seq: int) -> None:
    opened = fold.open.pop(call, None)
    fold.usage = fold.usage.plus(event.usage)
    if event.usage.tokens:
        fold.margin = attrs.evolve(fold.margin, last=event.usage)
    if event.status != "ok":
        fold.model_errors += 1
    talk = fold.talks.get(scope_of(call))
    if event.message is not None and opened is not None and talk is not None:
        chain = _chained(talk.chain, event.message)
        talk.turns.append(TalkPoint(seq, talk.messages + 1, chain))


def _child_started(fold: Fold, event: events.ChildStarted, call: str, seq: int) -> None:
    asked = event.delegation
    program = _text_in(asked.get("program"))
    reserved = _reserved(fold, asked)
    fold.open[call] = ("child", program, seq)
    fold.children_started += 1
    fold.tokens_reserved += reserved
    fold.places[call] = len(fold.children)
    fold.children.append(
        ChildState(
            call=call,
            number=event.number,
            program=program,
            agent=_text_in(asked.get("agent")),
            brief=_text_in(asked.get("brief"))[:BRIEF_CHARACTERS_MAX],
            tool=_text_in(asked.get("tool")),
            run_id=event.run_id,
            tokens_reserved=reserved,
            cost_reserved=_cost_reserved(fold, asked),
        )
    )


def _child_finished(fold: Fold, event: events.ChildFinished, call: str, _seq: int) -> None:
    fold.open.pop(call, None)
    outcome = event.outcome
    fold.children_usage = fold.children_usage.plus(outcome.usage)
    place = fold.places.get(call)
    if place is None:  # never started: rejected
        place = fold.places[call] = len(fold.children)
        fold.children.append(ChildState(call, None))
    child = fold.children[place]
    fold.margin = fold.margin.after(child, outcome)
    fold.tokens_reserved -= child.tokens_reserved
    fold.children[place] = attrs.evolve(
        child,
        status=outcome.status,
        duration_ms=outcome.duration_ms,
        tokens_reserved=0,
        cost_reserved=0,
    )


def _timer_fired(fold: Fold, _event: events.TimerFired, _call: str, _seq: int) -> None:
    fold.timers_fired += 1


def _clock_read(fold: Fold, _event: events.ClockRead, _call: str, _seq: int) -> None:
    fold.clock_reads += 1


def _value_drawn(fold: Fold, event: events.ValueDrawn, _call: str, _seq: int) -> None:
    fold.values_drawn += 1
    if event.source == "tokens":
        _raise_tokens(fold, event.value)


def _tokens_granted(fold: Fold, event: events.TokensGranted, _call: str, _seq: int) -> None:
    if not event.to:
        _raise_tokens(fold, event.tokens)
        return
    place = fold.places.get(event.to)
    if place is None:
        return
    child = fold.children[place]
    fold.tokens_reserved += event.tokens
    reserved = child.tokens_reserved + event.tokens
    fold.children[place] = attrs.evolve(child, tokens_reserved=reserved)


def _raise_tokens(fold: Fold, more: Any) -> None:
    """Raise the run's own cap; a value that a fold cannot use is ignored."""
    cap = fold.limits.model_tokens
    if cap is not None and type(more) is int and more > 0:
        fold.limits = attrs.evolve(fold.limits, model_tokens=cap + more)


def _input_asked(fold: Fold, _event: events.InputAsked, call: str, seq: int) -> None:
    fold.open[call] = ("input", "", seq)


def _input_given(fold: Fold, _event: events.InputGiven, call: str, _seq: int) -> None:
    fold.open.pop(call, None)
    fold.inputs_given += 1


def _effect_cancelled(fold: Fold, event: events.EffectCancelled, call: str, _seq: int) -> None:
    if event.kind == "run":
        fold.cancel_asked = True
        return
    fold.cancelled += 1
    if event.kind == "child":
        return  # it runs until its outcome is there
    opened = fold.open.pop(call, None)
    if opened is not None and (counts := fold.tools.get(opened[1])) is not None:
        counts[_CANCELLED] += 1


def _effect_late(fold: Fold, event: events.EffectLate, call: str, _seq: int) -> None:
    fold.late += 1
    place = fold.places.get(call)
    if event.kind == "child" and place is not None:
        # What it spent is not known, so what it reserved is not given back.
        fold.open.pop(call, None)
        fold.children[place] = attrs.evolve(fold.children[place], status=event.status)


def _limit_hit(fold: Fold, event: events.LimitHit, _call: str, seq: int) -> None:
    key = (event.limit, event.scope)
    before = fold.hits.get(key)
    fold.hits[key] = LimitCount(
        event.limit,
        event.scope,
        event.allowed,
        event.observed,
        count=before.count + 1 if before else 1,
        seq=before.seq if before else seq,
    )


def _session_changed(_fold: Fold, _event: events.SessionChanged, _call: str, _seq: int) -> None:
    """Nothing here: a session is a fold of its own."""


def _session_kept(
    fold: Fold, _event: events.SessionSeeded | events.SessionRestored, _call: str, seq: int
) -> None:
    fold.session_seq = seq


def _patch_marked(fold: Fold, event: events.PatchMarked, _call: str, _seq: int) -> None:
    fold.marked[event.id] = None


def _note_added(fold: Fold, _event: events.NoteAdded, _call: str, _seq: int) -> None:
    fold.notes += 1


def _run_resumed(fold: Fold, event: events.RunResumed, _call: str, _seq: int) -> None:
    fold.attempts = event.attempt


def _run_finished(fold: Fold, event: events.RunFinished, _call: str, _seq: int) -> None:
    fold.status = event.status
    fold.reason = event.reason
    fold.seal = Seal(
        in_doubt=tuple(event.in_doubt),
        error_code=event.error.code if event.error else "",
        data_digest=event.data_digest,
        state_digest=event.state_digest,
        children_root=event.children_root,
        session_digest=event.session_digest,
    )


Rule = Callable[[Fold, Any, str, int], None]
"""(fold, event of the rule's own class, call key or empty, seq)."""

RULES: Final[dict[type, Rule]] = {
    events.RunStarted: _run_started,
    events.ToolCalled: _tool_called,
    events.ToolReturned: _tool_returned,
    events.ModelAsked: _model_asked,
    events.ModelAnswered: _model_answered,
    events.ChildStarted: _child_started,
    events.ChildFinished: _child_finished,
    events.TimerFired: _timer_fired,
    events.ClockRead: _clock_read,
    events.ValueDrawn: _value_drawn,
    events.InputAsked: _input_asked,
    events.InputGiven: _input_given,
    events.EffectCancelled: _effect_cancelled,
    events.EffectLate: _effect_late,
    events.LimitHit: _limit_hit,
    events.SessionSeeded: _session_kept,
    events.SessionRestored: _session_kept,
    events.SessionChanged: _session_changed,
    events.TokensGranted: _tokens_granted,
    events.PatchMarked: _patch_marked,
    events.NoteAdded: _note_added,
    events.RunResumed: _run_resumed,
    events.RunFinished: _run_finished,
}
"""The transition table; every kind of the closed set is in it, and nothing else."""


# --- reading raw JSON of a log -------------------------------------------------------------


def _text_in(value: Any) -> str:
    return value if type(value) is str else ""


def _limits(caps: Any) -> Limits:
    """Return the caps of a log; the ceilings where they make no sense, for a fold never raises."""
    try:
        return Limits.from_json(caps)
    except (LimitRefused, TypeError):
        return Limits()


def _reserved(fold: Fold, delegation: dict[str, Any]) -> int:
    """Return the tokens that a start takes out of this run's own cap."""
    if fold.limits.model_tokens is None:
        return 0
    return _limits(delegation.get("limits", {})).model_tokens or 0


def _cost_reserved(fold: Fold, delegation: dict[str, Any]) -> int:
    """Return the millionths of a dollar that a start takes out of this run's own cap."""
    if fold.limits.cost_usd is None:
        return 0
    return round((_limits(delegation.get("limits", {})).cost_usd or 0) * 1e6)


def _chained(chain: str, message: dict[str, Any]) -> str:
    """Return the chain digest with `message` added; empty where a log could not hold it."""
    try:
        return digest.chained(chain, message)
    except NotCanonical:
        return ""
