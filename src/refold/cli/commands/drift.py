"""`refold drift`: run a record again with live outcomes; report answers that changed."""

from pathlib import Path
from typing import Any, Final

import click

from refold.api import drift
from refold.cli.arguments.live import Live, LiveOptions, live_of, live_options, pair, remedied
from refold.cli.arguments.logs import OpenedLog, file_option, json_option, opened_log, started
from refold.cli.arguments.outputs import force_option, output_option
from refold.cli.arguments.rehearsals import program_option
from refold.cli.arguments.run_names import RUN
from refold.cli.output import output
from refold.cli.output.exit_codes import DIFFERS, FINE, MISSING
from refold.cli.output.pages import page
from refold.engine.log.names import tree
from refold.page.output_files import OutputFile
from refold.replay.explain.junit import junit_xml
from refold.replay.partial.drift_report import DriftReport

_PAGE: Final = """
Examples:
  refold drift audit.jsonl --program app.py:audit --tools app:TOOLS
  refold drift answer.jsonl --model openai:gpt-4.1 --tools recorded
  refold drift audit.jsonl --program app.py:audit --tools app:TOOLS \\
         --compare search=text --twice --junit drift.xml

Tools with the effect `changes` run only with --yes; otherwise, a call that
matches the log gets its recorded result.

Exit code: 0 no drift · 1 drift · 4 a request was not recorded and may not
run.
"""


@click.command("drift", epilog=page(_PAGE))
@click.argument("log", type=RUN)
@program_option
@live_options
@click.option(
    "--compare", "rules", metavar="NAME=RULE", multiple=True,
    help="Rule that compares results of a tool, or of `model`, `child` or `*`: exact, text, "
    "subset or numbers:0.01.",
)  # fmt: skip
@click.option(
    "--volatile", metavar="PATH", multiple=True,
    help="Do not compare this part, such as tool:fetch/result/ts.  Ignored differences are "
    "listed.  Can be repeated.",
)  # fmt: skip
@click.option(
    "--twice", is_flag=True, help="Run twice; count differences between both runs as noise."
)
@file_option("--into", text="Record the new run in this log.")
@output_option("--junit", kind="junit", text="Also write the result as JUnit XML.")
@force_option
@json_option
def command(
    *,
    log: Path,
    program: str | None,
    rules: tuple[str, ...],
    volatile: tuple[str, ...],
    twice: bool,
    into: Path | None,
    junit: OutputFile | None,
    live: Live,
) -> int:
    """Run the program of LOG again, live, and compare each call with the log.

    A call can be the same, new or missing, or have a different result or different arguments.
    Differences that may have been caused by an earlier changed result are marked as consequent.
    """
    with opened_log(log) as opened, remedied(opened, program):
        given = live_of(opened, program, "live", live)
        way: dict[str, Any] = {"volatile": volatile, "twice": twice, "into": into}
        way["compare"] = dict(pair(each, "--compare") for each in rules)
        report = drifted(opened, program, given, **way)
        return tell(report, opened, junit, live)


def drifted(log: OpenedLog, program: str | None, live: LiveOptions, **way: Any) -> DriftReport:
    """Run a log again with live outcomes, and compare in the `way` that `refold.drift` takes."""
    with output.stdout_kept(), output.progress(f"running {log.given} again"):
        return drift(log.path, program, **live.passed(), **way)


def tell(report: DriftReport, log: OpenedLog, junit: OutputFile | None, live: Live) -> int:
    """Print a report, write it for a CI service, and return its exit code."""
    if junit is not None:
        junit.write(junit_xml([report.junit()]))
    code = MISSING if report.missing else DIFFERS if report.drifted else FINE
    document = report.as_json() | {"log": output.shown_path(log.given)}
    return output.answer(document, lambda: _describe(report, log, live), code)


def _describe(report: DriftReport, log: OpenedLog, live: Live) -> None:
    """Print a report; name the tools whose calls are the same because the record answered them."""
    output.lines(str(report))
    for line in filter(None, map(live.remedy, report.missing[:1])):
        output.hint(line)
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
