"""The one place that turns values into canonical JSON bytes.

Values that a log can hold exactly (CONTRACT.md §3.5): objects with string keys, arrays, strings
without lone surrogates, integers of 64 bits, finite floats, booleans, null; at most 128 levels
deep. Everything else is refused with its JSON pointer *before* anything is written. Bytes are safe
to print: control, bidi and invisible characters are escaped, so `cat` on a log shows no tricks.

Pure: no clock, no file.  Hashes belong to `engine.encoding.digest`, lines to `engine.log`.
"""

import math
import re
import sys
from collections.abc import Callable
from typing import Any, Final

import orjson

from refold.engine.errors import NotCanonical

Json = Any
"""A JSON value: dict with str keys, list, str, int, float, bool or None."""

DEPTH_MAX: Final = 128
"""Levels of nesting; orjson could read deeper than it can write."""
SURELY_FLAT: Final = 2 * DEPTH_MAX
"""Bytes with no room for more levels than are allowed."""
_KEY_LEVELS: Final = 32
"""Levels of a key in addition to those of its values."""

_PASSTHROUGH: Final = (
    orjson.OPT_PASSTHROUGH_SUBCLASS
    | orjson.OPT_PASSTHROUGH_DATETIME
    | orjson.OPT_PASSTHROUGH_DATACLASS
)
_STRICT: Final = _PASSTHROUGH | orjson.OPT_STRICT_INTEGER
_dumps: Final = orjson.dumps

loads: Final[Callable[[bytes | str], Json]] = orjson.loads

# Bytes are searched by `find` and for integers, here and in the log: `b"null" in encoded` first
# tries its left side as a number, and the exception inside that costs more than the search.
_DELETE: Final = 0x7F

_BITS_SHOWN: Final = 128
"""Digits of a refused integer that is shown in full."""

# orjson escapes what JSON must; these it leaves raw, and a terminal may obey them.
_UNSAFE: Final = re.compile(
    "[\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]"
)
TAG: Final = b"\xf3\xa0"
"""How characters of that block begin in UTF-8."""
_TAGS: Final = re.compile(rb"\xf3\xa0(?:\x80[\xa0-\xbf]|\x81[\x80-\xbf])")


def text_of_json(value: Json) -> str:
    """Return a string as it is, and any other JSON value as its canonical text.

    Raises:
        NotCanonical: as `encode` does.
    """
    return value if isinstance(value, str) else encode(value).decode()


def encode(value: Json, pointer: str = "", order: int = 0, more_levels: int = 0) -> bytes:
    """Return the canonical bytes of `value`; member order is kept, unless `order` changes it.

    One `orjson.dumps` with its strictest options settles nearly every value; the exact walk runs
    only where the bytes show something that orjson would have let through (a null that may have
    been a NaN, wide integers, depth).

    Raises:
        NotCanonical: the value cannot be held exactly; `pointer` is put before its path.
    """
    try:
        encoded = _dumps(value, None, _STRICT | order)
    except (TypeError, RecursionError):
        check(value, pointer, more_levels)
        encoded = _dumps(value, None, _PASSTHROUGH | order)
    else:
        if (len(encoded) > SURELY_FLAT and _may_be_deep(encoded)) or (
            encoded.find(b"null") >= 0 and _has_other_null(encoded, value)
        ):
            check(value, pointer, more_levels)
    if encoded.isascii() and _DELETE not in encoded:
        return encoded
    return escape(encoded)


def _may_be_deep(encoded: bytes) -> bool:
    """Return whether these bytes have brackets for more levels than are allowed."""
    return encoded.count(b"{") + encoded.count(b"[") > DEPTH_MAX


def _has_other_null(encoded: bytes, value: Json) -> bool:
    """Return whether a null stands in these bytes for something else: for a NaN."""
    if value.__class__ is dict and encoded.count(b"null") == [*value.values()].count(None):
        return False  # all are members of the object itself, as in most entries
    return bool(loads(encoded) != value)


def encode_sorted(value: Json) -> bytes:
    """Return the canonical bytes of `value` with sorted members: for digests."""
    return encode(value, "", orjson.OPT_SORT_KEYS)


def encode_key(value: Json, *, is_sorted: bool = True) -> bytes:
    """Return the canonical bytes of a key or a line of text, made of values that a log holds.

    Beside a kind and a name, a value of 128 levels is nested deeper.
    """
    return encode(value, "", orjson.OPT_SORT_KEYS if is_sorted else 0, _KEY_LEVELS)


def escape(encoded: bytes) -> bytes:
    r"""Return JSON bytes in which no character can move a cursor or hide text: as `\uXXXX`."""
    text = encoded.decode()
    if _UNSAFE.search(text) is None:
        return encoded
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text).encode()


def escape_tags(encoded: bytes) -> bytes:
    """Return JSON bytes in which no tag character hides text: U+E0020 to E007F, as two escapes.

    For the lines of a log alone.  What digests of values are made of has them as they are: it did
    so in logs that were written before, and nobody prints it.
    """
    if TAG not in encoded:
        return encoded
    return _TAGS.sub(lambda found: b"\\udb40\\udc%02x" % (ord(found[0].decode()) & 0x7F), encoded)


def check(value: Json, pointer: str = "", more_levels: int = 0) -> None:
    """Walk `value` and refuse the first place that the profile does not allow.

    Raises:
        NotCanonical: with the JSON pointer of that place.
    """
    _check(value, pointer, -more_levels)


def _check(value: Json, pointer: str, depth: int) -> None:
    kind = type(value)
    if kind is str:
        check_text(value, pointer)
    elif kind is int or kind is float:
        check_number(value, pointer)
    elif kind is dict:
        check_depth(pointer, depth)
        for key, item in value.items():
            check_key(key, pointer)
            _check(item, join(pointer, key), depth + 1)
    elif kind is list or kind is tuple:
        check_depth(pointer, depth)
        for index, item in enumerate(value):
            _check(item, f"{pointer}/{index}", depth + 1)
    elif value is not None and kind is not bool:
        raise NotCanonical(pointer, "a JSON value", kind_of(value))


def check_number(value: float, pointer: str) -> None:
    """Refuse an integer of more than 64 bits with its sign, and anything but a number."""
    if type(value) is not int:
        if not math.isfinite(value):
            raise NotCanonical(pointer, "a finite number", repr(value))
    elif not -(2**63) <= value < 2**63:
        bits = value.bit_length()
        found = str(value) if bits <= _BITS_SHOWN else f"an integer of {bits} bits"
        raise NotCanonical(pointer, "a signed 64-bit integer", found)


def check_key(key: Any, pointer: str) -> None:
    """Refuse the name of a member, in the object at `pointer`."""
    if type(key) is not str:
        raise NotCanonical(pointer, "string keys", f"key {key!r:.80} ({type(key).__name__})")
    if not key.isascii():
        check_text(key, pointer)


def kind_of(value: object) -> str:
    """Return the class of a value that is not JSON, as an error shows it."""
    kind = type(value)
    advice = next((f" ({what})" for name, what in _ADVICE.items() if hasattr(kind, name)), "")
    return f"{name_of(kind)}{advice}"


def name_of(kind: type) -> str:
    """Return the name of a class as programs write it; of an internal one of ours, without module.

    Modules inside `refold` are no names that a program imports from.
    """
    name, module = kind.__qualname__, kind.__module__
    if module == "builtins":
        return name
    if module.partition(".")[0] != "refold":
        return f"{module}.{name}"
    return f"refold.{name}" if name in getattr(sys.modules.get("refold"), "__all__", ()) else name


_ADVICE: Final = {
    "__await__": "is an await missing?",
    "model_dump": "use .model_dump(mode='json')",
    "tolist": "use .tolist()",
    "decode": "use .decode(), or base64 text",
    "__next__": "use list(…)",
}
"""How to make a JSON value, by a member of the class: coroutines, pydantic, numpy, bytes,
generators."""


def shown(value: object) -> str:
    """Return the class of the argument, and a number or a short text itself."""
    told = isinstance(value, int | float | str | bytes)
    return f"{kind_of(value)} {value!r:.60}" if told else kind_of(value)


def check_text(value: str, pointer: str) -> None:
    """Refuse a text with a lone surrogate."""
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise NotCanonical(
            pointer, "text without lone surrogates", f"{value[error.start]!a} at {error.start}"
        ) from None


def check_depth(pointer: str, depth: int) -> None:
    """Refuse the value at `pointer` if it is nested too deep."""
    if depth >= DEPTH_MAX:
        raise NotCanonical(pointer, f"at most {DEPTH_MAX} levels of nesting", "more")


def join(pointer: str, key: str | int) -> str:
    """Return the JSON pointer of member `key` of the place `pointer` (RFC 6901)."""
    return f"{pointer}/{str(key).replace('~', '~0').replace('/', '~1')}"


def unescaped(step: str) -> str:
    """Return the name of a member from its step in a JSON pointer: what `join` had escaped."""
    return step.replace("~1", "/").replace("~0", "~")
