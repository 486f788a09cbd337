"""Keeps how an answer came over the wire, in parts, so that it can be served again alike.

A part is the data of an `x-refold.wire` entry: {status, headers} in the first of an answer, {text}
or {base64}, {sizes}: the bytes of each chunk, {at_ms}: when it came, milliseconds after the
request, and in the last {end}.  Memory is bounded by one part.  Pure.  Rules: CONTRACT.md §16.4.
"""

import base64
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal

from refold.engine.encoding.canonical import Json
from refold.engine.wire.parts.framing import FRAMES, FrameParser

End = Literal["whole", "cut"]
"""`whole`: to its end · `cut`: the connection broke, or the program left."""

PART_BYTES: Final = 256 * 1024
"""From so many bytes on, a part is closed."""

SEAM_BYTES: Final = 64 * 1024
"""On each side of a part's end: so far is looked for a secret that crosses it.  Private keys and
tokens have several thousand letters, and more where they are spelled in JSON."""
_STRIDE: Final = 4096
"""The distance to the next chunk boundary that is tried as a part's end, which takes ms."""

KEPT_HEADERS: Final = frozenset(
    {
        "content-encoding",
        "content-type",
        "location",
        "mcp-protocol-version",
        "mcp-session-id",
        "openai-version",
        "operation-location",
        "request-id",
        "retry-after",
        "retry-after-ms",
        "x-goog-upload-chunk-granularity",
        "x-goog-upload-control-url",
        "x-goog-upload-status",
        "x-goog-upload-url",
        "x-request-id",
        "x-should-retry",
    }
)
"""The headers of an answer that a log keeps; no other is."""
LEADING: Final = frozenset(
    {"location", "operation-location", "x-goog-upload-control-url", "x-goog-upload-url"}
)
"""Those that name an address, at which a client goes on."""
IDS: Final = "ids"
"""The member of a first part with the request's ids from headers that identify the caller."""


_WAITS: Final[Mapping[str, float]] = {"retry-after": 3600, "retry-after-ms": 3_600_000}
"""The longest accepted wait: clients ignore a longer one, or wait for ever."""
_SPAN: Final = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?")
_VALUE: Final = re.compile(r"[\t\x20-\x7e\x80-\xff]{0,65536}")
"""The characters of a header's value: no line end, so that it cannot contain a second header."""
_HERE: Final = re.compile(r"/(?![/\\])[^\\\x00-\x20]*")
"""A `location` at the server that it comes from, as all clients read it."""
_AT_PROXY: Final = re.compile(r"http://refold\.proxy/[^\\\x00-\x20]*")
"""The other headers of `LEADING`, as a recorder keeps them."""
_PACKED: Final = frozenset({"gzip", "x-gzip", "deflate", "br", "zstd"})
"""Encodings that are never logged, because such bodies are decompressed first."""
_FINAL: Final = range(200, 1000)
_FOLLOWED: Final = frozenset({201, 202, *range(300, 400)})
"""Statuses at which clients continue at `location`."""
_BODILESS: Final = frozenset({204, 304})


def kept_headers(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return an answer's kept headers, names in lower case."""
    return {name.lower(): value for name, value in headers if name.lower() in KEPT_HEADERS}


def served_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return those headers of a record that a client may be given.

    Anybody can have written a record, so only headers that a recorder keeps are given, with values
    of one line, and none that lets a client wait for more than an hour.
    """
    return {name: value for name, value in headers.items() if _may_be_served(name, value)}


def _may_be_served(name: str, value: str) -> bool:
    if name not in KEPT_HEADERS or _VALUE.fullmatch(value) is None:
        return False
    most = _WAITS.get(name)
    return most is None or (_SPAN.fullmatch(value) is not None and float(value) <= most)


def why_unserved(parts: Sequence[Mapping[str, Any]]) -> str:
    """Return why no client is given this answer of a record; empty if one may be.

    It would lead a client away from the proxy, or no recorder writes it.
    """
    status, headers = parts[0]["status"], parts[0]["headers"]
    location, packed = headers.get("location"), headers.get("content-encoding", "").lower()
    if status not in _FINAL:
        return f"its status is {status}, which ends no request"
    if status in _FOLLOWED and location is not None and _HERE.fullmatch(location) is None:
        return f"it leads away from Refold, to {location!r:.200}"
    for name in LEADING & headers.keys() - {"location"}:
        if _AT_PROXY.fullmatch(headers[name]) is None:
            return f"it leads away from Refold, to {headers[name]!r:.200}"
    if not _PACKED.isdisjoint(map(str.strip, packed.split(","))):
        return f"it is packed ({packed:.80}), and Refold records such answers unpacked"
    if status in _BODILESS and any(sum(part["sizes"]) for part in parts):
        return f"it has a body, which an answer of status {status} has not"
    return ""


class Wire:
    """Takes one answer as it comes, and hands over its parts, without secrets.

    A secret may lie across chunks, so `scrub` gets a part whole, and no part ends inside of one.
    Of frames, it gets each event, and each is kept whole.
    """

    def __init__(
        self, keep: Callable[[dict[str, Json]], None], scrub: Callable[[bytes], bytes] = bytes
    ) -> None:
        self._keep = keep
        self._scrub = scrub
        self._frames: FrameParser | None = None
        self._head: dict[str, Json] = {}
        self._chunks: list[tuple[bytes, int]] = []
        self._held = 0
        self._close_at = PART_BYTES

    def head(self, status: int, headers: Mapping[str, str]) -> None:
        """Take the status and the headers that are kept."""
        self._head = {"status": status, "headers": dict(headers)}
        if headers.get("content-type", "").startswith(FRAMES):
            self._frames = FrameParser()

    def chunk(self, content: bytes, at_ms: int) -> None:
        """Take some bytes; an empty chunk is ignored."""
        if self._frames is not None:
            content = self._frames.scrubbed(content, self._scrub)
        if not content:
            return
        self._chunks.append((content, at_ms))
        self._held += len(content)
        if self._held >= self._close_at:
            self._close_some()

    def end(self, end: End) -> None:
        """Take the end: the last part is handed over."""
        if self._frames is not None and (rest := self._frames.rest()):
            self._chunks.append((rest, self._chunks[-1][1] if self._chunks else 0))
        self._close(self._chunks, {"end": end})

    def _close_some(self) -> None:
        """Close a part at the last boundary of chunks that no secret and no character crosses."""
        body = b"".join(content for content, _ in self._chunks)
        at, most = len(body), len(body) - SEAM_BYTES
        for count in range(len(self._chunks) - 1, 0, -1):
            at -= len(self._chunks[count][0])
            if at > most:
                continue
            if self._is_seam(body, at):
                first, self._chunks = self._chunks[:count], self._chunks[count:]
                self._close(first, {})
                break
            most = at - _STRIDE
        self._held = sum(len(content) for content, _ in self._chunks)
        self._close_at = self._held + PART_BYTES

    def _is_seam(self, body: bytes, at: int) -> bool:
        if body[at] & 0xC0 == 0x80:  # noqa: PLR2004  # UTF-8: inside of a character
            return False
        before, after = body[max(0, at - SEAM_BYTES) : at], body[at : at + SEAM_BYTES]
        return self._scrub(before + after) == self._scrub(before) + self._scrub(after)

    def _close(self, chunks: list[tuple[bytes, int]], more: dict[str, Json]) -> None:
        body = b"".join(content for content, _ in chunks)
        sizes = [len(content) for content, _ in chunks]
        times = [at_ms for _, at_ms in chunks]
        kept = self._scrub(body)
        if kept != body:  # the boundaries inside of it are no longer there
            sizes, times = [len(kept)], times[-1:]
        self._keep({**self._head, **body_of(kept), "sizes": sizes, "at_ms": times, **more})
        self._head = {}


def body_of(content: bytes) -> dict[str, Json]:
    """Return bytes as {text}, or as {base64} if they are not text."""
    try:
        return {"text": content.decode()}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(content).decode()}


def pieces(parts: Iterable[Mapping[str, Any]]) -> Iterator[tuple[int, bytes]]:
    """Yield the chunks of an answer, each with its milliseconds after the request.

    `parts` hold their texts, not blobs.
    """
    for part in parts:
        body, at = bytes_of(part), 0
        for size, time_ms in zip(part["sizes"], part["at_ms"], strict=True):
            yield time_ms, body[at : at + size]
            at += size


def bytes_of(part: Mapping[str, Any]) -> bytes:
    """Return what `body_of` was given."""
    text, raw = part.get("text"), part.get("base64")
    return text.encode() if text is not None else base64.b64decode(raw or "")


def checked(part: Mapping[str, Any], *, is_first: bool) -> None:
    """Check that `pieces` can take a part, which has its text instead of a blob.

    Raises:
        LookupError, TypeError, ValueError: it cannot.
    """
    sizes, times, body = part["sizes"], part["at_ms"], bytes_of(part)
    is_whole = len(sizes) == len(times) and sum(sizes) == len(body)
    is_whole = is_whole and all(type(each) is int for each in (*sizes, *times))
    if not is_whole or min((*sizes, *times), default=0) < 0:
        raise ValueError(f"{len(sizes)} chunks, {len(times)} times, {len(body)} bytes")
    status, headers = (part["status"], part["headers"]) if is_first else (200, {})
    if not (isinstance(status, int) and 100 <= status < 1000):  # noqa: PLR2004 - as HTTP has it
        raise ValueError(f"status {status}")
    told = (*headers.items(), *part.get(IDS, {}).items())
    if not all(isinstance(each, str) for pair in told for each in pair):
        raise TypeError("headers that are no texts")
