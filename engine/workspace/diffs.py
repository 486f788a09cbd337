"""How two contents of a file differ: lines added and removed, and a diff to read.  Pure."""

import difflib
import itertools
from collections import Counter
from typing import Final

_LINES_MAX: Final = 2000
"""Lines on both sides up to which the least change is looked for: time grows with their product."""
_CONTEXT: Final = 3


def lines_of(content: bytes) -> list[str] | None:
    """Return the lines of a text, with their ends; `None` if it is not a text."""
    if b"\0" in content:
        return None
    try:
        return content.decode().splitlines(keepends=True)
    except UnicodeDecodeError:
        return None


def counted(before: bytes, after: bytes) -> tuple[int, int] | None:
    """Return how many lines were added and removed; `None` where one is not a text."""
    old, new = lines_of(before), lines_of(after)
    if old is None or new is None:
        return None
    same = _alike(old, new)
    same_end = _alike(old[same:][::-1], new[same:][::-1])
    old, new = old[same : len(old) - same_end], new[same : len(new) - same_end]
    if len(old) + len(new) > _LINES_MAX:
        left, right = Counter(old), Counter(new)
        return (right - left).total(), (left - right).total()
    codes = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    changed = [code[1:] for code in codes if code[0] != "equal"]
    return sum(d - c for _, _, c, d in changed), sum(b - a for a, b, _, _ in changed)


def _alike(one: list[str], other: list[str]) -> int:
    pairs = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))
    return sum(1 for _ in pairs)


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
