"""The end of an unfinished record: open requests, effects in doubt, timers, and active time.

Read from the log alone, in one pass; nothing is executed. `replay.resume.resume` continues from it.
The rules are CONTRACT.md §4.7.
"""

import os
from array import array
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

import attrs

from refold.engine.children.tree_digest import tree_digest_of
from refold.engine.encoding.document import Document
from refold.engine.events import events
from refold.engine.events.codec import structure
from refold.engine.events.data_digest import DataDigest
from refold.engine.events.events import key_in
from refold.engine.log.damage import without_lines
from refold.engine.log.names import child_path, is_there, log_path
from refold.engine.log.reader import Entry, read_entries, scan
from refold.engine.ports.ports import Question
from refold.engine.state.folding import Fold
from refold.replay.index.asked_items import inside


@attrs.frozen(kw_only=True)
class Doubt:
    """An effect that may have changed the world and has no outcome in the log."""

    key: str
    """Call keys from the root run down: `0#1`, or `0#1 > 0#2` in a child."""
    tool: str
    arguments: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.key}  {self.tool}{inside('tool', self.arguments)}"


class Standing:
    """The state at the end of one log, or after its first `entries`."""

    def __init__(self, log: str | os.PathLike[str], entries: int | None = None) -> None:
        """Read the log.

        Raises:
            LogError: it is damaged or missing.
        """
        self.log = Path(log)
        self.started: events.RunStarted
        self.fold = Fold()
        self.digest = DataDigest()
        self.requests: dict[str, int] = {}
        """Entries that ask for something and have no outcome yet, by call; cancelled ones, too."""
        self.starts: dict[str, str] = {}
        """Hashes of the starts of unfinished children, by call."""
        self.leaves: list[tuple[int, str]] = []
        """Numbers of joined children, and their leaves of the Merkle tree."""
        self.step = 0
        """The last entry from the world."""
        self.head = ""
        self.events: dict[str, Any] = {}
        """Requests without an outcome, by call."""
        self.virtual_us = 0
        """Virtual time as the program last saw it."""
        self.changes_made: Counter[tuple[str, str]] = Counter()
        """How often children that share the session have changed it, by path and event."""
        self.numbers: dict[str, int] = {}
        """Of children, by call."""
        self.given_up: set[str] = set()
        """Calls that were cancelled: nobody waits for what they ask, or for their outcome."""
        self._active = array("q")
        self._since = 0
        self._before = 0
        for entry in islice(read_entries(log, resolve=True, torn_ok=True), entries):
            self._take(entry)
        if not self.head:
            raise without_lines(str(log))

    @property
    def active_us(self) -> int:
        """Microseconds that the run has been active, pauses between attempts left out."""
        return self._active[-1]

    def active_at(self, entries: int) -> int:
        """Return the same for the time when the log had so many entries."""
        return self._active[entries - 1]

    def path(self, call: str) -> str:
        """Return the key of a call, from the root run down."""
        return key_in(self.started.path, call)

    def _take(self, entry: Entry) -> None:
        event: Any = structure(entry.kind, entry.data)
        if isinstance(event, events.RunStarted):
            self.started = event
        if isinstance(event, events.SessionChanged) and event.by:
            self.changes_made[event.by, event.event] += 1
        if isinstance(event, events.ClockRead | events.TimerFired):
            self.virtual_us = event.virtual_us
        self._time(entry)
        self.fold.apply(event, entry.call, entry.seq)
        self.digest.add(entry.kind, entry.call, entry.data_bytes)
        self.head = entry.hash
        if entry.kind in events.FROM_WORLD:
            self.step = entry.seq
        self._follow(entry, event, entry.call or "")

    def _time(self, entry: Entry) -> None:
        now = entry.meta["mono_us"]
        if entry.kind in ("run.started", "run.resumed"):
            self._before = self._active[-1] if self._active else 0
            self._since = now
        self._active.append(self._before + max(0, now - self._since))

    def _follow(self, entry: Entry, event: Any, call: str) -> None:
        if entry.kind in events.REQUEST_KINDS:
            self.requests[call], self.events[call] = entry.seq, event
        if entry.kind in events.COMPLETES or entry.kind == "effect.late":
            self.requests.pop(call, None)
            self.events.pop(call, None)
        match event:
            case events.ChildStarted():
                self.starts[call], self.numbers[call] = entry.hash, event.number
            case events.EffectCancelled():
                self.given_up.add(call)
            case events.ChildFinished(outcome=outcome):
                self.starts.pop(call, None)
                if outcome.child is not None and call in self.numbers:
                    ref = outcome.child
                    leaf = f"{ref.run} {ref.head} {ref.events}"
                    self.leaves.append((self.numbers[call], leaf))
                    log = child_path(self.log, self.numbers[call])
                    self.digest.add_child(call, tree_digest_of(log))


@attrs.frozen(kw_only=True)
class OpenEnds(Document):
    """The questions and doubts that people must decide before a run can continue."""

    hidden = ("unfinished",)

    questions: tuple[Question, ...]
    doubts: tuple[Doubt, ...]
    """Effects that may have changed the world."""
    unfinished: tuple[str, ...] = ()
    """Keys of all effects without an outcome, children and their effects included."""


def open_ends(log: str | os.PathLike[str]) -> OpenEnds:
    """Return the open questions and doubts in the unfinished run of `log` and its children.

    Raises:
        LogError: the log is damaged or missing.
    """
    standing, questions, doubts = Standing(log_path("open_ends", log)), [], []
    for call, asked in standing.events.items():
        key = standing.path(call)
        match asked:
            case events.InputAsked(question, schema) if call not in standing.given_up:
                questions.append(Question(key=key, question=question, schema=schema))
            case events.ToolCalled(tool, arguments, effect="changes", delegates=delegates):
                if call not in standing.given_up and not delegates:
                    doubts.append(Doubt(key=key, tool=tool, arguments=arguments))
    unfinished = [standing.path(call) for call in standing.requests]
    for call in standing.starts:
        path = child_path(standing.log, standing.numbers[call])
        found = scan(path) if is_there(path) else None
        if found is not None and found.entries and not found.sealed:
            below = open_ends(path)
            questions += below.questions if call not in standing.given_up else ()
            doubts += below.doubts
            unfinished += below.unfinished
    questions.sort(key=lambda question: question.place)
    return OpenEnds(questions=tuple(questions), doubts=tuple(doubts), unfinished=tuple(unfinished))
