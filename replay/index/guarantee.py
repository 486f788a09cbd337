"""Distinguishes logs of watched commands from those of programs, by the first entry's guarantee.

Re-execution refuses the former; running a command again refuses the latter. Rules: CONTRACT.md
§16.2.
"""

from pathlib import Path
from typing import Final

from refold.engine.errors import LogObserved, LogUnsupported
from refold.engine.events.events import RunStarted
from refold.engine.events.flags import ENGINE_VERSION, Flags
from refold.engine.log.reader import read_entries

MATCHED: Final = "matched"
"""The guarantee of a watched command's record."""

GUARANTEE: Final = (
    "requests were matched with the record; the command itself was not run on Refold's kernel"
)
"""Its meaning, for matched requests."""
MAIN: Final = "main"
"""The name of the agent that a watched command begins with."""
OBSERVED: Final = "its requests were recorded; the command itself was not run on Refold's kernel"
"""Its meaning for a log that was not run again."""


def is_observed(log: Path) -> bool:
    """Return whether a log is a watched command's; only the first entry is read.

    Raises:
        LogMissing: the log does not exist.
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


def refuse_other_rules(log: Path, started: RunStarted) -> RunStarted:
    """Return `started` if its log can be re-executed by this release (CONTRACT.md §15).

    Raises:
        LogUnsupported: its steps followed other rules.
    """
    recorded, expected = started.versions.get("engine"), f"scheduling rules {ENGINE_VERSION}"
    if recorded == 1:
        found = "rules 1: it was recorded by a version before 1.0; record it again"
        raise LogUnsupported(str(log), expected, found)
    if recorded != ENGINE_VERSION:
        raise LogUnsupported(str(log), expected, f"rules {recorded!a:.40}")
    if unknown := Flags.unknown(started.versions):
        expected = "flags of scheduling that this release knows"
        raise LogUnsupported(str(log), expected, ", ".join(unknown))
    return started


def refuse_program(log: Path, started: RunStarted) -> RunStarted:
    """Return `started` if it is a watched command's.

    Raises:
        LogObserved: it is a program's.
    """
    if started.guarantee != MATCHED:
        raise LogObserved(str(log), is_observed=False)
    return started
