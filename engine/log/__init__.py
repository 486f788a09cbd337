"""The event log: names, lines, blobs; writing, reading, recovery, packing.

Events flow in and are bytes on disk when a call returns; bytes flow out as verified entries.
Imports `ports`, `events`, `encoding` and `errors`.  Rules: CONTRACT.md §3, §4.

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
