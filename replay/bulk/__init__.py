"""Many logs re-executed side by side, in processes of their own.

Logs and programs flow in; a row a log flows out, and a report of them all.  Imports `audit`,
`reexecute`, `explain`, `index` and `refold.engine`.  Rules: CONTRACT.md §14.13.

    bulk         which logs, which programs, one row each
    verified     logs that are verified and not executed
    executors    chunks of logs on somebody else's executor
    modules      the user's own modules, forgotten after each log
    processes    one helper process, forked for many logs at a time
    report       the rows and what they say together
"""
