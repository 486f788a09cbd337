"""How two runs differ, on the page: each cause once, with its places, their words and their sums.

`refold diff` has the same causes. Rules: CONTRACT.md §13, §14.16.
"""

import re
from typing import Any, Final

from refold.engine.encoding.canonical import encode, text_of_json
from refold.engine.errors import LogError
from refold.page.one_run import OneRun
from refold.replay.compare.diff import diff
from refold.replay.difference.causes import DiffCause
from refold.replay.difference.pointer_diff import Difference, shown
from refold.replay.difference.text_diff import aligned

_SHOWN: Final = 8_000
"""Characters of a value in a difference; longer ones are cut in their middle."""
_PLACES: Final = 50
"""Places of one difference that are shown."""


def compared(a: OneRun, b: OneRun) -> dict[str, Any]:
    """Return the differences of two runs by cause, as `refold diff --json` does.

    If they cannot be compared, `error` gives the reason.
    """
    found: dict[str, Any] = {"causes": [], "notes": [], "error": ""}
    sums, others = _sums(a), _sums(b)
    found["table"] = {name: [number, others[name]] for name, number in sums.items()}
    try:
        result = diff(a.log, b.log)
    except LogError as error:
        return found | {"identical": False, "count": None, "error": str(error)}
    found["causes"] = [_cause(each, a, b) for each in result.causes]
    return found | {
        "identical": result.identical,
        "count": result.count,
        "notes": list(result.notes),
    }


def _cause(cause: DiffCause, a: OneRun, b: OneRun) -> dict[str, Any]:
    """Return a cause, with the entries of both calls, and its differences instead of the first."""
    first = cause.leaves[0]
    sides = zip((a, b), first.logs, (first.seq_a, first.seq_b), strict=False)
    return {name: value for name, value in cause.as_json().items() if name not in _FIRST} | {
        "title": cause.headline,
        "entries": [seq if seq is None else [side.ids[log], seq] for side, log, seq in sides],
        "differences": [*map(_place, cause.differences[:_PLACES])],
    }


_FIRST: Final = ("was", "now", "words")
"""Members of a cause about the first of its places."""


def _place(place: Difference) -> dict[str, Any]:
    """Return a place, its values cut in their middle, with the words of both if both are there."""
    found = {
        name: value if len(encode(value)) <= _SHOWN else shown(value, _SHOWN)
        for name, value in place.as_json().items()
    }
    if place.kind == "changed":
        words = (re.split(r"(\W)", text_of_json(found[side])) for side in ("before", "after"))
        found["parts"] = [(sign, "".join(part)) for sign, part in aligned(*words) if part]
    return found


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
