"""A deterministic asyncio event loop: the same completions in the same order, the same callbacks.

A program's tasks and completions flow in; callbacks run in one order in every process.  It knows
nothing of runs or logs, reads no clock and starts nothing.  Imports `events.flags` and `errors`.
Rules: CONTRACT.md §9.

    loop          callbacks, tasks, futures, timers, and nothing else
    frameworks    the adapter to name where a program used a framework without
    stdlib        functions of asyncio that need a wrapper to be deterministic here
"""
