"""Many logs verified, one after the other; nothing is executed (CONTRACT.md §5, §14.13).

Each is a tree, judged as `refold verify LOG` would, its files named as they were given.  One that
cannot be read is not intact, and stops no other.
"""

from pathlib import Path

import attrs

from refold.engine.errors import LogDamaged, LogMissing, LogUnsupported, RefoldError
from refold.engine.log.pack import opened
from refold.replay.audit.verify import LogReport, Verification, unread, verify
from refold.replay.bulk.bulk import shown


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
