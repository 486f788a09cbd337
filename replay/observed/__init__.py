"""Logs of watched commands: replayed by matching requests, for no command can be re-executed.

A log flows in, and the requests of a command that runs again; recorded answers flow out, and what
was asked otherwise.  Imports `explain`, `index`, `difference` and `refold.engine`.
Rules: CONTRACT.md §16.

    record        a log's requests, answers and tool calls
    matching      which recorded answer a request gets, and which request is the likest
    reads         what only reads, and how often: no difference where it was answered alike
    ignoring      what was not as recorded and was passed over
    changes       what a request asks otherwise, and the likely cause
    suggesting    the option that would ignore a date, an id or an order
    titles        how conversations and requests are called
    explaining    the divergences of a replay, conversation by conversation
    printed       what a command printed, and in which order
    report        what a replay says
    folder        the folder that a command worked in, at any entry
    effects       the tool calls that a command carries out itself when it is given the answers

The tree, the diff and the fork of such a log stand with those of programs.
"""
