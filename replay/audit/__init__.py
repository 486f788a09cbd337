"""Reads a log without executing anything: verification, state, and causes of an entry.

Input: a log. Output: a verification, a state or a chain of causes.  Imports `explain`, `difference`
and `refold.engine`.  Rules: CONTRACT.md §5, §6, §14.14.

    verify          whether a log, and those below it, are intact, complete and authentic
    causal          whether the entries of one log are consistent
    refolding       a log folded back into state
    session_fold    a session rebuilt from a log
    why             the entries that led to an entry
"""
