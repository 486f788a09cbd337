"""The recording proxy: commands that know nothing of Refold, recorded and replayed (extra `proxy`).

    turns                what the HTTP side and the log side say to each other
    routes               base-URL variables, and which server stands behind each
    recording, replaying the two log sides: what passes is recorded; what is asked is served
    keys                 which values are secret, and are in no log
    app, upstream, server  the HTTP side: one application, its client, its thread
    command, signals     the command: its environment, its output, its end; what is sent to it
    mcp_sessions, mcp_http  MCP servers: from start to report; on standard input and output, on HTTP
    mcp_parties, mcp_hub,  what the two sides of that say to each other; where the log is another
      mcp_remote             process's, over loopback
    mcp_stdio            the lines that pass between a client and a server
    mcp_recording, mcp_serving  the two log sides of it
    mcp_record, mcp_rules, mcp_misses  what was recorded; what is not compared; what differs

What events are made of exchanges is `refold.engine.observed`'s, what matches what is
`refold.replay.observed`'s.  Rules: CONTRACT.md §16.
"""
