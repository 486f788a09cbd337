"""The vocabulary of logs: the events of a run, and its possible ends.

Input: events from the kernel. Output: JSON data for logs, and back.  Frozen values without
behaviour; no clock, no file.  Imports `encoding` and `errors`.  Rules: CONTRACT.md §2 (events),
§7.1 (outcomes), §8 (limits), §15 (versions).

    events         the events, one class a kind; call keys: the task of a call, and its number there
    outcome        how a run ended, in numbers and words
    limits         what a run may use up
    flags          rules that came within one engine version
    codec          events to JSON data and back, strictly
    data_digest    equal for two runs that did the same

To add an event: ARCHITECTURE.md, "A new event kind", names the files in their order.  To add a
limit: `limits`.
"""
