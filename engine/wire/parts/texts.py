"""Texts out of JSON that came over a wire, as a log or a message can hold them.

Nothing that a server sends is trusted to be text.  Used by the models that our own
programs ask and by the readers of what watched commands ask.  Pure.  Rules: CONTRACT.md §11, §16.9.
"""

import re
from collections.abc import Iterable
from typing import Final

from refold.engine.encoding.canonical import Json

_MESSAGE_CHARS: Final = 300
_SECRET: Final = re.compile(r"(?i)\bsk-[\w*.-]{6,}|\bbearer\s+[\w*.+/=-]{12,}")


def text_of(value: Json) -> str:
    """Return text that a log can hold: half a surrogate pair becomes U+FFFD; not text is empty."""
    if not isinstance(value, str):
        return ""
    if value.isascii():
        return value
    return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def short(text: str, secrets: Iterable[str] = ()) -> str:
    """Return `text` on one line, bounded, with keys blotted out."""
    for secret in secrets:
        text = text.replace(secret, "…")
    text = " ".join(_SECRET.sub("…", text).split())
    return text if len(text) <= _MESSAGE_CHARS else text[: _MESSAGE_CHARS - 1] + "…"
