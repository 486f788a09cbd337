"""`refold pack`: one file of a tree of logs (CONTRACT.md §4.6)."""

import contextlib
from pathlib import Path
from typing import Final

import click

from refold.cli.arguments.logs import OpenedLog, file_option, json_option, opened_log
from refold.cli.arguments.moving import listed_contents
from refold.cli.arguments.run_names import RUN
from refold.cli.output import output, words
from refold.cli.output.exit_codes import DAMAGED, FINE
from refold.cli.output.pages import page
from refold.engine.log.damage import TORN_TAIL
from refold.engine.log.names import PACKED_SUFFIX, tree
from refold.engine.log.pack import pack
from refold.replay.audit.verify import START_MISSING, verify

_SHOWN: Final = 10
"""Places of damage that are listed."""
HARMLESS: Final = frozenset({TORN_TAIL, START_MISSING})
"""The damage that a crash leaves."""

_PAGE: Final = """
Examples:
  refold pack runs/audit.jsonl                 makes runs/audit.refold
  refold pack runs/audit.jsonl -o report.refold
  refold pack runs/audit.2.jsonl               a child, and all runs below it
  refold show report.refold
  refold pack runs/agent.jsonl --workspace     replays without the repository

Exit code: 0 complete and intact · 3 a child's log or a large text is missing
or damaged, as standard error reports; the rest is packed unchanged.
"""


@click.command("pack", epilog=page(_PAGE))
@click.argument("log", type=RUN)
@file_option("-o", "--out", text="Output file; by default LOG with the suffix .refold.")
@click.option(
    "--workspace", "has_files", is_flag=True,
    help="Add the files of the recorded folder and the commits that a replay needs.",
)  # fmt: skip
@json_option
def command(*, log: Path, out: Path | None, has_files: bool) -> int:
    """Pack a run's log, its children's logs and their large texts into one file.

    Every command that reads a LOG also accepts the packed file.  Packing the same logs twice
    produces identical files.  Nothing is overwritten.

    The files of a watched command's folder are packed only with --workspace, and are listed
    first.
    """
    name = f"{log.stem}{PACKED_SUFFIX}"
    target = out if out is not None else output.folder_beside(log) / name
    with opened_log(log) as opened, output.progress(f"packing {log}"):
        if not target.absolute().parent.is_dir():
            raise click.UsageError(f"{output.shown_path(target.parent)}: no such folder")
        with contextlib.ExitStack() as left:
            objects = listed_contents(opened.path, left) if has_files else None
            if has_files and objects is None:
                raise click.UsageError(
                    f"{output.shown_path(log)}: the log does not contain a folder"
                )
            packed = pack(opened.path, target, objects)
        logs = len(tree(opened.path))
        is_whole = _tell_damage(opened)
    size = packed.stat().st_size
    shown, what = output.shown_path(packed), f"{words.counted(logs, 'log')}, {words.size(size)}"
    return output.answer(
        {"packed": shown, "logs": logs, "bytes": size},
        lambda: output.line((shown, "bold"), f"  {what}"),
        FINE if is_whole else DAMAGED,
    )


def _tell_damage(log: OpenedLog) -> bool:
    """Report missing and damaged files; return whether all are complete."""
    found = [each for each in verify(log.path).damage if each.what not in HARMLESS]
    for each in found[:_SHOWN]:
        output.complain(f"{log.shown(each.path)}:{each.line}: {each.what}")
    if len(found) > _SHOWN:
        rest = words.counted(len(found) - _SHOWN, "more place")
        output.complain(f"and {rest}: to list them, use `refold verify --json`")
    return not found
