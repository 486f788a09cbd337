"""MCP servers recorded, and served without the server: `refold mcp-proxy`.

Passes messages between a client and its server, or serves answers of a record, and writes events to
a log.  Imports `desks`, `http`, `refold.replay` and `refold.engine`; `refold.engine.observed.mcp`
makes events of messages.  Rules: CONTRACT.md §16.11.

    sessions, http         from start to report: on standard input and output, on HTTP
    stdio                  the lines between a client and a server
    parties                the interface between the two sides
    hub, remote            the same for a log in a different process, over loopback
    recording, serving     the two log sides of it
    record, misses         the record, and its values that are not compared; differences
"""
