"""Values as JSON, as canonical bytes and as digests.

Input: Python values. Output: JSON values, bytes and digests, the same in every process.  Pure.
Imports `engine.errors` alone.  Rules: CONTRACT.md §3.5 (canonical profile), §6 (digests).

    canonical       JSON values to bytes, one way only; refuses values that a log cannot store
    digest          labelled SHA-256 over them
    plain           dataclasses, attrs classes, enums and the like to JSON values
    shapes          types that a log preserves: the JSON schema of each, and its reader
    strict          readers of JSON values: they coerce nothing, and report all errors
    hints           resolved type hints
    document        values that are printed as JSON documents, their fields by name
    parameters      the nearest parameter for an unknown one
    secret          the handle that represents a secret, and never shows it
    conversation    messages of a long conversation, each hashed once
    schemas         untrusted JSON schemas of programs and logs
    patterns        regular expressions of models, refused if they could run for ever
"""
