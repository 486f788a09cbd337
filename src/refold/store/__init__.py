"""Runs in a shared store: S3 and what else `obstore` speaks (extra `store`).

Whole runs flow in by `push`, and whole runs out by `pull`, or for as long as a command reads them.
Nothing that is in a store is ever overwritten.  May import `engine` and `replay`; each file may
import those above it in this list.  Rules: CONTRACT.md §4.8.

    place      an object store below a URL: objects are made or read, never replaced
    manifest   what a stored run consists of, by names, sizes and digests; nothing of it is trusted
    push       a run goes into a store: pieces first, the manifest last
    kept_heads  heads in a file, kept elsewhere
    pull       a run comes out of a store, checked; and heads that are kept elsewhere
"""
