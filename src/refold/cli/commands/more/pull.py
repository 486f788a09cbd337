"""`refold pull`: bring runs out of a shared store (CONTRACT.md §4.8)."""

from pathlib import Path

import click

from refold.cli.arguments.moving import tell_moved
from refold.cli.arguments.options import argument, declared, heads_option, option
from refold.cli.arguments.run_names import PLACE, RUNS_FOLDER
from refold.cli.output import output
from refold.engine.log.names import SUFFIX
from refold.store.place import StoredRun


@declared("pull")
def command(
    *,
    store: Path | StoredRun = argument(PLACE, "URL"),
    runs: tuple[str, ...] = argument(click.STRING, "[RUN]…", nargs=-1),
    folder: Path = option("Output folder.", "--to DIR", default=RUNS_FOLDER),
    large: bool = option("Also copy runs of more than 4 GiB."),
    heads: str = heads_option,
) -> int:
    """Copy runs from a shared store to a folder; by default, all of them.

    Each run is verified before it gets its name, so a damaged run or an interrupted transfer does
    not leave any files behind.  Nothing is overwritten.

    Examples:
      refold pull s3://bucket/audits audit.jsonl
      refold pull s3://bucket/audits/audit.jsonl --to /tmp/audits
      refold pull s3://bucket/audits            all of its runs

    Exit code: 0 all runs are here · 2 a run was refused, because another file has
    its name or because it does not exist · 3 a run is damaged in the store.
    """
    from refold.store.pull import pull  # noqa: PLC0415 - not for help pages

    if isinstance(store, Path):
        raise click.UsageError(f"{output.shown_path(store)} is not the URL of a store")
    names = [*([store.name] if store.name else []), *runs]
    named = list(dict.fromkeys(name.removesuffix(SUFFIX) + SUFFIX for name in names))
    moved = pull(store.url, named, folder, heads=heads, large=large)
    return tell_moved(moved, store.url, len(named), "pulling")
