"""Says which recordings no test uses, and how old the others are.

Tests that were collected flow in; paths of recordings flow out. Nothing is removed.
`refold.pytest_plugin` knows whether pytest ran all tests of a file. Rules: CONTRACT.md §13.12.
"""

import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from refold.engine.errors import RefoldError
from refold.engine.log.reader import read_entries
from refold.replay.testing.recordings import belongs, logs_in
from refold.testing.refold_run import folder_of

Test = tuple[Path, str | os.PathLike[str], str]
"""A test: its file, its marker's `recordings`, the stem of its recordings; empty for no test."""

_FAILED: Final = ".failed"
_DAY_SECONDS: Final = 86_400


def unused(tests: Iterable[Test]) -> list[Path]:
    """Return recordings that belong to no test, of these files or of files that are gone.

    Leftovers of a failed test are among them.  A folder outside of the test file's own may have the
    recordings of any tests, also of those that were not collected: it is left out.
    """
    own = [test for test in tests if _is_inside(*test)]
    stems = _stems(own)
    homes: dict[Path, set[Path]] = {}
    for module, recordings, _ in own:
        homes.setdefault(folder_of(module, recordings).parent, set()).add(module.parent)
    for root, places in homes.items():
        for folder in root.iterdir() if root.is_dir() else ():
            if not any((place / f"{folder.name}.py").exists() for place in places):
                stems.setdefault(folder, set())
    return [
        log
        for folder, known in stems.items()
        for log in logs_in(folder)
        if not belongs(log.stem.removesuffix(_FAILED), known) and _recorded_at(log) is not None
    ]


def older(tests: Iterable[Test], days: float) -> list[tuple[int, Path]]:
    """Return recordings of these tests that are older than `days`, with their age in whole days."""
    now = time.time()
    return [
        (int((now - at) / _DAY_SECONDS), log)
        for folder, known in _stems(tests).items()
        for log in logs_in(folder)
        if belongs(log.stem, known) and (at := _recorded_at(log)) is not None
        if now - at > days * _DAY_SECONDS
    ]


def _stems(tests: Iterable[Test]) -> dict[Path, set[str]]:
    stems: dict[Path, set[str]] = {}
    for module, recordings, stem in tests:
        stems.setdefault(folder_of(module, recordings), set()).update([stem] if stem else ())
    return stems


def _is_inside(module: Path, recordings: str | os.PathLike[str], _stem: str) -> bool:
    folder = Path(os.path.normpath(folder_of(module, recordings)))
    return folder.is_relative_to(module.parent)


def _recorded_at(log: Path) -> float | None:
    """Return when a run was begun, in seconds since 1970; `None` if it is not a log."""
    try:
        first = next(read_entries(log, verify=False))
    except (RefoldError, StopIteration):
        return None
    return float(first.meta.get("wall_us", 0)) / 1e6 if first.kind == "run.started" else None
