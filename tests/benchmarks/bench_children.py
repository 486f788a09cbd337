"""What a child costs on a node of a Ray cluster, and in a process of this machine.

Wall time: all wait for processes.  The cluster is on loopback; 16 children work there at once, and
64 here.
"""

from pathlib import Path

import refold
from tests.benchmarks import measure
from tests.benchmarks.measure import WALL, Job
from tests.benchmarks.programs import idle
from tests.support.clusters import ray_cluster

_CHILDREN = 200


async def many(run: refold.Run, runner: str) -> None:
    """Start them all, and wait for all."""
    started = [
        await run.start(refold.Delegation(program=idle, runner=runner)) for _ in range(_CHILDREN)
    ]
    assert all(outcome.ok for outcome in await run.join(*started))


def jobs(folder: Path) -> list[Job]:
    """Return what is timed, an operation being a child; the cluster ends with `measure.opened`."""
    measure.opened.enter_context(ray_cluster(cpus=16))
    fresh = iter(range(10**6))

    def all_on(runner: str) -> None:
        log = folder / f"children-{next(fresh)}.jsonl"
        recording = refold.record(many, runner, log=log, durability="fast")
        assert recording.ok, recording.error

    base = f"one of {_CHILDREN} children in subprocesses"
    return [
        Job(name=base, run=lambda: all_on("subprocess"), count=_CHILDREN, clock=WALL),
        Job(
            name="… through Ray", run=lambda: all_on("ray"), base=base, count=_CHILDREN, clock=WALL
        ),
    ]
