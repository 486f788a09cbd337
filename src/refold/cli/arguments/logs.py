"""Opens a LOG argument, plain or packed, and names its files to people.

And their texts when a log's program has to be named. Rules: CONTRACT.md §4 (names), §4.6 (packed
logs), §4.8 (stored runs), §14.9.
"""

import contextlib
import itertools
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs

from refold.cli.output import output
from refold.engine.errors import (
    EntryMissing,
    EventMalformed,
    LogDamaged,
    LogMissing,
    LogObserved,
    LogUnsupported,
    RefoldError,
)
from refold.engine.events.events import COMPLETES, RunStarted, run_and_call
from refold.engine.log.blobs import BlobBroken
from refold.engine.log.descriptors import holding
from refold.engine.log.names import SUFFIX, root_of
from refold.engine.log.pack import opened
from refold.engine.log.reader import Entry, read_entries
from refold.engine.values import Value
from refold.replay.index.guarantee import MATCHED, OBSERVED, is_observed, refuse_observed
from refold.store.place import StoredRun

if TYPE_CHECKING:
    from refold.replay.index.kept_folds import KeptFolds


@attrs.frozen
class OpenedLog(Value):
    """A log that can be read."""

    path: Path
    """Its current place; for a packed one, the unpacked copy."""
    given: Path | StoredRun
    """As it was named."""

    def shown(self, path: str | Path) -> str:
        """Return how a file of this tree is named to people: never by where it was unpacked."""
        if isinstance(self.given, StoredRun):
            return output.shown_path(StoredRun(self.given.url, Path(path).name))
        if self.path == self.given:
            return output.shown_path(path)
        return f"{output.shown_path(self.given)}:{output.shown_path(Path(path).name)}"

    def named(self, document: dict[str, Any], *below: str) -> dict[str, Any]:
        """Name the files of a document to people, and of those in its lists `below`; return it."""
        return named(document, *below, shown=self.shown)


def named(
    document: dict[str, Any], *below: str, shown: Callable[[str], str] = output.shown_path
) -> dict[str, Any]:
    """Name the files of a document to people, and of those in its lists `below`; return it."""
    waiting = [document]
    for each in waiting:
        for member in ("log", "path"):
            if each.get(member):
                each[member] = shown(each[member])
        waiting += [row for name in below for row in each.get(name, ())]
    return document


def _readable(given: Path | StoredRun) -> contextlib.AbstractContextManager[Path]:
    if isinstance(given, Path):
        return opened(given)
    from refold.store.pull import fetched  # noqa: PLC0415 - few logs lie in a store

    return fetched(given)


_NONSENSE: Final = (
    ArithmeticError, AssertionError, AttributeError, BlobBroken, EventMalformed, LookupError,
    RecursionError, TypeError, ValueError,
)  # fmt: skip
"""Exceptions of code that reads data of the wrong form."""


@contextlib.contextmanager
def opened_log(given: Path | StoredRun) -> Iterator[OpenedLog]:
    """Yield a readable log, unpacked or fetched for as long as the block lasts.

    Anyone can make a log with a valid chain and nonsense as data. An error over it in the block is
    reported as damage, if `verify` finds any; else it is a fault of ours.

    Raises:
        LogMissing: the file does not exist.
        LogUnsupported: it is a different kind of archive, or an incomplete packed log.
        LogDamaged: the block failed over data that does not fit its kind.
    """
    with holding(), _readable(given) as path:
        log = OpenedLog(path, given)
        try:
            yield log
        except LogObserved as error:
            error.path = output.shown_path(given)
            raise
        except (LogDamaged, LogUnsupported, LogMissing, EntryMissing) as error:
            if isinstance(error, LogUnsupported) and not error.path:  # a kind without a place
                raise _damage(log, error) or error from None
            if Path(error.path).parent == path.parent:  # or another LOG's
                error.path = log.shown(error.path)
            raise
        except _NONSENSE as error:
            damage = _damage(log, error)
            if damage is None:
                raise
            raise damage from None


@contextlib.contextmanager
def continuing(log: OpenedLog) -> Iterator["KeptFolds"]:
    """Let folds continue from what earlier commands read of a log; report unread entries."""
    from refold.replay.index.kept_folds import KeptFolds, cache_folder, keeping  # noqa: PLC0415 - pickle

    kept = KeptFolds(cache_folder() if log.path == log.given else None)
    with keeping(kept):
        yield kept
    if kept.skipped:
        count = f"{sum(kept.skipped.values()):,} entries"
        said = "were read by an earlier command and not verified now; to verify them"
        output.hint(f"{count} {said}: {output.command('verify', log.given)}")


def _damage(log: OpenedLog, error: Exception) -> RefoldError | None:
    """Return the damage of a log that made us fail; `None` if it is intact."""
    from refold.replay.audit.verify import verify  # noqa: PLC0415 - only where something went wrong

    try:
        damage = verify(log.path).damage
    except RefoldError as refusal:
        return refusal
    except Exception:  # noqa: BLE001 - it failed over the same entry
        found = f"{type(error).__name__}: {error}"
        return LogDamaged(
            log.shown(log.path), 1, 0, "entries that fit their kinds", found, "malformed"
        )
    return attrs.evolve(damage[0], path=log.shown(damage[0].path)).as_error() if damage else None


def refuse_damaged(log: OpenedLog) -> None:
    """Refuse a record that is not intact, or that has a damaged run below it.

    Raises:
        LogDamaged: the first damage.
    """
    from refold.replay.audit.verify import verify  # noqa: PLC0415 - not for whoever shows

    for report in verify(log.path).logs:
        if report.broken is not None:
            raise report.broken.as_error()


def first_entry(path: Path) -> Entry:
    """Return the first entry of a log.

    Raises:
        LogDamaged: it does not verify, or is empty.
    """
    return next(read_entries(path, resolve=True))


def edited_in(path: Path) -> frozenset[tuple[str, str]]:
    """Return kind and call of each entry of a log that an edit of a fork made (§12.11)."""
    root = root_of(path) if path.suffix == SUFFIX else path
    with contextlib.suppress(RefoldError, OSError, StopIteration):
        edits = (first_entry(root).data.get("origin") or {}).get("edits", ())
        run = first_entry(path).data.get("path", "")
        kinds = ("model.answered", "tool.called") if is_observed(path) else _EDITED
        calls = [call for above, call in map(run_and_call, edits) if above == run]
        return frozenset(itertools.product(kinds, calls))
    return frozenset()


_EDITED: Final = (*COMPLETES, "value.drawn")
"""Kinds of entries that an edit sets; for a watched command, a tool call's key changes the call."""


def started(path: Path) -> RunStarted:
    """Return the first entry of a log.

    Raises:
        LogDamaged: it does not verify.
        EventMalformed: it is not `run.started`.
    """
    first = first_entry(path)
    event = first.event
    if not isinstance(event, RunStarted):
        raise EventMalformed(first.kind, "", "run.started", first.kind)
    return event


def guarantee_of(log: Path) -> dict[str, str]:
    """Return {guarantee} as reports of a watched command's log have it; of a program's, nothing."""
    return {"guarantee": MATCHED} if is_observed(log) else {}


def print_guarantee(told: Mapping[str, str]) -> None:
    """Print the line of a report that names the guarantee of a watched command's log."""
    if told:
        output.line((f"guarantee: {told['guarantee']} ({OBSERVED})", "dim"))


def program_started(log: OpenedLog) -> RunStarted:
    """Return the first entry of a program's log.

    Raises:
        LogObserved: the log is a watched command's; the text gives the right command.
        LogDamaged: it does not verify.
    """
    return refuse_observed(Path(log.given), started(log.path))
