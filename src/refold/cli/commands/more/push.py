"""`refold push`: put runs into a shared store (CONTRACT.md §4.8)."""

import contextlib
from pathlib import Path

import click

from refold.cli.arguments.moving import listed_contents, tell_moved
from refold.cli.arguments.options import argument, declared, heads_option, option
from refold.cli.arguments.run_names import PLACE, RUNS
from refold.cli.output import output
from refold.store.place import StoredRun


@declared("push")
def command(
    *,
    runs: tuple[Path, ...] = argument(RUNS, "RUN…", nargs=-1, required=True),
    store: Path | StoredRun = argument(PLACE, "URL"),
    heads: str = heads_option,
    has_files: bool = option("Add the files of recorded folders, and list them first.", "--files"),
) -> int:
    """Copy runs to a shared store, each completely or not at all.

    RUN is the log of a root run, or a folder, to push all root logs below it.  Nothing in a store
    is overwritten: runs that are already there are skipped, and a different run with the same
    name is refused.  To continue an interrupted push, run it again.

    Examples:
      refold push runs/audit.jsonl s3://bucket/audits
      refold push runs s3://bucket/audits --heads s3://elsewhere/heads
      refold push runs file:///mnt/shared/audits --json

    Credentials come from the environment (AWS_ACCESS_KEY_ID …).

    Exit code: 0 all runs are in the store · 2 a run was refused, because another
    run has its name or because it is running · 3 a run is damaged or has no end.
    """
    from refold.replay.bulk.bulk import find_logs  # noqa: PLC0415 - not for help pages
    from refold.store.push import push  # noqa: PLC0415 - the same

    if isinstance(store, Path) or store.name:
        raise click.UsageError(f"{output.shown_path(store)} is not the URL of a store")
    logs = find_logs(runs)
    with contextlib.ExitStack() as left:
        objects = (lambda log: listed_contents(log, left) or []) if has_files else None
        found = push(logs, store.url, heads=heads, objects=objects)
        moved = ((log.name, each) for log, each in found)
        return tell_moved(moved, store.url, len(logs), "pushing")
