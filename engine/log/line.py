"""One line of a log: how its bytes are made, and how they are taken apart.

Pure: no file, no clock.  A line is verified by slicing, never by parsing and writing it again,
because the text of floats differs between JSON libraries.  The format is CONTRACT.md §3.

`{"seq":12,"kind":"tool.called","call":"0/1#3","cause":9,"data":{…},"meta":{…},"hash":"…"}`
"""

import re
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Final

from refold.engine.encoding.digest import EVENT, HEADER
from refold.engine.errors import NotCanonical

LINE_MAX: Final = 1024 * 1024
"""Bytes of a line, its newline included."""

FORMAT: Final = 1
"""Version of the container: these rules for lines, hashes and blobs."""

TRAILER: Final = 76
"""Bytes of `,"hash":"<64 hex>"}` and the newline."""

FIRST: Final = b'{"seq":0,"kind":"run.started","data":{'

NO_HASH: Final = b""
"""The previous hash of a first line."""

_META: Final = b',"meta":{'
_DATA: Final = b',"data":'

_NUMBER: Final = "-?(?:0|[1-9][0-9]{0,18}+)"
_AROUND: Final = re.compile(
    r'^\{"seq":(?:0|[1-9][0-9]{0,18}+),"kind":"([a-z][a-z0-9._-]*+)"'
    r'(?:,"call":"([A-Za-z0-9./#@_-]++)")?+(?:,"cause":(0|[1-9][0-9]{0,18}+))?+'
    rf'"wall_us":{_NUMBER},"mono_us":{_NUMBER}'
    rf'(?:,"[a-z][a-z0-9_]*+":(?:{_NUMBER}|"[A-Za-z0-9._-]{{0,128}}+"))*+\}}$',
    re.MULTILINE,
)
"""What stands before the data of a line, and in its meta."""

Parts = tuple[str, str | None, int | None, bytes]
"""Kind, call, cause and the bytes of the data of a line."""

_HASH: Final = re.compile(r"[0-9a-f]{64}\Z")
_META_NAME: Final = re.compile(r"[a-z][a-z0-9_]*\Z")
_META_TEXT: Final = re.compile(r"[A-Za-z0-9._-]{0,128}\Z")


def is_hash(value: object) -> bool:
    """Return whether a value is a hash as logs spell it."""
    return isinstance(value, str) and _HASH.match(value) is not None


def trailer(previous: bytes, body: bytes) -> bytes:
    """Return the end of the line that begins with `body` and follows the hash `previous`."""
    return b',"hash":"%b"}\n' % hash_of(previous, body).encode()


def hash_of(previous: bytes, body: bytes) -> str:
    """Return the hash of a line: 64 hex digits; `previous` is empty for the first line only."""
    return sha256((EVENT if previous else HEADER) + previous + body).hexdigest()


def header_hash(version: int, body: bytes) -> str:
    """Return the hash that a first line of format `version` would have."""
    return sha256(HEADER.replace(b"/1 ", b"/%d " % version) + body).hexdigest()


def data_of(line: bytes) -> bytes:
    """Return the bytes of a well-formed line's data."""
    return line[line.index(_DATA) + len(_DATA) : line.rindex(_META)]


def stored_hash(line: bytes) -> bytes | None:
    """Return the hash at the end of `line`; `None` if the end is not valid."""
    end = line[-TRAILER:]
    stored = end[9:73]
    if end[:9] != b',"hash":"' or end[73:] != b'"}\n' or stored.strip(b"0123456789abcdef"):
        return None
    return stored


def parts_of(lines: Sequence[bytes]) -> list[Parts] | None:
    """Return the parts of verified lines; the data is not parsed.

    `None`: one of them is not exactly as the writer makes it around its data.  One expression
    looks at all of them at once, at half the price of one after the other.
    """
    around, inside = [], []
    for line in lines:
        head, _, meta = line.rpartition(_META)
        begin, _, data = head.partition(_DATA)
        around.append(begin + meta[:-TRAILER])
        inside.append(data)
    found = _AROUND.findall(b"\n".join(around).decode(errors="replace"))
    if len(found) != len(lines) or not all(inside):  # a line lacks `data` or `meta`
        return None
    return [
        (kind, call or None, int(cause) if cause else None, data)
        for (kind, call, cause), data in zip(found, inside, strict=True)
    ]


def encode_meta(meta: Mapping[str, int | str]) -> bytes:
    r"""Return the members of `meta` as bytes, each after a comma.

    Flat, integers and short plain words only, so that the last `,"meta":{` of a line is its own.

    Raises:
        NotCanonical: a name or a value of another form.
    """
    return b"".join(_member(name, value) for name, value in meta.items())


def plain(text: str) -> str:
    """Return `text` as a word that `meta` may hold: a host's name, a runner's."""
    return re.sub(r"[^A-Za-z0-9._-]", "-", text)[:128]


def _member(name: str, value: int | str) -> bytes:
    if not _META_NAME.match(name):
        raise NotCanonical(f"/meta/{name}", "a name of [a-z0-9_]", repr(name))
    if type(value) is int and -(2**63) <= value < 2**63:
        return b',"%b":%d' % (name.encode(), value)
    if type(value) is str and _META_TEXT.match(value):
        return b',"%b":"%b"' % (name.encode(), value.encode())
    raise NotCanonical(
        f"/meta/{name}", "an integer, or at most 128 of [A-Za-z0-9._-]", f"{value!r:.60}"
    )
