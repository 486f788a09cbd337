"""The entries of a log, indexed for comparing with it and serving from it.

Input: a log. Output: its entries line by line, by call key, or as requests.  Nothing is executed.
Imports `difference` and `refold.engine`.  Rules: CONTRACT.md §12.1, §12.2.

    cursor         reads a log ahead, line by line
    by_call        outcomes by call key, and their requests
    asked_items    a program's requests, as items that can be compared
    chains         conversations by the digests of their messages
    armed_timers   finds the program's timer for a recorded firing
    run_end        how a run ended, in one form for both sides
    kept_folds     how far commands read long logs, kept in the user's cache folder
    standing       a run without an end: running, waiting for a person, or broken off
    times          times of entries, on one clock for all logs of a run
    malformed      the error of a function that fails over data that does not fit
    guarantee      distinguishes logs of programs from logs of watched commands
"""
