"""What commands do with a LOG argument: plain or packed, and how its files are named to people.

Rules: CONTRACT.md §4 (names), §4.6 (packed logs).
"""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import attrs
import click

from refold.cli import output
from refold.engine.errors import EventMalformed
from refold.engine.events import RunStarted
from refold.engine.log import Entry, read_entries
from refold.engine.log.pack import opened

Command = Callable[..., Any]

LOG: Final = click.Path(path_type=Path)
"""The type of a LOG argument; whether it is there, the reader says better than click."""

json_option: Final[Callable[[Command], Command]] = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON document instead (see refold schema)."
)


@attrs.frozen
class OpenedLog:
    """A log that can be read."""

    path: Path
    """Where it lies now; of a packed one, the unpacked copy."""
    given: Path
    """As it was named."""

    def shown(self, path: str | Path) -> str:
        """Return how a file of this tree is named to people: never by where it was unpacked."""
        if self.path == self.given:
            return output.shown_path(path)
        return f"{output.shown_path(self.given)}:{output.shown_path(Path(path).name)}"


@contextlib.contextmanager
def opened_log(given: Path) -> Iterator[OpenedLog]:
    """Give a readable log, unpacked for as long as the block lasts.

    Raises:
        LogMissing: there is no file.
        LogUnsupported: it is an archive of another sort.
    """
    with opened(given) as path:
        yield OpenedLog(path, given)


def first_entry(path: Path) -> Entry:
    """Return the first entry of a log.

    Raises:
        LogDamaged: it does not verify, or there is none.
    """
    return next(read_entries(path, resolve=True))


def started(path: Path) -> RunStarted:
    """Return what the first entry of a log says.

    Raises:
        LogDamaged: it does not verify.
        EventMalformed: it is no `run.started`.
    """
    first = first_entry(path)
    event = first.event
    if not isinstance(event, RunStarted):
        raise EventMalformed(first.kind, "", "run.started", first.kind)
    return event
