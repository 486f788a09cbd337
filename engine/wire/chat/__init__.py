"""The OpenAI chat-completions format: what a request and an answer say.

Bodies flow in and neutral messages flow out, and back.  Imports `wire.parts`.  Pure.

    format     all of it as one row
    request    a request, as neutral messages and parameters
    answer     an answer, streamed or not, as the message that a client will repeat
    spelling   an answer that no server gave
"""
