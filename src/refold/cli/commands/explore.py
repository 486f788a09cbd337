"""`refold explore`: does the order in which concurrent work ends change a run's result?

It prints the findings of `replay.what_if.explore`. Rules: CONTRACT.md §12.8.
"""

from pathlib import Path
from typing import Final

import click

from refold.api import explore
from refold.cli.arguments.loading import session_option
from refold.cli.arguments.logs import json_option
from refold.cli.arguments.rehearsals import program_option, rehearsed, tools_option
from refold.cli.arguments.run_names import RUN
from refold.cli.output import output, words
from refold.cli.output.exit_codes import DIFFERS, FINE, MISSING
from refold.cli.output.pages import page
from refold.replay.what_if.explore import ORDERS
from refold.replay.what_if.order_report import FINDINGS_SHOWN, ExploreReport

_PAGE: Final = """
Examples:
  refold explore runs/audit.jsonl --program audit.py:audit
  refold explore runs/audit.jsonl --program audit.py:audit --timers
  refold explore runs/audit.jsonl --program audit.py:audit \\
         --orders 5000 --seed 1 --json

Findings:
  an order changes the output     the output differs, or the run fails
  … leads to a call never made    the log has no result for a call

Exit code: 0 every order ends as recorded · 1 an order ends differently
           4 only calls that were never recorded · 3 the log has no end.
"""


@click.command("explore", epilog=page(_PAGE))
@click.argument("log", type=RUN)
@program_option
@click.option(
    "--orders", type=click.IntRange(min=1), default=ORDERS, show_default=True, metavar="N",
    help="Maximum number of orders; those nearest to the recorded one first.",
)  # fmt: skip
@click.option(
    "--timers", is_flag=True,
    help="Also vary when timers fire, so that a timeout may fire before a call that was in time.",
)  # fmt: skip
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the random orders.")
@click.option("--children", is_flag=True, help="Also explore each child, with its own log.")
@click.option(
    "--all", "is_all", is_flag=True, help="List all of the different ends, not just the first few."
)
@tools_option
@session_option
@json_option
def command(
    *,
    log: Path,
    program: str | None,
    orders: int,
    timers: bool,
    seed: int,
    children: bool,
    is_all: bool,
    tools: str,
    session: str | None,
) -> int:
    """Run a recorded program with different orders of completion.

    Concurrent work can finish in any order.  This command delivers the recorded results in
    different orders, without running tools or models.  If an order changes the output, it looks
    for the smallest reordering that does so.  An order is abandoned at a call without a recorded
    result, because nobody knows how the run would continue.
    """
    tried = [0]
    report, opened = rehearsed(
        explore, log, program, tools, session,
        said=lambda: f"exploring {log}: {words.counted(tried[0], 'order')}",
        orders=orders, timers=timers, seed=seed, children=children,
        on_order=lambda number: tried.__setitem__(0, number),
    )  # fmt: skip
    document = opened.named(report.as_json(), "children")
    return output.answer(document, lambda: describe(report, is_all=is_all), _code(report))


def describe(report: ExploreReport, *, is_all: bool = False) -> None:
    """Print how many orders were tried, and what each other end takes; then of each child."""
    is_clear = report.identical and report.is_exhaustive and not report.left_out()
    style = "green" if is_clear else "bold red" if report.changes else "bold yellow"
    output.line((f"{report.where}: {report.headline()}", style))
    for line in report.left_out():
        output.line((f"  {line}", "yellow"))
    for finding in report.findings[: None if is_all else FINDINGS_SHOWN]:
        output.line()
        output.lines(str(finding))
    if report.rest() and not is_all:
        output.line()
        output.line((f"{report.rest()}: to list them, add --all", "dim"))
    for child in report.children:
        if report.findings or child.findings:
            output.line()
        describe(child, is_all=is_all)
    for each in report.skipped:
        output.line((f"not explored: {each}", "dim"))


def _code(report: ExploreReport) -> int:
    if report.changes:
        return DIFFERS
    return FINE if report.identical else MISSING
