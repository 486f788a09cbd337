"""The log side of the proxy: each request and answer is recorded, or served from a record.

Input: requests from `http`. Output: an instruction for each, and events for a log.  Imports `http`,
`refold.replay` and `refold.engine`.  Rules: CONTRACT.md §16.2 to §16.7.

    recording    passes and records each request and each answer
    replaying    serves the recorded answer to each request, or refuses it
    resuming     each request is served its recorded answer, or asked again
    examining    each request is answered here, with one short text, and counted
    caps         spending limits of a command: the request after that is refused
    keys         secret values, which are not logged; some are in the key files of a folder
    ordering     lets recorded answers go out in the recorded order, for a while
"""
