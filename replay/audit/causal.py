"""Checks that the entries of one log are consistent (CONTRACT.md §5.2).

Each completion has its request; call keys are dense in each scope; a step reads the clock at most
once; limits on depth and children hold; `run.finished` is correct. It takes the entries one by one,
in memory that grows with open effects, scopes and children, not with the log. `replay.audit.verify`
checks bytes, hashes and files.
"""

import re
from collections.abc import Sequence
from typing import Any, Final

import attrs

from refold.engine.encoding.digest import child_leaf, merkle_root
from refold.engine.events import events
from refold.engine.events.data_digest import DataDigest
from refold.engine.events.events import COMPLETES, FROM_WORLD, REQUEST_KINDS
from refold.engine.events.outcome import ChildRef, Outcome
from refold.engine.log.line import Parts, stored_hash

Problem = tuple[str, str, str]
"""The problem, the expected value, the found value."""

_KEY: Final = re.compile(r"([0-9A-Za-z._/-]+)([#@])([1-9][0-9]{0,17})\Z")
_CANCELLED: Final = "cancelled"
_RARE: Final = frozenset(
    {"effect.cancelled", "effect.late", "run.started", "child.started", "run.finished"}
)
"""Kinds with rules of their own."""


@attrs.define
class Start:
    """A child as described in its parent's log."""

    number: int
    call: str
    run_id: str
    hash: str
    """Of the `child.started` entry."""
    outcome: Outcome | None = None
    """`None` until the parent has joined it."""
    is_cancelled: bool = False
    """Whether the parent cancelled it before it joined it."""

    @property
    def is_counted(self) -> bool:
        """Whether the parent's tree digest counts it: it was joined, and not cancelled before."""
        return self.outcome is not None and not self.is_cancelled

    @property
    def anchor(self) -> ChildRef | None:
        """The child's head as the parent joined it."""
        return self.outcome.child if self.outcome else None


class Causality:
    """Takes the entries of one log in order and returns the problems of each.

    Nearly all entries have none, so that case is the cheapest.
    """

    def __init__(self) -> None:
        self.started: events.RunStarted | None = None
        self.finished: events.RunFinished | None = None
        self.starts: dict[int, Start] = {}
        self._open: dict[str, str] = {}
        self._programs: set[str] = set()
        self._overdue: set[str] = set()
        """Tools that timed out: a later result of theirs is late."""
        self._by_call: dict[str, Start] = {}
        self._ordinals: dict[str, int] = {}
        self._has_looked = False
        self.digest = DataDigest()
        self._found: list[Problem] = []

    def take(
        self, seq: int, parts: Parts, event: events.Recorded, line: bytes
    ) -> Sequence[Problem]:
        """Take the entry `seq`, and return its problems."""
        kind, call, cause, data = parts
        if seq == 0 or kind in _RARE or self.finished is not None:
            self._take_order(seq, kind)
        if cause is not None and cause >= seq:
            self._report("cause", f"an entry before {seq}", str(cause))
        request = COMPLETES.get(kind)
        if request is None or call not in self._open:  # else the request had the same key
            self._take_key(kind, call)
        if request is not None:
            self._complete(request, event, call or "")
        elif kind in REQUEST_KINDS:
            self._open[call or ""] = kind
            if isinstance(event, events.ToolCalled) and event.delegates:
                self._programs.add(call or "")
        if kind == "clock.read" or self._has_looked:
            self._check_clock_read(kind, event, call or "")
        if kind in _RARE:
            self._take_rare(seq, parts, event, line)
        if kind != "run.finished":
            self.digest.add(kind, call, data)
        if not self._found:
            return ()
        found, self._found = self._found, []
        return found

    def _report(self, what: str, expected: str, found: str) -> None:
        self._found.append((what, expected, found))

    def _take_order(self, seq: int, kind: str) -> None:
        if (seq == 0) is not (kind == "run.started"):
            self._report("order", "run.started as the first entry, and nowhere else", kind)
        if self.finished is not None:
            self._report("order", "nothing after run.finished", kind)

    # --- keys ----------------------------------------------------------------------------

    def _take_key(self, kind: str, call: str | None) -> None:
        """Check that ordinals are dense in each scope, in the order of first use (§9.1)."""
        if call is None:
            if kind in REQUEST_KINDS or kind in COMPLETES:
                self._report("call key", "one", "none")
            return
        scope, _, ordinal = call.rpartition("#")
        last = self._ordinals.get(scope)
        if last is not None and ordinal == str(last + 1) and kind != "timer.fired":
            self._ordinals[scope] = last + 1
            return
        key = _KEY.match(call)
        if key is None:
            self._report("call key", "scope#n, or scope@n for a timer", f"{call!a:.60}")
            return
        is_timer = kind == "timer.fired"
        if is_timer is not (key[2] == "@"):
            self._report("call key", "scope@n for a timer, scope#n for all else", call)
        elif not is_timer:
            self._take_ordinal(call, key[1], int(key[3]), kind)

    def _take_ordinal(self, call: str, scope: str, ordinal: int, kind: str) -> None:
        last = self._ordinals.get(scope, 0)
        if ordinal > last + 1:
            self._report("call key", f"{scope}#{last + 1}", call)
        if ordinal <= last and kind in REQUEST_KINDS:
            self._report("call key", f"{scope}#{last + 1}, for each key asks once", call)
        self._ordinals[scope] = max(last, ordinal)

    # --- effects -------------------------------------------------------------------------

    def _late(self, event: events.EffectLate, call: str) -> None:
        if call in self._overdue:
            self._overdue.remove(call)
            return
        found = self._open.pop(call, None)
        if found != _CANCELLED and not (found and event.kind == "child"):
            self._report("request", f"a cancelled {event.kind} of the key {call}", found or "none")

    def _complete(self, request: str, event: events.Recorded, call: str) -> None:
        if isinstance(event, events.ToolReturned):
            if event.error is not None and event.error.get("code") == "timed_out":
                self._overdue.add(call)
        elif isinstance(event, events.ChildFinished):
            start = self._by_call.get(call)
            if start is not None:
                start.outcome = event.outcome
            elif event.outcome.status == "rejected":
                return  # never started, so there is nothing that it would complete
        found = self._open.pop(call, None)
        if found != request:
            self._report("request", f"an open {request} of the key {call}", found or "none")

    def _cancel(self, event: events.EffectCancelled, call: str) -> None:
        found = self._open.get(call)
        if found is None or not found.startswith(f"{event.kind}."):
            self._report("request", f"an open {event.kind} of the key {call}", found or "none")
        elif event.kind != "child":
            self._open[call] = _CANCELLED
        elif call in self._by_call:  # its outcome is still delivered to a join
            self._by_call[call].is_cancelled = True

    # --- steps ---------------------------------------------------------------------------

    def _check_clock_read(self, kind: str, event: events.Recorded, call: str) -> None:
        """Check that a step, from one line of the world to the next, looks at the clock once."""
        if kind == "clock.read":
            if self._has_looked:
                self._report("clock", "at most one clock.read per step", "another")
            self._has_looked = True
        elif self._is_from_world(kind, event, call):
            self._has_looked = False

    def _is_from_world(self, kind: str, event: events.Recorded, call: str) -> bool:
        match event:
            case events.LimitHit():
                return event.limit == "timeout_seconds"
            case events.EffectCancelled():
                return event.kind == "run"
            case events.ChildFinished():
                return call in self._by_call
            case _:
                return kind in FROM_WORLD and call not in self._programs

    # --- the run -------------------------------------------------------------------------

    def _take_rare(self, seq: int, parts: Parts, event: events.Recorded, line: bytes) -> None:
        call = parts[1] or ""
        match event:
            case events.EffectCancelled() if event.kind != "run":
                self._cancel(event, call)
            case events.EffectLate():
                self._late(event, call)
            case events.RunStarted() if seq == 0:
                self.started = event
                deepest = event.limits.get("max_depth")
                if type(deepest) is int and event.depth > deepest:
                    self._report("limit", f"max_depth {deepest}", f"depth {event.depth}")
            case events.ChildStarted():
                self._start(call, event, (stored_hash(line) or b"").decode())
            case events.RunFinished():
                self.finished = event
                self._finish(seq, parts, event)

    def _start(self, call: str, event: events.ChildStarted, own: str) -> None:
        if event.number != len(self.starts) + 1:
            self._report("child number", str(len(self.starts) + 1), str(event.number))
        start = Start(event.number, call, event.run_id, own)
        self.starts[event.number] = self._by_call[call] = start
        limits: dict[str, Any] = self.started.limits if self.started else {}
        most = limits.get("max_children")
        if type(most) is int and len(self.starts) > most:
            self._report("limit", f"max_children {most}", f"{len(self.starts)} children")

    def _finish(self, seq: int, parts: Parts, event: events.RunFinished) -> None:
        kind, call, _, data = parts
        self.digest.add(kind, call, data)
        anchors = [start.anchor for _, start in sorted(self.starts.items())]
        root = merkle_root([child_leaf(a.run, a.head, a.events) for a in anchors if a])
        for what, is_so, was_said in (
            ("entries", str(seq + 1), str(event.entries)),
            ("data digest", self.digest.hexdigest(), event.data_digest),
            ("children root", root, event.children_root),
        ):
            if is_so != was_said:
                self._report(what, is_so, f"{was_said!a:.80}")
