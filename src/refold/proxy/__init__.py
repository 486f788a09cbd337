"""The recording proxy: commands that know nothing of Refold, recorded and replayed (extra `proxy`).

Input: a command. Output: its log, or, in a replay, a report of its differences. Imports
`refold.replay` and `refold.engine`. Each room may import those above it in this list.
`refold.engine.observed` turns exchanges into events, `refold.replay.observed` matches requests.
Rules: CONTRACT.md §16.

    http/              one application, its client, its thread
    desks/             records the traffic, or serves requests from a record
    mcp/               MCP servers
    copies/            copies of recorded folders, in which commands run again
    recorded_here      the runs that were recorded on this machine
    sessions           a command recorded, replayed or forked, from start to report
    bookends           the first and the last entry of such a log
    command, signals   the command: its environment, output and end, with tracebacks over refused
                       requests as one line; signals to it

    profiles
"""
