"""The program run again against its log, line by line; nothing else is executed.

Input: a log and its program. Output: a report.  Imports `explain`, `index`, `difference` and
`refold.engine`.  Rules: CONTRACT.md §12.

    reexecute     the tree of runs, each against its log
    world         a kernel's world that is a log: requests are compared, outcomes come from it
    comparison    the two sides of a difference, for people
    report        the input, the callbacks and the result of a re-execution
    apart         an unfinished run, re-executed in isolation
    apart_child   the process for it
    network       refuses the network to a program that is re-executed
"""
