"""State under construction: `Fold`, and `fold` and `evolve`, its two pure faces.

`Fold` is the one mutable thing: `fold` and `evolve` make one, run the rules of `state.rules` and
freeze it, and the live kernel keeps one for the length of a run.  Nothing is copied per event, so
a fold is linear.  The rules are CONTRACT.md §6.1.
"""

from collections.abc import Iterable
from typing import Any, Final, Protocol, Self, TypeVar

import attrs

from refold.engine.events.limits import Limits
from refold.engine.events.outcome import Usage
from refold.engine.state.rules import RULES, Talk
from refold.engine.state.run_state import (
    CallKind,
    ChildState,
    Conversation,
    LimitCount,
    OpenCall,
    RunState,
    Seal,
    ToolCount,
)


class EntryLike(Protocol):
    """What `fold` needs of an entry."""

    @property
    def seq(self) -> int:
        """Its place in the log, from 0."""
        ...

    @property
    def call(self) -> str | None:
        """The call key, where it belongs to an effect."""
        ...

    @property
    def event(self) -> Any:
        """The fact: one of `events.Event`, or an extension's."""
        ...


_Entry = TypeVar("_Entry", bound=EntryLike)


@attrs.define(weakref_slot=False, eq=False)
class Fold:
    """A state under construction.  Fields mean what they mean in `RunState`, by the same names."""

    program: str = ""
    path: str = ""
    depth: int = 0
    run_id: str = ""
    root_id: str = ""
    state_version: int | None = None
    limits: Limits = attrs.field(factory=Limits)
    status: str = "running"
    reason: str = ""
    entries: int = 0
    attempts: int = 1
    iterations: int = 0
    model_errors: int = 0
    models: dict[str, None] = attrs.field(factory=dict)
    """Names of those asked, as an ordered set; no part of a state."""
    usage: Usage = attrs.field(factory=Usage)
    children_usage: Usage = attrs.field(factory=Usage)
    children_started: int = 0
    tokens_reserved: int = 0
    notes: int = 0
    timers_fired: int = 0
    clock_reads: int = 0
    values_drawn: int = 0
    inputs_given: int = 0
    cancelled: int = 0
    cancel_asked: bool = False
    late: int = 0
    session_seq: int | None = None
    seal: Seal | None = None
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
        """Record `event`, which stands at `seq` (default: the next) under the key `call`.

        Total: never validates, never raises.  An extension's event only counts as an entry.
        """
        entries = self.entries
        self.entries = entries + 1
        rule = RULES.get(event.__class__)
        if rule is not None:
            rule(self, event, call or "", entries if seq is None else seq)

    def follow(self, entries: Iterable[_Entry], until: type | None = None) -> _Entry | None:
        """Apply the events of `entries` in their order, as `apply` does, in one loop.

        Stops at the first event of the class `until`, and returns its entry, which is not applied.
        """
        rules = RULES
        for entry in entries:
            event = entry.event
            kind = event.__class__
            if kind is until:
                return entry
            self.entries += 1
            rule = rules.get(kind)
            if rule is not None:
                rule(self, event, entry.call or "", entry.seq)
        return None

    @property
    def tools_used(self) -> tuple[str, ...]:
        """The tools called, in the order of first use."""
        return tuple(self.tools)

    @property
    def tokens_used(self) -> int:
        """Input and output tokens, the children's included."""
        own, theirs = self.usage, self.children_usage
        return own.input_tokens + own.output_tokens + theirs.input_tokens + theirs.output_tokens

    def state(self) -> RunState:
        """Return the state so far; what is applied later does not change it."""
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

    @classmethod
    def of(cls, state: RunState) -> Self:
        """Return a fold that goes on from `state`."""
        fold = cls(**{name: getattr(state, name) for name in _SHARED})
        fold.open = {open_.call: (open_.kind, open_.name, open_.seq) for open_ in state.open}
        fold.tools = {
            count.tool: [count.called, count.ok, count.error, count.cancelled]
            for count in state.tools
        }
        fold.children = list(state.children)
        fold.places = {child.call: place for place, child in enumerate(state.children)}
        fold.talks = {
            talk.scope: Talk(talk.prefix, talk.prefix_messages, list(talk.turns))
            for talk in state.conversations
        }
        fold.hits = {(hit.limit, hit.scope): hit for hit in state.limit_hits}
        fold.marked = dict.fromkeys(state.patches)
        return fold


_SHARED: Final = tuple(
    sorted(
        {field.name for field in attrs.fields(RunState)}
        & {field.name for field in attrs.fields(Fold)} - {"open", "tools", "children"}
    )
)
"""Fields that a fold and a state hold in the same form."""


def fold(entries: Iterable[EntryLike]) -> RunState:
    """Return the state after `entries`, the whole log from its first entry on."""
    so_far = Fold()
    so_far.follow(entries)
    return so_far.state()


def evolve(
    state: RunState, event: Any, call: str | None = None, *, seq: int | None = None
) -> RunState:
    """Return the state after `event`.  Pure and total: never validates, never raises.

    For single steps; over a log, `fold` does the same without the copy at each event.
    """
    so_far = Fold.of(state)
    so_far.apply(event, call, seq)
    return so_far.state()
