"""The same work in Refold and in its peers, side by side: `python -m tests.benchmarks peers`.

The floor and each peer work in a process of their own; in each round every job is done once, in a
random order.  A time is the median of the rounds, and a ratio the median of the ratios to the
floor in the same round.  CPU time is that of the whole process, with all its threads.
"""

import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import attrs

from tests.benchmarks import measure, peer_jobs, report
from tests.benchmarks.peer_jobs import WORKS, Timed


@attrs.frozen
class Peer:
    """One row of the table; its package is not always installed."""

    name: str
    jobs: Callable[[Path], list[Timed]]
    packages: tuple[str, ...] = ()

    @property
    def is_installed(self) -> bool:
        """Whether all its packages are."""
        return all(_is_there(package) for package in self.packages)


PEERS = (
    Peer("floor", peer_jobs.floor),
    Peer("Refold", peer_jobs.of_refold),
    Peer("DBOS", peer_jobs.dbos, ("dbos",)),
    Peer("LangGraph", peer_jobs.langgraph, ("langgraph", "langgraph.checkpoint.sqlite")),
    Peer("eventsourcing", peer_jobs.eventsourcing, ("eventsourcing",)),
    Peer("Temporal Replayer", peer_jobs.temporal, ("temporalio",)),
    Peer("vcrpy", peer_jobs.vcrpy, ("vcr",)),
)
_DISTRIBUTIONS = {
    "DBOS": ("dbos",),
    "LangGraph": ("langgraph", "langgraph-checkpoint-sqlite"),
    "eventsourcing": ("eventsourcing",),
    "Temporal Replayer": ("temporalio",),
    "vcrpy": ("vcrpy",),
}


def _is_there(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # a parent of it
        return False


def measured(
    *, rounds: int, peers: Sequence[Peer] = PEERS, words: Sequence[str] = (), build: str = ""
) -> dict[str, Any]:
    """Do all jobs of the installed peers, and return what `plots/peers.json` holds.

    With `words`, only the works that have one of them in their name.
    """
    present = [peer for peer in peers if peer.is_installed]
    workers = {peer.name: measure.Worker.of(__name__, peer.name) for peer in present}
    listed = [
        (peer.name, *line.split("\t"))
        for peer in present
        for line in workers[peer.name].ask("list").split("\x1f")
    ]
    jobs = [job for job in listed if any(word in job[1] for word in words or [""])]
    order, seen = random.Random(0), []
    for round_ in range(rounds + 1):
        taken = {}
        for job in order.sample(jobs, len(jobs)):
            wall, cpu = workers[job[0]].ask("\t".join(job[1:])).split()
            taken[job] = (float(wall), float(cpu))
        seen += [taken] * (round_ > 0)  # the first loads what is loaded once
    for worker in workers.values():
        worker.close()
    names = [each for peer in present for each in _DISTRIBUTIONS.get(peer.name, ())]
    return {
        **report.about(names, build=build),
        "rounds": rounds,
        "left_out": [peer.name for peer in peers if not peer.is_installed],
        "rows": [_row(job, seen) for work in WORKS for job in jobs if job[1] == work],
    }


def _row(
    job: tuple[str, ...], seen: Sequence[Mapping[tuple[str, ...], tuple[float, float]]]
) -> Any:
    who, work, durability = job
    floor = next(each for each in seen[0] if each[:2] == ("floor", work))
    row: dict[str, Any] = {"work": work, "who": who, "durability": durability}
    for place, clock in enumerate(("wall", "cpu")):
        each = [taken[job][place] for taken in seen]
        over = [taken[job][place] / max(taken[floor][place], 1e-9) for taken in seen]
        row[f"{clock}_us"] = round(statistics.median(each) * 1e6, 2)
        row[f"{clock}_ratio"] = round(statistics.median(over), 2)
    return row


def as_markdown(data: Mapping[str, Any]) -> str:
    """Return the tables, one a work, and what was left out."""
    lines = []
    for work, operation in WORKS.items():
        rows = [row for row in data["rows"] if row["work"] == work]
        if rows:
            lines += [f"**{work.capitalize()}**: {operation}.", ""]
            lines += [
                "| | durability | wall | CPU | CPU over the floor |",
                "|---|---|---:|---:|---:|",
            ]
            lines += [
                f"| {row['who']} | {row['durability']} | {report.time_text(row['wall_us'])} "
                f"| {report.time_text(row['cpu_us'])} | {row['cpu_ratio']:.3g} |"
                for row in rows
            ]
            lines.append("")
    out = ", ".join(data["left_out"])
    lines.append(f"{report.in_words(dict(data))} Medians of {data['rounds']} rounds.")
    return "\n".join([*lines, *([f"Left out, because not installed: {out}."] if out else [])])


def draw(figure: Any, data: Mapping[str, Any]) -> None:
    """Draw a panel a work: bars of wall and CPU time, on one logarithmic scale."""
    works = [work for work in WORKS if any(row["work"] == work for row in data["rows"])]
    counts = [sum(row["work"] == work for row in data["rows"]) for work in works]
    figure.set_size_inches(7.5, 0.32 * sum(counts) + 0.75 * len(works))
    panels = figure.subplots(len(works), 1, squeeze=False, sharex=True, height_ratios=counts)
    for (axes,), work in zip(panels, works, strict=True):
        rows = [row for row in data["rows"] if row["work"] == work][::-1]
        names = [f"{row['who']} ({row['durability']})".replace("`", "") for row in rows]
        for clock, shift, pale in (("wall", 0.2, "#9db4d0"), ("cpu", -0.2, "#2f5d8c")):
            places = [place + shift for place in range(len(rows))]
            values = [row[f"{clock}_us"] for row in rows]
            axes.barh(places, values, height=0.4, label=clock, color=pale)
        axes.set_xscale("log")
        axes.set_yticks(range(len(rows)), names)
        axes.set_title(f"{work}, µs", loc="left")
        axes.spines[["top", "right"]].set_visible(False)
    panels[0][0].legend(frameon=False)


def _work(name: str) -> None:
    """Do the jobs of a peer that standard input names: answer each with its wall and CPU time."""
    (peer,) = (peer for peer in PEERS if peer.name == name)
    with tempfile.TemporaryDirectory() as folder, measure.opened:
        jobs = {f"{job.work}\t{job.durability}": job for job in peer.jobs(Path(folder))}
        for line in sys.stdin:
            if (asked := line.rstrip("\n")) == "list":
                print("\x1f".join(jobs), flush=True)
                continue
            job = jobs[asked]
            wall, cpu = time.perf_counter(), time.process_time()
            job.run()
            cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
            print(wall / job.count, cpu / job.count, flush=True)


if __name__ == "__main__":
    _work(sys.argv[1])
