"""What users wait for, in this checkout over another: `python -m tests.benchmarks goals tests`.

With `--against PATH`, two processes do the same jobs in turn, job by job, in one run: one imports
`refold` from here, the other from `PATH/src`.  The ratio is the median over the rounds.  Only what
a checkout of long ago has as well is imported here, from `refold` and for models.
"""

import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import orjson

import refold
from refold.engine.log.reader import scan
from refold.engine.models.scripted import FunctionModel, ScriptedModel
from refold.replay.audit.refolding import refold_log
from tests.benchmarks import bench_watched, measure, programs
from tests.benchmarks.measure import CHILDREN, WALL, Job, Row

_ROOT = Path(__file__).parents[2]
_CALLS, _CHILDREN, _AT_ONCE, _FEW, _MANY, _EVENTS = 500, 30, 100, 200, 2_000, 10_000
_MODELS: dict[str, Any] = {
    "FunctionModel": FunctionModel(lambda _request: "an answer"),
    "ScriptedModel": ScriptedModel(["an answer"] * _MANY),
}
_BARE = "a log's lines, read and parsed"
_FIRST_RECORD = "import refold, sys; refold.record(lambda run, _: None, log=sys.argv[1])"

_FLOORS: Final = {
    "recorded call, async program": "floor 9 µs of 20: two lines dumped, hashed and written, two "
    "encodings, two digests. Of the rest, the tool's contract takes 1.9 µs, asyncio's hooks 0.7, "
    "objects of the call and its result 0.7, a copy of the arguments 0.6. Tried: types of all "
    "arguments in one comparison, a running hash, other ways to put a line together: slower, or "
    "the same. Tried and kept: arguments passed on without a copy (0.02), 9 audit events a call "
    "instead of 12, which cost 0.2 µs each once a replay has set its hook (0.02)",
    "re-executed call": "floor 2.2 µs of 7: its lines read, hashed and parsed. Tried: parsing only "
    "the data of a line to be verified, which takes longer than the whole line. Tried and kept: "
    "of a line that is as expected, only the result parsed, and arguments not copied (0.08); 3 "
    "audit events a call instead of 8 (0.10), results without an event (0.04), the lines of a log "
    "of up to 256 KB kept from its verification on (0.05). Left: 0.5 µs for the 3 events",
    "one of 100 x 10 calls, sync": "0.55 to 0.65 from run to run, by wall time: what two queues "
    "take to hand a value to a thread and back is 42 µs where the thread sleeps, and 0.5 µs where "
    "a hundred are handed over together",
    "re-execution of one call": "floor 14 µs of 270 in a loop: 255 functions share the rest, none "
    "has more than 4 %. Measured here after other jobs, 1.1 ms: the caches of the processor no "
    "longer have them, and only fewer functions help. Tried and kept: one opening, one "
    "verification, no signature of plain functions, reports only for what differs, one report "
    "instead of a sum (0.07), the format of a first line without parsing it (0.03), 14 functions "
    "less (0.05). Tried: to stop at the first short read, which misses what a writer appends",
    "child in process": "floor 0.04 ms of 0.64, with TMPDIR in memory: two switches of threads, a "
    "file made, locked and closed, four lines dumped, hashed and written. On ext4, making a file "
    "takes up to 0.8 ms more after many were deleted. Tried and kept: its head from its writer "
    "(0.06), no parsing for nulls and no `asdict` (0.03), one thread that is used again instead of "
    "two (0.03). Tried: a new thread for each child (0.15 more)",
    "child in its process": "floor 317 of the 646 million instructions that load its modules: "
    "Python with attrs, orjson, hashlib, asyncio. Tried and kept: shared methods of frozen classes "
    "(0.97 to 0.88), events and values without cattrs. Tried: compiled classes kept on disk "
    "(0.05), classes without slots (0.03), no site packages (0.01)",
    "request of a watched command": "floor 0.57: the HTTP libraries of both sides, two syncs, and "
    "the client of the benchmark. Tried: the server's own task (0.03), in which a client that "
    "leaves early more often cuts its answer; answers read from asyncio's streams instead of "
    "through httpx2's client (0.22; 50 streams 515 to 240 ms), which would be an HTTP client "
    "of our own beside a kept one; httptools for h11 (0.09), which is another dependency; syncing "
    "while the provider works would lose paid requests with the power",
    "50 streams at once": "floor 3.8: a proxy that records nothing; httpx2, httpcore and h11 read "
    "each chunk in about 10 µs. Tried and kept: pieces of a text added together (0.03). Tried: "
    "the same, and fewer steps for each chunk (less than 0.01)",
    "first record of a process": "floor 0.31: Python with asyncio, attrs, orjson and hashlib. "
    "Tried and kept: events and values without cattrs. Most of the rest makes 101 attrs classes",
    "refold verify": "floor 0.39: Python with attrs, orjson, hashlib and click. Tried and kept: "
    "events and values without cattrs, shared methods of six more classes (1.8 % of instructions), "
    "no trees, kept folds and tracebacks for a log that has its end (0.67 to 0.59)",
    "refold show": "floor 0.28: the same",
    "refold.verify, 500 calls": "floor 1.4 µs of 4.9 an entry: its line hashed and parsed once. "
    "0.9 µs take its members apart, 0.7 µs are its data digest, 0.5 µs the causal rules. Tried: "
    "one expression for what always stands there (0.02 µs), bytes for text in it (0.01 µs), one "
    "expression for whole lines (0.4 µs slower), a format for the bytes of a digest (the same), "
    "Python's own SHA-256 (0.15 µs slower); the collector does not run. Tried and kept: a line cut "
    "at two places (0.2 µs)",
    "… verified and folded": "floor 1.4 µs of 3.4 an entry: hashed and parsed. Tried and kept: no "
    "entries between lines and events (0.6 µs), members counted when a loader is made (0.06 µs). "
    "Tried: data parsed alone, whose surroundings then take 1.2 µs; batches of lines parsed as one "
    "array (0.1 µs), which would take two broken lines for a sound one; loaders called directly "
    "(0.05 µs)",
    "… and its chain verified": "floor 0.55: hashing alone; lines are found in 0.17 µs, numbers "
    "compared in 0.14 µs. Tried: the parts of a hash joined first, in two ways, or hashed from the "
    "start: 0.03 to 0.14 µs slower",
    "turn of 2,000": "floor 0.025 µs a message in the second cache, 0.05 µs outside: each is "
    "compared with the recorded one, because programs edit messages in place. Both take 0.4 kB. "
    "The collector adds nothing. Tried and kept: replies counted when they are new, for "
    "`ScriptedModel` (0.03 µs). Tried: no copy of the list (2 %), `gc.get_referents` (0.012 µs, "
    "misses renamed members), the names of all beside it (0.033 µs, misses exchanged ones), orjson "
    "(0.03 µs, grows with the texts)",
}
"""Of rows that miss their goals: what cannot be saved, and what was tried; by the name's start."""


def floors(found: Sequence[Row]) -> str:
    """Return a line for each row that missed its goal."""
    return "\n".join(
        f"missed  {row.name}: {text}"
        for row in found
        for name, text in _FLOORS.items()
        if row.goal and row.ratio > float(row.goal.split()[-1]) and row.name.startswith(name)
    )


def jobs(folder: Path) -> list[Job]:
    """Return the rows; one that has a `base` is over that job, in this checkout alone."""
    calls, one = folder / "calls.jsonl", folder / "one.jsonl"
    _record(calls, programs.asynchronous, _CALLS)
    _record(one, programs.asynchronous, 1)
    logs = (folder / f"{number}.jsonl" for number in range(10**9))

    def recorded(
        name: str, program: Callable[..., Any], size: int, model: str = "FunctionModel", **more: Any
    ) -> Job:
        options: dict[str, Any] = {"count": size, "clock": time.process_time} | more
        return Job(name=name, run=lambda: _record(next(logs), program, size, model), **options)

    def talked(model: str) -> list[Job]:
        few, many = (f"turn of {size:,}, {model}" for size in (_FEW, _MANY))
        return [
            recorded(few, programs.talking, _FEW, model),
            recorded(many, programs.talking, _MANY, model, base=few, goal="1.6"),
        ]

    def replayed(name: str, log: Path, **more: Any) -> Job:
        return Job(name=name, run=lambda: _replay(log), **more)

    def started(name: str, *words: str, goal: str) -> Job:
        run = lambda: measure.run_python(*words, *([str(next(logs))] * (words[0] == "-c")))  # noqa: E731
        return Job(name=name, run=run, goal=goal, clock=CHILDREN)

    at_once: dict[str, Any] = {"count": _AT_ONCE * 10, "clock": WALL}
    return [
        recorded("recorded call, async program", programs.asynchronous, _CALLS, goal="0.75"),
        replayed("re-executed call", calls, count=_CALLS, goal="0.7"),
        recorded("one of 100 x 10 calls, sync", programs.crowded, _AT_ONCE, **at_once, goal="0.6"),
        recorded(
            "one of 100 x 10 calls, async", programs.crowded_async, _AT_ONCE, **at_once, goal="0.7"
        ),
        replayed("re-execution of one call", one, goal="0.4"),
        recorded("child in process", programs.starting, _CHILDREN, goal="0.45"),
        recorded("child in its process", programs.delegating, 1, clock=_BOTH, goal="0.7"),
        bench_watched.request_job(
            folder / "watched.jsonl", name="request of a watched command", goal="0.5"
        ),
        Job(
            name=f"its answer, streamed in {_EVENTS:,} events",
            run=lambda: bench_watched.stream(next(logs), _EVENTS),
            goal="0.5",
        ),
        *bench_watched.stream_jobs(folder / "streamed.jsonl"),
        started("first record of a process", "-c", _FIRST_RECORD, goal="0.75"),
        started("refold verify", "-m", "refold", "verify", str(one), goal="0.6"),
        started("refold show", "-m", "refold", "show", str(one), goal="0.6"),
        Job(name="refold.verify, 500 calls", run=lambda: refold.verify(calls), goal="0.6"),
        Job(name="… verified and folded", run=lambda: refold_log(calls), goal="0.8"),
        Job(name=_BARE, run=lambda: _read(calls), count=_CALLS * 2),
        Job(
            name="… and its chain verified",
            run=lambda: scan(calls),
            base=_BARE,
            count=_CALLS * 2,
            goal="1.0",
        ),
        *[job for model in _MODELS for job in talked(model)],
    ]


_TESTS: Final = """\
The default tests: {wall:.0f} s (goal 120), {cpu:.0f} s of CPU (goal 200).
missed  no part of them is large: 11,700 tests take 20 ms each. A third is other processes: 0.15 s
for a child, 0.5 s for a recorded command, 4,100 starts of git by snapshots of folders. The rest is
programs that are recorded and replayed, 6 s of collection in each worker, 28 s of pytest in pytest,
and the laws. Tried and kept: commands in this process where a process is not what is tested,
programs of children outside of files of tests, syncs of files left out, one timer for tests that
hang, smaller drawn values. Tried: repositories of git copied from templates (less than 1 s)."""


def tests() -> str:
    """Run the default tests of this checkout once; return their times beside the goals."""
    cpu, began = CHILDREN(), time.perf_counter()
    words = [sys.executable, "-m", "pytest", "-q", "-n", "auto"]
    subprocess.run(words, cwd=_ROOT, stdout=subprocess.DEVNULL, check=True)
    return _TESTS.format(wall=time.perf_counter() - began, cpu=CHILDREN() - cpu)


def _BOTH() -> float:  # noqa: N802 - one of the clocks
    return time.process_time() + CHILDREN()


def _record(
    log: Path, program: Callable[..., Any], size: int, model: str = "FunctionModel"
) -> None:
    recording = refold.record(
        program,
        size,
        log=log,
        tools=(programs.find, programs.fetch),
        model=_MODELS[model] if program is programs.talking else None,
        limits=refold.Limits(max_children=1_000_000),
        durability="fast",
    )
    if not recording.ok:
        raise RuntimeError(f"{program.__name__}: {recording.error}")


def _read(log: Path) -> None:
    with log.open("rb") as file:
        for line in file:
            orjson.loads(line)


def _replay(log: Path) -> None:
    if not (report := refold.reexecute(log, programs.asynchronous)).identical:
        raise RuntimeError(str(report))


def _worker(checkout: Path) -> measure.Worker:
    """Start a process that does the jobs with one checkout."""
    return measure.Worker.of(__name__, str(checkout), path=checkout / "src")


def rows(against: Path | None, *, rounds: int, words: Sequence[str] = ()) -> list[Row]:
    """Measure both checkouts and return the rows; with `words`, those that have one in the name."""
    here = _worker(_ROOT)
    there = _worker(against.resolve()) if against else here
    order = random.Random(0)
    with tempfile.TemporaryDirectory() as name:
        listed = [
            job for job in jobs(Path(name)) if any(word in job.name for word in words or [""])
        ]
    names = [*dict.fromkeys(name for job in listed for name in (job.base, job.name) if name)]
    taken: dict[tuple[str, bool], list[float]] = {}
    for job in names:  # once for nothing: modules are compiled and loaded
        for worker in {here, there}:
            worker.ask(job)
    for _ in range(rounds):
        for job in order.sample(names, len(names)):
            for ours in order.sample([True, False], 2):
                taken.setdefault((job, ours), []).append(float((here if ours else there).ask(job)))
    here.close()
    there.close()
    return [_row(job, taken) for job in listed]


def _row(job: Job, taken: dict[tuple[str, bool], list[float]]) -> Row:
    own = taken[job.name, True]
    base = taken[job.base, True] if job.base else taken[job.name, False]
    return Row(
        name=job.name,
        micros=statistics.median(own) * 1e6,
        ratio=statistics.median(a / b for a, b in zip(own, base, strict=True)),
        base=job.base or f"before; fastest {min(own) / min(base):.2f}",
        goal=f"at most {job.goal}" if job.goal else "",
    )


def _work(checkout: Path) -> None:
    """Do the jobs that standard input names, with the `refold` of a checkout."""
    if not Path(refold.__file__).resolve().is_relative_to(checkout.resolve()):
        raise SystemExit(f"{refold.__file__} is not in {checkout}")
    with tempfile.TemporaryDirectory() as name, measure.opened:
        known = {job.name: job for job in jobs(Path(name))}
        for line in sys.stdin:
            print(measure.timed(known[line.rstrip("\n")]), flush=True)


if __name__ == "__main__":
    _work(Path(sys.argv[1]))
