"""`refold pack`: one file of a tree of logs (CONTRACT.md §4.6)."""

from pathlib import Path
from typing import Final

import click

from refold.cli import output, words
from refold.cli.errors import FINE
from refold.cli.logs import LOG, json_option
from refold.cli.pages import page
from refold.engine.log.names import PACKED_SUFFIX, tree
from refold.engine.log.pack import pack

_PAGE: Final = """
Examples:
  refold pack runs/audit.jsonl                 makes runs/audit.refold
  refold pack runs/audit.jsonl -o report.refold
  refold show report.refold
"""


@click.command("pack", epilog=page(_PAGE))
@click.argument("log", type=LOG)
@click.option(
    "-o",
    "--out",
    type=LOG,
    metavar="FILE",
    help="Where to; by default LOG with .refold at its end.",
)
@json_option
def command(*, log: Path, out: Path | None, as_json: bool) -> int:
    """Make one file of a run's log, its children's logs and their large texts.

    Every command that takes a LOG reads the packed file as well.  Packing the
    same logs twice gives the same bytes; nothing is ever overwritten.
    """
    with output.progress(f"packing {log}"):
        packed = pack(log, out if out is not None else log.with_suffix(PACKED_SUFFIX))
        logs = len(tree(log))
    size = packed.stat().st_size
    if as_json:
        output.document({"packed": output.shown_path(packed), "logs": logs, "bytes": size})
    else:
        what = f"{words.counted(logs, 'log')}, {words.size(size)}"
        output.line((output.shown_path(packed), "bold"), f"  {what}")
    return FINE
