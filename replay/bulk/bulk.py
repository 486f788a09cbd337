"""Many logs re-executed in parallel (CONTRACT.md §14.13).

Logs are re-executed in separate processes, so a program that ends its process or changes global
state does not affect other logs' results. One helper process imports everything once and is forked
for a few logs at a time (`replay.bulk.processes`). If the programs exist only in this process, the
logs are re-executed here, one after the other. The caller passes the function that re-executes one
log: the command line knows the tools that Refold ships, `replay` knows none. `replay.bulk.report`
reports the results.
"""

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import attrs

from refold.engine import errors
from refold.engine.log.damage import TORN_TAIL
from refold.engine.log.names import (
    PACKED_SUFFIX,
    is_runs,
    log_path,
    missing_roots,
    without_children,
)
from refold.engine.log.pack import opened
from refold.engine.log.reader import read_entries
from refold.engine.ports.ports import Program, Reference
from refold.engine.ports.programs import load, names_shipped, program_name, program_needed
from refold.replay.audit.verify import verify
from refold.replay.bulk.processes import NotBegun, OnRow, Row, Schedule, in_processes
from refold.replay.bulk.report import BulkReport, LogResult, Result, is_bad, not_run
from refold.replay.explain.divergence import HEADLINES
from refold.replay.index.guarantee import is_observed
from refold.replay.reexecute.report import ReplayReport
from refold.replay.reexecute.world import first_event

Programs = Mapping[str, Program | Reference | str]
"""By the name that the logs show."""


Execute = Callable[[Path], LogResult]
"""Re-executes one log, named as it was given; raises nothing."""


# --- which logs ------------------------------------------------------------------------------


def find_logs(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]], call: str = "reexecute"
) -> list[Path]:
    """Return the logs that `paths` name: files as given, and all root logs below folders.

    A root log that is not there counts, if other files of its run are.  `call` is the public
    function with this argument, for errors.

    Packed logs are included; hidden files and folders, and links to folders, are not. Each file
    occurs once, and the logs of a folder are in the order of their names. A child's log that is
    named together with its root's, as a shell does for `*.jsonl`, is skipped.

    Raises:
        LogMissing: a path does not exist, or no log is found.
    """
    found: dict[Path, None] = {}
    if isinstance(paths, str | os.PathLike) or not isinstance(paths, Iterable):
        paths = [paths]
    given = [log_path(call, path) for path in paths]
    for path in given:
        if path.is_dir():
            found |= dict.fromkeys(_below(path))
        elif path.exists():
            found[path] = None
        else:
            raise errors.LogMissing(str(path), "no such file or folder")
    if not found:
        where = ", ".join(map(str, given)) or "nothing given"
        raise errors.LogMissing(where, "no root logs in this folder or below")
    return without_children(found)


def _below(folder: Path) -> list[Path]:
    logs: list[Path] = []
    for place, folders, files in os.walk(folder):
        lost = missing_roots((*folders, *files))
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        logs += filter(is_runs, (Path(place, name) for name in sorted((*files, *lost))))
    return logs


# --- one log ---------------------------------------------------------------------------------


def named(program: Program | Reference | str | Programs | None) -> Programs:
    """Return programs by name: one alone goes by its own."""
    if program is None:
        return {}
    if isinstance(program, Mapping):
        return program
    return {program_name(program): program}


def program_for(log: Path, name: str, programs: Programs) -> Program | Reference | str | None:
    """Return the program of `log`, which names it `name`; `None` for one that Refold ships.

    Raises:
        ProgramNotFound: it is neither given nor shipped.
    """
    if name in programs:
        return programs[name]
    if names_shipped(first_event(log)):
        return None
    raise program_needed(name, programs)


def replay_row(given: Path, reexecute: Callable[[Path, str], ReplayReport]) -> LogResult:
    """Re-execute one log with `reexecute(path, program name)`, and return its result.

    A log is verified first, so a damaged log is never called identical or different.
    """
    program = ""
    try:
        with opened(given) as path:
            program = _program_of(path)
            _refuse_damage(path)
            if is_observed(path):
                return _watched(given, program)
            return _row(given, program, reexecute(path, program))
    except (errors.ProgramNeeded, errors.ProgramNotFound) as error:
        return _bad(given, program, "program needed", error)
    except (errors.LogError, errors.LogMissing, errors.LogNameRefused) as error:
        if isinstance(error, errors.LogDamaged | errors.LogUnsupported):
            error.path = shown(given, Path(error.path))
        return _bad(given, program, "damaged", error)
    except errors.RefoldError as error:
        return _bad(given, program, "refused", error)
    except Exception as error:  # noqa: BLE001 - one log's failure is no other's
        return _bad(given, program, "fault", error)


def _program_of(path: Path) -> str:
    first = next(read_entries(path))
    name = first.data.get("program")
    if first.kind != "run.started" or not isinstance(name, str):
        raise errors.EventMalformed(
            first.kind, "/program", "run.started, with a program", f"{name!a:.40}"
        )
    return name


def _refuse_damage(path: Path) -> None:
    found = verify(path).damage
    damage = next((one for one in found if one.what != TORN_TAIL), None)
    if damage is not None:
        raise damage.as_error()


def _row(given: Path, program: str, report: ReplayReport) -> LogResult:
    divergences = tuple(
        attrs.evolve(divergence, log=shown(given, Path(divergence.log)))
        for divergence in report.divergences
    )
    first = divergences[0] if divergences else None
    is_damaged = any(divergence.category == "log_damaged" for divergence in divergences)
    return LogResult(
        log=os.fspath(given),
        result="damaged" if is_damaged else "diverged" if first else "identical",
        program=program,
        category=first.category if first else "",
        where=first.where if first else "",
        message=HEADLINES[first.category] if first else "",
        entries=report.entries,
        children=report.children,
        ignored=report.ignored_count,
        not_compared=(
            *report.not_compared,
            *(
                f"what comes after the last entry of {name}, which has no end"
                for name in report.ends_early
            ),
        ),
        ends_early=report.ends_early,
        divergences=divergences,
    )


def shown(given: Path, log: Path) -> str:
    """Return how a log is named to people: one of a packed file never by where it was unpacked."""
    return f"{given}:{log.name}" if given.suffix == PACKED_SUFFIX else str(log)


def _watched(given: Path, program: str) -> LogResult:
    """Return the row of a watched command's log, which nothing here can run again."""
    message = "a watched command: needs -- COMMAND (refold replay LOG -- COMMAND runs it again)"
    return LogResult(
        log=os.fspath(given), result="command needed", program=program, message=message
    )


def _bad(given: Path, program: str, result: Result, error: Exception) -> LogResult:
    is_ours = isinstance(error, errors.RefoldError)
    said = str(error) if is_ours else f"{type(error).__name__}: {error}"
    category = "log_damaged" if isinstance(error, errors.LogDamaged) else ""
    message = " ".join(said.split())
    return LogResult(
        log=os.fspath(given), result=result, program=program, category=category, message=message
    )


# --- all of them -----------------------------------------------------------------------------

OnVerdict = Callable[[LogResult], None]
"""Called with each log's result as soon as it is known."""


def replay_logs(
    logs: Sequence[Path],
    execute: Execute | Reference,
    schedule: Schedule,
    on_verdict: OnVerdict | None = None,
) -> BulkReport:
    """Re-execute `logs` and report on each, in their order.

    Args:
        logs: As returned by `find_logs`.
        execute: The function that re-executes one log. A reference runs in separate processes. A
            function, or a reference that cannot be imported elsewhere, runs in this process, one
            log after the other.
        schedule: The number at a time, and the time limit.
        on_verdict: Called for each log in the order of completion.

    Raises:
        UsageError: a time limit was given for logs that are re-executed in this process.
    """
    tell = on_verdict or (lambda _row: None)
    began = time.monotonic()
    if isinstance(execute, Reference):
        rows: dict[int, LogResult] = {}

        def take(index: int, row: Row) -> None:
            rows[index] = LogResult.from_json(row)
            tell(rows[index])

        most, printed = in_parallel(logs, execute, take, schedule)
        if printed is not None:
            told = tuple(rows[index] for index in range(len(logs)))
            return BulkReport(logs=told, seconds=_since(began), jobs=most, printed=printed)
    if schedule.timeout_seconds is not None:
        raise errors.UsageError(
            "timeout_seconds: this needs programs, tools and sessions that another process "
            "can import: define them at module level, or pass them as module:name or "
            "file.py:name"
        )
    here: Execute = load(execute) if isinstance(execute, Reference) else execute
    told = _here(logs, here, tell, fail_fast=schedule.fail_fast)
    return BulkReport(logs=told, seconds=_since(began), jobs=1)


def in_parallel(
    logs: Sequence[Path], execute: Reference, on_row: OnRow, schedule: Schedule
) -> tuple[int, str | None]:
    """Return how many logs were judged at a time, and their printed output.

    The output is `None` if a separate process cannot import the function.
    """
    most = min(schedule.jobs or processors(), len(logs))
    try:
        return most, in_processes(logs, execute, on_row, attrs.evolve(schedule, jobs=most))
    except NotBegun:
        return most, None


def _here(
    logs: Sequence[Path], execute: Execute, on_verdict: OnVerdict, *, fail_fast: bool
) -> tuple[LogResult, ...]:
    rows: list[LogResult] = []
    for log in logs:
        if fail_fast and any(is_bad(row) for row in rows):
            rows.append(not_run(os.fspath(log)))
        else:
            began = time.monotonic()
            rows.append(attrs.evolve(execute(log), seconds=_since(began)))
        on_verdict(rows[-1])
    return tuple(rows)


def _since(began: float) -> float:
    return round(time.monotonic() - began, 6)


def processors() -> int:
    """Return how many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
