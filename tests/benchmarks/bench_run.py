"""What recording and re-executing a program costs: per call, per branch, per child."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson

from refold.engine.recording import record
from refold.replay.reexecute import reexecute
from refold.tools.contract import FunctionTool
from tests.benchmarks import programs
from tests.benchmarks.measure import WALL, Job, run_python

CALLS = 1_000
AWAITED_CALLS = 200
CHILDREN = 3

_BARE = "its two lines, dumped and written"
_FEW = "1,000 branches at once"
_BARE_PYTHON = "python -c pass"
_TOOLS: tuple[FunctionTool[..., Any], ...] = (programs.fetch, programs.find)


def calls(folder: Path) -> list[Job]:
    """Return what is timed of calls, one after the other."""
    recorded = {
        program: _record(folder / f"{program.__name__}.jsonl", program, CALLS)
        for program in (programs.asynchronous, programs.plain)
    }
    place = folder / "calls.jsonl"
    return [
        Job(name=_BARE, run=lambda: _bare(folder / "bare"), count=CALLS),
        Job(
            name="recorded call, async program",
            run=lambda: _record(place, programs.asynchronous, CALLS),
            base=_BARE,
            count=CALLS,
            goal="at most 30 µs",
        ),
        Job(
            name="recorded call, plain program",
            run=lambda: _record(place, programs.plain, CALLS),
            base=_BARE,
            count=CALLS,
            goal="at most 30 µs",
        ),
        Job(
            name="re-executed call, async program",
            run=lambda: _reexecute(recorded[programs.asynchronous], programs.asynchronous),
            base=_BARE,
            count=CALLS,
            goal="at most 25 µs: 40,000 a second",
        ),
        Job(
            name="re-executed call, plain program",
            run=lambda: _reexecute(recorded[programs.plain], programs.plain),
            base=_BARE,
            count=CALLS,
            goal="at most 25 µs: 40,000 a second",
        ),
        Job(
            name="recorded call of an async tool",
            run=lambda: _record(place, programs.awaiting, AWAITED_CALLS),
            base=_BARE,
            count=AWAITED_CALLS,
            clock=WALL,
        ),
    ]


def crowds(folder: Path) -> list[Job]:
    """Return what is timed of many branches, and of children."""
    place = folder / "crowd.jsonl"
    return [
        Job(
            name=_FEW,
            run=lambda: _record(place, programs.branching, 1_000),
            count=1_000,
            clock=WALL,
        ),
        Job(
            name="10,000 branches at once",
            run=lambda: _record(place, programs.branching, 10_000),
            base=_FEW,
            count=10_000,
            goal="about 1x: linear",
            clock=WALL,
        ),
        Job(name=_BARE_PYTHON, run=lambda: run_python("-c", "pass"), clock=WALL),
        Job(
            name="a child in a process of its own",
            run=lambda: _record(place, programs.delegating, CHILDREN),
            base=_BARE_PYTHON,
            count=CHILDREN,
            clock=WALL,
        ),
    ]


def _record(path: Path, program: Callable[..., Any], size: int) -> Path:
    for old in path.parent.glob(f"{path.stem}.*"):
        old.unlink()
    recording = record(program, size, log=path, tools=_TOOLS, durability="fast")
    if not recording.ok:
        raise RuntimeError(f"{program.__name__}: {recording.error}")
    return path


def _reexecute(path: Path, program: Callable[..., Any]) -> None:
    report = reexecute(path, program)
    if not report.identical:
        raise RuntimeError(str(report))


def _bare(path: Path) -> None:
    """Write what a call leaves in the log, and nothing else."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
    arguments = {"limit": 2, "query": "needle"}
    called = {"tool": "find", "arguments": arguments, "effect": "reads"}
    returned = {"status": "ok", "result": ["needle", "needle"]}
    for at in range(CALLS):
        for kind, data in (("tool.called", called), ("tool.returned", returned)):
            line: dict[str, Any] = {"seq": at, "kind": kind, "call": f"0#{at}", "cause": at}
            meta = {"wall_us": 1_700_000_000_000_000, "mono_us": 1_000_000_000 + at}
            line |= {"data": data, "meta": meta, "hash": "0" * 64}
            os.write(descriptor, orjson.dumps(line, None, orjson.OPT_APPEND_NEWLINE))
    os.close(descriptor)
