"""Parts that the readers of all wire formats share.

Input: bytes, in any chunks. Output: JSON values that a log can store, in bounded memory. Imports
`encoding`, `events` and `errors`. Pure. Rules: CONTRACT.md §16.4, §16.9, §16.10.

    exchange        the values: a request, an answer, a reader
    format          the definition of a wire format as one row, and providers' servers; shared parts
                    for encoding an answer that no server sent
    notation        the meaning of JSON bodies, independent of their notation; texts of a server
    counts          token counts of an answer
    reading         the form of an answer, and its failures
    gathered        JSON that arrives in pieces, put together
    framing         other streams: Bedrock's frames, a JSON array
    sse             server-sent events out of bytes
    kept_answers    how an answer came over the wire, kept so that it can be served again
    remembered      parts that a body repeats from an earlier one, parsed once
    series          values derived from each message, computed once
"""
