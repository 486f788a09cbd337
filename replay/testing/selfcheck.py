"""Self-replay: a run is re-executed right after it was recorded, under the tripwire.

A program that behaves differently the second time is found immediately, and not only when its log
is needed. A program that matched by luck gets a list of its reads of the world. A fresh process
reveals state that is constant within one process: the order of sets, the time zone, module caches.
`record` does not know of this: the public function calls `checked` and `checked_elsewhere` for
`check=True` or `REFOLD_CHECK=1`. The rule is CONTRACT.md §12.12.
"""

import asyncio
import contextlib
import os
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs

from refold.engine.errors import Nondeterministic
from refold.engine.ports.ports import Reference, SessionPort
from refold.engine.recording.workers import in_thread
from refold.engine.runners.recorded import Recording
from refold.replay.bulk.processes import NotBegun, Row, Schedule, in_processes
from refold.replay.bulk.report import LogResult
from refold.replay.reexecute.apart import WALL_SECONDS
from refold.replay.reexecute.report import ReplayReport
from refold.replay.testing.tripwire import Finding, Tripwire

if TYPE_CHECKING:
    from refold.replay.bulk.bulk import Execute

_HASH_SEEDS: Final = ("20", "31", "42")
_TIME_ZONES: Final = ("<+1337>-13:37", "<-0823>+08:23")
"""Unused time zones, so that hours and minutes differ from those in any recording.

One process is started for each: of four texts in a set, the same one may come first by chance.
"""
_ELSEWHERE: Final = (
    " in a new process, with a different hash seed, time zone, working directory and command line"
)
_UNSEEN: Final = (
    "not checked: whether it depends on the order of sets, the time zone, "
    "the working directory, or values that are kept in a module"
)

_UNIMPORTABLE: Final = (
    "it cannot import the program, or a tool that it needs (does the file call refold.record "
    'outside of `if __name__ == "__main__":`?)'
)

_UNCHECKED: Final = ("suspended",)
"""A run that waits for a person has not ended: nothing to compare its end with."""


@attrs.frozen
class Watched:
    """A re-execution, and what its programs read beside `run`."""

    report: ReplayReport
    findings: tuple[Finding, ...]


def watched(reexecute: Callable[[], ReplayReport]) -> Watched:
    """Call `reexecute` under the tripwire.

    Programs of unfinished records run in separate processes, without the tripwire.
    """
    if asyncio._get_running_loop() is not None:  # noqa: SLF001 - None instead of an error
        return in_thread(lambda: watched(reexecute))
    with Tripwire() as wire:
        report = reexecute()
    return Watched(report, wire.findings)


def checked(recording: Recording, reexecute: Callable[[], ReplayReport]) -> Recording:
    """Return the recording, with the tripwire's findings among its `warnings`.

    Raises:
        Nondeterministic: the re-execution was not identical.
    """
    if recording.status in _UNCHECKED:
        return recording
    seen = watched(reexecute)
    if not seen.report.identical:
        first = seen.report.divergences[0]
        raise Nondeterministic(str(recording.log), recording, first, seen.findings)
    found = map(str, seen.findings)
    return attrs.evolve(recording, warnings=(*recording.warnings, *found))


def checked_elsewhere(recording: Recording, execute: "Execute | Reference") -> Recording:
    """Return the recording, with a warning if it could not be run again in another process.

    `execute` re-executes a log; by reference, or another process cannot import all that it needs.

    Raises:
        Nondeterministic: a re-execution in a fresh process was not identical.
    """
    if recording.status in _UNCHECKED:
        return recording
    if not isinstance(execute, Reference):
        return _unchecked(recording, _UNIMPORTABLE)
    mine = os.environ.get("PYTHONHASHSEED")
    seeds = [seed for seed in _HASH_SEEDS if seed != mine][: len(_TIME_ZONES)]
    with ThreadPoolExecutor(len(seeds)) as pool:
        places = zip(seeds, _TIME_ZONES, strict=True)
        rows = list(pool.map(lambda place: _row_elsewhere(recording.log, execute, *place), places))
    for row in rows:
        if row.divergences:
            first = row.divergences[0]
            raise Nondeterministic(str(recording.log), recording, first, (), _ELSEWHERE)
    odd = next((row for row in rows if row.result != "identical"), None)
    return _unchecked(recording, odd.message or odd.result) if odd is not None else recording


def _row_elsewhere(log: Path, execute: Reference, hash_seed: str, time_zone: str) -> LogResult:
    """Re-execute a log in a fresh process."""
    with tempfile.TemporaryDirectory(prefix="refold-check-") as folder:
        other = {"PYTHONHASHSEED": hash_seed, "TZ": time_zone, "REFOLD_CHECK": "0"}
        rows: list[Row] = []
        with contextlib.suppress(NotBegun):
            in_processes(
                [Path(os.path.abspath(log))],  # noqa: PTH100 - links stay as they were given
                execute,
                lambda _index, row: rows.append(row),
                Schedule(jobs=1, timeout_seconds=WALL_SECONDS),
                env={**os.environ, **other},
                cwd=Path(folder),
            )
    if rows:
        return LogResult.from_json(rows[0])
    return LogResult(log=str(log), result="refused", message=_UNIMPORTABLE)


def _unchecked(recording: Recording, why: str) -> Recording:
    text = f"not run again in a different process: {why}; {_UNSEEN}"
    return attrs.evolve(recording, warnings=(*recording.warnings, text))


def twin_of(session: SessionPort | None) -> Any:
    """Return an empty session with the reducers of `session`, which is left alone."""
    make = getattr(session, "empty", None)
    return make() if make is not None else session
