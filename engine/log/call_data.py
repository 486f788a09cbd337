"""The data of a tool call's two lines, as bytes, without making events.

Recording and re-executing a call make these bytes twice per call, and the program's arguments and
the tool's result are already JSON values, so events and dicts would be wasted work. The bytes equal
those of `engine.log.blobs.encode_data` for the event. The result is `None` in any unusual case;
then the event is made.

Pure. The events are `ToolCalled` and `ToolReturned`; their form is CONTRACT.md §2.
"""

import functools
from typing import Final

from refold.engine.encoding.canonical import DEPTH_MAX, SURELY_FLAT, TAG, Json, encode
from refold.engine.errors import NotCanonical
from refold.engine.log.blobs import BLOB_MIN, DOLLAR

RESULT: Final = b'{"status":"ok","result":'
"""All before the result in the data of `returned`; a brace follows it."""

_ROOM: Final = 1024
"""The size limit of names and other bytes around a value."""


def called(tool: str, effect: str, arguments: dict[str, Json]) -> bytes | None:
    """Return the data of `tool.called` of a leaf tool; `None`: make the event."""
    around, encoded = _around(tool, effect), _plain(arguments)
    if around is None or encoded is None:
        return None
    return around[0] + encoded + around[1]


def returned(result: Json) -> bytes | None:
    """Return the data of `tool.returned` with the status `ok`; `None`: make the event."""
    if result is None:
        return b'{"status":"ok"}'
    encoded = _plain(result)
    return None if encoded is None else RESULT + encoded + b"}"


def _plain(value: Json) -> bytes | None:
    """Return the bytes of a value that is stored unchanged; `None`: use the event."""
    try:
        encoded = encode(value)
    except NotCanonical:
        return None  # the event's data will say where
    is_large = len(encoded) > SURELY_FLAT and not _is_small(encoded)
    is_marked = DOLLAR in encoded or (not encoded.isascii() and TAG in encoded)
    return None if is_large or is_marked else encoded


def _is_small(encoded: bytes) -> bool:
    """Return whether no string can be a blob, and a level more does no harm."""
    brackets = encoded.count(b"{") + encoded.count(b"[")
    return brackets < DEPTH_MAX and len(encoded) < BLOB_MIN - _ROOM


@functools.lru_cache(maxsize=512)
def _around(tool: str, effect: str) -> tuple[bytes, bytes] | None:
    """Return the bytes before and after the arguments; `None` for unusual names."""
    try:
        begin, end = encode({"tool": tool}), encode({"effect": effect})
    except NotCanonical:
        return None
    if TAG in begin + end or len(begin) + len(end) > _ROOM:
        return None
    return begin[:-1] + b',"arguments":', b"," + end[1:]
