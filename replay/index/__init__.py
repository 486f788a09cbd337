"""What a log holds, laid out for those who compare with it and serve from it.

A log flows in; its entries flow out line by line, by call key, or as what was asked.  Nothing is
executed.  Imports `difference` and `refold.engine`.  Rules: CONTRACT.md §12.1, §12.2.

    cursor         reads a log ahead, line by line
    by_call        outcomes by call key, and what was asked for them
    asked_items    what a program asks for, as items that can be compared
    armed_timers   which timer of a program a recorded firing is of
    run_end        how a run ended, in one form for both sides
    guarantee      which logs are a program's, and which a watched command's
"""
