"""`refold rm`: remove a run whole (CONTRACT.md §14.10)."""

import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, get_args

import click

from refold.cli.arguments.options import argument, declared, option
from refold.cli.arguments.run_list import listed_runs, moment
from refold.cli.arguments.run_names import EXACT
from refold.cli.output import output, words
from refold.engine.errors import LogMissing, LogNameRefused
from refold.engine.events.outcome import Status
from refold.engine.log.blobs import own_paths, remove_all
from refold.engine.log.line import FIRST
from refold.engine.log.lock import refuse_if_locked
from refold.engine.log.names import (
    PACKED_SUFFIX,
    SUFFIX,
    blobs_of,
    files_of,
    leftovers,
    root_of,
    tree,
    without_children,
)
from refold.replay.index.kept_folds import KeptFolds, cache_folder

_ENDED: Final = (*get_args(Status), "broke_off", "unreadable")


@declared("rm")
def command(
    *,
    logs: tuple[Path, ...] = argument(EXACT, "LOG|DIR...", nargs=-1),
    before: float | None = option(
        "Runs of DIR (by default runs/) that started before: 30d, 2026-01-31.",
        "--older-than TIME",
        callback=moment,
    ),
    status: tuple[str, ...] = option(
        f"Runs of DIR with this status; can be repeated. One of {', '.join(_ENDED)}.",
        "STATUS",
        type=click.Choice(_ENDED),
    ),
    is_sure: bool = option("Do not ask before removing runs of DIR.", "--yes"),
    is_dry: bool = option("List the files without removing them.", "-n", "--dry-run"),
    is_forced: bool = option("Ignore runs that do not exist.", "-f", "--force"),
) -> int:
    """Remove runs, with the logs of their children and their large texts.

    Runs that are still running are refused, and so are logs of children without their root's,
    because the rest of the run would no longer verify.  If a root's log no longer exists, use its
    name to remove the rest of the run.

    With --older-than or --status, the matching runs of DIR are listed and removed after
    confirmation, except for those that are running or waiting for a person.

    Examples:
      refold rm runs/audit.jsonl
      refold rm --older-than 30d --status failed
      refold rm runs/audit.jsonl runs/other.refold --dry-run
      refold rm --force a.jsonl && refold record --log a.jsonl -- ./agent.sh
    """
    if chooses := before is not None or bool(status):
        logs = tuple(_chosen(logs or (Path("runs"),), before, status))
    elif not logs:
        raise click.UsageError("expected a LOG, --older-than or --status")
    elif other := next(filter(_is_other, logs), None):
        raise LogNameRefused(
            output.shown_path(other), "not a log, so nothing was removed; to remove it, use rm"
        )
    found = [
        path
        for log in without_children(dict.fromkeys(logs))
        for path in _files(log, is_forced=is_forced)
    ]
    size = sum(_size(path) for path in found)
    if chooses and logs and not (is_dry or is_sure):
        _ask(logs, size)
    if not is_dry:
        KeptFolds(cache_folder()).forget(found)
        remove_all(found)
    names = [output.shown_path(path) for path in found]

    def describe() -> None:
        for name in names:
            output.line(name)
        said = "would be removed" if is_dry else "removed"
        output.line((f"{words.counted(len(names), 'file')} {said}, {words.size(size)}", "dim"))

    return output.answer({"removed": names, "bytes": size, "dry_run": is_dry}, describe)


def _is_other(path: Path) -> bool:
    """Return whether a file named like a log has never been one, such as a data set, or a pipe."""
    if path.suffix != SUFFIX or path.is_dir() or not path.exists():
        return False
    if not path.is_file():
        return True
    with path.open("rb") as file:
        return not FIRST.startswith(file.read(len(FIRST)))


def _chosen(
    folders: Iterable[Path], before: float | None, status: tuple[str, ...]
) -> Iterator[Path]:
    """Yield the runs that fit; those that ended, unless another status is asked for.

    Raises:
        click.UsageError: it is not a folder.
    """
    for folder in folders:
        if not folder.is_dir():
            raise click.UsageError(f"{output.shown_path(folder)} is not a folder")
        for run in listed_runs(folder):
            is_old = before is None or 0 < run.wall_us < before * 1_000_000
            if is_old and run.status in (status or get_args(Status)):
                yield run.path


def _ask(logs: tuple[Path, ...], size: int) -> None:
    """Show what would be removed, and ask for consent; without a terminal, refuse."""
    for log in logs:
        output.note(output.shown_path(log))
    asks = f"{words.counted(len(logs), 'run')}, {words.size(size)}"
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise click.UsageError(f"{asks}: nothing was removed; to remove them, add --yes")
    if not click.confirm(f"Remove {asks}?", err=True):
        raise click.UsageError("nothing was removed")


def _files(log: Path, *, is_forced: bool) -> list[Path]:
    """Return the files of a run, the root's log last: if interrupted, a run is left.

    Raises:
        LogNameRefused: it is a child's log, or not a log.
        LogLocked: it is being written.
        LogMissing: it does not exist, and `is_forced` is false.
    """
    logs, beside = [log], []
    if log.suffix != PACKED_SUFFIX:
        if log.suffix != SUFFIX and log.is_dir():
            said = "a folder: to remove runs of it, add --older-than or --status"
            raise LogNameRefused(output.shown_path(log), said)
        if log != root_of(log):
            line = output.command("rm", root_of(log))
            said = f"the log of a subagent, which is removed with its run: {line}"
            raise LogNameRefused(output.shown_path(log), said)
        if log.parent.is_dir():
            logs = [log, *(child for child in tree(log)[1:] if not _is_other(child))]
            large = (
                path for folder in (blobs_of(log), files_of(log)) for path in own_paths(folder)
            )
            beside = [*large, *leftovers(log)]
    for each in logs:
        if each.is_dir():  # nothing of ours: only the folder of large texts goes with what it holds
            raise LogNameRefused(str(each), "a folder, not a log")
        refuse_if_locked(each)
    found = [path for path in (*beside, *reversed(logs)) if os.path.lexists(path)]
    if not found and not is_forced:
        raise LogMissing(str(log), "no such run")
    return found


def _size(path: Path) -> int:
    files = path.rglob("*") if path.is_dir() and not path.is_symlink() else [path]
    return sum(each.lstat().st_size for each in files if each.is_file())
