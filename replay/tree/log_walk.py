"""One log on its way into a delegation tree: how far it was read, how long, what stopped it.

`replay.tree.delegation_tree` and `replay.tree.observed_tree` make nodes of what they are told here.
A text that is missing or damaged stops neither: the tree can be told without it.  The rules are
CONTRACT.md §13.9.
"""

from pathlib import Path
from typing import Any

from refold.engine.errors import EventMalformed, LogDamaged, LogError
from refold.engine.events.codec import structure
from refold.engine.events.events import Recorded
from refold.engine.log import Entry
from refold.engine.log.blobs import BlobBroken, BlobStore, is_marked, resolved
from refold.engine.log.damage import TORN_TAIL
from refold.engine.log.names import blobs_of
from refold.replay.tree.run_node import LogState


class Walk:
    """The entries of one log, as they are passed."""

    def __init__(self, path: Path) -> None:
        self._blobs = BlobStore(blobs_of(path))
        self._times: list[int] = []
        self.entries = 0
        """Entries that verify, so far."""
        self.head = ""
        """The hash of the last of them."""
        self.wrong: LogError | None = None
        """What stopped the reading; `None`: nothing did."""

    def passed(self, entry: Entry) -> None:
        """Take note of an entry that verifies."""
        self.entries, self.head = entry.seq + 1, entry.hash
        at = entry.meta.get("mono_us")
        if type(at) is int:
            self._times = [*self._times[:1], at]

    def event(self, entry: Entry) -> Recorded:
        """Return the event of an entry, its large texts in their places.

        Raises:
            EventMalformed: its data is not what its kind says.
        """
        data: Any = entry.data
        if is_marked(entry.line):
            try:
                data = resolved(data, self._text)
            except BlobBroken as broken:
                raise EventMalformed(entry.kind, "", broken.expected, broken.found) from None
        return structure(entry.kind, data)

    def _text(self, name: str, size: int) -> str:
        try:
            return self._blobs.get(name, size)
        except BlobBroken as broken:
            return f"({broken.what}: {size} bytes)"

    def duration_ms(self) -> int | None:
        """Return the milliseconds between the first and the last entry; `None` for one alone."""
        return (self._times[-1] - self._times[0]) // 1000 if len(self._times) > 1 else None

    @property
    def log_state(self) -> LogState:
        """Whether the log was read to its end."""
        if self.wrong is None:
            return "read"
        is_torn = isinstance(self.wrong, LogDamaged) and self.wrong.what == TORN_TAIL
        return "torn" if is_torn else "damaged"
