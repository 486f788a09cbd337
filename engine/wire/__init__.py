"""Reads and spells models' APIs as they look on the wire, for our own clients and for the proxy.

Bodies and streams flow in, as a server or a client sent them; neutral messages flow out, and are
spelled as an answer again.  Imports `encoding`, `events` and `errors`.  Pure.
Rules: CONTRACT.md §11.1, §16.9, §16.10.

    apis         the table of formats; which one a request speaks, and how to read it
    spelling     how an answer is spelled that no server gave
    parts/       what the readers of all formats share
    chat/        OpenAI chat completions
    responses/   OpenAI responses
    messages/    Anthropic messages
    generate/    Gemini generateContent

To add a format: a folder like `chat/`, whose `format` is its one row, and that row in `apis`.
"""
