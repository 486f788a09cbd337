"""The types of arguments that name runs: a file, a folder, `@last`, a name's begin, a store's URL.

Rules: CONTRACT.md §14.1.
"""

import os
import re
from pathlib import Path
from typing import Any, Final

import click

from refold.cli.arguments.options import UserPath
from refold.cli.output import output
from refold.engine.errors import UsageError
from refold.engine.log.names import SUFFIX, followed, is_runs
from refold.replay.difference.pointer_diff import few
from refold.store.place import StoredRun, stored_run

_AT: Final = re.compile(r"@(?:last|-([1-9][0-9]{0,5}))")
"""The newest root run of a folder, or the second newest, `@-2`."""
_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
RUNS_FOLDER: Final = Path("runs")
"""The folder of runs unless one is named."""
_MADE: Final = re.compile(r"^[0-9]{8}T[0-9]{6}Z-.+-([0-9a-f]{6})\.")
"""A name that Refold chose, and its last part."""
_NAMED: Final = 3
"""Runs of a folder that are named where one is needed."""


class _Runs(UserPath):
    """The type of an argument that names a run, as `_Run` does, or a folder of runs.

    A run in a store is fetched into a private folder, which is removed when the command ends. What
    people read names the URL (`output.shown_path`). Rules: CONTRACT.md §4.8.
    """

    _is_read = True
    """Whether the command only reads the run; writing follows no link."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path of the run; as it was given, if there is such a file, or no such run."""
        if value == "":
            raise click.UsageError("an empty text names no run: is a variable unset?", ctx)
        if isinstance(value, str) and _URL.match(value):
            return self._stored(stored_run(value), ctx)
        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        if not isinstance(value, str) or os.path.lexists(path) or not path.name:
            return followed(path) if self._is_read else path
        try:
            found = self._found(value, path.name, path.parent)
        except OSError:  # the command reports a folder that cannot be listed
            found = None
        if found is None and (near := _nearest(path)):
            raise click.UsageError(f"{value}: no such run; did you mean {near}?")
        return found or path

    def _stored(self, run: StoredRun, ctx: click.Context | None) -> Path | StoredRun:
        from refold.store.pull import fetched  # noqa: PLC0415 - few logs are in a store

        command = ctx or click.get_current_context()
        copy = command.find_root().with_resource(fetched(run))
        output.note_copy(copy.parent, run.url)
        return copy

    def _found(self, value: str, name: str, folder: Path) -> Path | None:
        folder = folder if "/" in value else RUNS_FOLDER
        if at := _AT.fullmatch(name):
            from refold.cli.arguments.run_list import listed_runs  # noqa: PLC0415 - if it is asked

            runs = [each.path for each in listed_runs(folder) if each.status != "unreadable"]
            number = int(at[1] or 1)
            if number > len(runs):
                has = "no run" if not runs else f"{len(runs)} run{'s' * (len(runs) != 1)}"
                raise click.UsageError(f"{value}: {folder} has {has}")
            output.hint(f"{value} is {output.shown_path(runs[-number])}")
            return runs[-number]
        runs = [each for each in folder.iterdir() if is_runs(each)]
        found = [each for each in runs if each.name == f"{name}{SUFFIX}"] or [
            each for each in runs if each.name.startswith(name) or each.stem.endswith(f"-{name}")
        ]
        if len(found) > 1:
            names = few(sorted(each.name for each in found), _NAMED)
            raise click.UsageError(f"{value} is ambiguous, {len(found)} runs match: {names}")
        return found[0] if found else None


def _nearest(path: Path) -> str:
    """Return how the run is named that was most likely meant, beside it or in `runs/`; or empty."""
    if path.name.startswith("@"):
        return "" if _AT.fullmatch(path.name) else "@last, or @-2 for the one before it"
    if ".py:" in path.name:
        return f"--program {path}"
    from difflib import get_close_matches  # noqa: PLC0415 - only to complain

    folders = {path.parent, *([Path("runs")] if path.parent == Path() else [])}
    there = (each for at in folders if at.is_dir() for each in at.iterdir())
    names = {each.name.partition(".")[0]: each for each in there if is_runs(each)}
    near = get_close_matches(path.name.partition(".")[0], names, 1)
    return output.shown_path(names[near[0]]) if near else ""


def short_name(path: Path, folder: Path = RUNS_FOLDER) -> str:
    """Return a short text that names a run of a folder: `cdd500`, `audit`; of others, its path.

    It is a LOG argument as it is for a run of `runs/`, else behind the folder.
    """
    if path.parent != folder or folder == Path():
        return output.shown_path(path)
    made = _MADE.search(path.name)
    return made[1] if made else path.name.removesuffix(SUFFIX)


class _Run(_Runs):
    """The type of an argument that names one run: a file, a URL, `@last`, `@-2`, a name's begin.

    A folder is its only run.
    """

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path of the run."""
        return one_run(super().convert(value, param, ctx))


def one_run(path: Path) -> Path:
    """Return a run; of a folder, its only one.

    Raises:
        UsageError: the folder has none, or several.
    """
    if not path.is_dir():
        return path
    from refold.cli.arguments.run_list import listed_runs  # noqa: PLC0415 - if it is asked

    shown, runs = output.shown_path(path), listed_runs(path)
    runs = [each for each in runs if each.status != "unreadable"] or runs
    if len(runs) == 1:
        output.hint(f"{shown} is a folder with one run: {runs[0].log}")
        return runs[0].path
    newest = few([each.log for each in reversed(runs)], _NAMED)
    has = f"{len(runs)} runs ({newest}): name one; to list them" if runs else "no run; to list"
    raise click.UsageError(f"{shown} is a folder with {has}: {output.command('ls', path)}")


RUN: Final = _Run(path_type=Path)
"""The type of a LOG argument that is read."""
RUNS: Final = _Runs(path_type=Path)
"""The type of a LOG argument that may be a folder of runs, too."""


class _Place(_Runs):
    """The type of an argument that is a run, a folder or the URL of a store."""

    def _stored(self, run: StoredRun, ctx: click.Context | None) -> StoredRun:
        del ctx
        return run


PLACE: Final = _Place(path_type=Path)
"""The type of an argument that may be the URL of a store, too."""


class _Own(_Runs):
    """The type of an argument that names a run that the command changes."""

    _is_read = False

    def _stored(self, run: StoredRun, ctx: click.Context | None) -> Path:
        del ctx
        copy = f"`refold pull {run.url} {run.name}".rstrip()
        raise UsageError(
            f"{run}: runs in a store cannot be changed; to copy it to runs/, use {copy}`"
        )


OWN: Final = _Own(path_type=Path)
"""The type of a LOG argument that is written to."""


class _Exact(_Own):
    """The type of an argument that is a run by its full name only."""

    def _found(self, value: str, name: str, folder: Path) -> None:
        del folder
        if name.startswith("@"):
            raise click.UsageError(f"{value}: a run is removed by its full name only")


EXACT: Final = _Exact(path_type=Path)
"""The type of a LOG argument that is removed: half a name is not enough."""
