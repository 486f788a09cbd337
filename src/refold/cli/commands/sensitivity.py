"""`refold sensitivity`: which recorded outcomes does a run depend on?

It prints the findings of `replay.what_if.sensitivity`. Rules: CONTRACT.md §12.9.
"""

from pathlib import Path
from typing import Any, Final

import click

from refold.api import sensitivity
from refold.cli.arguments.foreign import (
    Foreign,
    WithCommand,
    command_given,
    refuse_with_command,
    sensitivity_options,
)
from refold.cli.arguments.loading import session_option
from refold.cli.arguments.logs import json_option
from refold.cli.arguments.rehearsals import program_option, rehearsed, tools_option
from refold.cli.arguments.run_names import RUN
from refold.cli.output import output, words
from refold.cli.output.pages import page
from refold.replay.what_if.sensitivity import CallSensitivity, Influence, SensitivityReport

_PAGE: Final = """
Examples:
  refold sensitivity runs/audit.jsonl --program audit.py:audit
  refold sensitivity runs/audit.jsonl --program audit.py:audit --errors
  refold sensitivity answer.jsonl --only read_file --json
  refold sensitivity agent.jsonl --fault http_429 -- python agent.py

Effects of a changed result:
  shows     the output changes; with JSON pointers to the changes
  steers    a later request changes; with the first changed request
  nothing   neither changes

Exit code: 0 all were tried · 1 the program differs from its log · 3 the log
has no end.
"""

_LABEL_MAX: Final = 44
"""Characters of a call that a table shows."""


@click.command("sensitivity", cls=WithCommand, epilog=page(_PAGE))
@click.argument("log", type=RUN)
@program_option
@click.option("--errors", is_flag=True, help="Also replace each success with a failure.")
@click.option(
    "--only", metavar="TEXT", default="",
    help="Change only results of calls whose name or arguments contain TEXT.",
)  # fmt: skip
@tools_option
@session_option
@sensitivity_options
@click.option(
    "--fault", metavar="CODE", default="http_500",
    help="With -- COMMAND: how answers fail, http_400 to http_599 or cut; by default http_500.",
)  # fmt: skip
@click.option("--yes", "is_sure", is_flag=True, help="With -- COMMAND: do not ask.")
@json_option
def command(
    *,
    log: Path,
    program: str | None,
    errors: bool,
    only: str,
    tools: str,
    session: str | None,
    foreign: Foreign,
    fault: str,
    is_sure: bool,
) -> int:
    """Find out which recorded results a run depends on.

    Each recorded result, model answer and generated value in turn is replaced by a different one
    of the same type, and the program is run again with everything else as recorded, without tools
    or models.

    With -- COMMAND, LOG is a log of `refold record`. The command runs once for each recorded
    answer, in a copy of the recorded folder, and that answer fails.  The report shows what the
    command does until its first new request: ask again, go on, or give up.
    """
    again = command_given()
    if again is not None:
        refuse_with_command("log", "only", "fault", "is_sure", "as_json")
        from refold.cli.commands.foreign_runs import sensitivity_foreign  # noqa: PLC0415 - wire formats

        way: dict[str, Any] = {"fault": fault, "only": only, "copying": foreign.copying()}
        return sensitivity_foreign(log, again, is_sure=is_sure, **way, **foreign.passed())
    done = [0, 0]
    report, opened = rehearsed(
        sensitivity, log, program, tools, session,
        said=lambda: f"altering the outcomes of {log}: {done[0]:,} of {done[1]:,}",
        errors=errors, only=only,
        on_call=lambda number, count: done.__setitem__(slice(None), [number, count]),
    )  # fmt: skip
    return output.answer(opened.named(report.as_json()), lambda: describe(report))


def describe(report: SensitivityReport) -> None:
    """Print a row for each outcome, and the spending on those that nothing depends on."""
    rows: list[list[output.Part]] = [["outcome of", "tokens", "time", "what depends on it"]]
    for call in report.calls:
        tokens = f"{call.tokens:,}" if call.tokens else "-"
        took = words.seconds(call.duration_ms) if call.kind != "value" else "-"
        rows.append([_label(call), tokens, took, _influence_text(call.altered)])
        if call.failed is not None:
            rows.append(["  if it had failed", "", "", _influence_text(call.failed)])
    output.table(rows, wrap=True)
    output.line()
    for line in report.left_out():
        output.line((line, "yellow"))
    count, found = words.counted(len(report.calls), "outcome"), len(report.unneeded)
    if not found:
        tried = sum(call.is_tried for call in report.calls)
        each = "each" if tried == len(report.calls) else f"all {tried:,} that were altered"
        output.line(f"{count}: something depends on {each}" if tried else f"{count}, none altered")
        return
    tokens = words.counted(report.tokens_unneeded, "token")
    took = words.seconds(report.duration_unneeded_ms)
    output.line((f"nothing depends on {found:,} of {count}", "bold"), f": {tokens}, {took}")


def _label(call: CallSensitivity) -> str:
    label = call.label
    return label if len(label) <= _LABEL_MAX else f"{label[: _LABEL_MAX - 1]}…"


def _influence_text(influence: Influence | None) -> output.Part:
    if influence is None:
        return ("has no other value of its type", "dim")
    return (str(influence), "yellow") if influence == Influence() else str(influence)
