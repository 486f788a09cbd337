"""The data of the two lines that a tool's call leaves, as bytes, with no event between.

Recording and re-executing a call make these bytes twice a call, and most of the way through an
event and a dict would lead nowhere: the program's arguments and the tool's result are JSON values
already.  What stands here is exactly what `engine.log.blobs.encode_data` gives for the event, or
`None` where that takes more than a look: then the event is made.

Pure.  The events are `ToolCalled` and `ToolReturned`; their form is CONTRACT.md §2.
"""

import functools
from typing import Final

from refold.engine.encoding.canonical import DEPTH_MAX, TAG, Json, encode
from refold.engine.errors import NotCanonical
from refold.engine.log.blobs import BLOB_MIN, DOLLAR

_SURELY_FLAT: Final = 2 * DEPTH_MAX
"""Bytes with no room for more levels than are allowed."""

_ROOM: Final = 1024
"""Bytes that names, and what else stands around a value, may take."""


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
    return None if encoded is None else b'{"status":"ok","result":' + encoded + b"}"


def _plain(value: Json) -> bytes | None:
    """Return the bytes of a value that stands in an entry as it is; `None`: look at the event."""
    try:
        encoded = encode(value)
    except NotCanonical:
        return None  # the event's data will say where
    is_large = len(encoded) > _SURELY_FLAT and not _is_small(encoded)
    return None if is_large or DOLLAR in encoded or TAG in encoded else encoded


def _is_small(encoded: bytes) -> bool:
    """Return whether no string can be a blob, and a level more does no harm."""
    brackets = encoded.count(b"{") + encoded.count(b"[")
    return brackets < DEPTH_MAX and len(encoded) < BLOB_MIN - _ROOM


@functools.lru_cache(maxsize=512)
def _around(tool: str, effect: str) -> tuple[bytes, bytes] | None:
    """Return what stands before the arguments, and what behind; `None` for unusual names."""
    try:
        begin, end = encode({"tool": tool}), encode({"effect": effect})
    except NotCanonical:
        return None
    if TAG in begin + end or len(begin) + len(end) > _ROOM:
        return None
    return begin[:-1] + b',"arguments":', b"," + end[1:]
