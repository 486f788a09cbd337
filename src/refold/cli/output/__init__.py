"""Prints the output of commands: safe lines or one JSON document; and sets the exit code.

Input: values of the engine and of replay. Output: text, with logged data escaped.  Imports
`refold.engine` and `refold.replay`.  Rules: CONTRACT.md §14.1, §14.2.

    output         lines, tables, documents, hints
    words          numbers as people read them
    entries        one readable line an entry
    trees          the delegation tree on a terminal
    printed        documents that commands build themselves
    listed         one run of a list
    recorded       a run that was recorded or continued
    people         questions to people, and parsing of their answers
    exit_codes     the exit code of each error
    diagnostics    structlog to standard error
"""
