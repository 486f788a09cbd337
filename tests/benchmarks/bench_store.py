"""What it costs to push and to pull many small runs: to a folder, and so without a network.

A run has 20 calls of a tool.  Each round has a new store; what a network adds is requests, three a
run to push and two to pull, eight at a time.
"""

import shutil
import tempfile
from pathlib import Path

import refold
from refold.replay.audit.verify import verify
from refold.store.pull import pull
from refold.store.push import Moved, push
from tests.benchmarks.measure import WALL, Job
from tests.support.bulk_programs import doubling_often

_RUNS = 2_000


def jobs(folder: Path) -> list[Job]:
    """Return what is timed, an operation being a run."""
    runs = folder / "runs-to-push"
    first = refold.record(doubling_often, 20, log=runs / "first.jsonl", durability="fast").log
    logs = [Path(shutil.copy(first, runs / f"audit-{each}-log.jsonl")) for each in range(_RUNS)]
    kept = folder / "kept"
    kept.mkdir()
    into(logs, kept.as_uri())

    def check() -> None:
        for log in logs:
            assert verify(log).intact

    def push_all() -> None:
        with tempfile.TemporaryDirectory(dir=folder) as store:
            into(logs, Path(store).as_uri())

    def pull_all() -> None:
        with tempfile.TemporaryDirectory(dir=folder) as here:
            for _, outcome in pull(kept.as_uri(), [], Path(here)):
                assert isinstance(outcome, Moved)

    base = "a run of 20 calls verified, in its folder"
    return [
        Job(name=base, run=check, count=_RUNS, clock=WALL),
        Job(name="… pushed to a folder", run=push_all, base=base, count=_RUNS, clock=WALL),
        Job(name="… pushed again", run=lambda: into(logs, kept.as_uri()), base=base, count=_RUNS,
            clock=WALL),
        Job(name="… pulled", run=pull_all, base=base, count=_RUNS, clock=WALL),
    ]  # fmt: skip


def into(logs: list[Path], url: str) -> None:
    """Push logs; none is refused."""
    for _, outcome in push(logs, url):
        assert isinstance(outcome, Moved)
