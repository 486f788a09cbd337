"""Going on from a record: in the log of a run that broke off, or in a fork of any log.

A log and its program flow in, and what is to be otherwise; the run goes on and writes.  Imports
`partial`, `tree`, `reexecute`, `observed`, `index` and `refold.engine`.
Rules: CONTRACT.md §4.7, §12.11, §16.21.

    resume           goes on in the same log
    open_ends        what is open, in doubt or armed in an unfinished record
    fork             goes on in a new log, with edits
    fork_place       where a fork leaves its origin
    transplant       copies the beginning of a log into a new one
    observed_fork    what a fork of a watched command serves
    observed_resume  what a watched command that broke off is answered, and what it asks again
"""
