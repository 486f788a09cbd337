"""How an answer came over the wire, kept in parts so that it can be served again alike.

A part is the data of an `x-refold.wire` entry: {status, headers} in the first of an answer, {text}
or {base64}, {sizes}: the bytes of each chunk, {at_ms}: when it came, milliseconds after the
request, and in the last {end}.  Memory is bounded by one part.  Pure.  Rules: CONTRACT.md §16.4.
"""

import base64
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Literal

from refold.engine.canonical import Json

End = Literal["whole", "cut"]
"""`whole`: to its end · `cut`: the connection broke, or the program left."""

PART_BYTES: Final = 256 * 1024
"""From so many bytes on, a part is closed."""

KEPT_HEADERS: Final = frozenset(
    {
        "content-type",
        "mcp-protocol-version",
        "mcp-session-id",
        "openai-version",
        "request-id",
        "retry-after",
        "retry-after-ms",
        "x-request-id",
        "x-should-retry",
    }
)
"""The headers of an answer that a log keeps; no other is."""


def kept_headers(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return those of an answer's headers that are kept, names in lower case."""
    return {name.lower(): value for name, value in headers if name.lower() in KEPT_HEADERS}


class Wire:
    """Takes one answer as it comes, and hands over its parts."""

    def __init__(self, keep: Callable[[dict[str, Json]], None]) -> None:
        self._keep = keep
        self._head: dict[str, Json] = {}
        self._begin()

    def _begin(self) -> None:
        self._chunks: list[bytes] = []
        self._sizes: list[int] = []
        self._times: list[int] = []
        self._held = 0

    def head(self, status: int, headers: Mapping[str, str]) -> None:
        """Take the status and the headers that are kept."""
        self._head = {"status": status, "headers": dict(headers)}

    def chunk(self, content: bytes, at_ms: int) -> None:
        """Take some bytes; an empty chunk is none."""
        if not content:
            return
        self._chunks.append(content)
        self._sizes.append(len(content))
        self._times.append(at_ms)
        self._held += len(content)
        if self._held >= PART_BYTES:
            self._close({})

    def end(self, end: End) -> None:
        """Take the end: the last part is handed over."""
        self._close({"end": end})

    def _close(self, more: dict[str, Json]) -> None:
        body = b"".join(self._chunks)
        self._keep(
            {**self._head, **_body(body), "sizes": self._sizes, "at_ms": self._times, **more}
        )
        self._head = {}
        self._begin()


def _body(content: bytes) -> dict[str, Json]:
    try:
        return {"text": content.decode()}
    except UnicodeDecodeError:  # no text, or a part that ends inside of a character
        return {"base64": base64.b64encode(content).decode()}


def after_redaction(part: dict[str, Json], kept: dict[str, Any]) -> dict[str, Json]:
    """Return what is kept of a part if something was taken out of it: it is one chunk then."""
    if kept.get("text") == part.get("text"):
        return kept
    return {**kept, "sizes": [len(kept["text"].encode())], "at_ms": part["at_ms"][-1:]}


def pieces(parts: Iterable[Mapping[str, Any]]) -> Iterator[tuple[int, bytes]]:
    """Yield the chunks of an answer, each with its milliseconds after the request.

    `parts` hold their texts, not blobs.
    """
    for part in parts:
        text, raw = part.get("text"), part.get("base64")
        body = text.encode() if text is not None else base64.b64decode(raw or "")
        at = 0
        for size, time_ms in zip(part["sizes"], part["at_ms"], strict=True):
            yield time_ms, body[at : at + size]
            at += size
