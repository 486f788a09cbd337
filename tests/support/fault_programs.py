"""Pairs of programs, plain and asynchronous, whose logs cannot be written to the end.

`python -m tests.support.fault_programs FOLDER RUNNER FIRST LAST STEP NAME…` records each under
every size limit of files from FIRST to LAST, resumes what broke off, and prints what came of it:
a line of JSON for each run.  `tests/reliability/test_full_disk.py` reads them.
"""

import contextlib
import json
import resource
import sys
import warnings
from pathlib import Path
from typing import Any, Final

import refold
from refold import Delegation, PlainRun, RefoldError, Run, tool
from refold.engine.log.reader import scan

CHILDREN: Final = 3


@tool(effect="reads")
def look(n: int) -> str:
    """Return a text of that many letters, times ten."""
    return "y" * n * 10


@tool(effect="idempotent")
async def fetch(n: int) -> str:
    """Do the same, asynchronously."""
    return "z" * n * 10


TOOLS: Final[list[Any]] = [look, fetch]


def plain_child(run: PlainRun, n: int) -> int:
    """Look at the clock, and call each tool."""
    run.now()
    return len(run.tool(look, n=n) + run.tool(fetch, n=n))


async def async_child(run: Run, n: int) -> int:
    """Do the same, asynchronously."""
    run.now()
    return len(await run.tool(look, n=n) + await run.tool(fetch, n=n))


def plain_alone(run: PlainRun, n: int) -> int:
    """Write a line of every kind that needs no child."""
    for at in range(n):
        run.annotate("remark")
        run.random("stream").random()
        run.environment("HOME")
        run.patched(f"change {at}")
        plain_child(run, at)
        run.sleep(0.0001)
    return n


async def async_alone(run: Run, n: int) -> int:
    """Do the same, asynchronously."""
    for at in range(n):
        run.annotate("remark")
        run.random("stream").random()
        run.environment("HOME")
        run.patched(f"change {at}")
        await async_child(run, at)
        await run.sleep(0.0001)
    return n


def plain_joins(run: PlainRun, n: int) -> list[str]:
    """Wait for one child after the other, and for several."""
    outcomes = [run.delegate(Delegation(program=plain_child, input=at)) for at in range(n)]
    started = [run.start(Delegation(program=async_child, input=at)) for at in range(n)]
    run.cancel(started[-1])
    return [each.status for each in [*outcomes, *run.join(*started[:-1])]]


async def async_joins(run: Run, n: int) -> list[str]:
    """Do the same, asynchronously."""
    outcomes = [await run.delegate(Delegation(program=async_child, input=at)) for at in range(n)]
    started = [await run.start(Delegation(program=plain_child, input=at)) for at in range(n)]
    run.cancel(started[-1])
    return [each.status for each in [*outcomes, *await run.join(*started[:-1])]]


def plain_leaves(run: PlainRun, n: int) -> str:
    """Leave children behind, whose end the run's own end has to take."""
    for at in range(n):
        run.start(Delegation(program=plain_child, input=at))
    return run.tool(look, n=n)


async def async_leaves(run: Run, n: int) -> str:
    """Do the same, asynchronously."""
    for at in range(n):
        await run.start(Delegation(program=async_child, input=at))
    return await run.tool(look, n=n)


def plain_insists(run: PlainRun, n: int) -> int:
    """Take no error for an answer."""
    for at in range(n):
        while True:
            with contextlib.suppress(Exception):
                run.now()
                run.delegate(Delegation(program=plain_child, input=at))
                break
    return n


async def async_insists(run: Run, n: int) -> int:
    """Do the same, asynchronously."""
    for at in range(n):
        while True:
            with contextlib.suppress(Exception):
                run.now()
                await run.delegate(Delegation(program=async_child, input=at))
                break
    return n


PROGRAMS: Final[dict[str, Any]] = {
    program.__name__: program
    for program in (
        plain_alone,
        async_alone,
        plain_joins,
        async_joins,
        plain_leaves,
        async_leaves,
        plain_insists,
        async_insists,
    )
}


def _recorded(name: str, log: Path, runner: str) -> dict[str, Any]:
    try:
        recording = refold.record(PROGRAMS[name], CHILDREN, log=log, tools=TOOLS, runner=runner)
    except RefoldError as error:
        return {"raised": type(error).__name__}
    return {"status": recording.status}


def _resumed(name: str, log: Path) -> dict[str, Any]:
    program = PROGRAMS[name]
    recording = refold.resume(log, program, tools=TOOLS)
    replayed = refold.reexecute(log, program, tools=TOOLS)
    return {
        "resumed": recording.status,
        "identical": replayed.identical,
        "verified": refold.verify(log).intact,
    }


def main(folder: str, runner: str, first: str, last: str, step: str, *names: str) -> None:
    """Say of each run how it ended under its limit, and what came of it without."""
    warnings.simplefilter("ignore")
    for name in names:
        for limit in range(int(first), int(last), int(step)):
            log = Path(folder) / f"{name}-{limit}x.jsonl"
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
            try:
                said = {"name": name, "limit": limit, **_recorded(name, log, runner)}
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
            if "raised" in said and log.exists():
                logs = log.parent.glob(f"{log.stem}*.jsonl")
                said["damaged"] = [str(each) for each in logs if scan(each).damage is not None]
                said |= _resumed(name, log)
            sys.stdout.write(json.dumps(said) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
