"""What it costs to replay many short logs: in this process, and in processes of their own.

Wall time: the processes wait for each other.  A log has 20 calls of a tool.
"""

import os
import shutil
from pathlib import Path

import refold
from refold.replay.bulk.bulk import named, replay_row
from tests.benchmarks.measure import WALL, Job
from tests.support.bulk_programs import doubling_often

_LOGS = 2_000


def jobs(folder: Path) -> list[Job]:
    """Return what is timed, an operation being a log."""
    first = refold.record(doubling_often, 20, log=folder / "first-log.jsonl", durability="fast").log
    logs = [Path(shutil.copy(first, folder / f"audit-{each}-log.jsonl")) for each in range(_LOGS)]
    (program,) = named(doubling_often).values()

    def here() -> None:
        for log in logs:
            row = replay_row(log, lambda path, _name: refold.reexecute(path, program))
            assert row.result == "identical"

    def apart(count: int) -> None:
        assert refold.replay_all(logs, doubling_often, jobs=count).identical

    base = "a log of 20 calls verified and replayed, in one process"
    return [
        Job(name=base, run=here, count=_LOGS, clock=WALL),
        Job(name="… by `replay_all`, one job", run=lambda: apart(1), base=base, count=_LOGS,
            clock=WALL, goal="at most 1.5×"),
        Job(name="… two jobs", run=lambda: apart(min(2, os.cpu_count() or 1)), base=base,
            count=_LOGS, clock=WALL),
    ]  # fmt: skip
