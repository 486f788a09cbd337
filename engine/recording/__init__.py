"""The world of a recorded run: it writes the log, keeps time and executes effects.

Input: requests of the kernel, which are written and then executed. Output: completions, to the
kernel and into the log. Imports `program`, `kernel`, `children`, `log` and the folders below them.
Rules: CONTRACT.md §3.2, §4.3, §9.

    recorder         the live world of a kernel
    run_request      input and result of recording one run; the request to a child's runner
    ledger           the entries written so far, and the state derived from them
    bookends         the first and the last entry of a log
    driver           executes effects while the kernel waits
    host             the loops of asynchronous tools and models
    workers          threads of synchronous ones
    timers           clocks and timers of a run
    interrupts       Ctrl-C while a run is recorded
    supplied         a recorder with some supplied outcomes
    blocked          names the line of a program that blocks its loop
    nested           refuses to record inside a program
"""
