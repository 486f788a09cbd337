"""Many logs re-executed in parallel (CONTRACT.md §14.13).

Logs are re-executed in separate processes, so a program that ends its process or changes global
state does not affect other logs' results. One helper process imports everything once and is forked
for a few logs at a time (`replay.bulk.processes`). If the programs exist only in this process, the
logs are re-executed here, one after the other. The caller passes the function that re-executes one
log: the command line knows the tools that Refold ships, `replay` knows none. `replay.bulk.report`
reports the results. Verification of many logs executes nothing: one that cannot be read, or that
ends its process, is not intact and stops no other.
"""

import contextlib
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs

from refold.engine import errors
from refold.engine.encoding.document import Document
from refold.engine.log.damage import TORN_TAIL
from refold.engine.log.names import (
    PACKED_SUFFIX,
    each_once,
    is_runs,
    log_path,
    missing_roots,
    without_children,
)
from refold.engine.log.pack import opened
from refold.engine.log.reader import read_entries
from refold.engine.ports.ports import Program, Reference
from refold.engine.ports.programs import load, names_shipped, program_name, program_needed
from refold.replay.audit.verify import LogReport, Verification, unread, verify
from refold.replay.bulk.processes import VERIFIED, NotBegun, OnRow, Row, Schedule, in_processes
from refold.replay.bulk.report import BAD, BulkReport, LogResult, Result, not_run
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
    occurs once, a link to another of them not at all, and the logs of a folder are in the order of
    their names. A child's log that is named together with its root's, as a shell does for
    `*.jsonl`, is skipped.

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
    return each_once(without_children(found))


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
            if is_observed(path):  # nothing here can run it again
                return _bad(given, program, "command needed", errors.UsageError(_WATCHED))
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


def _refuse_damage(path: Path) -> None:
    damage = next((one for one in verify(path).damage if one.what != TORN_TAIL), None)
    if damage is not None:
        raise damage.as_error()


def _program_of(path: Path) -> str:
    first = next(read_entries(path))
    name = first.data.get("program")
    if first.kind != "run.started" or not isinstance(name, str):
        raise errors.EventMalformed(
            first.kind, "/program", "run.started, with a program", f"{name!a:.40}"
        )
    return name


def _row(given: Path, program: str, report: ReplayReport) -> LogResult:
    divergences = tuple(
        attrs.evolve(each, log=shown(given, Path(each.log))) for each in report.divergences
    )
    first = divergences[0] if divergences else None
    is_damaged = any(each.category == "log_damaged" for each in divergences)
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
        not_compared=(*report.not_compared, *(_BEHIND.format(name) for name in report.ends_early)),
        ends_early=report.ends_early,
        divergences=divergences,
    )


def shown(given: Path, log: Path) -> str:
    """Return how a log is named to people: one of a packed file never by where it was unpacked."""
    return f"{given}:{log.name}" if given.suffix == PACKED_SUFFIX else str(log)


_BEHIND: Final = "what comes after the last entry of {}, which has no end"
_WATCHED: Final = "a watched command: needs -- COMMAND (refold replay LOG -- COMMAND runs it again)"


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

        most = min(schedule.jobs or processors(), len(logs))
        with contextlib.suppress(NotBegun):
            printed = in_processes(logs, execute, take, attrs.evolve(schedule, jobs=most))
            told = tuple(rows[index] for index in range(len(logs)))
            return BulkReport(logs=told, seconds=_since(began), jobs=most, printed=printed)
    if schedule.timeout_seconds is not None:
        raise errors.UsageError(
            "timeout_seconds: this needs programs, tools and sessions that another process "
            "can import: define them at module level, or pass them as module:name or "
            "file.py:name"
        )
    here: Execute = load(execute) if isinstance(execute, Reference) else execute
    done: list[LogResult] = []
    for log in logs:
        if schedule.fail_fast and any(row.result in BAD for row in done):
            done.append(not_run(os.fspath(log)))
        else:
            start = time.monotonic()
            done.append(attrs.evolve(here(log), seconds=_since(start)))
        tell(done[-1])
    return BulkReport(logs=tuple(done), seconds=_since(began), jobs=1)


def _since(began: float) -> float:
    return round(time.monotonic() - began, 6)


def processors() -> int:
    """Return how many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


# --- verified, not executed --------------------------------------------------------------------


_LOGS_EACH: Final = 1_000
"""So many logs repay the start of a process that verifies some of them."""

OnVerification = Callable[[Verification], None]
"""Called with each tree's verification as soon as it is known."""


@attrs.frozen(kw_only=True)
class VerifiedLog(Document):
    """A tree that was verified, as it crosses processes."""

    log: str
    result: str = VERIFIED
    seconds: float = 0.0
    logs: tuple[LogReport, ...]


def verifier() -> Callable[[Path], VerifiedLog]:
    """Return what verifies one tree; called in another process."""
    return lambda log: VerifiedLog(log=os.fspath(log), logs=verified(log).logs)


def verify_logs(
    logs: Sequence[Path], schedule: Schedule, on_verdict: OnVerification | None = None
) -> tuple[Verification, ...]:
    """Verify each of `logs` and the logs below it, and report in their order.

    With an empty `schedule`, separate processes are started only for
    thousands of logs.

    Raises:
        UsageError: as `replay_logs`.
    """
    trees: dict[int, Verification] = {}

    def take(index: int, tree: Verification) -> None:
        trees[index] = tree
        if on_verdict is not None:
            on_verdict(tree)

    jobs = schedule.jobs
    if schedule.timeout_seconds is None:
        jobs = jobs or min(processors(), len(logs) // _LOGS_EACH) or 1
        if jobs == 1:
            for index, log in enumerate(logs):
                take(index, verified(log))
            return tuple(trees.values())
    jobs = min(jobs or processors(), len(logs))
    told: OnRow = lambda index, row: take(index, _tree_of(row))  # noqa: E731 - one line
    execute = Reference(__name__, "verifier", {})
    in_processes(logs, execute, told, attrs.evolve(schedule, jobs=jobs))
    return tuple(trees[index] for index in range(len(logs)))


def _tree_of(row: Row) -> Verification:
    if row["result"] == VERIFIED:
        return Verification(VerifiedLog.from_json(row).logs)
    return unread(row["log"], row["message"], row["result"])


def verified(given: Path) -> Verification:
    """Return the verification of one tree, packed or not; never raises for its content."""
    try:
        with opened(given) as path:
            tree = verify(path)
    except errors.RefoldError as error:
        if isinstance(error, errors.LogDamaged | errors.LogMissing | errors.LogUnsupported):
            error.path = shown(given, Path(error.path))
        what = error.what if isinstance(error, errors.LogUnsupported) else "not a log"
        return unread(str(given), str(error), what)
    except Exception as error:  # noqa: BLE001 - whoever can hash can write nonsense that chains
        return unread(str(given), f"{type(error).__name__}: {error}", "not a log")
    return Verification(tuple(_as_given(report, given) for report in tree.logs))


def _as_given(report: LogReport, given: Path) -> LogReport:
    damage = tuple(attrs.evolve(each, path=shown(given, Path(each.path))) for each in report.damage)
    return attrs.evolve(report, path=shown(given, Path(report.path)), damage=damage)
