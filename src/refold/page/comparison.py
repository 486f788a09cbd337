"""How two runs differ, on the page: each cause once, with its places, their words and their sums.

`refold diff` has the same causes. Rules: CONTRACT.md §13, §14.16.
"""

import difflib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from refold.engine.encoding.canonical import encode, text_of_json
from refold.engine.errors import LogError
from refold.page.entries import sound
from refold.page.one_run import OneRun
from refold.page.turns import left_out
from refold.replay.compare.diff import diff
from refold.replay.difference.causes import DiffCause
from refold.replay.difference.pointer_diff import Difference, shared_ends, shown

_SHOWN: Final = 8_000
"""Characters of a value in a difference; longer ones are cut in their middle."""
_CELLS_MAX: Final = 1_000_000
"""Words that went times words that came; beyond, they are not aligned."""
_PLACES: Final = 50
"""Places of one difference that are shown."""


def compared(a: OneRun, b: OneRun, *, content: bool) -> dict[str, Any]:
    """Return the differences of two runs by cause, as `refold diff` does.

    If they cannot be compared, `error` gives the reason.
    """
    found: dict[str, Any] = {"other": b.document(), "causes": [], "notes": [], "error": ""}
    sums, others = _sums(a), _sums(b)
    found["table"] = {name: [number, others[name]] for name, number in sums.items()}
    try:
        result = diff(a.log, b.log)
    except LogError as error:
        return found | {"identical": False, "count": None, "error": str(error)}
    found["causes"] = [_cause(each, a, b, content=content) for each in result.causes]
    return found | {
        "identical": result.identical,
        "count": result.count,
        "notes": list(result.notes),
    }


def _cause(cause: DiffCause, a: OneRun, b: OneRun, *, content: bool) -> dict[str, Any]:
    first = cause.leaves[0]
    is_end = cause.what in ("result", "retry")
    sides = zip((a, b), first.logs, (first.seq_a, first.seq_b), strict=False)
    places = [_entry(*each, is_end=is_end) for each in sides] or [None, None]
    return {
        "title": cause.headline,
        "where": cause.where,
        "what": cause.what.replace("_", " "),
        "a": places[0],
        "b": places[1],
        "differences": [_place(each, content=content) for each in cause.differences[:_PLACES]],
        "alike": list(cause.alike),
        "follows": cause.follows,
    }


def _entry(side: OneRun, log: Path, seq: int | None, *, is_end: bool) -> list[Any] | None:
    """Return the id of a log and the number of a call's entry in it: its first, or its last."""
    if seq is None:
        return None
    if is_end:
        found = {entry.seq: entry.call for entry in sound(log)}
        seq = max(each for each, call in found.items() if call == found[seq])
    return [side.ids[log], seq]


def _place(each: Difference, *, content: bool) -> list[Any]:
    """Return where, both values, and if both are there, their words: with ` `, `-` or `+`."""
    absent = {"absent": True}
    was = absent if each.kind == "added" else _short(each.before, content=content)
    now = absent if each.kind == "removed" else _short(each.after, content=content)
    parts = [*_parts(*map(text_of_json, (was, now)))] if each.kind == "changed" else None
    return [each.pointer, was, now, parts]


def _short(value: Any, *, content: bool) -> Any:
    """Return a value as a difference shows it: whole, cut in its middle, or its size alone."""
    if not content:
        return left_out(value)
    return value if len(encode(value)) <= _SHOWN else shown(value, _SHOWN)


def _parts(before: str, after: str) -> Iterator[tuple[str, str]]:
    """Yield the words of two texts: those that both have, those that went, those that came."""
    olds, news = (re.split(r"(\W)", text) for text in (before, after))
    start, end = shared_ends(olds, news)
    middle = olds[start : len(olds) - end], news[start : len(news) - end]
    yield " ", "".join(olds[:start])
    if len(middle[0]) * len(middle[1]) > _CELLS_MAX:
        yield "-", "".join(middle[0])
        yield "+", "".join(middle[1])
    else:
        matcher = difflib.SequenceMatcher(None, *middle, autojunk=False)
        for how, i, j, k, m in matcher.get_opcodes():
            if how == "equal":
                yield " ", "".join(middle[0][i:j])
            else:
                yield "-", "".join(middle[0][i:j])
                yield "+", "".join(middle[1][k:m])
    yield " ", "".join(olds[len(olds) - end :])


def _sums(side: OneRun) -> dict[str, int | None]:
    """Return one run's side of the table of two."""
    total, duration_ms = side.run.totals, side.tree.duration_ms
    return {
        "runs": total["runs"],
        "tool_calls": total["tools"],
        "requests": total["requests"],
        **total["all"],
        "time_us": None if duration_ms is None else duration_ms * 1000,
    }
