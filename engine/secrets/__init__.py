"""What must not reach a log: which values are secret, and how they are taken out.

Events flow in, and flow out with markers in the place of secrets.  Imports `events`, `encoding`
and `errors`.  Rules: CONTRACT.md §3.9.

    redaction    the rules by which something is taken out of what is said
    vault        the values of one run's secrets, in all their spellings
"""
