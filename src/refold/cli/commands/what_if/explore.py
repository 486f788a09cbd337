"""`refold explore`: does another order of completion, or another result, change a run?

It prints the findings of `replay.what_if.explore` and `replay.what_if.sensitivity`. Rules:
CONTRACT.md §12.8, §12.9.
"""

from pathlib import Path
from typing import Any, Final

import click

from refold.api import explore, sensitivity
from refold.cli.arguments.foreign import (
    Foreign,
    OfCommands,
    OfPrograms,
    WithCommand,
    command_given,
    command_option,
    program_option,
)
from refold.cli.arguments.hints import Given
from refold.cli.arguments.options import POSITIVE, argument, chosen, declared, given_options, option
from refold.cli.arguments.rehearsals import rehearsed
from refold.cli.arguments.run_names import RUN
from refold.cli.output import output, words
from refold.cli.output.exit_codes import DIFFERS, FINE, MISSING
from refold.replay.what_if.explore import ORDERS

_OF_ORDERS: Final = ("--orders", "--timers", "--all")


@declared("explore", cls=WithCommand)
def command(
    *,
    log: Path = argument(RUN),
    given: Given = chosen(OfPrograms, "program", "tools"),
    orders: int = program_option(
        "Maximum number of orders; those nearest to the recorded one first.",
        type=POSITIVE,
        default=ORDERS,
    ),
    timers: bool = program_option(
        "Also vary when timers fire, so that a timeout may fire before a call that was in time."
    ),
    is_all: bool = program_option("List all of the different ends, not just the first few."),
    are_results: bool = program_option(
        "Change recorded results, instead of their order.", "--results"
    ),
    only: str = option(
        "With --results or -- COMMAND: only calls whose name or arguments contain TEXT.", "TEXT"
    ),
    foreign: Foreign = chosen(OfCommands, "volatile", "profile", "copy"),
    fault: str = command_option(
        "How answers fail, http_400 to http_599 or cut.", "CODE", default="http_500"
    ),
    is_sure: bool = command_option("Do not ask.", "--yes"),
) -> int:
    r"""Run a recorded program with different orders of completion, or different results.

    Concurrent work can finish in any order.  This command delivers the recorded results in
    different orders, without running tools or models.  If an order changes the output, it looks
    for the smallest reordering that does so.  An order is abandoned at a call without a recorded
    result, because nobody knows how the run would continue.

    With --results, each recorded result, model answer and generated value in turn is replaced by
    a different one of its type, with everything else as recorded.

    With -- COMMAND, LOG is a log of `refold record`.  The command runs once for each recorded
    answer, in a copy of the recorded folder, and that answer fails.  The report shows what the
    command does until its first new request: ask again, go on, or give up.

    Examples:
      refold explore runs/audit.jsonl --program audit.py:audit
      refold explore runs/audit.jsonl --program audit.py:audit --timers
      refold explore runs/audit.jsonl --program audit.py:audit \
             --orders 5000 --json
      refold explore runs/audit.jsonl --program audit.py:audit --results
      refold explore answer.jsonl --results --only read_file
      refold explore agent.jsonl --fault http_429 -- python agent.py

    Findings:
      an order changes the output     the output differs, or the run fails
      … leads to a call never made    the log has no result for a call
      shows                           a result changes the output
      steers                          a result changes a later request
      nothing                         a result changes neither

    Exit code: 0 every order ends as recorded, or all results were tried
               1 an order ends differently, or the program differs from its log
               4 only calls that were never recorded · 3 the log has no end.
    """
    again = command_given()
    if again is not None:
        from refold.cli.commands.foreign_runs import sensitivity_foreign  # noqa: PLC0415 - wire formats

        way: dict[str, Any] = {"fault": fault, "only": only, "copying": foreign.copying()}
        return sensitivity_foreign(log, again, is_sure=is_sure, **way, **foreign.passed())
    if are_results:
        for name in (each for each in given_options() if each in _OF_ORDERS):
            raise click.UsageError(f"{name} is for orders: omit it with --results")
        return explore_results(log, given, only=only)
    if only:
        raise click.UsageError("--only needs --results")
    tried = [0]
    report, opened = rehearsed(
        explore, log, given.program, given.tools,
        said=lambda: f"exploring {log}: {words.counted(tried[0], 'order')}",
        orders=orders, timers=timers,
        on_order=lambda number: tried.__setitem__(0, number),
    )  # fmt: skip
    document = opened.named(report.as_json())
    is_clear = report.identical and report.is_exhaustive and not report.left_out()
    style = "green" if is_clear else "bold red" if report.changes else "bold yellow"
    lines = report.lines(every=is_all)
    code = DIFFERS if report.changes else FINE if report.identical else MISSING
    return output.answer(document, lambda: output.report(lines, style), code)


def explore_results(log: Path, given: Given, *, only: str) -> int:
    """Replace each recorded outcome in turn, and print what depends on it.

    Each is replaced by a different value of its type, and the program runs again with everything
    else as recorded, without tools or models.
    """
    done = [0, 0]
    report, opened = rehearsed(
        sensitivity, log, given.program, given.tools,
        said=lambda: f"altering the outcomes of {log}: {done[0]:,} of {done[1]:,}",
        only=only,
        on_call=lambda number, count: done.__setitem__(slice(None), [number, count]),
    )  # fmt: skip
    return output.answer(
        opened.named(report.as_json()), lambda: output.report(report.lines(), "bold")
    )
