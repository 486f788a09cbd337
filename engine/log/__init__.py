"""The event log: names, lines, blobs, writing, reading, recovery, packing (CONTRACT.md §3, §4).

What is public, loaded when it is first asked for: verifying a chain needs neither the writer nor
the codec.  `engine.log.pack` stands alone.
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
