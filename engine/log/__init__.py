"""The event log: names, lines, blobs; writing, reading, recovery, packing.

Input: events, which are bytes on disk when a call returns. Output: bytes as verified entries.
Imports `ports`, `events`, `encoding` and `errors`.  Rules: CONTRACT.md §3, §4.

    names          file names of logs, children, blobs
    line           one line: its members, its hash, its place in the chain
    blobs          large strings, kept beside the log
    call_data      the bytes of a call's two lines, with no event between
    writer, lock   one writer at a time; an acknowledged entry is written
    descriptors    complete writes, and logs that stay open during a command
    reader         entries, verified as they are read
    damage         damage of a log, with its place
    beside         large strings that are missing, and packs of git
    recovery       a torn tail is cut off and kept
    salvaging      copies the valid part of a damaged log
    pack           a tree of logs as one file
"""
