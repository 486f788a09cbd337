"""Copies the beginning of a log, or all of it, into a new one: the start of a fork.

Data is unchanged except for edits. The hash chain is new, with its own nonce and clocks, and
children are bound to it in both directions. The origin is only read. The rules are CONTRACT.md
§12.11.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from refold.engine.events.call_key import key_in
from refold.engine.events.codec import structure
from refold.engine.events.events import (
    ChildFinished,
    ChildStarted,
    Event,
    InputGiven,
    ModelAnswered,
    RunFinished,
    RunStarted,
    ToolReturned,
    ValueDrawn,
)
from refold.engine.events.outcome import ChildRef
from refold.engine.log.names import child_path
from refold.engine.log.reader import read_entries
from refold.engine.log.writer import LogWriter
from refold.engine.ports.ports import Parentage
from refold.engine.recording.bookends import SCRIPT
from refold.engine.recording.ledger import Ledger

OUTCOMES: Final = (ToolReturned, ModelAnswered, ChildFinished, InputGiven, ValueDrawn)
"""The events that an edit can change."""

Cuts = Mapping[Path, int]
"""How many entries are kept of a log; of one that is not named, all."""


@attrs.frozen(kw_only=True)
class Transplant:
    """The part of a log to copy, and its changes."""

    cuts: Cuts
    edits: Mapping[str, Event]
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


class _Copy:
    """One log being copied."""

    def __init__(self, plan: Transplant, old: Path, new: Path, parent: Parentage | None) -> None:
        self._plan = plan
        self._old = old
        self._new = new
        self._parent = parent
        self._ledger: Ledger
        self._numbers: dict[str, int] = {}
        """Of children, by the call that started them."""
        self._path = ""
        self._run_id = ""

    def made(self) -> ChildRef:
        keep = self._plan.cuts.get(self._old)
        for entry in read_entries(self._old, resolve=True, torn_ok=True):
            if keep is not None and entry.seq >= keep:
                break
            event: Any = structure(entry.kind, entry.data)
            if isinstance(event, RunStarted):
                self._begin(event, entry.meta)
            elif isinstance(event, RunFinished):
                self._ledger.step = entry.cause or 0
                self._ledger.seal(event, {})
            else:
                self._ledger.append(self._changed(event, entry.call or ""), entry.call, entry.cause)
        for call in self._ledger.starts:  # beginnings of children that are to go on
            old = child_path(self._old, self._numbers[call])
            if old in self._plan.cuts:
                self._child(call, self._ledger.starts[call])
        self._ledger.barrier()
        self._ledger.close()
        head, events = self._ledger.head, self._ledger.entries
        return ChildRef(run=self._run_id, head=head, events=events)

    def _begin(self, event: RunStarted, meta: Mapping[str, Any]) -> None:
        parent = attrs.asdict(self._parent) if self._parent else None
        event = attrs.evolve(
            event,
            parent=parent,
            nonce=os.urandom(16).hex(),
            origin=None if parent else self._plan.origin,
        )
        self._path, self._run_id = event.path, event.run_id
        marks = {name: value for name, value in meta.items() if name.startswith(SCRIPT)}
        writer = LogWriter.create(self._new, event, durability="fast", meta=marks)
        self._ledger = Ledger.begun(writer, event)

    def _changed(self, event: Any, call: str) -> Any:
        if event.__class__ in OUTCOMES:
            event = self._plan.edits.get(key_in(self._path, call), event)
        match event:
            case ChildStarted(number=number):
                self._numbers[call] = number
            case ChildFinished(outcome=outcome) if call in self._ledger.starts:
                start = self._ledger.hash_of_start(call)
                if (
                    outcome.child is not None
                    and child_path(self._old, self._numbers[call]).exists()
                ):
                    ref = self._child(call, start)
                    self._ledger.joined(call, self._numbers[call], ref)
                    return attrs.evolve(event, outcome=attrs.evolve(outcome, child=ref))
        return event

    def _child(self, call: str, start: str) -> ChildRef:
        number = self._numbers[call]
        parent = Parentage(run=self._run_id, call=call, hash=start)
        return self._plan.copy(child_path(self._old, number), child_path(self._new, number), parent)
