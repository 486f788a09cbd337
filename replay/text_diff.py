"""What changed in a text, and in a conversation, so that a person can act on it.

Lines of texts of several lines, words of long ones.  Pure; what is shown is escaped, because it
comes from a log.
"""

import difflib
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import attrs

from refold.engine.canonical import Json, encode
from refold.replay.pointer_diff import Difference, differences, same, shared_start, shown

LINES_MAX: Final = 12
"""Lines shown of one text that changed."""
_CHARACTERS_MAX: Final = 160
"""Characters of one such line."""
_SHORT: Final = 40
"""Texts of so many characters are shown whole, by their JSON difference."""
_CONTEXT: Final = 4
"""Words kept before and after one that changed."""


@attrs.frozen
class TextChange:
    """One text that changed, or one message that came or went."""

    what: str
    """`message 0 (system)`, `/arguments/q`."""
    lines: tuple[str, ...]
    """Lines with ` `, `-` or `+` before them; or one line of words, `[-old-]` and `{+new+}`."""

    def as_json(self) -> dict[str, Json]:
        """Return {what, lines}."""
        return {"what": self.what, "lines": list(self.lines)}


def text_changes(diff: Sequence[Difference]) -> tuple[TextChange, ...]:
    """Return those differences that are long texts, line by line or word by word."""
    return tuple(
        TextChange(one.pointer, changed_lines(one.before, one.after))
        for one in diff
        if one.kind == "changed" and _is_text(one.before, one.after)
    )


def message_changes(before: Sequence[Json], after: Sequence[Json]) -> tuple[TextChange, ...]:
    """Return what changed in a conversation, message by message."""
    start = shared_start(before, after)
    end = shared_start(before[start:][::-1], after[start:][::-1])
    olds, news = before[start : len(before) - end], after[start : len(after) - end]
    changes = []
    for at in range(max(len(olds), len(news))):
        old = olds[at] if at < len(olds) else None
        new = news[at] if at < len(news) else None
        if old is None or new is None or not same(old, new):
            changes.append(_message(start + at, old, new))
    return tuple(changes)


def changed_lines(before: str, after: str) -> tuple[str, ...]:
    """Return how one text became the other: lines, or, where they have one line, words."""
    if "\n" in before or "\n" in after:
        found = list(
            difflib.unified_diff(before.splitlines(), after.splitlines(), n=1, lineterm="")
        )
        return _capped([line for line in found[2:] if not line.startswith("@@")])
    return _capped([_words(before, after)])


def _message(at: int, old: Any, new: Any) -> TextChange:
    role = (new or old).get("role", "?")
    what = f"message {at} ({role})"
    if old is None or new is None:
        sign, whole = ("+", new) if old is None else ("-", old)
        return TextChange(what, _capped([f"{sign}{line}" for line in _content(whole)]))
    if old.get("role") != role:
        what = f"message {at} ({old.get('role', '?')} → {role})"
    lines: list[str] = []
    for one in differences(old, new):
        if one.pointer == "/role":
            continue
        is_text = isinstance(one.before, str) and isinstance(one.after, str)
        if one.pointer == "/content" and is_text:
            lines += changed_lines(one.before, one.after)
        else:
            lines.append(str(one))
    return TextChange(what, _capped(lines))


def _content(message: dict[str, Any]) -> list[str]:
    content = message.get("content")
    others = {name: value for name, value in message.items() if name not in ("role", "content")}
    lines = content.splitlines() if isinstance(content, str) and content else []
    return lines + ([shown(others)] if others else [])


def _is_text(before: Json, after: Json) -> bool:
    return (
        isinstance(before, str)
        and isinstance(after, str)
        and (max(len(before), len(after)) > _SHORT or "\n" in before + after)
    )


def _words(before: str, after: str) -> str:
    """Return one line: what is the same as it is, shortened; what changed in brackets."""
    olds, news = re.findall(r"\s+|\S+", before), re.findall(r"\s+|\S+", after)
    blocks = difflib.SequenceMatcher(None, olds, news, autojunk=False).get_opcodes()
    return "".join(
        piece
        for at, block in enumerate(blocks)
        for piece in _block(block, olds, news, is_first=at == 0, is_last=at == len(blocks) - 1)
    )


def _block(
    block: tuple[str, int, int, int, int],
    olds: list[str],
    news: list[str],
    *,
    is_first: bool,
    is_last: bool,
) -> Iterator[str]:
    op, old_from, old_to, new_from, new_to = block
    if op == "equal":
        yield _kept(olds[old_from:old_to], is_first=is_first, is_last=is_last)
        return
    if old_to > old_from:
        yield f"[-{''.join(olds[old_from:old_to])}-]"
    if new_to > new_from:
        yield f"{{+{''.join(news[new_from:new_to])}+}}"


def _kept(words: list[str], *, is_first: bool, is_last: bool) -> str:
    """Return what is the same, without the middle; words and the spaces between count alike."""
    most = 2 * _CONTEXT
    head, tail = (0 if is_first else most), (0 if is_last else most)
    if len(words) <= head + tail + 1:
        return "".join(words)
    return "".join(words[:head]) + "…" + "".join(words[len(words) - tail :])


def _capped(lines: Sequence[str]) -> tuple[str, ...]:
    kept = [_safe(line) for line in lines[:LINES_MAX]]
    if len(lines) > LINES_MAX:
        kept.append(f"… and {len(lines) - LINES_MAX} lines more")
    return tuple(kept)


def _safe(line: str) -> str:
    """Return a line that moves no cursor, cut in its middle where it is long."""
    text = encode(line.expandtabs()).decode()[1:-1].replace('\\"', '"').replace("\\\\", "\\")
    if len(text) <= _CHARACTERS_MAX:
        return text
    half = _CHARACTERS_MAX // 2
    return f"{text[:half]}…{text[-half:]}"
