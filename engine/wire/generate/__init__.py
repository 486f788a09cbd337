"""The Gemini generateContent format, of Google's own API and of Vertex: requests and answers.

Bodies flow in and neutral messages flow out, and back.  Imports `wire.parts`.  Pure.

    format     the format as one row; encodes an answer that no server sent
    request    a request, as neutral messages and parameters
    answer     an answer, streamed or not, as the message that a client will repeat
"""
