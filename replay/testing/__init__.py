"""Recordings, snapshots and self-replay, for tests of programs.

Input: tests' recordings. Output: recordings in files, findings and snapshots. The pytest plugin is
`refold.pytest_plugin`.  Imports `reexecute`, `run`, `index`, `difference` and `refold.engine`.
Rules: CONTRACT.md §12.12, §13.10 to §13.15.

    recordings    paths of tests' recordings, and their replacement
    snapshot      recordings as snapshots of syrupy: the delegation tree, or the log
    structure     a delegation tree without the words of a model or a task
    selfcheck     a run re-executed right after it was recorded
    tripwire      detects reads of the world that bypass `run`
"""
