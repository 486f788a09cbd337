"""Programs of many logs, found by name from the processes that re-execute them."""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import psutil

import refold


def double(number: int) -> int:
    """Double a number."""
    return 2 * number


async def doubling(run: refold.Run, number: int) -> Any:
    """Call one tool."""
    return await run.tool("double", number=number)


async def doubling_more(run: refold.Run, number: int) -> Any:
    """Do nearly the same."""
    return await run.tool("double", number=number + 1)


@refold.tool(effect="pure")
def doubled(number: int) -> int:
    """Double a number."""
    return 2 * number


async def doubling_often(run: refold.Run, count: int) -> int:
    """Call one tool, one time after the other."""
    return sum([await run.tool(doubled, number=number) for number in range(count)])


async def printing(run: refold.Run, _: Any) -> None:
    """Print to both streams."""
    print("to the output")  # noqa: T201 - that is the point
    print("to the errors", file=sys.stderr)  # noqa: T201 - the same
    run.annotate("printed", None)


async def leaving(run: refold.Run, how: str) -> None:
    """End the process where the test says so, and only there."""
    run.annotate("here", None)
    if os.environ.get("BULK_LEAVES") == how:
        os._exit(7)


async def killing_all(run: refold.Run, how: str) -> None:
    """End all processes of the group, as careless tidying up does, where the test says so."""
    run.annotate("here", None)
    if os.environ.get("BULK_KILLS") == how:
        os.killpg(os.getpgrp(), signal.SIGKILL)


_counted = [0]


async def counting(run: refold.Run, _: Any) -> int:
    """Look at what an earlier run in this process left behind."""
    _counted[0] += 1
    run.annotate(f"run {_counted[0]} of this process", None)
    return _counted[0]


_marks: dict[str, str] = {}


async def marking(run: refold.Run, where: str) -> None:
    """Look for a mark in a place that outlives the run, and leave one."""
    places: dict[str, Any] = {"module": _marks, "environment": os.environ, "library": vars(json)}
    run.annotate(f"mark: {places[where].get('BULK_MARK')}", None)
    places[where]["BULK_MARK"] = "1"


def unmark() -> None:
    """Take away the marks of this process."""
    _marks.clear()
    os.environ.pop("BULK_MARK", None)
    vars(json).pop("BULK_MARK", None)


async def waiting(_: refold.Run, path: str) -> None:
    """Say that it began and wait for ever, where the test says so."""
    if os.environ.get("BULK_WAITS"):
        with open(path, "w") as file:  # noqa: ASYNC230, PTH123 - past the run, on purpose
            file.write(str(os.getpid()))
            file.flush()
        reader, _writer = os.pipe()
        os.read(reader, 1)  # for ever


async def standing(run: refold.Run, how: str) -> None:
    """Wait for ever where the test says so, and only there; the file of that name says who."""
    run.annotate("here", None)
    stands, _, path = os.environ.get("BULK_STANDS", "").partition(":")
    if stands == how:
        with open(path, "w") as file:  # noqa: ASYNC230, PTH123 - past the run, on purpose
            file.write(str(os.getpid()))
        reader, _writer = os.pipe()
        os.read(reader, 1)


def _kill_worker(folder: str) -> None:
    deaths = sorted(Path(folder).iterdir())
    worker = psutil.Process(os.getppid()).parent()
    if deaths and worker is not None:
        deaths[0].unlink()
        worker.kill()
        reader, _writer = os.pipe()
        os.read(reader, 1)  # until the process between us ends this one


async def killing_worker(run: refold.Run, how: str) -> None:
    """Kill the process above the one that forks, once for each file in the folder of deaths.

    With `how` "kill".  On an executor, that is its worker.
    """
    run.annotate("here", None)
    if how == "kill" and "BULK_DEATHS" in os.environ:
        _kill_worker(os.environ["BULK_DEATHS"])
