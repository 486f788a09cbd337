"""The HTTP side of the proxy: reads a request whole, asks a desk, passes on or serves.

Requests of a command flow in; answers flow back, of a server or of the record, and each part of
them to the desk.  Keeps no log.  Imports `refold.engine.errors`.  Rules: CONTRACT.md §16.1.

    turns       what this side and the desks say to each other
    routes      base-URL variables, and which server stands behind each
    app         the proxy as one application; leads a server's addresses through it, and back
    upstream    asks the real servers
    server      the proxy's thread
"""
