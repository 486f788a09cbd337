"""Finds out which recorded outcomes a run depends on: `refold explore --results`.

It prints the findings of `replay.what_if.sensitivity`. Rules: CONTRACT.md §12.9.
"""

from pathlib import Path
from typing import Final

from refold.api import sensitivity
from refold.cli.arguments.rehearsals import rehearsed
from refold.cli.output import output, words
from refold.replay.what_if.sensitivity import CallSensitivity, Influence, SensitivityReport

_LABEL_MAX: Final = 44
"""Characters of a call that a table shows."""


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
    return output.answer(opened.named(report.as_json()), lambda: _describe(report))


def _describe(report: SensitivityReport) -> None:
    """Print a row for each outcome, and the spending on those that nothing depends on."""
    rows: list[list[output.Part]] = [["outcome of", "tokens", "time", "what depends on it"]]
    for call in report.calls:
        tokens = f"{call.tokens:,}" if call.tokens else "-"
        took = words.seconds(call.duration_ms) if call.kind != "value" else "-"
        rows.append([_label(call), tokens, took, _influence_text(call.altered)])
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
