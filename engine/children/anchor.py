"""Reads a child's log when its parent joins: its head, and its depth.

A child writes its own log and enforces its own limits; the parent trusts neither (CONTRACT.md
§7.4).  A child that was killed may leave a torn line: it is cut off here, its bytes kept beside
the log, so that the head which the parent records is the head of the file.
"""

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import attrs

from refold.engine.children.reply import cut
from refold.engine.errors import LogError, LogMissing, RefoldError
from refold.engine.events.outcome import ChildRef, Outcome, Usage, failed
from refold.engine.log.names import child_path
from refold.engine.log.reader import (
    OnLines,
    Scan,
    entry_of,
    lines_of,
    read_entries,
    read_events,
    scan,
)
from refold.engine.log.writer import LogWriter
from refold.engine.ports.ports import ChildRequest
from refold.engine.state.folding import Fold

_START: Final = re.compile(rb'\{"seq":[0-9]+,"kind":"child\.started",')


def anchored(outcome: Outcome, request: ChildRequest) -> Outcome:
    """Return `outcome` bound to the child's log; failed if the log belongs to another run."""
    if request.log is None:
        return outcome
    seen = _Seen()
    try:
        child = _reference(request.log, request.identity.run_id, seen.read_batch)
        if child is None:
            return outcome
        problem = _problem(request, seen)
    except LogMissing:
        return outcome
    except LogError as error:
        return failed(
            "failed",
            "child_log",
            f"the child's log cannot be read: {error}",
            duration_ms=outcome.duration_ms,
        )
    return _checked(attrs.evolve(outcome, child=child), request, problem)


def written_here(outcome: Outcome, request: ChildRequest, starts: int) -> Outcome:
    """Return the outcome of a child that this process recorded: its writer knows the head.

    Failed if a run below is too deep; the child started `starts` of them.
    """
    problem = _too_deep(request, starts) if starts else ""
    return _checked(outcome, request, problem)


def _checked(outcome: Outcome, request: ChildRequest, problem: str) -> Outcome:
    if problem:
        took, child = outcome.duration_ms, outcome.child
        return failed("failed", "child_log", problem, duration_ms=took, child=child)
    return with_last_words(outcome, request)


def with_last_words(outcome: Outcome, request: ChildRequest) -> Outcome:
    """Return an outcome that is not completed with the last text of the child's model as summary.

    An outcome that has a summary keeps it; so does one whose child asked no model.  If the child
    sent no reply, its tools and its usage are those in its log.
    """
    if outcome.ok or request.log is None:
        return outcome
    if outcome.usage == Usage():  # a reply that came has it
        outcome = with_its_work(outcome, request.log)
    if outcome.summary:
        return outcome
    with contextlib.suppress(RefoldError):
        said = _last_text(request.log)
        text, truncated = cut(said, request.policy.summary_bytes)
        return attrs.evolve(outcome, summary=text, truncated=outcome.truncated or truncated)
    return outcome


def with_its_work(outcome: Outcome, log: Path) -> Outcome:
    """Return the outcome of a child that sent no reply with the tools and the usage in its log.

    Of a run below it whose end no log has, the answers count as well.
    """
    with contextlib.suppress(RefoldError):
        logs = [log]
        for place in logs:
            fold = Fold()
            fold.follow(read_events(place))
            usage = outcome.usage.plus(fold.usage).plus(fold.children_usage)
            tools = outcome.tools_used if place != log else fold.tools_used
            outcome = attrs.evolve(outcome, usage=usage, tools_used=tools)
            for child in fold.children:
                if child.status is None and child.number is not None:
                    below = child_path(place, child.number)
                    logs += [below] if below.is_file() and not below.is_symlink() else []
    return outcome


def _last_text(log: Path) -> str:
    said = ""
    for entry in read_entries(log, resolve=True, torn_ok=True):
        if entry.kind == "model.answered":
            content = (entry.data.get("message") or {}).get("content")
            said = content if isinstance(content, str) and content.strip() else said
    return said


def begun(log: Path, on_lines: OnLines | None = None) -> Scan | None:
    """Return the head of a child's log; `None`, and no file, if no entry was written whole.

    `on_lines` gets its lines, as from `scan`.

    Raises:
        LogError: it cannot be read.
    """
    found = scan(log, on_lines)
    if found.damage is not None:
        raise found.damage.as_error()
    if found.entries == 0:
        log.unlink()  # killed between making the file and its first line: it holds nothing
        return None
    return found


@attrs.define
class _Seen:
    """The log data for the check of a child's run."""

    first: bytes = b""
    """The line."""
    starts: int = 0
    """How many children it started."""

    def read_batch(self, batch: list[bytes]) -> None:
        """Take some lines; a torn one does not count."""
        self.first = self.first or batch[0]
        self.starts += sum(1 for line in batch if _START.match(line) and line.endswith(b"\n"))


def _reference(log: Path, run_id: str, on_lines: OnLines) -> ChildRef | None:
    """Return the end of the log, with a torn tail cut off."""
    if (found := begun(log, on_lines)) is None:
        return None
    if found.torn is not None and not found.ended:
        LogWriter.resume(log).writer.close()
    return ChildRef(run=run_id, head=found.head, events=found.entries)


def _problem(request: ChildRequest, seen: _Seen) -> str:
    """Return the problem of the logs of the child and its descendants; empty for none."""
    first, own = _header(seen.first), request.identity
    if first.get("run_id") != own.run_id or first.get("depth") != own.depth:
        return "the child's log belongs to a different run"
    return _too_deep(request, seen.starts)


def _too_deep(request: ChildRequest, starts: int) -> str:
    """Return the problem of a run that is deeper than the child allows; empty for none."""
    deepest, log = request.limits.max_depth, request.log
    for depth in (request.identity.depth, *(_depths_below(log, starts) if log else ())):
        if deepest is not None and isinstance(depth, int) and depth > deepest:
            return f"a run at depth {depth} was started; max_depth is {deepest}"
    return ""


def _depths_below(log: Path, starts: int) -> Iterator[object]:
    """Yield the depths in the existing logs of the runs below one that has so many starts.

    Parents come first.  The folder is not listed: it may hold the logs of thousands of siblings.
    """
    waiting = [(log, starts)]
    for above, count in waiting:
        for number in range(1, count + 1):
            place = child_path(above, number)
            if place.is_file() and not place.is_symlink():
                seen = _Seen()
                with contextlib.suppress(LogMissing):
                    for line in lines_of(place):
                        seen.read_batch([line])
                yield _header(seen.first).get("depth", 0)
                waiting.append((place, seen.starts))


def _header(line: bytes) -> dict[str, object]:
    try:
        return entry_of(line, "", 0, 0).data
    except RefoldError:
        return {}
