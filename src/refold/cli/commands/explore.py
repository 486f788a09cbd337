"""`refold explore`: does the order in which concurrent work ends change what a run gives?

What it prints is what `replay.what_if.explore` found.  Rules: CONTRACT.md §12.8.
"""

from pathlib import Path
from typing import Final

import click

from refold.api import explore
from refold.cli.arguments.loading import session_option
from refold.cli.arguments.logs import LOG, json_option
from refold.cli.arguments.rehearsals import program_option, rehearsed, tools_option
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

What is found:
  an order changes the output     it ends with another output, or fails
  … leads to a call never made    what comes then is not on record

Exit code: 0 every order ends as recorded · 1 an order ends otherwise
           4 only calls that were never recorded · 3 no end on record.
"""


@click.command("explore", epilog=page(_PAGE))
@click.argument("log", type=LOG)
@program_option
@click.option(
    "--orders", type=click.IntRange(min=1), default=ORDERS, show_default=True, metavar="N",
    help="How many orders to try at most; the nearest to the recorded one first.",
)  # fmt: skip
@click.option(
    "--timers", is_flag=True,
    help="Let timers race, too: a timeout may come before what was in time.",
)  # fmt: skip
@click.option("--seed", type=int, default=0, show_default=True, help="Of the random orders.")
@click.option("--children", is_flag=True, help="Explore each child, too, against its own log.")
@click.option("--all", "is_all", is_flag=True, help="Every other end, not just the first few.")
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
    """Run a recorded program under other orders of completion.

    Of work that goes on at the same time, the world decides what ends first.
    Here the recorded results come in other orders: no tool runs, no model is
    asked.  An order that changes the output is shrunk to the fewest moves.

    A call that the recording has no result for ends its order: what the
    program would have made of it is not known.
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
        output.line((f"{report.rest()}: --all shows each", "dim"))
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
