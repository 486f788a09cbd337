"""What recording and re-executing a program costs: per call, per branch, per child."""

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson

from refold.engine.events.limits import Limits
from refold.engine.models.scripted import FunctionModel
from refold.engine.ports.ports import ModelReply, ModelRequest
from refold.engine.runners.recording import record
from refold.replay.audit.verify import verify
from refold.replay.audit.why import causes
from refold.replay.compare.diff import diff
from refold.replay.reexecute.reexecute import reexecute
from refold.tools.contract.tool_types import FunctionTool
from tests.benchmarks import programs
from tests.benchmarks.measure import WALL, Job, run_python

CALLS = 1_000
AWAITED_CALLS = 200
CHILDREN = 3

_BARE = "its two lines, dumped and written"
_FEW = "1,000 branches at once"
_BARE_PYTHON = "python -c pass"
_PROGRAMS: dict[str, Callable[..., Any]] = {"async": programs.asynchronous, "plain": programs.plain}
_TOOLS: tuple[FunctionTool[..., Any], ...] = (programs.fetch, programs.find)


def calls(folder: Path) -> list[Job]:
    """Return what is timed of calls, one after the other."""
    recorded = {
        program: _record(folder / f"{program.__name__}.jsonl", program, CALLS)
        for program in _PROGRAMS.values()
    }
    place = folder / "calls.jsonl"
    return [
        Job(name=_BARE, run=lambda: _bare(folder / "bare"), count=CALLS),
        *(
            Job(
                name=f"recorded call, {kind} program",
                run=functools.partial(_record, place, program, CALLS),
                base=_BARE,
                count=CALLS,
                goal="at most 30 µs",
            )
            for kind, program in _PROGRAMS.items()
        ),
        *(
            Job(
                name=f"re-executed call, {kind} program",
                run=functools.partial(_reexecute, recorded[program], program),
                base=_BARE,
                count=CALLS,
                goal="at most 25 µs: 40,000 a second",
            )
            for kind, program in _PROGRAMS.items()
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


def lengths(folder: Path) -> list[Job]:
    """Return what is timed of a small and a large run of one shape: how the cost grows."""
    jobs = []
    linear, compared = "about 1x: linear", "below 8x: its lists are compared, in C"
    for work, small, large, run, goal in (
        ("turn of a conversation, recorded", 500, 4_000, _talk, compared),
        ("turn of a conversation, re-executed", 500, 4_000, _replayed_talk, compared),
        ("child of a tree, verified", 250, 2_000, _verified, linear),
        ("call of a log, asked why", 2_500, 20_000, _asked_why, linear),
        ("call of two logs, compared", 2_500, 20_000, _compared, linear),
    ):
        first = f"{work}: one of {small:,}"
        for size, base in ((small, ""), (large, first)):
            place = folder / f"{run.__name__}{size}.jsonl"
            jobs.append(
                Job(
                    name=f"{work}: one of {size:,}",
                    run=functools.partial(run, place, size),
                    base=base,
                    count=size,
                    goal=goal if base else "",
                )
            )
    return jobs


def _talk(path: Path, turns: int) -> Path:
    return _record(path, programs.talking, turns)


def _replayed_talk(path: Path, turns: int) -> None:
    _reexecute(path if path.exists() else _talk(path, turns), programs.talking)


def _verified(path: Path, children: int) -> None:
    log = path if path.exists() else _record(path, programs.starting, children)
    if not verify(log).complete:
        raise RuntimeError(str(log))


def _asked_why(path: Path, calls: int) -> None:
    causes(path if path.exists() else _record(path, programs.plain, calls), -1, most=200)


def _compared(path: Path, calls: int) -> None:
    log = path if path.exists() else _record(path, programs.plain, calls)
    other = path.with_name(f"other-{path.name}")
    other = other if other.exists() else _record(other, programs.plain, calls + 1)
    diff(log, other, most=200)


def _record(path: Path, program: Callable[..., Any], size: int) -> Path:
    for old in path.parent.glob(f"{path.stem}.*"):
        old.unlink()
    recording = record(
        program,
        size,
        log=path,
        tools=_TOOLS,
        model=FunctionModel(_answer) if program is programs.talking else None,
        limits=Limits(max_children=1_000_000),
        durability="fast",
    )
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


def _answer(_request: ModelRequest) -> ModelReply:
    return ModelReply(message={"role": "assistant", "content": "an answer"})
