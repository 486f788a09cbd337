"""`refold replay`: re-execute a recorded program against its log (CONTRACT.md §12).

One log is described in full here, many logs in `cli.commands.replay_many`.
"""

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click

from refold.cli.arguments.executors import executor_option
from refold.cli.arguments.foreign import (
    Foreign,
    WithCommand,
    command_given,
    parts_of,
    refuse_with_command,
    replay_options,
)
from refold.cli.arguments.live import Live, live_of, live_options, remedied
from refold.cli.arguments.loading import import_from_here, is_plain, load_tools, programs_of
from refold.cli.arguments.logs import OpenedLog, file_option, json_option, opened_log, started
from refold.cli.arguments.outputs import force_option, output_option
from refold.cli.arguments.rehearsals import replayed, run_of
from refold.cli.arguments.run_names import RUN
from refold.cli.commands.replay_live import replay_live
from refold.cli.output import output, words
from refold.cli.output.exit_codes import DAMAGED, DIFFERS, FINE
from refold.cli.output.pages import page
from refold.engine.errors import RefoldError
from refold.engine.log.damage import TORN_TAIL
from refold.page.output_files import OutputFile
from refold.proxy.http.turns import OnMiss, Pace
from refold.replay.audit.verify import verify
from refold.replay.bulk.processes import Schedule
from refold.replay.difference.causes import ALL_HINT, CAUSES_SHOWN, cause_texts
from refold.replay.difference.excuses import IGNORED_SHOWN
from refold.replay.index.standing import said
from refold.replay.reexecute.report import ReplayReport
from refold.replay.testing.selfcheck import Watched, watched

_PAGE: Final = """
Examples:
  refold replay runs/demo.jsonl
  refold replay runs/audit.jsonl --program audit.py:audit
  refold replay runs/audit.jsonl --program app.audit:main \\
         --tools app.tools:TOOLS --json
  refold replay runs/audit.jsonl --program audit.py:audit --tripwire
  refold replay runs --program audit.py:audit --junit replay.xml
  refold replay answer.jsonl --model openai:gpt-4.1
  refold replay audit.jsonl --program app.py:audit --tools app:TOOLS \\
         --live --source model=recorded --compare search=text --twice
  refold replay runs/agent.jsonl -- python agent.py
  refold replay runs/agent.jsonl --list-effects
  refold replay runs old.refold --jobs 4 --fail-fast --timeout 60 \\
         --program audit=app.audit:main --program survey.py:survey
  refold replay runs --program audit.py:audit \\
         --executor dask:tcp://scheduler:8786

Live tools with the effect `changes` run only with --yes; otherwise, a call
that matches the log gets its recorded result.

Exit code: 0 identical · 1 a divergence · 2 nothing to replay · 3 a damaged
log · 4 a live run needs a result that was not recorded.  For several logs,
the worst: 3, 1 (diverged, timed out), 70 (a fault), 2 (program needed,
refused), 0.
"""


@click.command(
    "replay", cls=WithCommand, epilog=page(_PAGE),
    shared=("volatile", "junit", "force", "is_all", "is_listed", "may_change", "into"),
)  # fmt: skip
@click.argument("logs", metavar="LOG…", type=RUN, nargs=-1, required=True)
@click.option(
    "--program", "programs", metavar="[NAME=]MODULE:NAME", multiple=True,
    help="The program: module:name or file.py:name; not for built-in ones.  Several logs get "
    "the program of their name, or the one given with NAME=.",
)  # fmt: skip
@click.option(
    "--live", "all_live", is_flag=True,
    help="Ask tools, models and subagents live, except for those with a source of their own, and "
    "compare each result with the log.",
)  # fmt: skip
@live_options
@click.option(
    "--compare", "rules", metavar="NAME=RULE", multiple=True,
    help="With live calls: rule that compares results of a tool, or of `model`, `child` or `*`: "
    "exact, text, subset or numbers:0.01.",
)  # fmt: skip
@click.option(
    "--twice", is_flag=True,
    help="With live calls: run twice, and count differences between both runs as noise.",
)  # fmt: skip
@file_option("--into", text="With live calls or -- COMMAND: also record the new run in this log.")
@replay_options
@click.option("--all", "is_all", is_flag=True, help="List every divergence, and later differences.")
@click.option(
    "--jobs", type=click.IntRange(min=1), metavar="N",
    help="Number of logs to replay at the same time; by default one per processor.",
)  # fmt: skip
@click.option("--fail-fast", is_flag=True, help="Stop at the first log that differs.")
@click.option(
    "--timeout", type=click.FloatRange(min=0, min_open=True), metavar="SECONDS",
    help="Time limit for each log, which is then stopped and reported as `timed out`.",
)  # fmt: skip
@executor_option
@output_option("--junit", kind="junit", text="Also write the results as JUnit XML.")
@output_option(
    "--html", kind="html",
    text="If the log differs, write an HTML page that opens at the divergence.",
)  # fmt: skip
@force_option
@click.option(
    "--volatile", metavar="RULE", multiple=True,
    help="Do not compare a part, tool:fetch/arguments/ts; with -- COMMAND, also text that matches, "
    "text:REGEX, files, file:GLOB, or the order of adjacent user messages that begin like "
    "order:REGEX.  Lists what it ignored.",
)  # fmt: skip
@click.option(
    "--tripwire", is_flag=True,
    help="List lines that read clocks, randomness, environment, files or sockets directly.",
)  # fmt: skip
@click.option(
    "--list-effects", "is_listed", is_flag=True,
    help="Print the tool calls of LOG that a COMMAND would execute, and run nothing.",
)  # fmt: skip
@json_option
def command(
    *,
    logs: tuple[Path, ...],
    programs: tuple[str, ...],
    is_all: bool,
    jobs: int | None,
    fail_fast: bool,
    timeout: float | None,
    executor: str | None,
    junit: OutputFile | None,
    html: OutputFile | None,
    tripwire: bool,
    is_listed: bool,
    on_miss: OnMiss,
    pace: Pace,
    into: Path | None,
    all_live: bool,
    rules: tuple[str, ...],
    twice: bool,
    foreign: Foreign,
    live: Live,
) -> int:
    """Run a recorded program again with the recorded results, and compare.

    Only the program is executed, without tools, models and child processes.  Every request, and
    the end of every run, has to match the log.

    Refold does not import code that a log names, so pass the program, unless it is a built-in
    one.

    LOG can also be a folder, to replay all root logs below it, and can be repeated.  Several
    logs, or one LOG with --timeout or --junit, are replayed in separate processes.

    With --live, --model or a live --source, the program runs again with live outcomes, and each
    call is compared with the log: it can be the same, new or missing, or have a different result or
    different arguments.  Differences that may have been caused by an earlier changed result are
    marked as consequent.

    With -- COMMAND, LOG is a log of `refold record`: the command runs again, and its requests are
    answered from the log.  It runs in a copy of the recorded folder, and in a sandbox without a
    network if `bwrap` works here.  It executes the recorded tool calls, so if somebody else
    recorded LOG, look at them first with --list-effects.  A LOG that was not recorded on this
    machine is refused without a sandbox; at a terminal, Refold asks before it replays one in a
    sandbox.  --yes skips both.
    """
    again = command_given()
    if again is not None or is_listed:
        how: dict[str, Any] = {"on_miss": on_miss, "pace": pace, "into": into, "is_all": is_all}
        how["junit"] = junit
        if not is_listed:
            how["copying"] = foreign.copying()
        return _watched(logs, None if is_listed else again, live, {**how, **foreign.passed()})
    import_from_here(None, *programs)
    is_one = len(logs) == 1 and not logs[0].is_dir()
    is_alone = is_one and junit is None and timeout is None and executor is None
    if html is not None and not is_alone:
        raise click.UsageError(
            "--html needs a single log, without --junit, --timeout and --executor"
        )
    if all_live or not live.is_all_recorded:
        for option, said in (("--timeout", timeout), ("--executor", executor)):
            if said is not None:
                raise click.UsageError(f"{option} does not work with live calls")
        if not is_one:
            raise click.UsageError("with live calls, replay one log at a time")
        with opened_log(logs[0]) as opened:
            program = _program_for(programs, opened)
            with remedied(opened, program):
                sources = live_of(opened, program, "live" if all_live else "recorded", live)
                way: dict[str, Any] = {
                    "volatile": parts_of(foreign.volatile),
                    "twice": twice,
                    "into": into,
                }
                return replay_live(opened, program, sources, live, junit, rules, **way)
    if rules or twice or into:
        option = "--compare" if rules else "--twice" if twice else "--into"
        raise click.UsageError(f"{option} needs live calls{' or -- COMMAND' * bool(into)}")
    given: dict[str, Any] = {"tools": live.tools, "volatile": parts_of(foreign.volatile)}
    given["session"] = live.session
    if is_alone:
        with opened_log(logs[0]) as opened:
            program = _program_for(programs, opened)
            return _replay_one(opened, program, given, html, is_all=is_all, tripwire=tripwire)
    if tripwire:
        raise click.UsageError(
            "--tripwire needs a single log, without --junit, --timeout and --executor"
        )
    from refold.cli.commands import replay_many  # noqa: PLC0415 - one log needs no processes

    given["programs"] = _by_name(programs, logs)
    schedule = Schedule(jobs=jobs, fail_fast=fail_fast, timeout_seconds=timeout)
    found = replay_many.replay_many(logs, given, executor, schedule)
    return replay_many.tell(found, junit, is_all=is_all)


def _watched(
    logs: Sequence[Path], again: Sequence[str] | None, live: Live, way: dict[str, Any]
) -> int:
    """Run a command against the one named log, or list its effects."""
    refuse_with_command()
    if len(logs) != 1:
        raise click.UsageError("with -- COMMAND or --list-effects, replay one log at a time")
    from refold.cli.commands import foreign_runs  # noqa: PLC0415 - wire formats

    if again is None:
        return foreign_runs.list_effects(logs[0])
    return foreign_runs.replay_foreign(logs[0], again, is_sure=live.may_change, **way)


def _replay_one(
    log: OpenedLog,
    program: str | None,
    given: dict[str, Any],
    html: OutputFile | None,
    *,
    is_all: bool,
    tripwire: bool,
) -> int:
    """Re-execute one log in this process, and report in full."""
    run_of(log, program)
    given["tools"] = load_tools(given["tools"])

    def again() -> ReplayReport:
        return replayed(log, program, **given)

    seen = watched(again) if tripwire else None
    report = seen.report if seen else again()
    if report.identical:  # no run is called so whose log does not verify (CONTRACT.md §14.9)
        for damage in verify(log.path).damage:
            if damage.what != TORN_TAIL:
                raise damage.as_error()
    elif html is not None:
        from refold.page.html import diverged_html  # noqa: PLC0415 - rarely

        html.write(diverged_html(log.path, report.causes).encode())

    def tell() -> None:
        describe(report, is_all=is_all)
        _describe_findings(seen)

    found = [finding.as_json() for finding in seen.findings] if seen else None
    document = log.named(report.as_json(), "divergences")
    document |= {"log": output.shown_path(log.given), "findings": found}
    return output.answer(document, tell, _code(report))


def _describe_findings(seen: Watched | None) -> None:
    """Print the findings of the tripwire: each place, and its replacement."""
    if seen is None:
        return
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


def _program_for(programs: Sequence[str], log: OpenedLog) -> str | None:
    """Return the program that was named for this log: a single one matches any name."""
    if is_plain(programs):
        return programs[0]
    return programs_of(programs).get(started(log.path).program)


def describe(report: ReplayReport, *, is_all: bool = False) -> None:
    """Print a report: no differences, or the differences and their likely cause."""
    if report.identical:
        entries = words.counted(report.entries, "entry", "entries")
        runs = words.counted(report.children, "child run")
        ran = f"tool calls executed: {report.tools_executed}"
        output.line(("identical", "green"), f": {entries}, {runs}; {ran}")
        if report.ends_early:
            records = words.counted(len(report.ends_early), "log")
            is_root = report.log.name in report.ends_early and report.log.is_file()
            how = f" ({said(report.log)})" if is_root else ""
            output.line(f"  {records} without an end{how}: identical up to that point")
        for each in report.not_compared:
            output.line((f"  not compared: {each}", "yellow"))
        _describe_ignored(report, is_all=is_all)
        return
    damaged = sum(each.category == "log_damaged" for each in report.divergences)
    if damaged:
        output.line((f"{words.counted(damaged, 'log')} damaged", "bold red"))
    if diverged := len(report.divergences) - damaged:
        output.line((f"{words.counted(diverged, 'run')} diverged", "bold red"))
    every = (f"\n{each.in_full()}" for each in report.divergences)
    for text in every if is_all else cause_texts(report.causes, CAUSES_SHOWN):
        output.lines(text)
    if not is_all and (len(report.causes) > CAUSES_SHOWN or any(e.follows for e in report.causes)):
        output.line()
        output.line((ALL_HINT, "dim"))
    _describe_ignored(report, is_all=is_all)


def _describe_ignored(report: ReplayReport, *, is_all: bool) -> None:
    """Print the volatile paths without a place, and the differences that a rule ignored."""
    for each in report.unmatched:
        output.line((f"note: {each}", "yellow"))
    if not report.ignored_count:
        return
    values = words.counted(report.ignored_count, "value")
    output.line((f"ignored: {values} that changed", "yellow"))
    shown = report.ignored if is_all else report.ignored[:IGNORED_SHOWN]
    for one in shown:
        output.lines(f"  {one}")
    rest = report.ignored_count - len(shown)
    if rest:
        output.line((f"  … and {rest} more{'' if is_all else ': to list them, add --all'}", "dim"))


def _code(report: ReplayReport) -> int:
    if report.identical:
        return FINE
    is_damaged = any(each.category == "log_damaged" for each in report.divergences)
    return DAMAGED if is_damaged else DIFFERS
