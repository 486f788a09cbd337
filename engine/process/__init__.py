"""Bounded processes: start an argv, limit it, collect its output, leave no process alive.

Input: an argv and its bounds. Output: the process's end and its output. The subprocess runner uses
this mechanism, which knows nothing of runs, logs or delegations. It limits accidents; it is not a
sandbox against hostile programs.  Imports `ports`, for the cancel signal. Rules: CONTRACT.md §7.3.

    bounds               Bounds in, Ended out
    start                the argv becomes a process: session, descriptors, environment, tag
    bounded              run_bounded: one loop from the start to the end, which drains the pipes
    tree                 which processes belong to a child, and their end
    views, psutil_view   the system's process data: /proc; elsewhere psutil
    watchdog             the child's side: leave with the parent, limit oneself

The child's side needs `watchdog` and `tree` alone, before anything else.
"""
