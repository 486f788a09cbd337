"""Compares two logs by structure, scope by scope and child by child (CONTRACT.md §13).

Interleaving does not matter: calls are aligned within the same scope, and children are compared at
their starts. Volatile tails are not compared. The circumstances of two recordings (seed, versions,
fingerprints, tool schemas) are shown as context and never count as a difference.
`replay.compare.calls` reads a log's calls, `replay.compare.pairing` pairs them, and
`replay.compare.log_diff` defines a difference's data and text.
"""

from collections.abc import Iterable, Iterator
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Final

import attrs

from refold.engine.encoding.canonical import Json
from refold.engine.encoding.parameters import names_nearest
from refold.engine.log.descriptors import holding
from refold.engine.log.names import child_path, is_there, log_path
from refold.engine.log.reader import read_entries
from refold.replay.compare.calls import RETRIES, Call, RunCalls
from refold.replay.compare.log_diff import DiffCategory, LogDiff, LogDifference, RunContext
from refold.replay.compare.pairing import ArgumentMode, MatchMode, Paired, is_alike, pairs_of
from refold.replay.difference.excuses import unmatched
from refold.replay.difference.pointer_diff import Difference, differences
from refold.replay.difference.volatile import SPENT, without_places
from refold.replay.index.guarantee import MATCHED
from refold.replay.index.malformed import explains_malformed
from refold.replay.observed.folder import FileDifference

DIFFERENCES_MAX: Final = 1_000
"""The default number of differences with details; more are only counted."""

_ROOT: Final = "root"
_LAST: Final = 2**63
"""Behind all offsets of a log."""
_UNFINISHED: Final = {"status": "unfinished"}


@names_nearest
@explains_malformed
@holding()
def diff(
    a: str | PathLike[str],
    b: str | PathLike[str],
    *,
    match: MatchMode = "strict",
    arguments: ArgumentMode = "exact",
    most: int | None = DIFFERENCES_MAX,
    files: list[FileDifference] | None = None,
) -> LogDiff:
    """Compare the log `a` with the log `b`, and the logs of their children along their starts.

    Args:
        a: The reference log; an unsealed one is compared up to its end.
        b: The log that is compared with it.
        match: `strict`: the same calls in each scope, in the same order · `unordered`: the same
            calls in each run, whatever their scope and order · `subset`: each call of a is in b ·
            `superset`: each call of b is in a; both unordered.
        arguments: `exact` · `ignore` · `subset`: a's arguments are part of b's · `superset`: the
            reverse.
        most: The number of differences with details; more are only counted. `None`: all.
        files: Receives the files that differ at the end of two watched commands.

    Raises:
        LogMissing: one of the two does not exist; a missing log of a child is a note.
        LogDamaged: a log of either tree does not verify.
        LogUnsupported: it was written by a newer version.
    """
    log_a, log_b = log_path("diff", a, "a"), log_path("diff", b, "b")
    firsts = [_first(log) for log in (log_a, log_b)]
    volatile = {path for each in firsts for path in (each.get("rules") or {}).get("volatile", ())}
    guarantees = [each.get("guarantee") for each in firsts]
    is_watched = guarantees == [MATCHED] * 2
    comparison = _Comparison(match, arguments, most)
    if volatile:
        comparison.notes.append(f"not compared (volatile): {', '.join(sorted(volatile))}")
        if not is_watched:
            # These may declare places of rare calls.
            offered = {f"tool:{tool['name']}" for each in firsts for tool in each.get("tools", ())}
            given = [path for path in sorted(volatile) if path.partition("/")[0] not in offered]
            comparison.notes += unmatched(log_b, unmatched(log_a, given)).values()
    has_files = files is not None
    runs = _runs(log_a, log_b, volatile, is_watched=is_watched, has_files=has_files)
    for listed in sorted({line for run in runs for line in run.declared.listed()}):
        comparison.notes.append(f"not compared (as declared): {listed}")
    comparison.header(*runs)
    comparison.runs_differ(*runs, _ROOT)
    comparison.notes += runs[0].notes(runs[1])
    if files is not None:
        files += runs[1].files
    return LogDiff(
        a=fspath(a),
        b=fspath(b),
        match=match,
        arguments=arguments,
        differences=tuple(comparison.first()),
        count=comparison.count,
        context=tuple(comparison.context),
        notes=tuple(comparison.notes),
        entries=max(comparison.entries),
        runs=comparison.runs,
        guarantee=MATCHED if MATCHED in guarantees else "",
    )


def _first(log: Path) -> dict[str, Any]:
    """Return the data of the first entry of a log; empty for a torn one."""
    first = next(iter(read_entries(log, torn_ok=True)), None)
    return first.data if first is not None else {}


def _runs(
    a: Path, b: Path, volatile: Iterable[str], *, is_watched: bool, has_files: bool
) -> tuple[RunCalls, RunCalls]:
    """Return the calls of both; by conversation for two watched commands (§16.5)."""
    if not is_watched:
        return RunCalls(a, volatile), RunCalls(b, volatile)
    # With all wire formats, which programs' logs need not wait for.
    from refold.replay.compare.observed_calls import ObservedCalls  # noqa: PLC0415

    one, other = ObservedCalls(a, volatile), ObservedCalls(b, volatile)
    other.bound_to(one, has_files=has_files)
    return one, other


@attrs.define
class _Comparison:
    """Goes down both trees at once, and keeps what differs."""

    _match: MatchMode
    _arguments: ArgumentMode
    _most: int | None
    found: list[LogDifference] = attrs.field(factory=list)
    above: tuple[int, ...] = ()
    """Where the runs that are compared were started: an offset for each above them."""
    count: int = 0
    context: list[RunContext] = attrs.field(factory=list)
    notes: list[str] = attrs.field(factory=list)
    entries: tuple[int, int] = (0, 0)
    runs: int = 0

    def _add(self, difference: LogDifference) -> None:
        self.count += 1
        self.found.append(difference)
        if self._most is not None and len(self.found) > 2 * self._most:
            self.found = self.first()

    def first(self) -> list[LogDifference]:
        """Return the differences that keep their details: the first in time."""
        return sorted(self.found, key=lambda each: each.when)[: self._most]

    # --- runs ----------------------------------------------------------------------------

    def header(self, a: RunCalls, b: RunCalls) -> None:
        """Compare the starts of the two given runs."""
        self._run_differs("header", _header(a.started), _header(b.started), _ROOT)
        self._run_differs("input", a.started.get("input"), b.started.get("input"), _ROOT)
        self._explain(_context(a.started), _context(b.started), _ROOT)

    def runs_differ(self, a: RunCalls, b: RunCalls, run: str) -> bool:
        """Compare two runs; return whether they ended otherwise."""
        self.entries = (self.entries[0] + a.entries, self.entries[1] + b.entries)
        self.runs += 1
        paired = pairs_of(a, b, match=self._match, arguments=self._arguments)
        if not paired.is_exact:
            self.notes.append(f"{run}: a long sequence of calls was compared by position")
        for side in (a, b):
            if side.behind:
                what = f"the bytes after the last entry of {side.path}"
                self.notes.append(f"{run}: not compared: {what}, {side.behind} bytes")
            if run == _ROOT and side.finished is None:
                rest = f"what comes after the last entry of {side.path}, which has no end"
                self.notes.append(f"{run}: not compared: {rest}")
        for pair in paired.pairs:
            self._pair_differs(pair, a, b, run)
        if a.looks != b.looks:
            looks = f"{a.looks} and {b.looks}"
            self.notes.append(
                f"{run}: not compared: looks at the clock, of which there are {looks}"
            )
        status = self._run_differs("status", _status(a.finished), _status(b.finished), run)
        output = self._run_differs("output", _output(a.finished), _output(b.finished), run)
        return status or output

    def _run_differs(self, category: DiffCategory, a: Json, b: Json, run: str) -> bool:
        found = differences(a, b)
        if found:
            when = (*self.above, -1 if category in ("header", "input") else _LAST)
            self._add(LogDifference(category=category, run=run, differences=found, when=when))
        return bool(found)

    def _explain(self, a: Json, b: Json, run: str) -> None:
        if found := differences(a, b):
            self.context.append(RunContext(run, found))

    # --- calls ---------------------------------------------------------------------------

    def _pair_differs(self, pair: Paired, a: RunCalls, b: RunCalls, run: str) -> None:
        """Compare two calls, and what is below them."""
        found = list[tuple[DiffCategory, tuple[Difference, ...]]]()
        match pair:
            case Paired(call_a=Call() as one, call_b=Call() as other):
                if pair.is_moved:
                    found.append(("order", ()))
                found += self._calls_differ(one, other, a, b, run)
            case Paired(call_a=Call() as one):
                found.append(("only_in_a", (Difference("", "removed", before=a.request(one)),)))
            case Paired(call_b=Call() as other):
                found.append(("only_in_b", (Difference("", "added", after=b.request(other)),)))
        for category, places in found:
            self._call_differs(category, pair, a, b, run, places)

    def _calls_differ(
        self, one: Call, other: Call, a: RunCalls, b: RunCalls, run: str
    ) -> Iterator[tuple[DiffCategory, tuple[Difference, ...]]]:
        """Yield how two calls differ, after what is below them."""
        if one.kind != other.kind or (one.name != other.name and not _is_rejected(one, other)):
            told = differences(*(each.label().partition("#")[0] for each in (one, other)))
            yield "kind" if one.kind != other.kind else "name", told
            return
        if one.asked != other.asked and not _is_rejected(one, other):
            asked = differences(a.request(one), b.request(other))
            left = [each for each in asked if not is_alike(each, self._arguments)]
            if left:
                yield "arguments", tuple(left)
        if one.number and other.number and self._children_differ(one, other, a, b, run):
            return  # the child's own run says how it ended otherwise
        if one.ended != other.ended:
            ended = differences(a.ending(one), b.ending(other))
            is_retry = all(each.pointer.startswith(f"/{RETRIES}") for each in ended)
            if ended:
                yield "retry" if is_retry else "result", ended

    def _children_differ(self, one: Call, other: Call, a: RunCalls, b: RunCalls, run: str) -> bool:
        """Compare two children; return whether a difference in how they ended was reported."""
        where = f"{run} > {one.label()}"
        logs = child_path(a.path, one.number), child_path(b.path, other.number)
        there = [*map(is_there, logs)]
        if not all(there):
            if any(there) or one.has_log or other.has_log:
                gone = " and ".join(
                    str(p) for p, is_there in zip(logs, there, strict=True) if not is_there
                )
                self.notes.append(f"{where}: not compared, because a log is missing: {gone}")
            return False
        child_a = RunCalls(logs[0], a.volatile, a.declared)
        child_b = RunCalls(logs[1], b.volatile, b.declared)
        above = a.started.get("limits") or {}
        self._explain(_source(child_a.started, above), _source(child_b.started, above), where)
        outside, self.above = self.above, (*self.above, one.asked_at)
        try:
            return self.runs_differ(child_a, child_b, where)
        finally:
            self.above = outside

    def _call_differs(
        self, category: DiffCategory, pair: Paired, a: RunCalls, b: RunCalls, run: str,
        places: tuple[Difference, ...],
    ) -> None:  # fmt: skip
        one, other = pair.call_a, pair.call_b
        side, call = (a, one) if one is not None else (b, other)
        assert call is not None, "one side has it"
        is_end = call.ended_at and category in ("result", "retry")
        self._add(
            LogDifference(
                category=category,
                run=" > ".join([run, *side.names(call.key)]),
                what=call.label(),
                scope=call.scope.removesuffix("@"),
                turn=side.turn(call),
                call_a=one.key if one else None,
                call_b=other.key if other else None,
                seq_a=one.seq if one else None,
                seq_b=other.seq if other else None,
                logs=(a.path, b.path),
                differences=places,
                when=(*self.above, call.ended_at[-1] if is_end else call.asked_at),
            )
        )


def _is_rejected(one: Call, other: Call) -> bool:
    """Return whether one of two children was rejected: then its request is not recorded."""
    return one.is_rejected or other.is_rejected


# --- what is compared of a run ---------------------------------------------------------------


def _header(started: dict[str, Any]) -> Json:
    tools = {each.get("name", ""): {"effect": each.get("effect")} for each in _tools(started)}
    return {name: started.get(name) for name in ("program", "limits", "rules")} | {"tools": tools}


def _context(started: dict[str, Any]) -> Json:
    tools = {
        each.get("name", ""): {name: each.get(name) for name in ("schema", "digest", "typed")}
        for each in _tools(started)
    }
    plain = {name: started.get(name) for name in ("seed", "versions", "fingerprint")}
    return plain | {"tools": tools}


def _tools(started: dict[str, Any]) -> list[dict[str, Any]]:
    return [each for each in started.get("tools", ()) if isinstance(each, dict)]


def _source(started: dict[str, Any], above: dict[str, Any]) -> Json:
    """Return what explains a child: its program, and its parts of the limits `above` it."""
    fingerprint = started.get("fingerprint")
    caps = started.get("limits") or {}
    parts = {name: caps[name] for name in sorted(SPENT & above.keys() & caps.keys())}
    return {"fingerprint": fingerprint if isinstance(fingerprint, dict) else {}, "limits": parts}


def _status(finished: dict[str, Any] | None) -> Json:
    if finished is None:
        return _UNFINISHED
    names = ("status", "reason", "error", "in_doubt")
    compared = without_places(finished)
    return {name: compared[name] for name in names if compared.get(name)}


def _output(finished: dict[str, Any] | None) -> Json:
    if finished is None:
        return {}
    names = ("output", "summary", "artifacts")
    return {name: finished[name] for name in names if finished.get(name) is not None}
