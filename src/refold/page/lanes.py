"""Lays out a lane for each run or conversation, with bars for its calls, on one clock.

Rules: CONTRACT.md §14.16.
"""

import re
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final

import attrs

from refold.engine.errors import LogError
from refold.engine.events.call_key import scope_of
from refold.engine.events.events import COMPLETES, REQUEST_KINDS
from refold.engine.log.blobs import is_marked
from refold.engine.log.reader import Entry, read_entries
from refold.replay.index.asked_items import named
from refold.replay.index.times import LogTimes

BARS_MAX: Final = 5_000
"""Of a lane: the longest; the rest is counted."""

_BLOB: Final = re.compile(rb'\{"\$blob":"([0-9a-f]{64})","bytes":(\d{1,12})\}')
"""As a log writes it; who writes the same as text of his own names a blob that is not there."""

_KINDS: Final = {"tool": "tool", "model": "model", "child": "child", "input": "ask"}


@attrs.define
class Lane:
    """One run, or one conversation of a watched command."""

    log: str
    """Its id in the document."""
    scope: str | None
    """`None`: the whole run."""
    label: str
    status: str
    standing: str = ""
    """How it stands without an end, in words."""
    duration_ms: int | None = None
    """As the tree has it: of a child that was killed, its parent knows more than its own log."""
    limits: dict[str, Any] = attrs.field(factory=dict)
    start_us: int | None = None
    end_us: int = 0
    is_ended: bool = False
    """Whether its own log has its end."""
    bars: list[list[Any]] = attrs.field(factory=list)
    scopes: dict[str, int] = attrs.field(factory=dict)
    """In which a model was asked, its conversations, with the first entry that asked."""
    joined: dict[int, list[Any]] = attrs.field(factory=dict)
    """Bars of children, by number, whose end times this log does not have."""

    def talks(self) -> list[dict[str, Any]]:
        """Return its conversations, in the order in which they begin; of one without, itself."""
        begin = self.bars[0][0] if self.scope and self.bars else 0
        scopes: dict[Any, int] = dict(self.scopes) or {self.scope: begin}
        names = {
            scope: f"{self.label} {scope}" if len(scopes) > 1 else self.label for scope in scopes
        }
        return [
            {"log": self.log, "scope": each, "seq": scopes[each], "label": name}
            for each, name in names.items()
        ]

    def as_json(self) -> dict[str, Any]:
        """Return it as the page reads it."""
        seconds = self.limits.get("timeout_seconds")
        start, took = self.start_us or 0, (self.duration_ms or 0) * 1000
        end = self.end_us if self.is_ended else max(self.end_us, start + took)
        kept = self.bars
        if len(kept) > BARS_MAX:
            longest = sorted(kept, key=lambda bar: (bar[5] or end) - bar[4])[-BARS_MAX:]
            kept = sorted(longest)
        return {
            "log": self.log,
            "scope": self.scope,
            "label": self.label,
            "status": self.status,
            "standing": self.standing,
            "start_us": start,
            "end_us": end,
            "took_us": end - start if self.duration_ms is None else took,
            "limit_us": None if seconds is None else start + int(seconds * 1_000_000),
            "bars": kept,
            "left_out": len(self.bars) - len(kept),
        }


def read_lane(
    path: Path,
    lanes: dict[str | None, Lane],
    origin_us: tuple[int, int],
    blobs: dict[str, int],
    most: int | None = None,
) -> tuple[list[int], list[str]]:
    """Fill the lanes of one log, and `blobs` with the sizes of its large texts.

    `lanes` are by scope, or one for the whole log under `None`.  A damaged log is read up to its
    damage, one that grows up to `most` entries.  Returns the time and the scope of each entry.
    """
    clock, times, scopes = LogTimes(origin_us), list[int](), list[str]()
    open_bars: dict[str, list[Any]] = {}
    numbers: dict[str, Any] = {}
    for entry in sound(path, most):
        at = clock.at(entry)
        times.append(at)
        if is_marked(entry.line):
            blobs.update((name.decode(), int(size)) for name, size in _BLOB.findall(entry.line))
        call = entry.call or ""
        scope = sys.intern(scope_of(call))
        scopes.append(scope)
        lane = lanes.get(None) or lanes.get(scope)
        if lane is None:
            continue
        lane.start_us = at if lane.start_us is None else lane.start_us
        lane.end_us, lane.is_ended = at, entry.kind == "run.finished"
        if entry.kind in REQUEST_KINDS:
            what = _KINDS[entry.kind.partition(".")[0]]
            open_bars[call] = [entry.seq, None, what, _name(entry), at, None, "open"]
            lane.bars.append(open_bars[call])
            if what == "child":
                numbers[call] = entry.data.get("number")
            if what == "model":
                lane.scopes.setdefault(scope, entry.seq)
        elif entry.kind == "timer.fired":
            lane.bars.append([entry.seq, entry.seq, "timer", "timer", at, at, "ok"])
        elif entry.kind in COMPLETES or entry.kind == "effect.cancelled":
            bar = open_bars.pop(call, None)
            if bar is not None:
                bar[1], bar[5], bar[6] = entry.seq, at, _status(entry)
                if (number := numbers.pop(call, None)) is not None:
                    if (ended := clock.ended(entry)) is None:
                        lane.joined[number] = bar
                    else:
                        bar[5] = ended
    return times, scopes


def sound(path: Path, most: int | None = None, *, resolve: bool = False) -> Iterator[Entry]:
    """Yield the entries of a log up to its damage, and no more than `most`."""
    try:
        yield from islice(read_entries(path, resolve=resolve, torn_ok=True), most)
    except LogError:
        return


def _name(entry: Entry) -> str:
    return "person" if entry.kind == "input.asked" else named(entry.kind, entry.data)[1]


def _status(entry: Entry) -> str:
    if entry.kind == "effect.cancelled":
        return "cancelled"
    if entry.kind == "child.finished":
        return str(entry.data.get("outcome", {}).get("status"))
    return str(entry.data.get("status", "ok"))
