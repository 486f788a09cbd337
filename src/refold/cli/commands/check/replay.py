"""`refold replay`: re-execute a recorded program against its log (CONTRACT.md §12).

One log is described in full, also with live outcomes (§12.10); many are a table, whose logs
`replay.bulk.bulk` re-executes side by side (§14.13).
"""

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click

from refold.api import drift
from refold.cli.arguments.foreign import (
    Foreign,
    OfCommands,
    OfPrograms,
    WithCommand,
    command_given,
    command_option,
    parts_of,
    program_option,
)
from refold.cli.arguments.live import Live, live_of
from refold.cli.arguments.loading import import_from_here, is_plain, load_tools, programs_of
from refold.cli.arguments.logs import OpenedLog, named, opened_log, started
from refold.cli.arguments.options import argument, chosen, declared, limit_option, option
from refold.cli.arguments.outputs import output_option
from refold.cli.arguments.rehearsals import replayed
from refold.cli.arguments.run_names import RUNS, one_run
from refold.cli.output import output, words
from refold.cli.output.exit_codes import DAMAGED, DIFFERS, FAULT, FINE, MISSING, USAGE
from refold.engine.errors import RefoldError
from refold.engine.log.damage import TORN_TAIL
from refold.engine.log.names import tree
from refold.engine.ports.ports import Reference
from refold.engine.ports.programs import load_program
from refold.page.output_files import OutputFile
from refold.proxy.http.turns import OnMiss, Pace
from refold.replay.audit.verify import verify
from refold.replay.bulk.bulk import Execute, find_logs, program_for, replay_logs, replay_row
from refold.replay.bulk.processes import Schedule
from refold.replay.bulk.report import BulkReport, LogResult
from refold.replay.difference.causes import ALL_HINT, CAUSES_SHOWN
from refold.replay.explain.junit import junit_xml
from refold.replay.index.standing import standing_text
from refold.replay.partial.drift_report import DriftReport
from refold.replay.reexecute.report import ReplayReport
from refold.replay.testing.selfcheck import Watched, watched


@declared("replay", cls=WithCommand)
def command(
    *,
    logs: tuple[Path, ...] = argument(RUNS, "LOG…", nargs=-1, required=True),
    programs: tuple[str, ...] = program_option(
        "The program: module:name or file.py:name; not for built-in ones.  Several logs get the "
        "program of their name, or the one given with NAME=.",
        "--program [NAME=]MODULE:NAME",
    ),
    live: Live = chosen(OfPrograms, may_change=click.Option),
    rules: dict[str, str] = program_option(
        "With live calls: rule that compares results of a tool, or of `model`, `child` or `*`: "
        "exact, text, subset or numbers:0.01.",
        "--compare NAME=RULE",
    ),
    twice: bool = program_option(
        "With live calls: run twice, and count differences between both runs as noise."
    ),
    limits: dict[str, Any] = limit_option(
        ("jobs", "timeout"),
        "jobs: number of logs to replay at the same time, by default one per processor; timeout: "
        "seconds for each log, which is then reported as `timed out`.",
        cls=OfPrograms,
    ),
    tripwire: bool = program_option(
        "List lines that read clocks, randomness, environment, files or sockets directly."
    ),
    on_miss: OnMiss = command_option(
        "Refuse model requests that were not recorded, send them, or answer a changed "
        "request as it was recorded, to list all changes.",
        default="fail",
    ),
    pace: Pace = command_option(
        "Answer immediately, or after the recorded delays.", default="full"
    ),
    foreign: Foreign = chosen(OfCommands, volatile=click.Option),
    into: Path | None = option(
        "With live calls or -- COMMAND: also record the new run in this log."
    ),
    is_all: bool = option("List every divergence, and later differences."),
    junit: OutputFile | None = output_option("Also write the results as JUnit XML.", kind="junit"),
) -> int:
    r"""Run a recorded program again with the recorded results, and compare.

    Only the program is executed, without tools, models and child processes.  Every request, and
    the end of every run, has to match the log.

    Refold does not import code that a log names, so pass the program, unless it is a built-in
    one.

    LOG can also be a folder, to replay all root logs below it, and can be repeated.  Several
    logs, or one LOG with --limit or --junit, are replayed in separate processes.

    With --live, --model or a live --source, the program runs again with live outcomes, and each
    call is compared with the log: it can be the same, new or missing, or have a different result or
    different arguments.  Differences that may have been caused by an earlier changed result are
    marked as consequent.

    With -- COMMAND, LOG is a log of `refold record`: the command runs again, and its requests are
    answered from the log.  It runs in a copy of the recorded folder, and in a sandbox without a
    network if `bwrap` works here.  It executes the recorded tool calls, so if somebody else
    recorded LOG, look at them first with `refold show LOG --effects`.  A LOG that was not recorded
    on this machine is refused without a sandbox; at a terminal, Refold asks before it replays one
    in a sandbox.  --yes skips both.

    Examples:
      refold replay runs/demo.jsonl
      refold replay runs/audit.jsonl --program audit.py:audit
      refold replay runs/audit.jsonl --program app.audit:main \
             --tools app.tools:TOOLS --json
      refold replay runs/audit.jsonl --program audit.py:audit --tripwire
      refold replay runs --program audit.py:audit --junit replay.xml
      refold replay answer.jsonl --model openai:gpt-4.1
      refold replay audit.jsonl --program app.py:audit --tools app:TOOLS \
             --live --source model=recorded --compare search=text --twice
      refold replay runs/agent.jsonl -- python agent.py
      refold replay runs old.refold --limit jobs=4 --limit timeout=60 \
             --program audit=app.audit:main --program survey.py:survey

    Live tools with the effect `changes` run only with --yes; otherwise, a call
    that matches the log gets its recorded result.

    Exit code: 0 identical · 1 a divergence · 2 nothing to replay · 3 a damaged
    log · 4 a live run needs a result that was not recorded.  For several logs,
    the worst: 3, 1 (diverged, timed out), 70 (a fault), 2 (program needed,
    refused), 0.
    """
    again = command_given()
    is_live = not live.is_all_recorded
    if len(logs) == 1 and (again is not None or is_live or tripwire):
        logs = (one_run(logs[0]),)
    is_one = len(logs) == 1 and not logs[0].is_dir()
    if again is not None:
        if not is_one:
            raise click.UsageError("with -- COMMAND, replay one log at a time")
        from refold.cli.commands.foreign_runs import replay_foreign  # noqa: PLC0415 - wire formats

        how: dict[str, Any] = {"on_miss": on_miss, "pace": pace, "into": into, "is_all": is_all}
        how |= {"junit": junit, "is_sure": live.may_change, "copying": foreign.copying()}
        return replay_foreign(logs[0], again, **how, **foreign.passed())
    for log in logs[1:]:
        if not log.exists():
            raise click.UsageError(f"{log}: no such log; a command to run follows --")
    import_from_here(None, *programs)
    volatile = parts_of(foreign.volatile)
    if (is_live or tripwire) and (not is_one or limits or (tripwire and junit)):
        what = "live calls need" if is_live else "--tripwire needs"
        raise click.UsageError(f"{what} one log, without --limit{' and --junit' * tripwire}")
    if not is_live and (rules or twice or into):
        name = "--compare" if rules else "--twice" if twice else "--into"
        raise click.UsageError(f"{name} needs live calls{' or -- COMMAND' * bool(into)}")
    given: dict[str, Any] = {"tools": live.tools, "volatile": volatile}
    if is_one and not (limits or (junit and not is_live)):
        with opened_log(logs[0]) as opened:
            by_name = programs_of(programs).get(started(opened.path).program)
            program = programs[0] if is_plain(programs) else by_name
            if not is_live:
                return _replay_one(opened, program, given, is_all=is_all, tripwire=tripwire)
            way = live_of(opened, program, live) | {"volatile": volatile, "twice": twice}
            way |= {"into": into, "compare": rules}
            return _replay_live(opened, program, junit, is_all=is_all, **way)
    given["programs"] = _by_name(programs, logs)
    schedule = Schedule(jobs=limits.get("jobs"), timeout_seconds=limits.get("timeout"))
    return tell_many(replay_many(logs, given, schedule), junit, is_all=is_all)


def _replay_one(
    log: OpenedLog,
    program: str | None,
    given: dict[str, Any],
    *,
    is_all: bool,
    tripwire: bool,
) -> int:
    """Re-execute one log in this process, and report in full."""

    def again() -> ReplayReport:
        return replayed(log, program, **given)

    seen = watched(again) if tripwire else None
    report = seen.report if seen else again()
    if report.identical:  # no run is called so whose log does not verify (CONTRACT.md §14.9)
        for damage in verify(log.path).damage:
            if damage.what != TORN_TAIL:
                raise damage.as_error()

    def tell() -> None:
        describe(report, is_all=is_all)
        if seen:
            _describe_findings(seen)

    found = [finding.as_json() for finding in seen.findings] if seen else None
    document = log.named(report.as_json(), "divergences")
    document |= {"log": output.shown_path(log.given), "findings": found}
    return output.answer(document, tell, _code(report))


def _describe_findings(seen: Watched) -> None:
    """Print the findings of the tripwire: each place, and its replacement."""
    if not seen.findings:
        output.line("the program did not bypass run")
    else:
        places = words.counted(len(seen.findings), "place")
        output.line((f"{places} where the program bypassed run", "yellow"))
    for finding in seen.findings:
        output.lines(f"  {finding}")
    if seen.report.ends_early:
        output.line("  unfinished logs are replayed in separate processes, which are not watched")


def _by_name(programs: Sequence[str], logs: Sequence[Path]) -> dict[str, str]:
    """Return programs by the names of their logs; a single one for one log matches any name."""
    if len(logs) == 1 and logs[0].is_file() and is_plain(programs):
        with contextlib.suppress(RefoldError), opened_log(logs[0]) as log:
            return {started(log.path).program: programs[0]}
    return programs_of(programs)


def describe(report: ReplayReport, *, is_all: bool = False) -> None:
    """Print a report: no differences, or the differences and their likely cause."""
    is_open = report.log.name in report.ends_early and report.log.is_file()
    lines = report.lines(every=is_all, standing=standing_text(report.log) if is_open else "")
    output.report(lines, "green" if report.identical else "bold red")


def _code(report: ReplayReport) -> int:
    if report.identical:
        return FINE
    is_damaged = any(each.category == "log_damaged" for each in report.divergences)
    return DAMAGED if is_damaged else DIFFERS


def _replay_live(
    log: OpenedLog, program: str | None, junit: OutputFile | None, *, is_all: bool, **way: Any
) -> int:
    """Run a log again with live outcomes, in the `way` that `refold.drift` takes, and report it.

    A call can be the same, new or missing, or have a different result or different arguments.
    Differences that may have been caused by an earlier changed result are marked as consequent.
    """
    with output.stdout_kept(), output.progress(f"running {log.given} again"):
        report = drift(log.path, program, **way)
    if junit is not None:
        junit.write(junit_xml([report.junit()]))
    code = MISSING if report.missing else DIFFERS if report.drifted else FINE
    document = report.as_json() | {"log": output.shown_path(log.given)}
    return output.answer(document, lambda: _describe_live(report, log, is_all=is_all), code)


def _describe_live(report: DriftReport, log: OpenedLog, *, is_all: bool) -> None:
    """Print a report; name the tools whose calls are the same because the record answered them."""
    output.report(report.lines(every=is_all), "green" if report.identical else "bold red")
    for options in [one.options for one in report.missing if one.options][:1]:
        output.hint(f"to let it run, add {options}")
    if report.sources.may_change:
        return
    offers = [offer for path in tree(log.path) if path.exists() for offer in started(path).tools]
    changing = {
        offer["name"]
        for offer in offers
        if offer["effect"] == "changes"
        and not offer.get("delegates")
        and report.sources.tool.get(offer["name"], report.sources.tools) == "live"
    }
    served = [row.name for row in report.calls if row.verdict == "same" and row.kind == "tool"]
    kept = [name for name in sorted(changing) if name in served]
    if kept:
        names = ", ".join(f"{name} ({served.count(name)})" for name in kept)
        output.hint(f"not run, recorded results used instead: {names}; to run them, add --yes")


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
_LEFT_OUT_LINES: Final = 4
"""Lines about the uncompared parts of logs, unless all are asked for."""


# --- many logs -------------------------------------------------------------------------------


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


def tell_many(report: BulkReport, junit: OutputFile | None, *, is_all: bool) -> int:
    """Print a report, write it for a CI service, and return the exit code (CONTRACT.md §14.13).

    The programs' output goes to standard error.
    """
    if report.printed.strip():
        output.hint(report.printed.rstrip("\n").expandtabs())
    if junit is not None:
        junit.write(junit_xml([report.suite()]))
    code = next(
        (code for code, names in _CODES if not report.counts.keys().isdisjoint(names)), FINE
    )
    document = named(report.as_json(), "logs", "divergences")
    return output.answer(document, lambda: _describe_many(report, is_all=is_all), code)


def _describe_many(report: BulkReport, *, is_all: bool) -> None:
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
    left_out = (
        [(f"{output.shown_path(log.log)}: not compared: {', '.join(log.not_compared)}", "yellow")]
        for log in report.logs
        if log.not_compared
    )
    output.some(left_out, None if is_all else _LEFT_OUT_LINES, 0, "log", cut=False)
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
