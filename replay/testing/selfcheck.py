"""Self-replay: a run is re-executed right after it was recorded, resumed or forked.

A program that behaves differently the second time is found immediately, and not only when its log
is needed. A program that matched by luck gets a list of its reads of the world. A fresh process
reveals state that is constant within one process: the order of sets, the time zone, module caches,
and variables that a tool or a child of an earlier attempt filled.
The engine does not know of this: the public functions call `checked` and `checked_elsewhere` for
`check=True` or `REFOLD_CHECK=1`, and `replayed_elsewhere` for each resume and fork. The rule is
CONTRACT.md §12.12.
"""

import contextlib
import os
import tempfile
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs

from refold.engine.errors import Nondeterministic
from refold.engine.ports.ports import Reference, SessionPort
from refold.engine.ports.programs import load
from refold.engine.recording.workers import beside_loop
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
    "not run again in a different process: {why}; not checked: whether it depends on the order of "
    "sets, the time zone, the working directory, or values that are kept in a module"
)
_UNREPLAYED: Final = (
    "{log}: {program} was not replayed in a new process: {why}; not checked: whether the program "
    "reads variables that a tool or a child changed before the run continued"
)
_DIFFERS: Final = (
    "{log}: a replay in a new process differs, so the result may be wrong: the program may read "
    "a variable that a tool or a child changed before the run continued\n{divergence}"
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

    def under_watch() -> Watched:
        with Tripwire() as wire:
            report = reexecute()
        return Watched(report, wire.findings)

    return beside_loop(under_watch)


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
    return _warned(recording, *map(str, seen.findings))


def checked_elsewhere(recording: Recording, execute: "Execute | Reference") -> Recording:
    """Return the recording, with what two different processes found among its `warnings`.

    `execute` re-executes a log; by reference, or another process cannot import all that it needs.
    The tripwire is active there too: a process that has just recorded does not read again what it
    keeps, such as the result of a cached function.

    Raises:
        Nondeterministic: a re-execution in a fresh process was not identical.
    """
    if recording.status in _UNCHECKED:
        return recording
    if not isinstance(execute, Reference):
        return _warned(recording, _UNSEEN.format(why=_UNIMPORTABLE))
    under_wire = Reference(__name__, "watching", {"execute": attrs.asdict(execute)})
    mine = os.environ.get("PYTHONHASHSEED")
    seeds = [seed for seed in _HASH_SEEDS if seed != mine][: len(_TIME_ZONES)]

    def row(hash_seed: str, time_zone: str) -> tuple[LogResult, list[str]]:
        with tempfile.TemporaryDirectory(prefix="refold-check-") as folder:
            other = {"PYTHONHASHSEED": hash_seed, "TZ": time_zone}
            return _rows_elsewhere([recording.log], under_wire, other, Path(folder))[0]

    with ThreadPoolExecutor(len(seeds)) as pool:
        rows = list(pool.map(row, seeds, _TIME_ZONES))
    found = [finding for _, findings in rows for finding in findings]
    recording = _warned(recording, *found)
    for result, findings in rows:
        if result.divergences:
            first = result.divergences[0]
            log = str(recording.log)
            raise Nondeterministic(log, recording, first, tuple(findings), _ELSEWHERE)
    odd = next((result for result, _ in rows if result.result != "identical"), None)
    if odd is not None:
        return _warned(recording, _UNSEEN.format(why=odd.message or odd.result))
    return attrs.evolve(recording, replays=True)


def replayed_elsewhere(
    recording: Recording,
    program: str,
    execute: "Execute | Reference",
    origin: Path | None = None,
) -> Recording:
    """Return a continued recording, with a warning if its log does not replay in a new process.

    Tools and children of an earlier attempt, or of the origin, were not executed again, so the
    variables that they changed had other values in this process. A replay executes no tool, so it
    differs if the program reads such a variable. A fork that executes no tool either replays, and
    its `origin` differs. `program` is its name, `execute` as above.
    """
    if recording.status in _UNCHECKED:
        return recording
    logs = [recording.log, *filter(None, [origin])]
    results = [LogResult(log=str(recording.log), result="refused", message=_UNIMPORTABLE)]
    if isinstance(execute, Reference):
        results = [result for result, _ in _rows_elsewhere(logs, execute, {}, None)]
    own, *others = results
    others = [other for other in others if _is_of_the_program(other)]
    for log, result in zip(logs, [own, *others], strict=False):
        if result.divergences:
            text = _DIFFERS.format(log=log, divergence=result.divergences[0])
            return attrs.evolve(_warned(recording, text), replays=False)
    if own.result != "identical":
        why = own.message or own.result
        text = _UNREPLAYED.format(log=recording.log, program=program, why=why)
        return _warned(recording, text)
    return attrs.evolve(recording, replays=True)


def _is_of_the_program(origin: LogResult) -> bool:
    """Return whether an origin has another output with the program that recorded it.

    People edit programs before they fork: then the origin differs, and the fork is right.
    """
    edits = {"source", "program"}
    first = origin.divergences[:1]
    return any(
        each.category == "output_changed" and not edits & each.fingerprints.keys() for each in first
    )


@attrs.frozen
class _WatchedRow:
    """A row with the tripwire's findings, which other rows do not have."""

    row: LogResult
    findings: tuple[Finding, ...]

    def as_json(self) -> Row:
        return self.row.as_json() | {"findings": list(map(str, self.findings))}


def watching(execute: dict[str, Any]) -> Callable[[Path], _WatchedRow]:
    """Return what re-executes a log under the tripwire, in a process that finds it by reference."""
    plain: Execute = load(Reference(**execute))

    def watched_row(log: Path) -> _WatchedRow:
        with Tripwire() as wire:
            row = plain(log)
        return _WatchedRow(row, wire.findings)

    return watched_row


def _rows_elsewhere(
    logs: list[Path], execute: Reference, env: Mapping[str, str], cwd: Path | None
) -> list[tuple[LogResult, list[str]]]:
    """Re-execute logs in a fresh process; return for each its row and the findings there."""
    refused = LogResult(log=str(logs[0]), result="refused", message=_UNIMPORTABLE)
    rows: dict[int, tuple[LogResult, list[str]]] = {}

    def take(index: int, row: Row) -> None:
        findings = row.pop("findings", [])
        rows[index] = LogResult.from_json(row), findings

    with contextlib.suppress(NotBegun):
        in_processes(
            [Path(os.path.abspath(log)) for log in logs],  # noqa: PTH100 - links stay as they were given
            execute,
            take,
            Schedule(jobs=1, timeout_seconds=WALL_SECONDS),
            env={**os.environ, **env, "REFOLD_CHECK": "0"},
            cwd=cwd,
        )
    return [rows.get(index, (refused, [])) for index in range(len(logs))]


def _warned(recording: Recording, *texts: str) -> Recording:
    """Return the recording with more warnings, each of them once."""
    warnings = dict.fromkeys((*recording.warnings, *texts))
    return attrs.evolve(recording, warnings=tuple(warnings))


def twin_of(session: SessionPort | None) -> Any:
    """Return an empty session with the reducers of `session`, which is left alone."""
    make = getattr(session, "empty", None)
    return make() if make is not None else session
