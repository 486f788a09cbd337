"""Reads and encodes models' APIs as on the wire, for our own clients and for the proxy.

Input: bodies and streams from a server or a client. Output: neutral messages, and answers encoded
from them. Imports `encoding`, `events` and `errors`. Pure. Rules: CONTRACT.md §11.1, §16.9, §16.10.

    apis         the table of formats; finds a request's format and reads it; reads batches
    spelling     encodes an answer that no server sent
    parts/       parts that the readers of all formats share
    chat/        OpenAI chat completions
    responses/   OpenAI responses
    messages/    Anthropic messages
    generate/    Gemini generateContent

To add a format: a folder like `chat/`, whose `format` is its one row, and that row in `apis`.
"""
