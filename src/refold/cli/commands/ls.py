"""`refold ls`: the recorded runs of a folder (CONTRACT.md §14.10)."""

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from refold.cli.arguments.logs import LOG, json_option
from refold.cli.arguments.run_list import Listed, listed_runs
from refold.cli.output import output, words
from refold.cli.output.exit_codes import FINE
from refold.cli.output.pages import page

_PAGE: Final = """
Examples:
  refold ls
  refold ls /var/log/agents --json
  refold ls --tree                forks below the runs that they left
"""


@click.command("ls", epilog=page(_PAGE))
@click.argument("folder", metavar="[DIR]", type=LOG, default=Path("runs"))
@click.option("--tree", "is_tree", is_flag=True, help="Show forks below what they left.")
@json_option
def command(*, folder: Path, is_tree: bool, as_json: bool) -> int:
    """List the root runs recorded in DIR (by default runs/), the newest last.

    `open` is a run without an end: still going on, suspended, or crashed.
    """
    if folder.is_file():
        shown = output.shown_path(folder)
        raise click.UsageError(f"{shown} is a log: refold show {shlex.quote(shown)}")
    if not folder.is_dir():
        shown = output.shown_path(folder)
        raise click.UsageError(f"{shown}: no such folder; `refold demo` records a first run")
    with output.progress(f"reading {folder}"):
        found = listed_runs(folder)
    if as_json:
        rows = [each.row for each in found]
        output.document({"folder": output.shown_path(folder), "runs": rows})
    elif found:
        for depth, each in _lineage(found) if is_tree else ((0, each) for each in found):
            _print(each, depth)
    else:
        output.line(f"no runs in {folder}; `refold demo` records a first one")
    return FINE


def _lineage(found: list[Listed]) -> Iterator[tuple[int, Listed]]:
    """Yield runs with how often they were forked, each below the run that it left."""
    known = {each.nonce for each in found if each.nonce}
    below: dict[str, list[Listed]] = {}
    for each in found:
        below.setdefault(each.origin if each.origin in known else "", []).append(each)
    waiting = [(0, each) for each in reversed(below.get("", []))]
    while waiting:
        depth, each = waiting.pop()
        yield depth, each
        if each.nonce:
            waiting += [(depth + 1, fork) for fork in reversed(below.pop(each.nonce, []))]


def _print(found: Listed, depth: int = 0) -> None:
    """Print what a run was, and below it its log, whole, so that it can be copied."""
    row, margin = found.row, "   " * depth
    branch = margin[3:] + "└─ " if depth else ""
    forked = row.get("forked")
    started = (row["started"] or "(no time)").replace("T", " ").removesuffix("Z")
    took = "" if row["duration_ms"] is None else f" · {words.seconds(row['duration_ms'])}"
    status = row["status"]
    output.line(
        branch,
        (f"{started}  ", "dim"),
        (status, output.status_style(status)),
        (f" {found.who or '?'}", "bold"),
        f"  forked at entry {forked['at']} ·" if forked else " ",
        f" {words.counted(row['entries'], 'entry', 'entries')}",
        (" · matched", "yellow")
        if "guarantee" in row
        else f" · {words.counted(max(0, row['runs'] - 1), 'run')} below",
        took,
        cut=True,
    )
    output.line(f"{margin}  {row['log']}", (f"  {words.size(row['bytes'])}", "dim"))
