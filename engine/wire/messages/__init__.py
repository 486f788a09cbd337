"""The Anthropic messages format: requests and answers.

Converts between bodies and neutral messages. Imports `wire.parts`. Pure.

    format     the format as one row; encodes an answer that no server sent
    request    a request, as neutral messages and parameters
    answer     an answer, streamed or not, as the message that a client will repeat
"""
