"""The recording proxy: commands that know nothing of Refold, recorded and replayed (extra `proxy`).

    turns                what the HTTP side and the log side say to each other
    routes               base-URL variables, and which server stands behind each
    recording, replaying the two log sides: what passes is recorded; what is asked is served
    keys                 which values are secret, and are in no log
    app, upstream, server  the HTTP side: one application, its client, its thread
    sessions             a command recorded, replayed or forked, from start to report
    bookends             the first and the last entry of such a log
    command, signals     the command: its environment, its output, its end; what is sent to it
    mcp/                 MCP servers

What events are made of exchanges is `refold.engine.observed`'s, what matches what is
`refold.replay.observed`'s.  Rules: CONTRACT.md §16.
"""
