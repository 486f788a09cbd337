"""The types of arguments that name a run: a file, `@last`, how its name begins, a store's URL.

Rules: CONTRACT.md §14.1.
"""

import os
import re
from pathlib import Path
from typing import Any, Final

import click

from refold.cli.output import output
from refold.engine.log.names import is_runs
from refold.replay.difference.pointer_diff import few
from refold.store.place import stored_run

_AT: Final = re.compile(r"@(?:last|-([1-9][0-9]{0,5}))")
"""The newest root run of a folder, or the second newest, `@-2`."""
_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


class _Run(click.Path):
    """The type of an argument that names a run: a file, `@last`, `@-2`, or how its name begins."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path of the run; as it was given, if there is such a file, or no such run."""
        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        if not isinstance(value, str) or os.path.lexists(path) or not path.name:
            return path
        try:
            return self._found(value, path.name, path.parent) or path
        except OSError:  # no folder, or one that cannot be listed: the command says so
            return path

    def _found(self, value: str, name: str, folder: Path) -> Path | None:
        folder = folder if "/" in value else Path("runs")
        if at := _AT.fullmatch(name):
            from refold.cli.arguments.run_list import listed_runs  # noqa: PLC0415 - if it is asked

            runs = [each.path for each in listed_runs(folder) if each.status != "unreadable"]
            number = int(at[1] or 1)
            if number > len(runs):
                has = "no run" if not runs else f"{len(runs)} run{'s' * (len(runs) != 1)}"
                raise click.UsageError(f"{value}: {folder} has {has}")
            output.hint(f"{value} is {output.shown_path(runs[-number])}")
            return runs[-number]
        begin = [each for each in folder.iterdir() if each.name.startswith(name) and is_runs(each)]
        if len(begin) > 1:
            names = few(sorted(each.name for each in begin), 3)
            raise click.UsageError(f"{value} is the beginning of {len(begin)} runs: {names}")
        return begin[0] if begin else None


RUN: Final = _Run(path_type=Path)
"""The type of a LOG argument that is read."""


class _Place(_Run):
    """The type of an argument that is a run, a folder or the URL of a store."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return a path, or the log of a URL."""
        if isinstance(value, str) and _URL.match(value):
            return stored_run(value)
        return super().convert(value, param, ctx)


PLACE: Final = _Place(path_type=Path)
"""The type of an argument that may be the URL of a store, too."""
