"""The entries that a recorder has written, the state derived from them, and a resume's part of it.

The log, its data digest, the state and the causes of later lines grow together, one line at a time,
so they stay consistent. `engine.recording.recorder` decides when to write. Rules: CONTRACT.md §3.2
(causes), §4.3 (one writer), §6.
"""

import threading
from collections.abc import Mapping
from typing import Final

import attrs

from refold.engine.children.tree_digest import tree_digest_of
from refold.engine.encoding.digest import child_leaf
from refold.engine.events.codec import kind_of
from refold.engine.events.data_digest import DataDigest
from refold.engine.events.events import (
    ChildFinished,
    ChildStarted,
    Event,
    Recorded,
    RunFinished,
    RunResumed,
    RunStarted,
    ToolCalled,
)
from refold.engine.events.outcome import ChildRef
from refold.engine.kernel.world import REQUESTS
from refold.engine.log.names import child_path
from refold.engine.log.writer import LogWriter
from refold.engine.loop.loop import Timer
from refold.engine.ports.effects import Effect
from refold.engine.recording.bookends import sealed
from refold.engine.recording.driver import Arrival
from refold.engine.state.folding import Fold, tool_served
from refold.engine.values import Value

_REQUESTS: Final = frozenset(REQUESTS)
_GOOD: Final = ("ok", "completed")


@attrs.define(eq=False)
class Ledger:
    """The lines of one run: a log being written, and all that is kept of its lines."""

    writer: LogWriter
    fold: Fold
    digest: DataDigest
    requests: dict[str, int] = attrs.field(factory=dict)
    """By call key: the seq of a request without an outcome."""
    starts: dict[str, str] = attrs.field(factory=dict)
    """By call key: the hash of a `child.started` that its child has not received."""
    leaves: list[tuple[int, str]] = attrs.field(factory=list)
    """Of joined children: their numbers and Merkle leaves."""
    failed: dict[str, int] = attrs.field(factory=dict)
    """By call key: the seq of an outcome that is a failure."""
    step: int = 0
    """The seq of the line that opened this step: the cause of the program's next events."""
    _lock: threading.Lock = attrs.field(factory=threading.Lock, init=False)
    """Held while the writer is used: `fence` closes it from another thread."""

    @classmethod
    def begun(cls, writer: LogWriter, started: RunStarted) -> "Ledger":
        """Return the ledger of a log that has its first line."""
        ledger = cls(writer, Fold(), DataDigest())
        ledger.digest.add("run.started", None, writer.last_data)
        ledger.fold.apply(started, None, 0)
        return ledger

    @property
    def head(self) -> str:
        """The hash of the last line."""
        return self.writer.head

    @property
    def entries(self) -> int:
        """How many lines there are."""
        return self.writer.entries

    def append(
        self,
        event: Recorded,
        call: str | None,
        cause: int | None,
        meta: Mapping[str, int | str] | None = None,
    ) -> int:
        """Write a line and return its seq.

        Raises:
            NotCanonical: the event cannot be stored; nothing was written.
            RefoldError: any other error of `LogWriter.append`.
        """
        writer, kind = self.writer, event.__class__
        with self._lock:
            seq = writer.append(event, call, cause, meta)
        self.digest.add(kind_of(event), call, writer.last_data)
        self.fold.apply(event, call, seq)
        if kind in _REQUESTS and call is not None:
            self.requests[call] = seq
            if kind is ChildStarted:
                self.starts[call] = writer.head
        return seq

    def open_step(
        self,
        event: Event,
        call: str | None,
        cause: int | None,
        meta: Mapping[str, int | str] | None = None,
    ) -> None:
        """Write a line from the world, which is the cause of the program's next events.

        Raises:
            RefoldError: any error of `append`.
        """
        self.step = self.append(event, call, cause, meta)
        outcome = event.outcome if isinstance(event, ChildFinished) else event
        if call is not None and getattr(outcome, "status", "ok") not in _GOOD:
            self.failed[call] = self.step

    def cause_of(self, call: str) -> int | None:
        """Return the seq of the request that is answered now, and forget it."""
        return self.requests.pop(call, None)

    def hash_of_start(self, call: str) -> str:
        """Return the hash of a child's `child.started`, and forget it."""
        return self.starts.pop(call)

    def joined(self, call: str, number: int, child: ChildRef) -> None:
        """Note a child's head at its join, and its digest."""
        self.digest.add_child(call, tree_digest_of(child_path(self.writer.path, number)))
        self.leaves.append((number, child_leaf(child.run, child.head, child.events)))

    # -- the short way of a call ----------------------------------------------------------

    def append_fenced(self, kind: bytes, call: bytes, cause: int, data: bytes) -> int:
        """Write a line as `LogWriter.append_call` does, in a run that may be fenced meanwhile."""
        with self._lock:
            return self.writer.append_call(kind, call, cause, data)

    def called(self, call: str, seq: int, data: bytes, event: ToolCalled) -> None:
        """Take into account a request that was written by its bytes."""
        self.digest.add("tool.called", call, data)
        self.fold.apply(event, call, seq)
        self.requests[call] = seq

    def served(self, call: bytes, tool: str, called: bytes, returned: bytes) -> None:
        """Take into account both lines of a call that succeeded, which were written so."""
        self.digest.add_call(call, called, returned)
        tool_served(self.fold, tool)

    def barrier(self) -> None:
        """Return when all lines are as safe as the log's mode promises.

        Raises:
            RefoldError: any error of `LogWriter.barrier`.
        """
        with self._lock:
            self.writer.barrier()

    # -- the end --------------------------------------------------------------------------

    def close(self) -> tuple[str, int]:
        """Let go of the log, and refuse every further line; return its head and how many there are.

        From any thread; calling it again does nothing more.
        """
        with self._lock:
            self.writer.close()
            return self.writer.head, self.writer.entries

    def seal(self, said: RunFinished, meta: Mapping[str, int | str]) -> RunFinished:
        """Write the last line, with its data about the lines before it, and return it.

        The writer itself makes a last line durable: no barrier is needed.
        """
        finished = sealed(
            said,
            entries=self.writer.entries,
            digest=self.digest,
            fold=self.fold,
            leaves=[leaf for _, leaf in sorted(self.leaves)],
        )
        with self._lock:
            seq = self.writer.append(finished, None, self.step, meta=meta)
        self.fold.apply(finished, None, seq)
        return finished


@attrs.frozen(kw_only=True)
class Handed(Value):
    """The data with which a recorder continues at the end of an unfinished record."""

    ledger: Ledger
    """Of the record, its log open to be written."""
    resumed: RunResumed
    active_us: int
    virtual_us: int
    """Virtual time as the program last saw it."""
    timers: list[tuple[int, Timer]]
    """Timers that are armed, and microseconds left of each."""
    effects: list[Effect]
    """Effects to start, again or for the first time, in the order of requests."""
    arrivals: list[Arrival]
    """Outcomes that somebody decided."""
    asked: Mapping[str, Event] = attrs.field(factory=dict)
    """The requests that are open, by call."""
    changes: Mapping[tuple[str, str], int] = attrs.field(factory=dict)
    """How often children that share the session have changed it, by path and event."""
