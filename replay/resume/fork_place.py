"""Where a fork leaves its origin: the entry, and what is kept of each log above it.

Reads logs and changes nothing.  The rules are CONTRACT.md §12.11.
"""

import sys
from collections import deque
from collections.abc import Mapping
from pathlib import Path

from refold.engine.encoding.canonical import Json
from refold.engine.errors import EntryMissing, ForkRefused
from refold.engine.events.events import COMPLETES
from refold.engine.log.names import child_path, parent_of, root_of
from refold.engine.log.reader import Entry, read_entries
from refold.replay.index.by_call import Book
from refold.replay.partial.sources import SEEDED


def fork_entry(log: Path, at: int | None, edits: Mapping[str, Json]) -> tuple[Path, Entry]:
    """Return the log that is cut, and the last entry that is kept of it.

    Raises:
        EntryMissing: there is no such entry.
        ForkRefused: neither an entry nor an edit says where.
    """
    found = [_edited_entry(log, key) for key in edits]  # each names an outcome, or is refused
    if at is not None:
        return log, _entry(log, at)
    if not edits:
        raise ForkRefused(str(log), "say where: --at N, or --set KEY=FILE for what is to differ")
    if len({path for path, _ in found}) > 1:
        raise ForkRefused(str(log), "the edits are in several runs: say where to fork, --at N")
    return min(found, key=lambda place: place[1].seq)


def _entry(log: Path, at: int) -> Entry:
    last: deque[Entry] = deque(maxlen=min(-at, sys.maxsize) if at < 0 else 1)
    count = 0
    for entry in read_entries(log, torn_ok=True):
        last.append(entry)
        count += 1
        if entry.seq == at:
            return entry
    if at >= 0 or count < -at:
        raise EntryMissing(str(log), at, count)
    return last[0]


def _edited_entry(log: Path, key: str) -> tuple[Path, Entry]:
    """Return the log and the entry of the outcome, or of the drawn value, that `key` names."""
    *starts, call = key.split(" > ")
    path = root_of(log)
    for start in starts:
        number = Book(path, unfinished_ok=True).child_number(start)
        if number is None or not child_path(path, number).exists():
            raise ForkRefused(str(path), f"{key!r}: no child was started by {start}")
        path = child_path(path, number)
    for entry in read_entries(path, torn_ok=True):
        if entry.call == call and (entry.kind in COMPLETES or entry.kind == "value.drawn"):
            if entry.data.get("source") in SEEDED:
                raise ForkRefused(str(path), f"{key!r} follows from the seed, and is no outcome")
            return path, entry
    raise ForkRefused(str(path), f"{key!r} names no outcome; `refold show --events` lists the keys")


def cuts(log: Path, kept: int) -> dict[Path, int]:
    """Return how many entries are kept: of the log, and of those above it up to its end."""
    found = {log: kept}
    while (above := parent_of(log)) is not None:
        log, number = above
        end = _end_of_child(log, number)
        if end is not None:
            found[log] = end
    return found


def _end_of_child(log: Path, number: int) -> int | None:
    """Return the entry at which a child was joined; `None` if it never was."""
    call = None
    for entry in read_entries(log, torn_ok=True):
        if entry.kind == "child.started" and entry.data["number"] == number:
            call = entry.call
        elif entry.kind == "child.finished" and entry.call == call and call is not None:
            return entry.seq
    return None
