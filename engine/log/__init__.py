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

from refold.engine.lazy import lazily

with lazily(__name__):
    from refold.engine.log.damage import Damage as Damage
    from refold.engine.log.reader import (
        Entry as Entry,
        Scan as Scan,
        read_entries as read_entries,
        scan as scan,
    )
    from refold.engine.log.salvaging import (
        Prefix as Prefix,
        Salvaged as Salvaged,
        prefix_of as prefix_of,
        salvage as salvage,
    )
    from refold.engine.log.writer import LogWriter as LogWriter, Resumed as Resumed
