"""Recorded runs that are written once more, piece by piece, as their writers could have done."""

import contextlib
import json
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from refold.engine.log.lock import lock
from refold.engine.ports.ports import Delegation
from refold.engine.program.run import Run
from refold.tools.contract.tool_types import tool


@tool(effect="reads")
def count(n: int) -> int:
    """Count."""
    return n


async def counts(run: Run, calls: int) -> int:
    for n in range(calls):
        await run.tool(count, n=n)
    return calls


async def nests(run: Run, calls: int) -> Any:
    outcome = await run.delegate(Delegation(program=counts, input=calls, brief="inner"))
    await run.tool(count, n=0)
    return outcome.output


async def family(run: Run, calls: int) -> int:
    """Start a child while another has a child: a log comes between two that are there."""
    early = await run.start(Delegation(program=nests, input=calls, brief="early"))
    for n in range(calls):
        await run.tool(count, n=n)
    late = await run.start(Delegation(program=nests, input=calls, brief="late"))
    await run.join(early, late)
    return calls


def interleaved(recorded: Path, rng: random.Random) -> list[tuple[str, bytes]]:
    """Return the lines of a tree with the files that they are of, in an order that is possible.

    A child's log begins after its start is written, and its parent is given its end after it.
    """
    logs = {
        path.name: path.read_bytes().splitlines(keepends=True)
        for path in sorted(recorded.parent.glob(f"{recorded.stem}*.jsonl"))
    }
    heads = {json.loads(lines[-1])["hash"] for lines in logs.values()}
    written, done = set[str](), list[tuple[str, bytes]]()

    def may_come(line: bytes) -> bool:
        entry = json.loads(line)
        needed = (entry["data"].get("parent") or {}).get("hash")
        if entry["kind"] == "child.finished":
            needed = entry["data"]["outcome"]["child"]["head"]
            assert needed in heads
        return needed is None or needed in written

    while any(logs.values()):
        name = rng.choice([each for each, lines in logs.items() if lines and may_come(lines[0])])
        line = logs[name].pop(0)
        written.add(json.loads(line)["hash"])
        done.append((name, line))
    return done


@contextlib.contextmanager
def growing(recorded: Path, folder: Path, rng: random.Random) -> Iterator[tuple[Path, Any]]:
    """Write the first line of a tree to `folder`; yield its log, and what writes on.

    That yields how many lines are there after each piece.  A piece ends within a line, or with what
    a crash left of another, which is cut off by who goes on.  Each log is locked until the end, as
    by its writer.
    """
    order, sizes, held = interleaved(recorded, rng), dict[str, int](), dict[str, int]()

    def write(name: str, piece: bytes) -> None:
        if name not in held:
            held[name] = os.open(folder / name, os.O_RDWR | os.O_CREAT | os.O_APPEND)
            lock(held[name], folder / name)
        os.write(held[name], piece)

    def rest() -> Iterator[int]:
        there = 1
        while there < len(order):
            for name, line in order[there : there + rng.randint(1, 12)]:
                if name in held:
                    os.ftruncate(held[name], sizes.get(name, 0))
                write(name, line)
                sizes[name] = sizes.get(name, 0) + len(line)
                there += 1
            if there < len(order):
                name, line = order[there]
                other = b'{"seq":9,"kind":"note.added","data":{}' * 9
                left = rng.choice((line, other if sizes.get(name) else line))
                write(name, left[: rng.randrange(len(line) - 1)])
            yield there
        for descriptor in held.values():
            os.close(descriptor)
        held.clear()

    write(*order[0])
    sizes[order[0][0]] = len(order[0][1])
    try:
        yield folder / recorded.name, rest
    finally:
        for descriptor in held.values():
            os.close(descriptor)
