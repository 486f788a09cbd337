"""The Gemini generateContent format, of Google's own API and of Vertex.

What a request and an answer say.
Bodies flow in; neutral messages flow out.  Imports `wire.parts`.  Pure.

    request    a request, as neutral messages and parameters
    answer     an answer, streamed or not, as the message that a client will repeat
"""
