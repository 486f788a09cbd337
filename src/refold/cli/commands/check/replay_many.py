"""`refold replay` over many logs: which programs they get, the table, the document, JUnit.

How many logs are re-executed side by side is `replay.bulk.bulk`'s.
Rules: CONTRACT.md §14.13.
"""

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from refold.cli.arguments.loading import load_tools
from refold.cli.arguments.logs import OpenedLog
from refold.cli.arguments.rehearsals import replayed
from refold.cli.output import output, words
from refold.cli.output.exit_codes import DAMAGED, DIFFERS, FAULT, FINE, USAGE
from refold.engine.ports.ports import Reference
from refold.engine.ports.programs import load_program
from refold.page.output_files import OutputFile
from refold.replay.bulk.bulk import Execute, find_logs, program_for, replay_logs, replay_row
from refold.replay.bulk.processes import Schedule
from refold.replay.bulk.report import BulkReport, LogResult
from refold.replay.difference.causes import ALL_HINT, CAUSES_SHOWN
from refold.replay.explain.junit import junit_xml
from refold.replay.reexecute.report import ReplayReport

_CODES: Final = (
    (DAMAGED, ("damaged",)),
    (DIFFERS, ("diverged", "timed out")),
    (FAULT, ("fault",)),
    (USAGE, ("program needed", "command needed", "refused", "not run")),
)
"""The worst first."""

_STYLES: Final = {
    "identical": "green",
    "program needed": "yellow",
    "command needed": "yellow",
    "refused": "yellow",
}
_NOT_RUN: Final = "not run"
_NAMED_MAX: Final = 3
"""Logs named above a shared message; the table has the rest."""
_LEFT_OUT_SHOWN: Final = 3
"""Logs whose uncompared parts are listed, unless all are asked for."""


def replay_many(paths: Sequence[Path], given: dict[str, Any], schedule: Schedule) -> BulkReport:
    """Re-execute all logs that `paths` name.

    Args:
        paths: of logs and folders.
        given: what `replayer` takes.
        schedule: how many at a time, and until when.

    Raises:
        LogMissing: a path does not exist, or there are no logs.
        ProgramNotFound: a program that was named cannot be imported.
    """
    logs = find_logs(paths)
    with output.stdout_kept():  # what cannot be imported is said before any process starts
        replayer(**given)
    execute = Reference(__name__, "replayer", given)
    done: list[LogResult] = []
    said = f"of {words.counted(len(logs), 'log')} re-executed"
    with output.stdout_kept(), output.progress(lambda: f"{len(done):,} {said}"):
        return replay_logs(logs, execute, schedule, done.append)


def replayer(programs: dict[str, str], tools: str, volatile: Sequence[str]) -> Execute:
    """Return what re-executes one log as `refold replay LOG` does; called in another process."""
    for program in programs.values():
        load_program(program)
    load_tools(tools)

    def execute(log: Path) -> LogResult:
        def again(path: Path, name: str) -> ReplayReport:
            program = program_for(path, name, programs)
            named = program if isinstance(program, str) else None
            return replayed(OpenedLog(path, log), named, tools, volatile)

        return replay_row(log, again)

    return execute


# --- what is said ----------------------------------------------------------------------------


def tell(report: BulkReport, junit: OutputFile | None, *, is_all: bool) -> int:
    """Print a report, write it for a CI service, and return the exit code (CONTRACT.md §14.13).

    The programs' output goes to standard error.
    """
    with contextlib.suppress(BrokenPipeError):
        if report.printed.strip():
            output.hint(output.safe_lines(report.printed.rstrip("\n")))
    if junit is not None:
        junit.write(junit_xml([report.suite()]))
    code = next(
        (code for code, names in _CODES if not report.counts.keys().isdisjoint(names)), FINE
    )
    return output.answer(_document(report), lambda: _describe(report, is_all=is_all), code)


def _document(report: BulkReport) -> dict[str, Any]:
    """Return the report as one document, paths as JSON can hold them."""
    document = report.as_json()
    for row in document["logs"]:
        row["log"] = output.shown_path(row["log"])
        for divergence in row["divergences"]:
            divergence["log"] = output.shown_path(divergence["log"])
    return document


def _describe(report: BulkReport, *, is_all: bool) -> None:
    """Print a row a log, and the problems below; with `is_all`, every divergence in full."""
    rows: list[list[output.Part]] = [["result", "entries", "seconds", "log"]]
    rows += [
        [
            (log.result + ", no end" * bool(log.ends_early), _STYLES.get(log.result, "red")),
            f"{log.entries:>7,}" if log.entries else f"{'':>7}",
            f"{'':>7}" if log.result == _NOT_RUN else f"{log.seconds:>7.2f}",
            output.shown_path(log.log),
        ]
        for log in report.logs
    ]
    output.table(rows)
    _describe_causes(report, is_all=is_all)
    ignored = sum(log.ignored for log in report.logs)
    took = words.seconds(round(report.seconds * 1000))
    output.line()
    output.line(
        (report.summary, "green" if report.identical else "bold red"),
        f"  {words.counted(len(report.logs), 'log')} in {took}, {report.jobs} at a time",
    )
    left_out = [log for log in report.logs if log.not_compared]
    for log in left_out[: None if is_all else _LEFT_OUT_SHOWN]:
        said = f"not compared: {', '.join(log.not_compared)}"
        output.line((f"{output.shown_path(log.log)}: {said}", "yellow"))
    if len(left_out) > _LEFT_OUT_SHOWN and not is_all:
        more = words.counted(len(left_out) - _LEFT_OUT_SHOWN, "more log")
        output.line(
            (f"and {more} with something that was not compared: to list them, add --all", "yellow")
        )
    if ignored:
        output.line((f"{words.counted(ignored, 'volatile value')} changed", "dim"))


def _describe_causes(report: BulkReport, *, is_all: bool) -> None:
    """Print each cause below its logs, or all divergences of each log; then other problems."""
    names = {id(each): log.log for log in report.logs for each in log.divergences}
    if is_all:
        for log in report.logs:
            for each in log.divergences:
                _tell([log.log], each.in_full())
    for one in () if is_all else report.causes[:CAUSES_SHOWN]:
        _tell([*dict.fromkeys(names[id(leaf)] for leaf in one.leaves)], str(one))
    if not is_all and len(report.causes) > CAUSES_SHOWN:
        more = words.counted(len(report.causes) - CAUSES_SHOWN, "more cause")
        output.line()
        output.line((f"{more}: {ALL_HINT}", "dim"))
    problems: dict[str, list[str]] = {}
    for log in report.logs:
        if log.result not in ("identical", _NOT_RUN) and not log.divergences:
            problems.setdefault(f"{log.result}: {log.message}", []).append(log.log)
    for text, logs in problems.items():
        _tell(logs, text)


def _tell(logs: list[str], text: str) -> None:
    output.line()
    for each in logs[:_NAMED_MAX]:
        output.line((output.shown_path(each), "bold"))
    if len(logs) > _NAMED_MAX:
        output.line((f"… and {len(logs) - _NAMED_MAX:,} more", "bold"))
    output.wrapped(["  "], "", text) if "\n" not in text else output.lines(text)
