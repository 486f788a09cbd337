"""Recordings, snapshots and self-replay: what tests of programs need of replay.

Recordings of tests flow in and out of files; findings and snapshots flow out.  The plugin of pytest
is `refold.pytest_plugin`.  Imports `reexecute`, `tree`, `index`, `difference` and `refold.engine`.
Rules: CONTRACT.md §12.12, §13.10 to §13.15.

    recordings    where recordings of tests lie, and how a new one takes an old one's place
    snapshot      recordings as snapshots of syrupy
    log_text      a log as text that a review can read
    selfcheck     a run re-executed right after it was recorded
    tripwire      what a program reads of the world beside `run`
"""
