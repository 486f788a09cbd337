"""State under construction: `Fold` runs the rules of `state.rules`, and `state` freezes it.

The live kernel keeps one for the length of a run.  Nothing is copied per event, so a fold is
linear.  The rules are CONTRACT.md §6.1.
"""

from collections.abc import Iterable
from typing import Any, Final

import attrs

from refold.engine.state.rules import RULES, Growing
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


_SHARED: Final = tuple(field.name for field in attrs.fields(Counted))
