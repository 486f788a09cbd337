"""The program run again against its log, line by line; nothing else is executed.

A log and its program flow in; a report flows out.  Imports `explain`, `index`, `difference` and
`refold.engine`.  Rules: CONTRACT.md §12.

    reexecute     the tree of runs, each against its log
    world         a kernel's world that is a log: requests are compared, outcomes come from it
    comparison    the two sides put together for people
    report        what is re-executed, who is told, and what it proved
    apart         an unfinished run, re-executed out of harm's way
    apart_child   the process that it is re-executed in
    network       refuses the network to a program that is re-executed
"""
