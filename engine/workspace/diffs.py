"""How two contents of a file differ: a diff to read.  Pure."""

import difflib
from typing import Final

_CONTEXT: Final = 3


def lines_of(content: bytes) -> list[str] | None:
    """Return the lines of a text, with their ends; `None` if it is not a text."""
    if b"\0" in content:
        return None
    try:
        return content.decode().splitlines(keepends=True)
    except UnicodeDecodeError:
        return None


def unified(before: bytes | None, after: bytes | None, path: str) -> list[str]:
    """Return a unified diff, without line ends; one line for content that is not text."""
    old, new = lines_of(before or b""), lines_of(after or b"")
    was = f"a/{path}" if before is not None else "/dev/null"
    now = f"b/{path}" if after is not None else "/dev/null"
    if old is None or new is None:
        return [f"Binary files {was} and {now} differ"]
    found = difflib.unified_diff(old, new, was, now, n=_CONTEXT)
    lines = []
    for line in found:
        lines.append(line.rstrip("\n"))
        if not line.endswith("\n"):
            lines.append("\\ No newline at end of file")
    return lines
