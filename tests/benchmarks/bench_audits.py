"""What it costs to audit many short logs: in this process and in others.

In this process and by a pool of one, the time of all processors; of what runs side by side, wall
time, which wants a quiet machine.  A log has 20 calls of a tool.
"""

import os
import shutil
from pathlib import Path

import refold
from refold.replay.bulk.bulk import named, replay_row
from tests.benchmarks.measure import WALL, WORK, Job, call_python
from tests.support.bulk_programs import doubling_often

_LOGS = 10_000
_PEAKS = """
import resource, sys
import refold
from tests.support.bulk_programs import doubling_often
logs = sorted(__import__("pathlib").Path(sys.argv[1]).iterdir())[: int(sys.argv[2])]
assert refold.reexecute(logs, doubling_often, jobs=2).identical
for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
    print(resource.getrusage(who).ru_maxrss / 1024)
"""


def jobs(folder: Path) -> list[Job]:
    """Return what is timed, an operation being a log."""
    logs = _logs_in(folder)
    (program,) = named(doubling_often).values()

    def here() -> None:
        for log in logs:
            row = replay_row(log, lambda path, _name: refold.reexecute(path, program))
            assert row.result == "identical"

    def apart(count: int) -> None:
        report = refold.reexecute(logs, doubling_often, jobs=count)
        assert report.identical
        assert [row.log for row in report.logs] == [str(log) for log in logs]

    base = "a log of 20 calls, verified and replayed, in one process"
    one, two = "… by a pool of one, wall time", "… by a pool of two, wall time"
    return [
        Job(name=base, run=here, count=_LOGS, clock=WORK),
        Job(name="… by a pool of one", run=lambda: apart(1), base=base, count=_LOGS, clock=WORK,
            goal="at most 1.5×"),
        Job(name=one, run=lambda: apart(1), count=_LOGS, clock=WALL),
        Job(name=two, run=lambda: apart(min(2, os.cpu_count() or 1)), base=one, count=_LOGS,
            clock=WALL, goal="at most 0.56×"),
        Job(name="… verified alone", run=lambda: refold.verify(logs, jobs=1), base=base,
            count=_LOGS, clock=WORK),
    ]  # fmt: skip


def peaks(folder: Path) -> str:
    """Return what memory two audits take, one of four times as many logs, as a line for people."""
    logs = _logs_in(folder)
    said = []
    for count in (_LOGS // 4, _LOGS):
        caller, other = call_python(_PEAKS, str(logs[0].parent), str(count)).split()
        said.append(
            f"{count:,} logs: {float(caller):.0f} MB here, {float(other):.0f} MB in each process"
        )
    return "Peak of memory, two jobs: " + "; ".join(said)


def _logs_in(folder: Path) -> list[Path]:
    place = folder / "audits"
    if not place.exists():
        first = refold.record(doubling_often, 20, log=place / "00000-log.jsonl", durability="fast")
        for number in range(1, _LOGS):
            shutil.copy(first.log, place / f"{number:05}-log.jsonl")
    return sorted(place.iterdir())
