"""Many logs verified side by side; nothing is executed (CONTRACT.md §5, §14.13).

Each is a tree, judged as `refold verify LOG` would, its files named as they were given.  One that
cannot be read, or whose verification ends its process, is not intact and stops no other.
"""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import attrs

from refold.engine.encoding.document import Document
from refold.engine.errors import LogDamaged, LogMissing, LogUnsupported, RefoldError
from refold.engine.log.pack import opened
from refold.engine.ports.ports import Reference
from refold.replay.audit.verify import LogReport, Verification, unread, verify
from refold.replay.bulk.bulk import in_parallel, processors, shown
from refold.replay.bulk.processes import VERIFIED, OnRow, Row, Schedule

_LOGS_EACH: Final = 1_000
"""So many logs repay the start of a process that verifies some of them."""

OnVerification = Callable[[Verification], None]
"""Called with each tree's verification as soon as it is known."""


@attrs.frozen(kw_only=True)
class VerifiedLog(Document):
    """A tree that was verified, as it crosses processes."""

    log: str
    result: str = VERIFIED
    seconds: float = 0.0
    logs: tuple[LogReport, ...]


def verifier() -> Callable[[Path], VerifiedLog]:
    """Return what verifies one tree; called in another process."""
    return lambda log: VerifiedLog(log=os.fspath(log), logs=verified(log).logs)


def verify_logs(
    logs: Sequence[Path], schedule: Schedule, on_verdict: OnVerification | None = None
) -> tuple[Verification, ...]:
    """Verify each of `logs` and the logs below it, and report in their order.

    With an empty `schedule`, separate processes are started only for
    thousands of logs.

    Raises:
        UsageError: as `replay_logs`.
    """
    trees: dict[int, Verification] = {}

    def take(index: int, tree: Verification) -> None:
        trees[index] = tree
        if on_verdict is not None:
            on_verdict(tree)

    jobs = schedule.jobs
    if schedule.timeout_seconds is None:
        jobs = jobs or min(processors(), len(logs) // _LOGS_EACH) or 1
        if jobs == 1:
            for index, log in enumerate(logs):
                take(index, verified(log))
            return tuple(trees.values())
    told: OnRow = lambda index, row: take(index, _tree_of(row))  # noqa: E731 - one line
    execute = Reference(__name__, "verifier", {})
    in_parallel(logs, execute, told, attrs.evolve(schedule, jobs=jobs))
    return tuple(trees[index] for index in range(len(logs)))


def _tree_of(row: Row) -> Verification:
    if row["result"] == VERIFIED:
        return Verification(VerifiedLog.from_json(row).logs)
    return unread(row["log"], row["message"], row["result"])


def verified(given: Path) -> Verification:
    """Return the verification of one tree, packed or not; never raises for its content."""
    try:
        with opened(given) as path:
            tree = verify(path)
    except RefoldError as error:
        if isinstance(error, LogDamaged | LogMissing | LogUnsupported):
            error.path = shown(given, Path(error.path))
        what = error.what if isinstance(error, LogUnsupported) else "not a log"
        return unread(str(given), str(error), what)
    except Exception as error:  # noqa: BLE001 - whoever can hash can write nonsense that chains
        return unread(str(given), f"{type(error).__name__}: {error}", "not a log")
    return Verification(tuple(_as_given(report, given) for report in tree.logs))


def _as_given(report: LogReport, given: Path) -> LogReport:
    damage = tuple(attrs.evolve(each, path=shown(given, Path(each.path))) for each in report.damage)
    return attrs.evolve(report, path=shown(given, Path(report.path)), damage=damage)
