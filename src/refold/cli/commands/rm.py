"""`refold rm`: remove a run whole (CONTRACT.md §14.10)."""

import os
import shutil
from pathlib import Path
from typing import Final

import click

from refold.cli.arguments.logs import json_option
from refold.cli.arguments.run_names import EXACT
from refold.cli.output import output, words
from refold.cli.output.pages import page
from refold.engine.errors import LogMissing, LogNameRefused
from refold.engine.log.lock import refuse_if_locked
from refold.engine.log.names import (
    PACKED_SUFFIX,
    blobs_of,
    check_root,
    files_of,
    leftovers,
    tree,
    without_children,
)

_PAGE: Final = """
Examples:
  refold rm runs/audit.jsonl
  refold rm runs/audit.jsonl runs/other.refold --dry-run
  refold rm --force a.jsonl && refold record --log a.jsonl -- ./agent.sh
"""


@click.command("rm", epilog=page(_PAGE))
@click.argument("logs", metavar="LOG...", nargs=-1, required=True, type=EXACT)
@click.option("-n", "--dry-run", "is_dry", is_flag=True, help="List the files, and remove nothing.")
@click.option("-f", "--force", "is_forced", is_flag=True, help="Ignore runs that do not exist.")
@json_option
def command(*, logs: tuple[Path, ...], is_dry: bool, is_forced: bool) -> int:
    """Remove runs: each root's log, its children's logs and its large texts.

    A running run is refused.  So is a child's log without its root's, because
    the rest of the run would no longer verify.  If a root's log is gone, use its name to remove the
    rest of the run.
    """
    found = [
        path
        for log in without_children(dict.fromkeys(logs))
        for path in _files(log, is_forced=is_forced)
    ]
    size = sum(_size(path) for path in found)
    if not is_dry:
        for path in found:
            is_folder = path.is_dir() and not path.is_symlink()  # of a link, the link goes
            shutil.rmtree(path) if is_folder else path.unlink()
    names = [output.shown_path(path) for path in found]

    def describe() -> None:
        for name in names:
            output.line(name)
        said = "would be removed" if is_dry else "removed"
        output.line((f"{words.counted(len(names), 'file')} {said}, {words.size(size)}", "dim"))

    return output.answer({"removed": names, "bytes": size, "dry_run": is_dry}, describe)


def _files(log: Path, *, is_forced: bool) -> list[Path]:
    """Return the files of a run, the root's log last: if interrupted, a run is left.

    Raises:
        LogNameRefused: it is a child's log, or not a log.
        LogLocked: it is being written.
        LogMissing: it does not exist, and `is_forced` is false.
    """
    logs, beside = [log], []
    if log.suffix != PACKED_SUFFIX:
        check_root(log)
        if log.parent.is_dir():
            logs, beside = tree(log), [blobs_of(log), files_of(log), *leftovers(log)]
    for each in logs:
        if each.is_dir():  # nothing of ours: only the folder of large texts goes with what it holds
            raise LogNameRefused(str(each), "a folder, not a log")
        refuse_if_locked(each)
    found = [path for path in (*beside, *reversed(logs)) if os.path.lexists(path)]
    if not found and not is_forced:
        raise LogMissing(str(log), "no such file, and no other files of such a run")
    return found


def _size(path: Path) -> int:
    files = path.rglob("*") if path.is_dir() and not path.is_symlink() else [path]
    return sum(each.lstat().st_size for each in files if each.is_file())
