"""What a log says by itself, with nothing executed: is it true, what state, what led to an entry.

A log flows in; a verification, a state or a chain of causes flows out.  Imports `explain`,
`difference` and `refold.engine`.  Rules: CONTRACT.md §5, §6, §14.14.

    verify          is a log intact, complete, authentic; and those below it
    signed          who vouches for a log: its signature, held against trusted keys
    causal          whether the entries of one log make sense together
    refolding       a log folded back into state
    session_fold    a session made again of a log
    why             the entries that led to an entry
"""
