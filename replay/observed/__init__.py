"""Replay of what a watched command asked: by matching its requests, for it cannot be re-executed.

    record      a log's requests and answers
    matching    which recorded answer a request gets, and what differs where there is none
    report      what a replay says

Rules: CONTRACT.md §16.6.
"""
