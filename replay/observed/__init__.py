"""Logs of watched commands: replayed by matching requests, for no command can be re-executed.

    guarantee    which logs these are, and who refuses them
    record       a log's requests, answers and tool calls
    matching     which recorded answer a request gets, and which request is the likest
    ignoring     what was not as recorded and was passed over
    changes      what a request asks otherwise, and the likely cause
    suggesting   the option that would ignore a date or an id
    titles       how conversations and requests are called
    explaining   the divergences of a replay, conversation by conversation
    report       what a replay says
    tree         conversations as a delegation tree
    calls        requests and tool calls as a diff compares them
    forking      what a fork serves: the record up to an entry, with edits
    spelling     how an edited answer is spelled in the interface of its request

Rules: CONTRACT.md §16.
"""
