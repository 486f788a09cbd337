"""Programs that Refold does not run: what passes between them and their models, as events.

    exchange                 the values: a request, an answer
    chat, responses,         requests of the interfaces that providers speak, read from outside;
      messages, apis           `apis`: which one a request speaks; `notation`: what they share
    chat_answers,            their answers; `sse`, `gathered`, `reading`: what they share
      responses_answers,
      messages_answers
    remembered, series       what a request repeats of an earlier one, and what was made of it
    threads                  which conversation a request belongs to
    openers, delegations     which tool call opened a conversation; names that hand work over
    observer                 events of requests and answers
    mcp, mcp_messages        what passes between MCP clients and servers, as events
    texts                    texts and counts that a server sent, as a log can hold them
    wire                     how an answer came, chunk by chunk
    volatile                 what is not compared, and when two requests are the same
    journal                  the log of a watched command

Nothing here opens a socket: that is `refold.proxy`'s.  Rules: CONTRACT.md §16.
"""
