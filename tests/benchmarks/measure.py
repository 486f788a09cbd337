"""Times jobs against each other: variants interleaved in rounds, medians of ratios.

Times differ from machine to machine and from minute to minute; ratios of jobs that ran next to each
other hardly do.  So jobs are short and rounds many, and what a table says comes from one run of one
process.
"""

import contextlib
import gc
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import attrs

ROOT = Path(__file__).parents[2]

opened = contextlib.ExitStack()
"""What jobs keep open, closed when all are measured.

The end of the process would be too late: it waits for the threads of servers first.
"""

Clock = Callable[[], float]
"""Returns seconds."""

CPU: Clock = time.thread_time
"""The time that this thread was on a processor: what others do to the machine is left out."""

WALL: Clock = time.perf_counter
"""For jobs that wait: for a disk, a thread, a process."""


def CHILDREN() -> float:  # noqa: N802 - one of the clocks
    """Return the time that processes started here, and ended, were on a processor."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def WORK() -> float:  # noqa: N802 - the same
    """Return the time that this process, and those that it started and that ended, used."""
    return time.process_time() + CHILDREN()


@attrs.frozen(kw_only=True)
class Job:
    """Something to be timed."""

    name: str
    run: Callable[[], object]
    base: str = ""
    """The job that it is compared with; itself where empty."""
    count: int = 1
    """How many operations one run does."""
    goal: str = ""
    """What we want of it, as text: `at most 3.5×`."""
    clock: Clock = CPU


@attrs.frozen(kw_only=True)
class Row:
    """What became of one job."""

    name: str
    micros: float
    """Microseconds an operation: the median over the rounds."""
    ratio: float
    """To the base in the same round: the median."""
    base: str
    goal: str


def measure(jobs: Sequence[Job], *, rounds: int) -> list[Row]:
    """Run every job once a round, in an order of each round's own, and return what came out."""
    order = random.Random(0)
    seen: list[dict[str, float]] = []
    for _ in range(rounds):
        gc.collect()
        shuffled = list(jobs)
        order.shuffle(shuffled)
        taken = {job.name: timed(job) for job in shuffled}
        seen.append({job.name: taken[job.name] for job in jobs})
    return [_row(job, seen) for job in jobs]


def timed(job: Job) -> float:
    """Return the seconds that one operation of a job took."""
    begin = job.clock()
    job.run()
    return (job.clock() - begin) / job.count


def _row(job: Job, seen: list[dict[str, float]]) -> Row:
    base = job.base or job.name
    return Row(
        name=job.name,
        micros=statistics.median(taken[job.name] for taken in seen) * 1e6,
        ratio=statistics.median(taken[job.name] / taken[base] for taken in seen),
        base=job.base,
        goal=job.goal,
    )


@attrs.frozen
class Worker:
    """A process that does the jobs it is told, one a line, and answers each with a line."""

    process: subprocess.Popen[str]

    @classmethod
    def of(cls, module: str, *arguments: str, path: Path = ROOT / "src") -> "Worker":
        """Start a module of the benchmarks, with the `refold` of `path`.

        What it starts finds its modules compiled, as after an installation: neither checkout may
        have them, or be written to.
        """
        env = {name: each for name, each in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        compiled = opened.enter_context(tempfile.TemporaryDirectory())
        env |= {"PYTHONPATH": os.pathsep.join([str(path), str(ROOT)])}
        env |= {"PYTHONPYCACHEPREFIX": compiled}
        process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return cls(process)

    def ask(self, job: str) -> str:
        """Return the answer to a line."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(job, file=self.process.stdin, flush=True)
        return self.process.stdout.readline().rstrip("\n")

    def close(self) -> None:
        """End the process."""
        self.process.communicate()


def run_python(*arguments: str) -> None:
    """Start the Python that runs this and wait for its end; what it prints is thrown away."""
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)


def call_python(code: str, *arguments: str) -> str:
    """Run `code` in a new Python and return what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    return done.stdout.strip()


def as_text(title: str, rows: Sequence[Row]) -> str:
    """Return a table for a terminal."""
    lines = [f"{title}\n{'-' * len(title)}"]
    for row in rows:
        against = f"{row.ratio:6.2f} x {row.base}" if row.base else ""
        goal = f"   (goal {row.goal})" if row.goal else ""
        lines.append(f"{row.name:36} {_time(row.micros):>10}  {against}{goal}")
    return "\n".join(lines)


def as_markdown(title: str, rows: Sequence[Row]) -> str:
    """Return the same table for a README."""
    lines = [f"| {title} | each | ratio |", "|---|---:|---|"]
    for row in rows:
        against = f"{row.ratio:.2f} x {row.base}" if row.base else ""
        lines.append(f"| {row.name} | {_time(row.micros)} | {against} |")
    return "\n".join(lines)


def _time(micros: float) -> str:
    if micros >= 10_000:
        return f"{micros / 1000:,.0f} ms"
    return f"{micros / 1000:.1f} ms" if micros >= 1000 else f"{micros:.2f} µs"
