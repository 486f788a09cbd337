"""Folds a log back into state, and compares the state's digest with the recorded one.

Executes only reducers: no program, tool or model. `engine.state` has the rules of the fold. Damage
raises an error. A torn tail ends the entries, because the state of a crashed run is useful;
`replay.audit.verify` reports that such a log is incomplete. The rules are CONTRACT.md §6.1.
"""

from collections import deque
from os import PathLike, fspath
from typing import overload

import attrs

from refold.engine.encoding.parameters import names_nearest
from refold.engine.errors import EntryMissing
from refold.engine.events.events import RunFinished
from refold.engine.log.names import check_seq, log_path
from refold.engine.log.reader import Entry, read_entries, read_events
from refold.engine.state.digests import STATE_VERSION, state_digest, state_json
from refold.engine.state.folding import Fold
from refold.engine.state.run_state import RunState
from refold.replay.difference.pointer_diff import Difference, differences
from refold.replay.index.malformed import explains_malformed


@attrs.frozen(kw_only=True)
class Refolded:
    """The state of a log, and whether it matches the record."""

    state: RunState
    """After the last entry."""
    digest: str
    """Of the state that `run.finished` speaks of, the one before it; without a `run.finished`, of
    the last state.  Under this version's rules."""
    recorded_digest: str | None
    """As in `run.finished`; `None` for a log that is not sealed."""
    state_version: int | None
    """Under which the log was recorded."""

    @property
    def agrees(self) -> bool | None:
        """Whether both digests are equal; `None`: not comparable.

        Not comparable are a log without `run.finished` and one of another state version.
        """
        if not self.recorded_digest or self.state_version != STATE_VERSION:
            return None
        return self.digest == self.recorded_digest


@overload
def state(log: str | PathLike[str], at: int | None = None) -> RunState: ...


@overload
def state(log: str | PathLike[str], at: int, to: int) -> tuple[Difference, ...]: ...


@names_nearest
@explains_malformed
def state(
    log: str | PathLike[str], at: int | None = None, to: int | None = None
) -> RunState | tuple[Difference, ...]:
    """Return the state after the entry of seq `at`; by default after the last one.

    With `to`, return where the state after that entry differs from the one after `at`, as JSON
    pointers into the states.  A negative number counts from the end: -1 is the last entry, -2 the
    one before.

    Raises:
        EntryMissing: the log has no such entry.
        LogDamaged: an entry up to there does not verify.
    """
    if to is not None:
        return differences(state_json(_state(log, at)), state_json(_state(log, to, "to")))
    return _state(log, at)


def _state(log: str | PathLike[str], at: int | None, name: str = "at") -> RunState:
    path = fspath(log_path("state", log))
    if at is not None:
        check_seq("state", name, at)
    at = -1 if at is None else at
    fold = Fold()
    waiting: deque[Entry] = deque()  # of those at the end, how many there are is not known yet
    for entry in read_entries(path, resolve=True, torn_ok=True):
        waiting.append(entry)
        if len(waiting) >= -at:
            due = waiting.popleft()
            fold.apply(due.event, due.call, due.seq)
            if due.seq == at:
                return fold.state()
    if at >= 0 or fold.entries == 0:
        raise EntryMissing(path, at, fold.entries + len(waiting))
    return fold.state()


def refold_log(log: str | PathLike[str]) -> Refolded:
    """Fold the whole log, streaming, and compare the state with the recorded digest.

    Raises:
        LogDamaged: an entry does not verify.
        LogUnsupported: it was written by a newer version, or is not a log.
    """
    fold = Fold()
    digest = recorded = None
    facts = read_events(fspath(log))
    while (end := fold.follow(facts, until=RunFinished)) is not None:
        digest, recorded = state_digest(fold.state()), end[0].state_digest
        fold.apply(*end)
    last = fold.state()
    return Refolded(
        state=last,
        digest=digest or state_digest(last),
        recorded_digest=recorded,
        state_version=last.state_version,
    )
