"""The world of a run that is recorded: it writes the log, keeps time and does the work.

Requests of the kernel flow in, are written, and are then done; completions flow back to the kernel
and into the log.  Imports `program`, `kernel`, `children`, `log` and what stands below.
Rules: CONTRACT.md §3.2, §4.3, §9.

    recorder         the living world of a kernel
    run_request      what recording one run takes, and what comes of it
    ledger           what was written so far, and what it amounts to
    bookends         the first and the last entry of a log
    driver           does effects while the kernel waits
    host             the loops of asynchronous tools and models
    workers          threads of synchronous ones
    timers           clocks and timers of a run
    interrupts       Ctrl-C while a run is recorded
    child_request    what a child's runner is asked for
    supplied         a recorder some of whose outcomes come from elsewhere
    blocked          names the line of a program that holds up its loop
    nested           refuses to record from inside of a program
"""
