"""Programs and tools that any process can import: what the runners' contract is tested on."""

import asyncio
import gc
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import attrs

from refold.engine.events.outcome import Artifact, Report
from refold.engine.ports.ports import CallContext, Delegation, Reference
from refold.engine.program.run import PlainRun, Run
from refold.engine.session import Session
from refold.tools.contract.tool_types import tool

HERE = str(Path(__file__).resolve())


def named(name: str) -> Reference:
    """Return how any process finds a program of this file."""
    return Reference(HERE, name)


@tool(effect="reads")
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@tool(effect="reads")
def look(at: str) -> str:
    """Look at a file."""
    return f"saw {at}"


@tool(effect="reads", timeout_seconds=30)
async def ponder(seconds: float) -> float:
    """Take a while."""
    await asyncio.sleep(seconds)
    return seconds


@tool(effect="reads")
async def linger() -> None:
    """Take for ever, and yield."""
    await asyncio.Event().wait()


async def works(run: Run, value: Any) -> Any:
    """Use everything that a child may use."""
    one, two = await asyncio.gather(run.tool("add", a=1, b=2), run.tool("ponder", seconds=0.001))
    run.annotate("drawn", [run.uuid(), run.random("s").random(), run.now().isoformat()])
    await run.sleep(0.001)
    return {"input": value, "sum": [one, two], "depth": run.depth}


def plainly_works(run: PlainRun, value: Any) -> Any:
    """Do the same in a plain program."""
    one = run.tool("add", a=1, b=2)
    run.sleep(0.001)
    return [value, one, run.uuid(), run.now().isoformat()]


async def reports(_run: Run, _value: Any) -> Report:
    """Hand back more than a value."""
    note = Artifact(kind="note", value="found", name="n")
    return Report(summary="in short", output={"long": [1, 2]}, artifacts=(note,))


async def raises(run: Run, _value: Any) -> None:
    """Fail."""
    await run.tool("add", a=1, b=2)
    raise LookupError("nothing there")


async def naps(run: Run, _value: Any) -> None:
    """Never end, and yield."""
    while True:
        await run.sleep(0.01)


async def lingers(run: Run, _value: Any) -> None:
    """Wait for an asynchronous tool, and for nothing else."""
    await run.tool(linger)


async def swallows(run: Run, _value: Any) -> None:
    """Never end, and swallow being told to."""
    while True:
        try:
            await run.sleep(0.01)
        except asyncio.CancelledError:
            continue


def spins(_run: PlainRun, _value: Any) -> None:
    """Never end, and never yield."""
    while True:
        time.sleep(0.001)


async def tidies(run: Run, _value: Any) -> None:
    """Clean up when told to end."""
    try:
        await run.sleep(60)
    finally:
        await run.tool("add", a=40, b=2)


async def says_much(_run: Run, size: int) -> str:
    """Return a long text."""
    return "é" * (size // 2)


async def lists_much(_run: Run, size: int) -> list[int]:
    """Return a long list."""
    return [1] * size


async def prints_much(_run: Run, size: int) -> str:
    """Print more than is allowed."""
    sys.stdout.write("x" * size)
    sys.stdout.flush()
    return "done"


async def dies(run: Run, how: str) -> None:
    """End the process instead of the program."""
    await run.tool("add", a=1, b=2)
    if how == "exit":
        os._exit(3)
    os.kill(os.getpid(), 9)


async def nests(run: Run, levels: int) -> Any:
    """Delegate to itself, as deep as asked."""
    if levels == 0:
        return run.depth
    outcome = await run.delegate(Delegation(program=named("nests"), input=levels - 1, brief="on"))
    return [run.depth, outcome.status, outcome.output]


def shows_pid(run: PlainRun, path: str) -> None:
    """Write its process id where the test reads it, and stay."""
    Path(path).write_text(str(os.getpid()), encoding="ascii")
    run.sleep(60)


async def parents(run: Run, count: int) -> int:
    """Run children one after the other."""
    for each in range(count):
        await run.delegate(Delegation(program=reports, input=each))
    return count


@tool(effect="changes")
def mark(place: str, context: CallContext) -> str:
    """Put down, in a file that all processes share, that this call was executed."""
    with Path(place).open("a", encoding="ascii") as file:
        file.write(f"{context.idempotency_key}\n")
    return "marked"


async def stays(run: Run, place: str) -> None:
    """Do one thing, and never end."""
    await run.tool("mark", place=place)
    await run.sleep(600)


async def goes_down(run: Run, runners: list[str]) -> Any:
    """Delegate to itself, on one runner after the other."""
    if not runners:
        return run.depth
    below = Delegation(program=named("goes_down"), input=runners[1:], runner=runners[0])
    outcome = await run.delegate(below)
    return [runners[0], outcome.status, outcome.output]


async def says_secret(run: Run, _value: Any) -> None:
    """Hand a secret to a tool, which says it wherever it can, and raises it."""
    await run.tool(told, token=run.secret("ON_RAY"))


@tool(effect="reads")
def told(token: str) -> str:
    """Look for it among the arguments of all processes; say it."""
    for stream in (sys.stdout, sys.stderr):
        stream.write(f"{token * 20_000}\n")
        stream.flush()
    seen = [path for path in Path("/proc").glob("[0-9]*/cmdline") if token in _text(path)]
    raise ValueError(f"{token}, seen {len(seen)} times")


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:  # it has ended
        return ""


async def loses_node(run: Run, place: str) -> None:
    """End the worker of Ray that watches over this process."""
    await run.tool("mark", place=place)
    os.kill(os.getppid(), signal.SIGKILL)
    await run.sleep(600)


async def writes_much(run: Run, size: int) -> int:
    """Hand large texts to a tool, which a log keeps apart."""
    for each in range(4):
        await run.tool(measures, text=f"{each}" * size)
    return size


@tool(effect="pure")
def measures(text: str) -> str:
    """Hand the text back."""
    return text[::-1]


def looks(_run: PlainRun, names: list[str]) -> Any:
    """Tell what the process can see."""
    return {
        "environment": sorted(name for name in names if name in os.environ),
        "descriptors": sum(1 for _ in Path("/proc/self/fd").iterdir()),
        "leads": os.getsid(0) == os.getpid(),
        "isolated": bool(sys.flags.isolated),
        "collects": gc.isenabled(),
        "spared": gc.get_freeze_count(),
    }


def eats(_run: PlainRun, megabytes: int) -> int:
    """Take memory, and keep it."""
    kept = bytearray(megabytes << 20)
    for at in range(0, len(kept), 4096):
        kept[at] = 1
    while True:
        sum(kept[::4096])


def complains(_run: PlainRun, words: str) -> None:
    """Write a long line and crash."""
    sys.stderr.write(f"{'.' * 190}{words}")
    sys.stderr.flush()
    os._exit(3)


@attrs.frozen
class Seen:
    """Something seen."""

    text: str


def seeing() -> Session:
    """Return a session that has a reducer."""
    session = Session()
    session.register(Seen)
    return session


def bare() -> Session:
    """Return one that has none."""
    return Session()


def kinds(run: PlainRun, _given: Any) -> list[str]:
    """Return what the child's session has reducers of."""
    return [kind.__name__ for kind in run.session.event_types]
