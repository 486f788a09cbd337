"""The end of a run in the form that replays compare, for a record and for a program.

Pure except for `recording_of_log`, which reads a log. Ignored differences of an end are elsewhere:
volatile paths in `replay.difference.excuses`, line numbers in messages in
`replay.reexecute.comparison`. Rules: CONTRACT.md §12.2.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from refold.engine.encoding.canonical import Json, encode, loads
from refold.engine.errors import LogDamaged
from refold.engine.events.codec import unstructure
from refold.engine.events.events import RunFinished
from refold.engine.log.reader import scan
from refold.engine.state.folding import Fold
from refold.replay.index.cursor import Cursor

if TYPE_CHECKING:  # who only reads logs loads no kernel, and no ports
    from refold.engine.kernel.verdict import Verdict
    from refold.engine.ports.ports import Program
    from refold.engine.runners.recorded import Recording

_COMPARED: Final = ("status", "reason", "output", "error", "summary", "artifacts")
"""The members of `run.finished` that describe the end; the rest is digests and counts."""


def end_of(finished: RunFinished) -> dict[str, Json]:
    """Return how a run ended: {status, reason, output, error, summary, artifacts}, no nulls."""
    data = unstructure(finished)
    return {name: data[name] for name in _COMPARED if name in data}


def end_of_verdict(verdict: "Verdict") -> dict[str, Json]:
    """Return the same of a program that was run again, as a log would hold it."""
    report = verdict.report
    finished = RunFinished(
        verdict.status,
        verdict.reason,
        verdict.output,
        verdict.error,
        [],
        report.summary if report else None,
        report.logged_artifacts() if report else None,
    )
    end: dict[str, Json] = loads(encode(end_of(finished)))
    return end


def recording_of_log(log: Path, program: "Program") -> "Recording":
    """Return of a log what its recording returned; `where` and `duration_ms` are in no log.

    `program` has the types of the output, if it was recorded with them.

    Raises:
        LogDamaged: an entry does not verify, or the log has no end.
    """
    from refold.engine.ports.program_types import types_of  # noqa: PLC0415 - as above
    from refold.engine.runners.recorded import Recording  # noqa: PLC0415 - as above

    cursor, fold = Cursor(log), Fold()
    started: Any = None
    event: Any = None
    while (entry := cursor.peek()) is not None:
        event = cursor.event(cursor.take())
        started = started or event
        fold.apply(event, entry.call, entry.seq)
    found = scan(log)
    if not isinstance(event, RunFinished):
        place = (found.entries + 1, found.offset, "run.finished at the end", "none")
        raise LogDamaged(str(log), *place, "the recording stops in the middle")
    state = fold.state()
    usage = state.usage.plus(state.children_usage)
    types = types_of(program)
    return Recording.of(event, types, log=log, head=found.head, entries=found.entries, usage=usage)


def raised_at(meta: Mapping[str, Any]) -> str:
    """Return file and line that the `meta` of a last entry names; empty for none."""
    file, line = meta.get("error_file"), meta.get("error_line")
    return f"{file}:{line}" if file and line else ""


def refused_in(meta: Mapping[str, Any]) -> dict[str, int]:
    """Return how often default limits refused a child, by limit, from `meta`."""
    return {
        name.removeprefix("refused_"): int(count)
        for name, count in meta.items()
        if name.startswith("refused_")
    }
