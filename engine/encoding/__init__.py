"""Values as JSON, as canonical bytes and as digests.

Python values flow in; JSON values, bytes and digests flow out, the same in every process.  Pure.
Imports `engine.errors` alone.  Rules: CONTRACT.md §3.5 (canonical profile), §6 (digests).

    canonical       JSON values to bytes, one way only; and what a log cannot hold
    digest          labelled SHA-256 over them
    plain           dataclasses, attrs classes, enums and the like to JSON values
    shapes          which types survive a log: the JSON schema of each, and its reader
    strict          readers of JSON values: they coerce nothing, and tell all that is wrong
    hints           what type hints say, once resolved
    document        values that are printed as JSON documents, their fields by name
    secret          the handle that stands for a secret, and never shows it
    conversation    messages of a long conversation, each hashed once
    schemas         JSON schemas of programs and logs, which nobody trusts
    patterns        regular expressions of models, refused where they could take for ever
"""
