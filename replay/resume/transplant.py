"""Copies the beginning of a log, or all of it, into a new one: the start of a fork.

Data is unchanged except for edits. The hash chain is new, with its own nonce and clocks, and
children are bound to it in both directions. The origin is only read. The rules are CONTRACT.md
§12.11.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from refold.engine.events import events
from refold.engine.events.codec import structure
from refold.engine.events.events import key_in
from refold.engine.events.outcome import ChildRef
from refold.engine.log.names import child_path
from refold.engine.log.reader import read_entries
from refold.engine.log.writer import LogWriter
from refold.engine.ports.ports import Parentage
from refold.engine.recording.bookends import SCRIPT, nonce
from refold.engine.recording.ledger import Ledger

OUTCOMES: Final = (
    events.ToolReturned, events.ModelAnswered, events.ChildFinished, events.InputGiven,
    events.ValueDrawn,
)  # fmt: skip
"""The events that an edit can change."""

Cuts = Mapping[Path, int]
"""How many entries are kept of a log; of one that is not named, all."""


@attrs.frozen(kw_only=True)
class Transplant:
    """The part of a log to copy, and its changes."""

    cuts: Cuts
    edits: Mapping[str, events.Event]
    """By key relative to the root run: the new outcome."""
    origin: dict[str, Any] | None
    """The description of the origin in the new root."""

    def copy(self, old: Path, new: Path, parent: Parentage | None) -> ChildRef:
        """Copy a log and the logs of the children that it joins; return the reference to the copy.

        Raises:
            LogExists: a log already exists at `new`.
            LogError: the old log, or one of its children's, is damaged.
        """
        return _Copy(self, old, new, parent).made()


@attrs.define
class _Copy:
    """One log being copied."""

    _plan: Transplant
    _old: Path
    _new: Path
    _parent: Parentage | None
    _ledger: Ledger = attrs.field(init=False)
    _started: events.RunStarted = attrs.field(init=False)
    _numbers: dict[str, int] = attrs.field(factory=dict)
    """Of children, by the call that started them."""

    def made(self) -> ChildRef:
        keep = self._plan.cuts.get(self._old)
        for entry in read_entries(self._old, resolve=True, torn_ok=True):
            if keep is not None and entry.seq >= keep:
                break
            event: Any = structure(entry.kind, entry.data)
            if isinstance(event, events.RunStarted):
                self._begin(event, entry.meta)
            elif isinstance(event, events.RunFinished):
                self._ledger.step = entry.cause or 0
                self._ledger.seal(event, {})
            else:
                self._ledger.append(self._changed(event, entry.call or ""), entry.call, entry.cause)
        for call in self._ledger.starts:  # beginnings of children that are to go on
            old = child_path(self._old, self._numbers[call])
            if old in self._plan.cuts:
                self._child(call, self._ledger.starts[call])
        self._ledger.barrier()
        head, entries = self._ledger.close()
        return ChildRef(run=self._started.run_id, head=head, events=entries)

    def _begin(self, event: events.RunStarted, meta: Mapping[str, Any]) -> None:
        parent = attrs.asdict(self._parent) if self._parent else None
        origin = None if parent else self._plan.origin
        event = attrs.evolve(event, parent=parent, nonce=nonce(), origin=origin)
        self._started = event
        marks = {name: value for name, value in meta.items() if name.startswith(SCRIPT)}
        writer = LogWriter.create(self._new, event, durability="fast", meta=marks)
        self._ledger = Ledger.begun(writer, event)

    def _changed(self, event: Any, call: str) -> Any:
        if event.__class__ in OUTCOMES:
            event = self._plan.edits.get(key_in(self._started.path, call), event)
        match event:
            case events.ChildStarted(number=number):
                self._numbers[call] = number
            case events.ChildFinished(outcome=outcome) if call in self._ledger.starts:
                start = self._ledger.hash_of_start(call)
                number = self._numbers[call]
                if outcome.child is not None and child_path(self._old, number).exists():
                    ref = self._child(call, start)
                    self._ledger.joined(call, number, ref)
                    return attrs.evolve(event, outcome=attrs.evolve(outcome, child=ref))
        return event

    def _child(self, call: str, start: str) -> ChildRef:
        number = self._numbers[call]
        parent = Parentage(run=self._started.run_id, call=call, hash=start)
        return self._plan.copy(child_path(self._old, number), child_path(self._new, number), parent)
