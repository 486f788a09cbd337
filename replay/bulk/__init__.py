"""Many logs re-executed in parallel, in separate processes.

Input: logs and programs. Output: a row per log, and a report on all.  Imports `audit`, `reexecute`,
`explain`, `index` and `refold.engine`.  Rules: CONTRACT.md §14.13.

    bulk         finds logs and programs, and makes one row each
    processes    one helper process, forked for many logs at a time
    report       the rows and their summary
"""
