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
from refold.engine.events.outcome import ChildRef, Outcome, failed
from refold.engine.log.names import child_path
from refold.engine.log.reader import Scan, lines_of, read_entries, scan
from refold.engine.log.writer import LogWriter
from refold.engine.ports.ports import ChildRequest

_START: Final = re.compile(rb'\{"seq":[0-9]+,"kind":"child\.started",')


def anchored(outcome: Outcome, request: ChildRequest) -> Outcome:
    """Return `outcome` bound to the child's log; failed if the log belongs to another run."""
    if request.log is None:
        return outcome
    try:
        child = _reference(request.log, request.identity.run_id)
        if child is None:
            return outcome
        problem = _problem(request)
    except LogMissing:
        return outcome
    except LogError as error:
        return failed(
            "failed",
            "child_log",
            f"the child's log cannot be read: {error}",
            duration_ms=outcome.duration_ms,
        )
    if problem:
        return failed("failed", "child_log", problem, duration_ms=outcome.duration_ms, child=child)
    return with_last_words(attrs.evolve(outcome, child=child), request)


def with_last_words(outcome: Outcome, request: ChildRequest) -> Outcome:
    """Return an outcome that is not completed with the last text of the child's model as summary.

    An outcome that has a summary keeps it; so does one whose child asked no model.
    """
    if outcome.ok or outcome.summary or request.log is None:
        return outcome
    with contextlib.suppress(RefoldError):
        said = _last_text(request.log)
        text, truncated = cut(said, request.policy.summary_bytes)
        return attrs.evolve(outcome, summary=text, truncated=outcome.truncated or truncated)
    return outcome


def _last_text(log: Path) -> str:
    said = ""
    for entry in read_entries(log, resolve=True, torn_ok=True):
        if entry.kind == "model.answered":
            content = (entry.data.get("message") or {}).get("content")
            said = content if isinstance(content, str) and content.strip() else said
    return said


def begun(log: Path) -> Scan | None:
    """Return the head of a child's log; `None`, and no file, if no entry was written whole.

    Raises:
        LogError: it cannot be read.
    """
    found = scan(log)
    if found.damage is not None:
        raise found.damage.as_error()
    if found.entries == 0:
        log.unlink()  # killed between making the file and its first line: it holds nothing
        return None
    return found


def _reference(log: Path, run_id: str) -> ChildRef | None:
    """Return the end of the log, with a torn tail cut off."""
    if (found := begun(log)) is None:
        return None
    if found.torn is not None and not found.ended:
        LogWriter.resume(log).writer.close()
    return ChildRef(run=run_id, head=found.head, events=found.entries)


def _problem(request: ChildRequest) -> str:
    """Return the problem of the logs of the child and its descendants; empty for none."""
    if request.log is None:
        return ""
    first = _header(request.log)
    if (
        first.get("run_id") != request.identity.run_id
        or first.get("depth") != request.identity.depth
    ):
        return "the log in the child's place is another run's"
    deepest = request.limits.max_depth
    for path in _logs_below(request.log):
        depth = _header(path).get("depth", 0)
        if deepest is not None and isinstance(depth, int) and depth > deepest:
            return f"a run at depth {depth} was started; max_depth is {deepest}"
    return ""


def _logs_below(log: Path) -> Iterator[Path]:
    """Yield the log, and the existing logs of the runs below it; parents first.

    The folder is not listed: it may hold the logs of thousands of siblings.
    """
    waiting = [log]
    for each in waiting:
        yield each
        with contextlib.suppress(LogMissing):
            starts = sum(1 for line in lines_of(each) if _START.match(line))
            places = (child_path(each, number) for number in range(1, starts + 1))
            waiting.extend(place for place in places if place.is_file() and not place.is_symlink())


def _header(log: Path) -> dict[str, object]:
    try:
        return next(iter(read_entries(log))).data
    except (StopIteration, RefoldError):
        return {}
