"""State as a fold over events: `fold` over a log, `Fold` while one is being written.

Events flow in, one after the other; a frozen state and its digest flow out.  Total and pure.
Imports `events`, `encoding` and `errors`.  Rules: CONTRACT.md §6.1.

    run_state    what the state of a run is
    rules        how each event changes a fold
    folding      the fold itself, and its two pure faces
    digests      a state as JSON, and its digest
"""
