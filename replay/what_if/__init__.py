"""The program with its recorded outcomes and no log: in other orders, or with other outcomes.

A record and its program flow in; what would have come of it flows out.  No tool and no model is
asked.  Imports `reexecute`, `index`, `difference` and `refold.engine`.  Rules: CONTRACT.md §12.8,
§12.9.

    rehearsal       a kernel's world without a log
    stage           runs rehearsals of one record, each under a wall-clock limit
    matcher         which recorded request answers one of a rehearsal
    outstanding     what could be delivered next
    explore         other orders of completion: the first that changes the output
    orders          orders as lists of keys: moved, compared, shrunk
    order_report    what an exploration found
    sensitivity     which recorded outcomes a run depends on
    alter           other values of the same type
"""
