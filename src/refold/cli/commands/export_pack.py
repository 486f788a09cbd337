"""Packs a tree of logs into one file, which every command reads: `refold export --to refold`.

Rules: CONTRACT.md §4.6.
"""

import contextlib
from pathlib import Path
from typing import Final

import click

from refold.cli.arguments.logs import OpenedLog, opened_log
from refold.cli.arguments.moving import listed_contents
from refold.cli.output import output, words
from refold.cli.output.exit_codes import DAMAGED, FINE
from refold.engine.log.damage import TORN_TAIL
from refold.engine.log.names import tree
from refold.engine.log.pack import pack
from refold.replay.audit.verify import START_MISSING, verify

_SHOWN: Final = 10
"""Places of damage that are listed."""
HARMLESS: Final = frozenset({TORN_TAIL, START_MISSING})
"""The damage that a crash leaves."""


def export_pack(log: Path, target: Path, *, has_files: bool) -> int:
    """Pack a run's log, its children's logs and their large texts; nothing is overwritten.

    With `has_files`, also the files of a watched command's folder, which are listed first.
    """
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
        {"exported": shown, "to": "refold", "logs": logs, "bytes": size},
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
