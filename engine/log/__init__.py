"""The event log: names, lines, blobs; writing, reading, recovery, packing.

Events flow in and are bytes on disk when a call returns; bytes flow out as verified entries.
Imports `ports`, `events`, `encoding` and `errors`.  Names load on first use: verifying a chain
needs neither the writer nor the codec.  Rules: CONTRACT.md §3, §4.

    names          which file is whose: logs, children, blobs
    line           one line: its members, its hash, its place in the chain
    blobs          large strings, kept beside the log
    call_data      the bytes of a call's two lines, with no event between
    writer, lock   one writer at a time; what is acknowledged is written
    descriptors    writes to descriptors: all of it
    reader         entries, verified as they are read
    damage         what can be wrong with a log, located and told
    gaps           large strings that are missing
    recovery       a torn tail is cut off and kept
    salvaging      what verifies of a damaged log, as a new one
    pack           a tree of logs as one file
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from refold.engine.log.damage import Damage
    from refold.engine.log.reader import Entry, Scan, read_entries, scan
    from refold.engine.log.salvaging import Prefix, Salvaged, prefix_of, salvage
    from refold.engine.log.writer import LogWriter, Resumed

__all__ = [
    "Damage",
    "Entry",
    "LogWriter",
    "Prefix",
    "Resumed",
    "Salvaged",
    "Scan",
    "prefix_of",
    "read_entries",
    "salvage",
    "scan",
]

_HOMES = {
    "Damage": "damage",
    "Entry": "reader",
    "LogWriter": "writer",
    "Prefix": "salvaging",
    "Resumed": "writer",
    "Salvaged": "salvaging",
    "Scan": "reader",
    "prefix_of": "salvaging",
    "read_entries": "reader",
    "salvage": "salvaging",
    "scan": "reader",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
