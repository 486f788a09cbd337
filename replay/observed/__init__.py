"""Logs of watched commands: replayed by matching requests, because a command cannot be re-executed.

Input: a log, and the requests of a command that runs again. Output: recorded answers, and the
requests that differ.  Imports `explain`, `index`, `difference` and `refold.engine`. Rules:
CONTRACT.md §16.

    record        a log's requests, answers and tool calls
    matching      the recorded answer to a request, and the most similar request
    reads         read-only requests, whose number may vary if all answers were equal
    ignoring      differences that were ignored
    changes       how a request differs from a recorded one, and the likely cause
    suggesting    options that would ignore a date, an id or an order
    titles        names of conversations and requests
    explaining    the divergences of a replay, conversation by conversation
    printed       compares a command's output
    report        the report of a replay
    folder        the command's working folder at any entry
    effects       tool calls that the command itself executes when it gets the answers

The tree, diff and fork of such logs are in the same folders as those for programs.
"""
