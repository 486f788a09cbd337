"""MCP servers recorded, and served without the server: `refold mcp-proxy`.

Messages between a client and its server flow through, or answers of a record flow back; events flow
to a log.  Imports `desks`, `http`, `refold.replay` and `refold.engine`; what events are made of
messages is `refold.engine.observed.mcp`'s.  Rules: CONTRACT.md §16.11.

    sessions, http         from start to report: on standard input and output, on HTTP
    stdio                  the lines that pass between a client and a server
    parties                what the two sides say to each other
    hub, remote            the same where the log is another process's, over loopback
    recording, serving     the two log sides of it
    record, rules, misses  what was recorded; what is not compared; what differs
"""
