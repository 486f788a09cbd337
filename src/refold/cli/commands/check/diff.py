"""`refold diff`: two recorded runs, compared scope by scope (CONTRACT.md §13)."""

from pathlib import Path
from typing import Any

import attrs

from refold.cli.arguments.logs import opened_log, started
from refold.cli.arguments.options import argument, declared, option
from refold.cli.arguments.run_names import RUN
from refold.cli.commands.inspect.show import log_gaps
from refold.cli.output import output, words
from refold.cli.output.exit_codes import DAMAGED, DIFFERS, FINE
from refold.replay.compare.diff import DIFFERENCES_MAX, diff
from refold.replay.compare.pairing import ArgumentMode, MatchMode
from refold.replay.observed.folder import FileDifference
from refold.replay.run.opened_run import delegation_tree
from refold.replay.run.run_node import RunNode, below


@declared("diff")
def command(
    *,
    a: Path = argument(RUN),
    b: Path = argument(RUN),
    match: MatchMode = option("Rule that matches the calls of A and B.", default="strict"),
    arguments: ArgumentMode = option("Rule that compares arguments.", default="exact"),
    every: bool = option("List every difference, not only those that come first.", "--all"),
) -> int:
    """Compare two recorded runs and their descendants.

    Calls are compared within their scope, so the order of concurrent work does
    not matter.  Ids, times and hashes are not compared.

    Examples:
      refold diff runs/monday.jsonl runs/tuesday.jsonl
      refold diff a.jsonl b.jsonl --match unordered
      refold diff a.jsonl b.refold --arguments ignore --json

    Exit code: 0 no difference · 1 differences · 3 a log is damaged or missing, as
    standard error reports, and was not compared.
    """
    with opened_log(a) as one, opened_log(b) as other, output.progress(f"comparing {a} and {b}"):
        started(one.path)  # a file without a first entry is no run that could differ
        started(other.path)
        most = None if every else DIFFERENCES_MAX
        files: list[FileDifference] = []
        found = diff(one.path, other.path, match=match, arguments=arguments, most=most, files=files)
        trees = {"a": delegation_tree(one.path), "b": delegation_tree(other.path)}
        pairs = zip((one, other), trees.values(), strict=True)
        gaps = dict.fromkeys(gap for log, tree in pairs for gap in log_gaps(log, tree))
    for each in gaps:  # what is not there, or says nonsense in a chain that holds, is no likeness
        output.complain(each)
    spent = {name: _spent(tree) for name, tree in trees.items()}
    differs = FINE if found.identical and not files else DIFFERS

    def describe() -> None:
        shown = None if every else output.LINES_MAX
        lines = ([each.expandtabs()] for each in found.lines(every=every))
        output.some(lines, shown, found.count - len(found.differences), "difference", cut=False)
        for file in files:
            output.line((f"{file.path}: the files differ at the end", "bold"))
            for line in file.diff[:shown]:
                output.line(line.expandtabs())
        for name, tree in trees.items():
            if models := ", ".join(spent[name]["models"]):
                told = words.spent(tree.usage)
                output.line(f"{name} used {models}: {told} including descendants")

    document = found.as_json() | {"spent": spent, "files": [attrs.asdict(file) for file in files]}
    return output.answer(document, describe, DAMAGED if gaps else differs)


def _spent(tree: RunNode) -> dict[str, Any]:
    """Return the requests of a run and its children by model, and the run's own part."""
    return {
        "models": sorted({model for node in below(tree) for model in node.models}),
        "usage": attrs.asdict(tree.usage),
        "own_usage": attrs.asdict(tree.own_usage),
    }
