"""Continues from a record: in the log of an interrupted run, or in a fork of any log.

Input: a log, its program, and edits. The run continues and writes.  Imports `partial`, `run`,
`reexecute`, `observed`, `index` and `refold.engine`. Rules: CONTRACT.md §4.7, §12.11, §16.21.

    resume           continues in the same log
    open_ends        open requests, effects in doubt and timers of an unfinished record
    fork             continues in a new log, with edits
    observed_fork    the answers that a fork of a watched command serves
    observed_resume  recorded answers and repeated requests of an interrupted watched command
"""
