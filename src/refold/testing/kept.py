"""Says which recordings no test uses.

Tests that were collected flow in; paths of recordings flow out. Nothing is removed.
`refold.pytest_plugin` knows whether pytest ran all tests of a file. Rules: CONTRACT.md §13.12.
"""

import os
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


def unused(tests: Iterable[Test]) -> list[Path]:
    """Return recordings that belong to no test, of these files or of files that are gone.

    Leftovers of a failed test are among them.
    """
    stems = _stems(tests)
    homes: dict[Path, set[Path]] = {}
    for module, recordings, _ in tests:
        homes.setdefault(folder_of(module, recordings).parent, set()).add(module.parent)
    for root, places in homes.items():
        for folder in root.iterdir() if root.is_dir() else ():
            if not any((place / f"{folder.name}.py").exists() for place in places):
                stems.setdefault(folder, set())
    return [
        log
        for folder, known in stems.items()
        for log in logs_in(folder)
        if not belongs(log.stem.removesuffix(_FAILED), known) and _is_recording(log)
    ]


def _stems(tests: Iterable[Test]) -> dict[Path, set[str]]:
    stems: dict[Path, set[str]] = {}
    for module, recordings, stem in tests:
        stems.setdefault(folder_of(module, recordings), set()).update([stem] if stem else ())
    return stems


def _is_recording(log: Path) -> bool:
    try:
        return next(read_entries(log, verify=False)).kind == "run.started"
    except (RefoldError, StopIteration):
        return False
