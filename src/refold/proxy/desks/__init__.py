"""The log side of the proxy: each request and answer is recorded, or served from a record.

Requests flow in from `http`; what to do with each flows back, and events flow to a log.  Imports
`http`, `refold.replay` and `refold.engine`.  Rules: CONTRACT.md §16.2 to §16.7.

    recording    each request and each answer passes, and is written down
    replaying    each request is served what was recorded for it, or is refused
    resuming     each request is served its recorded answer, or asked again
    examining    each request is answered here, with one short text, and counted
    caps         what a command may spend: the request after that is refused
    keys         which values are secret, and are in no log
    ordering     lets recorded answers go out in the recorded order, for a while
"""
