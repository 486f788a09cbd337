"""Rule: a report of a tree is the sum of those of its runs, and comes back from another process."""

import json
from pathlib import Path

from refold.replay.difference.pointer_diff import Difference
from refold.replay.explain.divergence import Divergence
from refold.replay.reexecute.report import ReplayReport

DIVERGENCE = Divergence(
    category="args_changed",
    where="program",
    log="run.jsonl",
    diff=(Difference("/a", "added", after=1),),
    fingerprints={"source": ("1", "2")},
)
REPORT = ReplayReport(
    log=Path("run.jsonl"), divergences=(DIVERGENCE,), entries=3, children=1, unread=("a > b[1]",)
)


def test_a_report_comes_back_from_its_document() -> None:
    assert ReplayReport.from_json(json.loads(json.dumps(REPORT.as_json()))) == REPORT


def test_two_reports_make_one() -> None:
    both = ReplayReport(log=Path("root.jsonl"), entries=4, timers=1).plus(REPORT)

    assert (both.log, both.entries, both.children, both.timers) == (Path("root.jsonl"), 7, 1, 1)
    assert both.divergences == (DIVERGENCE,)
    assert both.unread == ("a > b[1]",)
