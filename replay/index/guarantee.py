"""Tells the log of a watched command from that of a program: by the guarantee in its first entry.

What re-executes a program refuses the one, what runs a command again refuses the other.
Rules: CONTRACT.md §16.2.
"""

from pathlib import Path
from typing import Final

from refold.engine.errors import LogObserved
from refold.engine.events.events import RunStarted
from refold.engine.log.reader import read_entries

MATCHED: Final = "matched"
"""The guarantee of a watched command's record."""

GUARANTEE: Final = (
    "requests were matched with the record; the command itself was not run on Refold's kernel"
)
"""What it means, where requests were."""
MAIN: Final = "main"
"""The name of the agent that a watched command begins with."""
OBSERVED: Final = "its requests were recorded; the command itself was not run on Refold's kernel"
"""What it means of a log of which nothing was run."""


def is_observed(log: Path) -> bool:
    """Return whether a log is a watched command's; of the log, only the first entry is read.

    Raises:
        LogMissing: there is none.
        LogDamaged: its first entry does not verify.
        LogUnsupported: it was written by a newer version.
    """
    first = next(iter(read_entries(log, torn_ok=True)), None)
    return first is not None and first.data.get("guarantee") == MATCHED


def refuse_observed(log: Path, started: RunStarted) -> RunStarted:
    """Return `started` if it is a program's.

    Raises:
        LogObserved: it is a watched command's.
    """
    if started.guarantee == MATCHED:
        raise LogObserved(str(log), is_observed=True)
    return started


def refuse_program(log: Path, started: RunStarted) -> RunStarted:
    """Return `started` if it is a watched command's.

    Raises:
        LogObserved: it is a program's.
    """
    if started.guarantee != MATCHED:
        raise LogObserved(str(log), is_observed=False)
    return started
