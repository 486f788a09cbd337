"""The entries of one log as the page needs them: their times, their scopes, their large texts.

Rules: CONTRACT.md §14.16.
"""

import contextlib
import re
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final

from refold.engine.errors import LogError
from refold.engine.events.codec import structure
from refold.engine.events.events import scope_of
from refold.engine.log.blobs import BlobBroken, is_marked, resolved
from refold.engine.log.reader import Entry, read_entries
from refold.replay.index.times import LogTimes

_BLOB: Final = re.compile(rb'\{"\$blob":"([0-9a-f]{64})","bytes":(\d{1,12})\}')
"""As a log writes it; who writes the same as text of his own names a blob that is not there."""


def read_times(path: Path, origin_us: tuple[int, int], most: int) -> tuple[list[int], list[str]]:
    """Return the time and the scope of each entry of a log, up to its damage or `most`."""
    clock, times, scopes = LogTimes(origin_us), list[int](), list[str]()
    for entry in sound(path, most):
        times.append(clock.at(entry))
        scopes.append(sys.intern(scope_of(entry.call or "")))
    return times, scopes


def large_texts(path: Path, most: int) -> dict[str, int]:
    """Return the sizes of the large texts that a log names, by digest."""
    lines = (entry.line for entry in sound(path, most) if is_marked(entry.line))
    return {name.decode(): int(size) for line in lines for name, size in _BLOB.findall(line)}


def sound(path: Path, most: int | None = None, *, resolve: bool = False) -> Iterator[Entry]:
    """Yield the entries of a log up to the first that is damaged or malformed, at most `most`."""
    with contextlib.suppress(LogError, BlobBroken):
        for entry in islice(read_entries(path, resolve=resolve, torn_ok=True), most):
            has_texts = resolve or not is_marked(entry.line)
            structure(entry.kind, entry.data if has_texts else resolved(entry.data, _no_text))
            yield entry


def _no_text(_name: str, _size: int) -> str:
    return ""
