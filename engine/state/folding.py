"""State under construction: `Fold`, and `evolve`, its pure face.

`Fold` is the one mutable thing: `evolve` makes one, runs the rules of `state.rules` and
freezes it, and the live kernel keeps one for the length of a run.  Nothing is copied per event, so
a fold is linear.  The rules are CONTRACT.md §6.1.
"""

from collections.abc import Iterable
from typing import Any, Final, Self

import attrs

from refold.engine.state.rules import RULES, Growing, Talk
from refold.engine.state.run_state import Conversation, Counted, OpenCall, RunState, ToolCount

Fact = tuple[Any, str | None, int]
"""Event, call key and seq of an entry."""


@attrs.define(weakref_slot=False, eq=False)
class Fold(Growing):
    """A state under construction."""

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

    @classmethod
    def of(cls, state: RunState) -> Self:
        """Return a fold that continues from `state`."""
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


_SHARED: Final = tuple(field.name for field in attrs.fields(Counted))


def evolve(
    state: RunState, event: Any, call: str | None = None, *, seq: int | None = None
) -> RunState:
    """Return the state after `event`.  Pure and total: never validates, never raises.

    For single steps; over a log, `follow` does the same without the copy at each event.
    """
    so_far = Fold.of(state)
    so_far.apply(event, call, seq)
    return so_far.state()
