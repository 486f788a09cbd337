"""Programs that are killed from outside, in processes of their own; their tools keep a ledger.

`python -m tests.support.crash_programs record|resume NAME LOG RUNNER` runs one; the ledger is the
file beside the log.  A tool whose call is named in `REFOLD_TEST_DIE` kills its process in the
middle of its work; `tests/reliability/test_resume_crashes.py` does so at other times.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import refold
from refold import Delegation, PlainRun, Run, tool
from refold.replay import open_ends

CHILDREN = 10
STEPS = 3


def _work(kind: str, where: str, n: int) -> int:
    """Write a line when a call begins and one when it has done its work."""
    ledger = Path(where)
    with ledger.open("a") as file:
        file.write(f"{kind} {n} begins\n")
    if f"{kind}{n}" in ledger.with_suffix(".die").read_text().split():
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.002)  # as work takes time: without any, nothing is ever in doubt
    with ledger.open("a") as file:
        file.write(f"{kind} {n} done\n")
    return n * 2


@tool(effect="idempotent")
def step(ledger: str, n: int) -> int:
    """Do one step."""
    return _work("step", ledger, n)


@tool(effect="changes")
def pay(ledger: str, n: int) -> int:
    """Pay."""
    return _work("pay", ledger, n)


async def worker(run: Run, given: dict[str, Any]) -> list[int]:
    """A child: steps, one payment, an id."""
    first, ledger = given["n"] * 100, given["ledger"]
    done = [await run.tool(step, ledger=ledger, n=first + each) for each in range(STEPS)]
    return [*done, await run.tool(pay, ledger=ledger, n=first)]


async def ten(run: Run, ledger: str) -> Any:
    """Ten children at once, with work before and after."""
    before = await run.tool(step, ledger=ledger, n=1)
    children = [
        await run.start(Delegation(program=worker, input={"n": each, "ledger": ledger}))
        for each in range(1, CHILDREN + 1)
    ]
    outcomes = await run.join(*children)
    after = await run.tool(pay, ledger=ledger, n=2)
    return [before, [each.output for each in outcomes], after, run.uuid()]


async def one(run: Run, ledger: str) -> Any:
    """The same without children."""
    done = [await run.tool(step, ledger=ledger, n=each) for each in range(STEPS)]
    return [*done, await run.tool(pay, ledger=ledger, n=1), run.uuid()]


def plain_worker(run: PlainRun, given: dict[str, Any]) -> list[int]:
    """The same child, in a plain program."""
    first, ledger = given["n"] * 100, given["ledger"]
    done = [run.tool(step, ledger=ledger, n=first + each) for each in range(STEPS)]
    return [*done, run.tool(pay, ledger=ledger, n=first)]


def plain_ten(run: PlainRun, ledger: str) -> Any:
    """The same as `ten`, in a plain program."""
    before = run.tool(step, ledger=ledger, n=1)
    children = [
        run.start(Delegation(program=plain_worker, input={"n": each, "ledger": ledger}))
        for each in range(1, CHILDREN + 1)
    ]
    outcomes = run.join(*children)
    after = run.tool(pay, ledger=ledger, n=2)
    return [before, [each.output for each in outcomes], after, run.uuid()]


def plain_one(run: PlainRun, ledger: str) -> Any:
    """The same as `one`, in a plain program."""
    done = [run.tool(step, ledger=ledger, n=each) for each in range(STEPS)]
    return [*done, run.tool(pay, ledger=ledger, n=1), run.uuid()]


async def foreman(run: Run, given: dict[str, Any]) -> Any:
    """A child that has one of its own at work, and works itself meanwhile."""
    below = await run.start(Delegation(program=worker, input=given | {"n": given["n"] + 50}))
    done = [await run.tool(step, ledger=given["ledger"], n=given["n"])]
    return [*done, *[each.result() for each in await run.join(below)]]


async def nested(run: Run, ledger: str) -> Any:
    """Children that have children."""
    children = [
        await run.start(Delegation(program=foreman, input={"n": each, "ledger": ledger}))
        for each in range(1, 4)
    ]
    return [each.result() for each in await run.join(*children)]


PROGRAMS: dict[str, Any] = {
    "ten": ten,
    "one": one,
    "plain_ten": plain_ten,
    "plain_one": plain_one,
    "nested": nested,
}


def main(verb: str, name: str, log: str, runner: str) -> None:
    """Record or resume, and print status, output, and what is in doubt."""
    ledger = str(Path(log).with_suffix(".ledger"))
    program, tools = PROGRAMS[name], [step, pay]
    if verb == "record":
        found = refold.record(program, ledger, log=log, tools=tools, runner=runner, seed=1)
    else:
        keys = [doubt.key for doubt in open_ends(log).doubts]
        found = refold.resume(
            log, program, tools=tools, runner=runner, retry=keys, max_attempts=1000
        )
    sys.stdout.write(json.dumps({"status": found.status, "output": found.output}))


if __name__ == "__main__":
    main(*sys.argv[1:])
