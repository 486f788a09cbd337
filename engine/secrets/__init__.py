"""Secret values, and their removal from data before it is logged.

Input: events. Output: events with markers in place of secrets.  Imports `events`, `encoding` and
`errors`.  Rules: CONTRACT.md §3.9.

    redaction    the rules for removing values
    vault        the values of one run's secrets, in all their encodings
"""
