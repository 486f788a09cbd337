"""Two runs side by side on the page: which call answers which, and where they differ.

The alignment and the differences are those of `refold diff`. Rules: CONTRACT.md §13, §14.16.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from refold.engine.encoding.canonical import encode
from refold.engine.errors import LogError
from refold.page.one_run import OneRun, left_out
from refold.replay.compare.diff import Compared, LogDifference, diff
from refold.replay.difference.causes import DiffCause
from refold.replay.difference.pointer_diff import shown
from refold.replay.run.totals import totals

_LABELS: Final = {
    "runs": "Runs",
    "tool_calls": "Tool calls",
    "requests": "Model requests",
    "input_tokens": "Tokens in",
    "output_tokens": "Tokens out",
    "cost_usd_micros": "Cost",
    "time_us": "Time",
}
"""The names of the rows of the table."""
_SHOWN: Final = 2_000
"""Characters of a value in a difference; longer ones are cut in their middle."""


def compared(a: OneRun, b: OneRun, *, content: bool) -> dict[str, Any]:
    """Return the differences of two runs, call by call, as `refold diff` does.

    If they cannot be compared, `error` gives the reason.
    """
    pairs: list[Compared] = []
    found: dict[str, Any] = {"other": b.document()}
    found |= {"rows": [], "causes": [], "notes": []}
    sums, others = _sums(a), _sums(b)
    found["table"] = {name: [number, others[name]] for name, number in sums.items()}
    found["labels"] = _LABELS
    try:
        told = diff(a.log, b.log, pairs=pairs)
    except LogError as error:
        answers = {"identical": False, "count": None, "title": "They cannot be compared"}
        return found | answers | {"error": str(error)}
    rows = [_row(each, a.ids, b.ids, content=content) for each in pairs]
    found["rows"] = sorted(rows, key=lambda row: _when(row, a, b))
    places = {
        id(one): row for each, row in zip(pairs, rows, strict=True) for one in each.differences
    }
    found["causes"] = [_cause(each, places, content=content) for each in told.causes]
    found["title"] = "They first differ here" if found["causes"] else "No difference"
    return found | {"identical": told.identical, "count": told.count, "notes": list(told.notes)}


def _row(
    pair: Compared, ids_a: dict[Path, str], ids_b: dict[Path, str], *, content: bool
) -> list[Any]:
    status = "changed" if pair.differs else "same"
    if pair.seq_a is None or pair.seq_b is None:
        status = "added" if pair.seq_a is None else "removed"
    places = [place for each in pair.differences for place in _places(each, content=content)]
    return [ids_a[pair.log_a], pair.seq_a, ids_b[pair.log_b], pair.seq_b, status, places]


def _cause(cause: DiffCause, places: Mapping[int, list[Any]], *, content: bool) -> dict[str, Any]:
    """Return a cause, with its place in both runs where it has one."""
    log_a, seq_a, log_b, seq_b, *_ = places.get(id(cause.leaves[0]), (None,) * 4)
    shown = attrs.evolve(
        cause,
        was=_short(cause.was, content=content),
        now=_short(cause.now, content=content),
        words=cause.words if content else (),
    )
    return {
        **shown.as_json(),
        "a": None if seq_a is None else [log_a, seq_a],
        "b": None if seq_b is None else [log_b, seq_b],
        "title": cause.headline,
    }


def _places(difference: LogDifference, *, content: bool) -> list[list[Any]]:
    return [
        [
            each.pointer,
            {"absent": True} if each.kind == "added" else _short(each.before, content=content),
            {"absent": True} if each.kind == "removed" else _short(each.after, content=content),
        ]
        for each in difference.differences
    ]


def _short(value: Any, *, content: bool) -> Any:
    """Return a value as a difference shows it: whole, cut in its middle, or its size alone."""
    if not content:
        return left_out(value)
    return value if len(encode(value)) <= _SHOWN else shown(value, _SHOWN)


def _when(row: list[Any], a: OneRun, b: OneRun) -> int:
    log, seq, log_b, seq_b = row[:4]
    found: int = b.times[log_b][seq_b] if seq is None else a.times[log][seq]
    return found


def _sums(side: OneRun) -> dict[str, int | None]:
    """Return one run's side of the table of two."""
    total, times = totals(side.tree), side.times[side.ids[side.log]]
    return {
        "runs": total["runs"],
        "tool_calls": total["tools"],
        "requests": total["requests"],
        **total["all"],
        "time_us": times[-1] if times else 0,
    }
