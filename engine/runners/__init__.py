"""Starts runs, and bounds them: a root by `record`, children by runners.

Programs and their inputs flow in; recordings, and outcomes of children, flow out. Imports
`recording`, `children`, `process` and the folders below them. Rules: CONTRACT.md §7.3.

    recorded         what a caller learns of a recorded run
    preflight        what children certainly need, checked before a run begins
    recording        `record` and `record_async`: a root run, from its call to its recording
    child_run        a child as a recording of its own, and what it hands back
    in_process       a child on a thread of this process; cooperative deadline
    in_subprocess    a child in a process of its own; hard limits
    stub, child      the other side of it: its first file, and its work
    shipped          the runners that every root has
    on_ray           the same process on a node of a Ray cluster

To add one: implement `engine.ports.ports.ChildRunner`. One that every root has stands in `shipped`,
which commands and the contract suite `tests/contract/test_runners.py` read; one of your own is
passed to `record(runners={…})`, and put into that suite.
"""
