"""Compares many runs with one, in a table: `refold ls RUN… --diff LOG` (CONTRACT.md §14.16)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from refold.cli.arguments.logs import opened_log, started
from refold.cli.commands.inspect.show import gaps_of
from refold.cli.output import output, words
from refold.cli.output.exit_codes import DAMAGED, DIFFERS, FINE
from refold.cli.output.printed import ComparedRun
from refold.engine.errors import ContentMissing, RefoldError
from refold.engine.events.outcome import Usage
from refold.engine.log.beside import blob_gaps
from refold.replay.compare.diff import diff
from refold.replay.observed.folder import FileDifference
from refold.replay.run.opened_run import OpenedRun
from refold.replay.run.run_node import totals


def ls_diff(logs: Sequence[Path], first: Path) -> int:
    """Print a row for each run, with its first difference from another; return the exit code.

    A run that cannot be read has a row that says so.

    Raises:
        LogError: the other run cannot be read.
    """
    with output.progress(f"comparing {len(logs)} runs"):
        with opened_log(first) as reference:  # so no row is damaged for it
            diff(reference.path, reference.path)
        rows = [_row(log, first) for log in logs]
    gaps = list(dict.fromkeys(gap for row in rows for gap in row.gaps))
    for gap in gaps:
        output.complain(gap)
    differ = DIFFERS if any(row.differences or row.differing_files for row in rows) else FINE
    code = DAMAGED if gaps else differ
    document = {"runs": [row.as_json() for row in rows]}
    return output.answer(document, lambda: output.table([_HEADING, *map(_shown, rows)]), code)


def _row(log: Path, first: Path) -> ComparedRun:
    try:
        return _compared(log, first)
    except RefoldError as error:
        return ComparedRun(log=output.shown_path(log), status="damaged", gaps=(str(error),))


def _compared(log: Path, first: Path) -> ComparedRun:
    with opened_log(log) as opened, opened_log(first) as reference:
        started(opened.path)  # a file without a first entry is no run
        tree = OpenedRun(opened.path).tree
        gaps = gaps_of(opened, tree, blob_gaps(opened.path))
        files = list[FileDifference]()
        try:
            found = diff(reference.path, opened.path, files=files) if log != first else None
        except ContentMissing as error:  # of a file, in a repository of another day
            gaps = (*gaps, str(error))
            found = diff(reference.path, opened.path)
    told = totals(tree)
    return ComparedRun(
        log=output.shown_path(log),
        status=tree.status,
        standing=tree.standing,
        subagents=told["subagents"],
        failed=told["failed"],
        calls=told["tools"],
        requests=told["requests"],
        **told["all"],
        duration_ms=tree.duration_ms,
        differences=found.count if found else 0,
        first_difference=found.causes[0].headline if found and not found.identical else "",
        changed_files=tree.changed,
        differing_files=tuple(file.path for file in files),
        gaps=gaps,
    )


_SHOWN: Final = 3
"""Names of files in a row."""
_HEADING: Final[list[output.Part]] = [
    "status", "subagents", "failed", "calls", "requests", "tokens", "cost", "time", "files", "run",
    "first difference",
]  # fmt: skip


def _usage(row: ComparedRun) -> Usage:
    names = ("input_tokens", "output_tokens", "untold")
    return Usage(**{name: getattr(row, name) for name in names})


def _shown(row: ComparedRun) -> list[output.Part]:
    took, cost = row.duration_ms, row.cost_usd_micros
    return [
        output.status(row.status, row.standing),
        *(f"{count:,}" for count in (row.subagents, row.failed, row.calls, row.requests)),
        words.tokens(_usage(row)) or "0",
        "-" if cost is None else words.dollars(cost),
        "-" if took is None else words.seconds(took),
        row.changed_files or "-",
        row.log,
        row.first_difference or ", ".join(row.differing_files[:_SHOWN]),
    ]
