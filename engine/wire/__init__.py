"""What models' APIs look like on the wire, for our own clients and for the proxy alike.

Bodies and streams flow in, as a server or a client sent them; neutral messages flow out, and are
spelled as an answer again.  Imports `encoding`, `events` and `errors`.  Pure.
Rules: CONTRACT.md §11.1, §16.9, §16.10.

    apis         which format a request speaks, and how to read it: the table of formats
    spelling     how an answer is spelled that no server gave
    parts/       what the readers of all formats share
    chat/        OpenAI chat completions
    responses/   OpenAI responses
    messages/    Anthropic messages
    generate/    Gemini generateContent

To add a format: a folder with `request` and `answer` as in `chat/`, a name in
`parts.exchange.ApiName`, a line in each table of `apis`, an answer in `spelling`.
"""
