"""What recording a folder costs: the start in a repository of 50,000 files, a request, the log.

A command that does nothing is recorded with the folder and with `--workspace none`, in processes of
their own; so is the agent of `tests.support.editing`, which changes three files.  Processor time of
all processes, and the most memory of Refold's.  The model answers at once, which hides no look;
where other work keeps the processors busy, look at their time.
"""

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.support.editing import Step, agent, steps
from tests.support.folders import git, repository
from tests.support.hostile import changed_by
from tests.support.upstream import Upstream

FILES: Final = 50_000
_ROUNDS: Final = 5
_REPLAYS: Final = 100
_READS: Final = 20
"""Requests of a run that changes nothing."""
_MEASURED: Final = """
import json, resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, capture_output=True)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([used.ru_utime + used.ru_stime, used.ru_maxrss / 1024]))
"""
"""Says what a command and all that it started took: seconds of processors, MB."""


def lines(folder: Path) -> Iterator[str]:
    """Yield the lines of the table."""
    top = repository(folder / "large" / "r", {"a.py": "one\n"})
    for number in range(FILES):
        file = top / f"d{number // 1000}" / f"e{number // 100}" / f"f{number}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"x = {number}\n" * 20)
    git(top, "add", "-A")
    git(top, "commit", "-qm", "all")
    git(top, "status")
    write: list[Step] = [[("Write", {"file_path": f"made{n}", "text": "new\n"})] for n in range(3)]
    asked: dict[str, Step] = {
        "read": [("Read", {"path": "a.py"})],
        "run": [("Bash", {"command": ":"})],
    }
    cpu, memory, _, _ = _compared(top, "idle", [])
    yield f"{FILES:,} files, start and end: CPU {cpu:+.2f} s, memory {memory:+.0f} MB"
    _taken(top, "change", write, str(top))
    yield f"log of a run that changes 3 files: {_size(top.parent):,} bytes"
    git(top, "clean", "-qfd")
    small = repository(folder / "small" / "r", {"a.py": "1\n"})
    for name, place in (("1 file", small), (f"{FILES:,} files", top)):
        for task, step in asked.items():
            taken = _compared(place, task, [step] * _READS)
            cpu, _, wall, noise = (each / _READS * 1000 for each in taken)
            yield (
                f"a request after {step[0][0]} without a change, {name}: CPU {cpu:+.1f} ms, wall "
                f"{wall:+.1f} ms (without a folder, rounds differ by {noise:.1f} ms)"
            )
    for has_sandbox, what in ((True, "home, repository and links"), (False, "the folder")):
        (place := folder / str(has_sandbox)).mkdir()
        changed = changed_by(place, has_sandbox=has_sandbox, count=_REPLAYS)
        way = "in" if has_sandbox else "without"
        yield f"{_REPLAYS} replays, forks {way} a sandbox changed of {what}: {len(changed)} files"


def _compared(top: Path, task: str, listed: list[Step]) -> tuple[float, float, float, float]:
    """Return what the folder adds, in the median: seconds of processors, MB, seconds on the wall.

    And by how much the last differs from round to round without it.
    """
    rounds = [
        (_taken(top, task, listed, "none"), _taken(top, task, listed, str(top)))
        for _ in range(_ROUNDS)
    ]
    walls = [without[2] for without, _ in rounds]
    cpu, memory, wall = (
        statistics.median(seen[column] - without[column] for without, seen in rounds)
        for column in range(3)
    )
    return cpu, memory, wall, statistics.stdev(walls)


def _taken(top: Path, task: str, listed: list[Step], workspace: str) -> tuple[float, float, float]:
    """Return seconds of processors, MB, and seconds on the wall of one recording."""
    log = top.parent / "run.jsonl"
    for path in top.parent.glob("run.*"):
        subprocess.run(["rm", "-rf", str(path)], check=True)
    with Upstream(steps(task, listed)) as upstream:
        env = {"PATH": os.environ["PATH"], "HOME": str(top.parent), **upstream.environment()}
        words = [sys.executable, "-m", "refold", "record", "--workspace", workspace]
        words += ["--log", str(log), "--", *agent(top.parent, task)]
        began = os.times().elapsed
        done = subprocess.run(
            [sys.executable, "-c", _MEASURED, *words],
            cwd=top, env=env, check=True, capture_output=True, text=True,
        )  # fmt: skip
    cpu, memory = json.loads(done.stdout)
    return cpu, memory, os.times().elapsed - began


def _size(folder: Path) -> int:
    return (
        sum(path.stat().st_size for path in folder.glob("run.*/**/*") if path.is_file())
        + (folder / "run.jsonl").stat().st_size
    )
