"""The program with its recorded outcomes and no log: in different orders, or with changed outcomes.

Input: a record and its program. Output: the hypothetical result. No tool or model is called.
Imports `reexecute`, `index`, `difference` and `refold.engine`.  Rules: CONTRACT.md §12.8, §12.9.

    rehearsal       a kernel's world without a log, and its runs under a wall-clock limit
    outstanding     the outcomes that could be delivered next
    explore         other orders of completion: the first that changes the output
    order_report    the findings of an exploration
    sensitivity     which recorded outcomes a run depends on
    alter           changed values of the same type
"""
