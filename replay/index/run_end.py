"""How a run ended, as replays compare it: one form for a record and for a program run again.

Pure.  What an end may differ in without being another is told elsewhere: volatile paths by
`replay.difference.excuses`, line numbers in messages by `replay.reexecute.comparison`.  Rules:
CONTRACT.md §12.2.
"""

from typing import Final

import attrs

from refold.engine.encoding.canonical import Json, encode, loads
from refold.engine.events.codec import unstructure
from refold.engine.events.events import RunFinished
from refold.engine.kernel.verdict import Verdict

_COMPARED: Final = ("status", "reason", "output", "error", "summary", "artifacts")
"""What of `run.finished` says how a run ended; the rest is digests and counts."""


def end_of(finished: RunFinished) -> dict[str, Json]:
    """Return how a run ended: {status, reason, output, error, summary, artifacts}, no nulls."""
    data = unstructure(finished)
    return {name: data[name] for name in _COMPARED if name in data}


def end_of_verdict(verdict: Verdict) -> dict[str, Json]:
    """Return the same of a program that was run again, as a log would hold it."""
    report = verdict.report
    finished = RunFinished(
        verdict.status,
        verdict.reason,
        verdict.output,
        verdict.error,
        [],
        report.summary if report else None,
        [attrs.asdict(artifact) for artifact in report.artifacts] if report else None,
    )
    end: dict[str, Json] = loads(encode(end_of(finished)))
    return end
