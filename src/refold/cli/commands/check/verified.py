"""Verifies logs, also with the heads that are kept of them elsewhere: for `refold verify`."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs
import click

from refold.cli.arguments.logs import OpenedLog, first_entry, opened_log
from refold.cli.output import output
from refold.engine.errors import LogMissing, LogUnsupported, RefoldError, StoreFailed
from refold.engine.values import Value
from refold.replay.audit.verify import OTHER_HEAD, Verification, unread, verify
from refold.store.place import ObjectStore, StoredRun

if TYPE_CHECKING:
    from refold.store.kept_heads import HeadsFile

NOT_KEPT: Final = "none kept"
GONE: Final = "missing"
_HEAD_DIGITS: Final = 64


def is_folder(log: Path | StoredRun) -> bool:
    """Return whether an argument names several runs: a folder, or a store."""
    return log.is_dir() if isinstance(log, Path) else not log.name


@attrs.frozen
class KeptHeads(Value):
    """The heads that are kept elsewhere: one, those in a store or in a file, or none."""

    hash: str = ""
    store: ObjectStore | None = None
    file: "HeadsFile | None" = None

    @classmethod
    def of(cls, place: str) -> "KeptHeads":
        """Return a head, or those at a URL or in a file; an empty place for none.

        Raises:
            UsageError: it is a part of a head.
        """
        if "://" in place:
            return cls(store=ObjectStore(place))
        text = place.strip().lower()
        if not text or (not text.strip("0123456789abcdef") and not Path(place).exists()):
            if len(text) not in (0, _HEAD_DIGITS):
                raise click.UsageError(
                    f"a head has {_HEAD_DIGITS} hex digits; this one has {len(text)}"
                )
            return cls(hash=text)
        from refold.store.kept_heads import HeadsFile  # noqa: PLC0415 - only with --heads

        return cls(file=HeadsFile(Path(place)))

    def verified(self, log: OpenedLog, folder: Path | None, trust: Path | None) -> "VerifiedRun":
        """Verify a log, found below a folder, with the head that is kept of it."""
        try:
            head = self._head(log.given, folder)
        except LogMissing:
            return VerifiedRun(verify(log.path, trust=trust), log, NOT_KEPT)
        found = verify(log.path, expect_head=head or None, trust=trust)
        is_other = any(damage.what == OTHER_HEAD for damage in found.root.damage)
        return VerifiedRun(found, log, head and ("other" if is_other else "same"))

    def _head(self, log: Path | StoredRun, folder: Path | None) -> str:
        if self.file is not None:
            return self.file.head(log if isinstance(log, Path) else Path(log.name), folder)
        if self.store is None:
            return self.hash
        from refold.store.manifest import head_in  # noqa: PLC0415 - only with a store

        return head_in(self.store, Path(log.name).name)


def _stored(store: StoredRun, kept: ObjectStore | None) -> list[StoredRun]:
    """Return the runs of a store, and those that heads are kept of."""
    from refold.store.manifest import HEADS, runs_in  # noqa: PLC0415 - only with a store

    names = {*runs_in(ObjectStore(store.url)), *(runs_in(kept, HEADS) if kept is not None else ())}
    return [StoredRun(store.url, name) for name in sorted(names)]


@attrs.frozen
class VerifiedRun(Value):
    """One tree, and its results."""

    verification: Verification
    log: OpenedLog
    """As it is named; a packed one is closed by now."""
    expected: str = ""
    """Whether its head is the kept one: `same`, `other`, `none kept`, `missing`; empty if no head
    was asked for."""

    @property
    def is_fine(self) -> bool:
        """Whether it is intact and complete."""
        return self.verification.intact and self.verification.complete

    @property
    def is_authentic(self) -> bool:
        """Whether a trusted key signed it."""
        return self.verification.authentic is True


def verified_below(
    places: Sequence[Path | StoredRun], kept: KeptHeads, trust: Path | None
) -> list[VerifiedRun]:
    """Return the results for each root log; an unreadable one does not stop the others.

    Raises:
        LogMissing: a path does not exist, or has no logs.
    """
    from refold.replay.bulk.bulk import find_logs  # noqa: PLC0415 - imports what executes programs

    paths = [each for each in places if isinstance(each, Path)]
    folders = [each for each in paths if each.is_dir()]
    found_logs = find_logs(paths) if paths else []
    if kept.file is not None:
        found_logs += [log for each in folders for log in kept.file.logs(each)]
    logs: dict[Path | StoredRun, Path | None] = {
        log: next((each for each in folders if log.is_relative_to(each)), None)
        for log in found_logs
    }
    for place in places:
        if isinstance(place, StoredRun):
            logs |= dict.fromkeys([place] if place.name else _stored(place, kept.store))
    found: list[VerifiedRun] = []

    def verified(given: Path | StoredRun) -> VerifiedRun:
        try:
            with opened_log(given) as log:
                return kept.verified(log, logs[given], trust)
        except StoreFailed:  # no run would be read any more
            raise
        except (RefoldError, click.UsageError) as error:
            expected = GONE if isinstance(error, LogMissing) else ""
            return VerifiedRun(_unread(given, error), OpenedLog(Path(given), given), expected)

    with output.progress(lambda: f"verifying {len(found) + 1:,} of {len(logs):,} logs"):
        results: Iterator[VerifiedRun] = map(verified, logs)
        if any(isinstance(each, StoredRun) for each in logs):
            from refold.store.push import at_once  # noqa: PLC0415 - few logs lie in a store

            results = at_once(verified, logs)
        for result in results:
            found.append(result)  # noqa: PERF402 - progress is how many there are
    return found


def _unread(log: Path | StoredRun, error: RefoldError | click.UsageError) -> Verification:
    """Return the result for a file that cannot be judged."""
    what = error.what if isinstance(error, LogUnsupported) else "not a log"
    found = error.format_message() if isinstance(error, click.UsageError) else str(error)
    return unread(str(log), found, what)


def kept_line(one: VerifiedRun, folders: Sequence[Path]) -> bytes:
    """Return the line of a sound log in a list of heads."""
    from refold.store.kept_heads import KeptHead  # noqa: PLC0415 - only with --write-heads

    given, root = one.log.given, one.verification.root
    name = given.name
    if isinstance(given, Path):
        folder = next((each for each in folders if given.is_relative_to(each)), given.parent)
        name = Path(os.path.relpath(given, folder)).as_posix()
    with opened_log(given) as log:
        run = str(first_entry(log.path).data.get("run_id", ""))
    return KeptHead(name, run, root.entries, root.head).encoded()
