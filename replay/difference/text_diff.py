"""The changes in a text or a conversation, for people.

Multi-line texts are compared by line, long lines by word. Pure. Shown text is escaped, because it
comes from a log.
"""

import difflib
import itertools
import operator
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import attrs

from refold.engine.encoding.canonical import Json, encode, text_of_json
from refold.engine.encoding.document import Document
from refold.replay.difference.pointer_diff import (
    Difference,
    counted,
    cut,
    differences,
    reordered,
    same,
    shared_ends,
    shown,
)

LINES_MAX: Final = 12
"""Lines shown of one text that changed."""
_CHARACTERS_MAX: Final = 160
"""Characters of one such line."""
_SHORT: Final = 40
"""Texts of so many characters are shown whole, by their JSON difference."""
_CONTEXT: Final = 4
"""Words kept before and after one that changed."""
_LONG: Final = 80
"""A longer line of a multi-line text is also compared word by word …"""
_TOGETHER: Final = 3
"""… where not more than so many changed together."""
_PIECE: Final = 60
"""The maximum length of one removed or added piece, or of equal text within a word."""
_CELLS_MAX: Final = 1_000_000
"""Words that went times words that came; beyond, they are not aligned: that would take seconds."""


@attrs.frozen
class TextChange(Document):
    """One text that changed, or one message that came or went."""

    what: str
    """`message 0 (system)`, `/arguments/q`."""
    lines: tuple[str, ...]
    """Lines with ` `, `-` or `+` before them; or one line of words, `[-old-]` and `{+new+}`."""


def text_changes(diff: Sequence[Difference]) -> tuple[TextChange, ...]:
    """Return those differences that are long texts, line by line or word by word."""
    return tuple(
        TextChange(one.pointer, changed_lines(one.before, one.after))
        for one in diff
        if one.kind == "changed" and _is_text(one.before, one.after)
    )


def changed_words(place: Difference) -> tuple[str, str]:
    """Return the words of two texts that are not shared at their beginning or end."""
    olds, news = (re.split(r"(\W)", text_of_json(e)) for e in (place.before, place.after))
    start, end = shared_ends(olds, news, operator.eq)
    return "".join(olds[start : len(olds) - end]), "".join(news[start : len(news) - end])


def message_changes(before: Sequence[Json], after: Sequence[Json]) -> tuple[TextChange, ...]:
    """Return what changed in a conversation, message by message."""
    start, end = shared_ends(before, after)
    olds, news = before[start : len(before) - end], after[start : len(after) - end]
    return tuple(
        _message(at, old, new)
        for at, (old, new) in enumerate(itertools.zip_longest(olds, news), start)
        if old is None or new is None or not same(old, new)
    )


def changed_lines(before: str, after: str) -> tuple[str, ...]:
    """Return how one text became the other: by lines, or by words if both have one line."""
    if told := reordered(before, after):
        return (f" {told}",)
    if before.splitlines() == after.splitlines():
        return (f" the same {counted(len(before.splitlines()), 'line')}, with different line ends",)
    if "\n" not in before and "\n" not in after:
        return _capped([_words(before, after)])
    found = list(difflib.unified_diff(before.splitlines(), after.splitlines(), n=1, lineterm=""))
    return _capped(list(_long_by_words([line for line in found[2:] if not line.startswith("@@")])))


def _long_by_words(lines: Sequence[str]) -> Iterator[str]:
    """Yield the lines of a diff; where a few long ones became others like them, by their words."""
    runs = [(sign, list(run)) for sign, run in itertools.groupby(lines, key=lambda line: line[0])]
    following = [*runs[1:], ("", [])]
    told: list[str] = []
    for (sign, run), (next_sign, news) in zip(runs, following, strict=True):
        if told:  # with the lines that they took the place of
            yield from told
            told = []
            continue
        if (sign, next_sign) == ("-", "+") and len(run) == len(news) <= _TOGETHER:
            pairs = [(old[1:], new[1:]) for old, new in zip(run, news, strict=True)]
            if all(len(old) > _LONG and _is_like(old, new) for old, new in pairs):
                told = [f" {_words(old, new)}" for old, new in pairs]
                continue
        yield from run


def _is_like(old: str, new: str) -> bool:
    start, end = shared_ends(old, new, operator.eq)
    return 2 * (start + end) >= min(len(old), len(new))


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


def aligned(before: list[str], after: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield the words of two texts: with ` ` those that both have, with `-` and `+` the others.

    The first and the last are ` `, and may be empty.
    """
    start, end = shared_ends(before, after, operator.eq)
    gone, come = before[start : len(before) - end], after[start : len(after) - end]
    yield " ", before[:start]
    blocks: Sequence[tuple[str, int, int, int, int]] = [("replace", 0, len(gone), 0, len(come))]
    if len(gone) * len(come) <= _CELLS_MAX:
        blocks = difflib.SequenceMatcher(None, gone, come, autojunk=False).get_opcodes()
    for op, old_from, old_to, new_from, new_to in blocks:
        if op == "equal":
            yield " ", gone[old_from:old_to]
        else:
            yield "-", gone[old_from:old_to]
            yield "+", come[new_from:new_to]
    yield " ", before[len(before) - end :]


def _words(before: str, after: str) -> str:
    """Return one line: equal text shortened, changes in brackets."""
    parts = [*aligned(*(re.findall(r"\s+|\S+", text) for text in (before, after)))]
    line, gone = "", ""
    for at, (sign, words) in enumerate(parts):
        text = "".join(words)
        if sign == "-":
            gone = text
        elif sign == "+":
            line += _changed(gone, text)
        else:
            is_last = at == len(parts) - 1
            line += _kept(words, 2 * _CONTEXT * (at > 0), 2 * _CONTEXT * (not is_last))
    return line


def _changed(old: str, new: str) -> str:
    """Return the removed and the added text, without their common parts if those are long."""
    start = end = 0
    if max(len(old), len(new)) > _SHORT and _is_like(old, new):  # a long word, or no words at all
        start, end = shared_ends(old, new, operator.eq)
    piece = cut(old[:start], 0, _PIECE // 2)
    if len(old) > start + end:
        piece += f"[-{cut(old[start : len(old) - end], _PIECE // 2)}-]"
    if len(new) > start + end:
        piece += f"{{+{cut(new[start : len(new) - end], _PIECE // 2)}+}}"
    return piece + cut(old[len(old) - end :], _PIECE // 2, 0)


def _kept(words: list[str], head: int, tail: int) -> str:
    """Return equal text without its middle; words and the spaces between count alike."""
    if len(words) <= head + tail + 1:
        return "".join(words)
    return "".join(words[:head]) + "…" + "".join(words[len(words) - tail :])


def _capped(lines: Sequence[str]) -> tuple[str, ...]:
    kept = [_safe(line) for line in lines[:LINES_MAX]]
    if len(lines) > LINES_MAX:
        more = len(lines) - LINES_MAX
        kept.append(f"… and {more} {'line' if more == 1 else 'lines'} more")
    return tuple(kept)


def _safe(line: str) -> str:
    """Return a line that moves no cursor, cut in its middle where it is long."""
    text = encode(line.expandtabs()).decode()[1:-1].replace('\\"', '"').replace("\\\\", "\\")
    return cut(text, _CHARACTERS_MAX // 2)
