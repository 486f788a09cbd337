"""One digest of the work of a run and all children that it joined (CONTRACT.md §6.2).

A parent reads it from the end of a child's log when it joins the child.  Only a log that breaks
off, or that an older version wrote, is read whole.
"""

from pathlib import Path
from typing import Any

from refold.engine.encoding.canonical import loads
from refold.engine.errors import RefoldError
from refold.engine.events.codec import structure
from refold.engine.events.data_digest import DataDigest, tree_digest_in
from refold.engine.events.events import ChildFinished, ChildStarted
from refold.engine.log.names import child_path
from refold.engine.log.reader import last_line, read_entries


def tree_digest_of(log: Path) -> str:
    """Return the tree digest of the run at `log`; empty where a log of it is damaged or missing.

    Of a log without an end it is the digest of what that log holds.
    """
    try:
        return _recorded_digest(log) or _summed(log)
    except RefoldError:
        return ""


def _recorded_digest(log: Path) -> str:
    try:
        last = loads(last_line(log))
        return tree_digest_in(last["data"]) if last["kind"] == "run.finished" else ""
    except (ValueError, LookupError, TypeError, AttributeError):
        return ""  # no entry: reading it whole says what it is


def _summed(log: Path) -> str:
    digest, numbers = DataDigest(), dict[str, int]()
    for entry in read_entries(log, resolve=True, torn_ok=True):
        digest.add(entry.kind, entry.call, entry.data_bytes)
        event: Any = structure(entry.kind, entry.data)
        match event, entry.call:
            case ChildStarted(number=number), str(call):
                numbers[call] = number
            case ChildFinished(outcome=outcome), str(call) if outcome.child and call in numbers:
                digest.add_child(call, tree_digest_of(child_path(log, numbers[call])))
    return digest.tree_hexdigest()
