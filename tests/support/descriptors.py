"""What a process has open, so that a test sees what it left: each descriptor with what it leads to.

A number alone would do as little as a count: the collector may close an earlier test's meanwhile.
"""

import contextlib
from pathlib import Path


def open_descriptors() -> set[tuple[str, str]]:
    """Return the descriptors of this process, by number, with what each leads to."""
    found = set()
    for path in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # the listing's own
            found.add((path.name, str(path.readlink())))
    return {each for each in found if not each[1].endswith("/fd")}
