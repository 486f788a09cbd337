"""Whether the entries of one log make sense together (CONTRACT.md §5.2).

Each completion has its request; call keys are dense in each scope; a step reads the clock at most
once; caps on depth and children are kept; `run.finished` says what is so.  Takes one entry after
the other, in memory that grows with open effects, scopes and children, not with the log.
Bytes, hashes and files are not its business: see `replay.verify`.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

import attrs

from refold.engine.data_digest import DataDigest
from refold.engine.digest import child_leaf, merkle_root
from refold.engine.events import (
    COMPLETES,
    FROM_WORLD,
    ChildFinished,
    ChildStarted,
    ClockRead,
    EffectCancelled,
    EffectLate,
    LimitHit,
    Recorded,
    RunFinished,
    RunStarted,
    TimerFired,
    ToolCalled,
    ToolReturned,
)
from refold.engine.log import Entry
from refold.engine.outcome import ChildRef, Outcome

Problem = tuple[str, str, str]
"""What is wrong, what was expected, what was found."""

_KEY: Final = re.compile(r"([0-9A-Za-z._/-]+)([#@])([1-9][0-9]{0,17})\Z")
_REQUESTS: Final = frozenset(COMPLETES.values())
_CANCELLED: Final = "cancelled"


@attrs.define
class Start:
    """A child as its parent's log tells of it."""

    number: int
    call: str
    run_id: str
    hash: str
    """Of the `child.started` entry."""
    outcome: Outcome | None = None
    """`None` until the parent has joined it."""

    @property
    def anchor(self) -> ChildRef | None:
        """Where the child's log stood when the parent joined it."""
        return self.outcome.child if self.outcome else None


class Causality:
    """Takes the entries of one log in order and yields what is wrong with each."""

    def __init__(self) -> None:
        self.started: RunStarted | None = None
        self.finished: RunFinished | None = None
        self.starts: dict[int, Start] = {}
        self._open: dict[str, str] = {}
        self._programs: set[str] = set()
        self._overdue: set[str] = set()
        """Tools that were answered as timed out: what they give after all is late."""
        self._by_call: dict[str, Start] = {}
        self._ordinals: dict[str, int] = {}
        self._has_looked = False
        self._digest = DataDigest()

    def take(self, entry: Entry, event: Recorded) -> Iterator[Problem]:
        """Take one entry, and yield its problems."""
        if (entry.seq == 0) is not isinstance(event, RunStarted):
            yield "order", "run.started first, and only first", entry.kind
        if self.finished is not None:
            yield "order", "nothing after run.finished", entry.kind
        if entry.cause is not None and not 0 <= entry.cause < entry.seq:
            yield "cause", f"an entry before {entry.seq}", f"{entry.cause!a:.40}"
        yield from self._take_key(entry, event)
        yield from self._take_effect(entry, event)
        yield from self._take_step(entry.kind, event, entry.call or "")
        if not isinstance(event, RunFinished):
            self._digest.add(entry.kind, entry.call, entry.data_bytes)
        yield from self._take_run(entry, event)

    # --- keys ----------------------------------------------------------------------------

    def _take_key(self, entry: Entry, event: Recorded) -> Iterator[Problem]:
        """Check that ordinals are dense in each scope, in the order of first use (§9.1)."""
        if entry.call is None:
            if entry.kind in _REQUESTS or entry.kind in COMPLETES:
                yield "call key", "one", "none"
            return
        key = _KEY.match(entry.call) if type(entry.call) is str else None
        if key is None:
            yield "call key", "scope#n, or scope@n for a timer", f"{entry.call!a:.60}"
            return
        is_timer = isinstance(event, TimerFired)
        if is_timer is not (key[2] == "@"):
            yield "call key", "scope@n for a timer, scope#n for all else", entry.call
        elif not is_timer:
            yield from self._take_ordinal(entry.call, key[1], int(key[3]), entry.kind)

    def _take_ordinal(self, call: str, scope: str, ordinal: int, kind: str) -> Iterator[Problem]:
        last = self._ordinals.get(scope, 0)
        if ordinal > last + 1:
            yield "call key", f"{scope}#{last + 1}", call
        if ordinal <= last and kind in _REQUESTS:
            yield "call key", f"{scope}#{last + 1}, for each key asks once", call
        self._ordinals[scope] = max(last, ordinal)

    # --- effects -------------------------------------------------------------------------

    def _take_effect(self, entry: Entry, event: Recorded) -> Iterator[Problem]:
        call = entry.call or ""
        if entry.kind in _REQUESTS:
            self._open[call] = entry.kind
            if isinstance(event, ToolCalled) and event.delegates:
                self._programs.add(call)
        elif entry.kind in COMPLETES:
            yield from self._complete(entry.kind, event, call)
        elif isinstance(event, EffectCancelled) and event.kind != "run":
            yield from self._cancel(event, call)
        elif isinstance(event, EffectLate):
            yield from self._late(event, call)

    def _late(self, event: EffectLate, call: str) -> Iterator[Problem]:
        if call in self._overdue:
            self._overdue.remove(call)
            return
        found = self._open.pop(call, None)
        if found != _CANCELLED and not (found and event.kind == "child"):
            yield "request", f"a cancelled {event.kind} of the key {call}", found or "none"

    def _complete(self, kind: str, event: Recorded, call: str) -> Iterator[Problem]:
        if isinstance(event, ChildFinished):
            start = self._by_call.get(call)
            if start is not None:
                start.outcome = event.outcome
            elif event.outcome.status == "rejected":
                return  # never started, so there is nothing that it would complete
        if isinstance(event, ToolReturned) and (event.error or {}).get("code") == "timed_out":
            self._overdue.add(call)
        found = self._open.pop(call, None)
        if found != COMPLETES[kind]:
            yield "request", f"an open {COMPLETES[kind]} of the key {call}", found or "none"

    def _cancel(self, event: EffectCancelled, call: str) -> Iterator[Problem]:
        found = self._open.get(call)
        if found is None or not found.startswith(f"{event.kind}."):
            yield "request", f"an open {event.kind} of the key {call}", found or "none"
        elif event.kind != "child":  # a child's outcome is still delivered to a join
            self._open[call] = _CANCELLED

    # --- steps ---------------------------------------------------------------------------

    def _take_step(self, kind: str, event: Recorded, call: str) -> Iterator[Problem]:
        """Check that a step, from one line of the world to the next, looks at the clock once."""
        if isinstance(event, ClockRead):
            if self._has_looked:
                yield "clock", "one clock.read a step", "another"
            self._has_looked = True
        elif self._is_from_world(kind, event, call):
            self._has_looked = False

    def _is_from_world(self, kind: str, event: Recorded, call: str) -> bool:
        match event:
            case LimitHit():
                return event.limit == "timeout_seconds"
            case EffectCancelled():
                return event.kind == "run"
            case ChildFinished():
                return call in self._by_call
            case _:
                return kind in FROM_WORLD and call not in self._programs

    # --- the run -------------------------------------------------------------------------

    def _take_run(self, entry: Entry, event: Recorded) -> Iterator[Problem]:
        match event:
            case RunStarted() if entry.seq == 0:
                self.started = event
                deepest = event.limits.get("max_depth")
                if type(deepest) is int and event.depth > deepest:
                    yield "limit", f"max_depth {deepest}", f"depth {event.depth}"
            case ChildStarted():
                yield from self._start(entry, event)
            case RunFinished():
                self.finished = event
                yield from self._finish(entry, event)
            case _:
                pass

    def _start(self, entry: Entry, event: ChildStarted) -> Iterator[Problem]:
        if event.number != len(self.starts) + 1:
            yield "child number", str(len(self.starts) + 1), str(event.number)
        start = Start(event.number, entry.call or "", event.run_id, entry.hash)
        self.starts[event.number] = self._by_call[start.call] = start
        limits: dict[str, Any] = self.started.limits if self.started else {}
        most = limits.get("max_children")
        if type(most) is int and len(self.starts) > most:
            yield "limit", f"max_children {most}", f"{len(self.starts)} children"

    def _finish(self, entry: Entry, event: RunFinished) -> Iterator[Problem]:
        self._digest.add(entry.kind, entry.call, entry.data_bytes)
        anchors = [start.anchor for _, start in sorted(self.starts.items())]
        root = merkle_root([child_leaf(a.run, a.head, a.events) for a in anchors if a])
        said = (str(event.entries), event.data_digest, event.children_root)
        real = (str(entry.seq + 1), self._digest.hexdigest(), root)
        for what, is_so, was_said in zip(
            ("entries", "data digest", "children root"), real, said, strict=True
        ):
            if is_so != was_said:
                yield what, is_so, f"{was_said!a:.80}"
