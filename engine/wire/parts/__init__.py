"""Holds what the readers of all wire formats share.

Bytes flow in, in whatever chunks; JSON values that a log can hold flow out, in bounded memory.
Imports `encoding`, `events` and `errors`.  Pure.  Rules: CONTRACT.md §16.4, §16.9, §16.10.

    exchange        the values: a request, an answer, a reader
    format          what is known of a wire format, as one row, and of providers' servers
    notation        what JSON bodies mean, whatever their notation
    texts           texts that a server sent, as a log can hold them
    counts          tokens that an answer counts
    reading         which form an answer comes in, and how it fails
    gathered        JSON that comes in pieces, put together
    framing         streams that are none: Bedrock's frames, a JSON array
    spelled         what formats need to spell an answer that no server gave
    sse             server-sent events out of bytes
    kept_answers    how an answer came over the wire, kept so that it can be served again
    remembered      what a body repeats of an earlier one, read once
    series          what was made of each message, made once
"""
