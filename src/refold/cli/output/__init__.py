"""Prints what commands say: safe lines or one JSON document; and ends with an exit code.

Values of the engine and of replay flow in; text flows out, with what a log says escaped.  Imports
`refold.engine` and `refold.replay`.  Rules: CONTRACT.md §14.1, §14.2.

    output         lines, tables, documents, hints
    words          numbers as people read them
    entries        one readable line an entry
    trees          the delegation tree on a terminal
    printed        documents that commands put together themselves
    listed         one run of a list
    recorded       a run that was recorded, or went on
    people         how people are asked, and how what they say is read
    exit_codes     which error leads to which exit code
    diagnostics    structlog to standard error
    pages          blocks of help pages
"""
