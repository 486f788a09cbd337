"""Bounded processes: start an argv, bound it, collect what it says, leave nothing alive.

An argv and its bounds flow in; how the process ended, and what it said, flow out.  The mechanism
under the subprocess runner: it knows nothing of runs, logs or delegations.  It contains accidents;
it is no sandbox against a program that means harm.  Imports `ports`, for the cancel signal.
Rules: CONTRACT.md §7.3.

    bounds               Bounds in, Ended out
    start                the argv becomes a process: session, descriptors, environment, tag
    capture              head, tail, count and hash of a stream of any length
    pipes                the loop's ends of the pipes, never blocking
    bounded              run_bounded: one loop from the start to the end
    tree                 which processes belong to a child, and their end
    views, psutil_view   what the system shows of its processes: /proc; elsewhere psutil
    watchdog             the child's side: leave with the parent, limit oneself

The child's side needs `watchdog` and `tree` alone, before anything else.
"""
