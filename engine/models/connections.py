"""Keeps bytes that follow an answer from being taken as the next answer.

Clients keep them in the parser of their connection, and the next request on it reads them first.
"""

from typing import Any, Final

_TO_PARSER: Final = ("_stream", "_httpcore_stream", "_stream", "_connection", "_h11_state")
"""From an answer's stream to its `h11.Connection`: the clients have no public way."""


def close_if_more(response: Any) -> None:
    """Have an answer's connection closed after it if the server has sent more than the answer.

    `response` is that of a client, sync or async, whose body is still to be read.
    """
    stream = response.stream
    name = "aclose" if hasattr(stream, "aclose") else "close"
    close = getattr(stream, name)

    def closing() -> Any:
        parser = stream
        for each in _TO_PARSER:
            parser = getattr(parser, each, None)
        if parser is not None and parser.trailing_data[0]:
            parser.send_failed()
        return close()

    setattr(stream, name, closing)
