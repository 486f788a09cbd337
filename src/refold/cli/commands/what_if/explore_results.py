"""Finds out which recorded outcomes a run depends on: `refold explore --results`.

It prints the findings of `replay.what_if.sensitivity`. Rules: CONTRACT.md §12.9.
"""

from pathlib import Path

from refold.api import sensitivity
from refold.cli.arguments.rehearsals import rehearsed
from refold.cli.output import output


def explore_results(log: Path, program: str | None, tools: str, *, only: str) -> int:
    """Replace each recorded outcome in turn, and print what depends on it.

    Each is replaced by a different value of its type, and the program runs again with everything
    else as recorded, without tools or models.
    """
    done = [0, 0]
    report, opened = rehearsed(
        sensitivity, log, program, tools,
        said=lambda: f"altering the outcomes of {log}: {done[0]:,} of {done[1]:,}",
        only=only,
        on_call=lambda number, count: done.__setitem__(slice(None), [number, count]),
    )  # fmt: skip
    return output.answer(
        opened.named(report.as_json()), lambda: output.report(report.lines(), "bold")
    )
