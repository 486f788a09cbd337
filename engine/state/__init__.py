"""State as a fold over events: `Fold`, over a log or while one is being written.

Input: events, one after the other. Output: a frozen state and its digest.  Total and pure. Imports
`events`, `encoding` and `errors`.  Rules: CONTRACT.md §6.1.

    run_state    the definition of a run's state
    folding      the fold, and how each event changes it
    digests      a state as JSON, and its digest
"""
