"""How time and memory grow with the work: `python -m tests.benchmarks curves`.

Each point is measured in a process of its own: CPU time of the process and of its children, and
the peak of its memory above what it had before the work.  What the work needs (a log to read) is
made by another process before.  The slope is the exponent of growth over the last two sizes: 1 is
linear, 0 is none.
"""

import json
import math
import re
import resource
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs

from refold import Limits, record, reexecute, verify
from refold.cli import main as command
from refold.engine.models import FunctionModel
from refold.engine.ports.ports import ModelRequest, Reference
from tests.benchmarks import measure, programs, report

Work = Callable[[int, Path], None]


def answered(_request: ModelRequest) -> str:
    """Answer at once, with the same words."""
    return "an answer"


_MODEL = FunctionModel(answered, reference=Reference(__name__, "_MODEL", {}))
_MANY = Limits(max_children=100_000)


def _recorded(program: Any, given: Any, log: Path, **options: Any) -> None:
    recording = record(program, given, log=log, durability="fast", **options)
    assert recording.ok, recording.error


def _calls(entries: int, folder: Path) -> None:
    _recorded(programs.awaiting, max(1, entries // 2), folder / "calls.jsonl")


def _branches(count: int, folder: Path) -> None:
    _recorded(programs.branching, count, folder / "branches.jsonl")


def _children(count: int, folder: Path) -> None:
    _recorded(programs.starting, count, folder / "children.jsonl", limits=_MANY)


def _processes(count: int, folder: Path) -> None:
    _recorded(programs.delegating, count, folder / "processes.jsonl", limits=_MANY)


def _logs(count: int, folder: Path) -> None:
    for place in range(count):
        _recorded(programs.plain, 1, folder / f"{place}.jsonl")


def _payload(size: int, folder: Path) -> None:
    _recorded(programs.carrying, size, folder / "payload.jsonl")


def _turns(count: int, folder: Path) -> None:
    _recorded(programs.talking, count, folder / "turns.jsonl", model=_MODEL)


def _nothing(_size: int, _folder: Path) -> None:
    pass


def _verified(log: Path) -> None:
    assert verify(log).intact


def _told(*words: str | Path) -> None:
    try:
        command([*map(str, words)])
    except SystemExit as end:
        assert not end.code, end.code  # noqa: PT017 - no test


@attrs.frozen
class Curve:
    """One line of the picture."""

    name: str
    unit: str
    sizes: tuple[int, ...]
    make: Work
    """What is made before, by another process."""
    work: Work
    """What is measured."""


def _tens(first: int, last: int) -> tuple[int, ...]:
    return tuple(10**power for power in range(first, last + 1))


CURVES: Final = {
    curve.name: curve
    for curve in (
        Curve("record calls", "entries", _tens(3, 6), _nothing, _calls),
        Curve(
            "verify", "entries", _tens(3, 6), _calls, lambda _, at: _verified(at / "calls.jsonl")
        ),
        Curve(
            "re-execute",
            "entries",
            _tens(3, 6),
            _calls,
            lambda _, at: _is_identical(at / "calls.jsonl", programs.awaiting),
        ),
        Curve("record branches at once", "branches", _tens(0, 4), _nothing, _branches),
        Curve("record children in this process", "children", _tens(0, 4), _nothing, _children),
        Curve(
            "record children in processes of their own",
            "children",
            _tens(0, 3),
            _nothing,
            _processes,
        ),
        Curve("list logs (`ls`)", "logs", _tens(0, 4), _logs, lambda _, at: _told("ls", at)),
        Curve(
            "verify logs that are named",
            "logs",
            _tens(0, 4),
            _logs,
            lambda _, at: _told("verify", *at.glob("*.jsonl")),
        ),
        Curve(
            "ls --diff",
            "logs",
            _tens(0, 4),
            _logs,
            lambda _, at: _told("ls", at, "--diff", min(at.glob("*.jsonl"))),
        ),
        Curve("record one result", "bytes", _tens(2, 7), _nothing, _payload),
        Curve("record a conversation", "turns", _tens(0, 4), _nothing, _turns),
    )
}


def _is_identical(log: Path, program: Any) -> None:
    assert reexecute(log, program).identical


def measured(*, most: int = 10**7, words: Sequence[str] = (), build: str = "") -> dict[str, Any]:
    """Measure all curves, or those with one of the words in their name, up to a size."""
    chosen = [each for each in CURVES.values() if any(word in each.name for word in words or [""])]
    return {
        **report.about(build=build),
        "curves": [
            _points(curve, [size for size in curve.sizes if size <= most]) for curve in chosen
        ],
    }


def _points(curve: Curve, sizes: Sequence[int]) -> dict[str, Any]:
    points = []
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            for step in ("make", "work"):
                found = measure.call_python(_CALL, step, curve.name, str(size), folder)
        points.append({"size": size, **json.loads(found.splitlines()[-1])})
    return {
        "name": curve.name,
        "unit": curve.unit,
        "points": points,
        "cpu_slope": slope([(point["size"], point["cpu_s"]) for point in points]),
        "memory_slope": slope([(point["size"], point["peak_mib"]) for point in points]),
    }


_CALL: Final = "import sys; from tests.benchmarks import curves; curves.point(*sys.argv[1:])"


def point(step: str, name: str, size: str, folder: str) -> None:
    """Make or measure one point, in this process."""
    curve = CURVES[name]
    if step == "make":
        curve.make(int(size), Path(folder))
        return
    with tempfile.TemporaryDirectory() as warm:  # what is loaded once is not counted
        first = curve.sizes[0]
        curve.make(first, Path(warm))
        curve.work(first, Path(warm))
    before, held = _cpu(), _peak()
    wall = time.perf_counter()
    curve.work(int(size), Path(folder))
    wall = time.perf_counter() - wall
    found = {"cpu_s": _cpu() - before, "wall_s": wall, "peak_mib": max(_peak() - held, 0) / 1024}
    print("\n" + json.dumps({key: round(value, 6) for key, value in found.items()}))


def _cpu() -> float:
    own, theirs = (
        resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return own.ru_utime + own.ru_stime + theirs.ru_utime + theirs.ru_stime


def _peak() -> int:
    """Return the most memory that this process has had, in KiB: not its parent's, as of rusage."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(found[1]) if found else 0


def slope(points: Sequence[tuple[int, float]]) -> float | None:
    """Return the exponent of the growth between the last two sizes."""
    if len(points) < 2 or min(points[-1][1], points[-2][1]) <= 0:
        return None
    (size, value), (size_2, value_2) = points[-2:]
    return round(math.log(value_2 / value) / math.log(size_2 / size), 2)


def as_markdown(data: Mapping[str, Any]) -> str:
    """Return a row a curve: its least and its largest size, what one costs at each, the slopes."""
    lines = [
        "| work | sizes | CPU time of one, by size | slope | peak memory, by size | slope |",
        "|---|---|---|---:|---|---:|",
    ]
    for curve in data["curves"]:
        points = curve["points"]
        each = [report.time_text(point["cpu_s"] / point["size"] * 1e6) for point in points]
        peaks = [f"{point['peak_mib']:.3g}" for point in points]
        lines.append(
            f"| {curve['name']} | {points[0]['size']:,} to {points[-1]['size']:,} {curve['unit']} "
            f"| {', '.join(each)} | {_said(curve['cpu_slope'])} "
            f"| {', '.join(peaks)} MiB | {_said(curve['memory_slope'])} |"
        )
    return "\n".join([*lines, "", report.in_words(dict(data))])


def _said(slope: float | None) -> str:
    return "" if slope is None else f"{slope:.2f}"


def draw(figure: Any, data: Mapping[str, Any]) -> None:
    """Draw CPU time and peak memory over the size, on logarithmic scales."""
    figure.set_size_inches(7.5, 7)
    panels = figure.subplots(2, 1, sharex=True)
    for axes, member, title in zip(
        panels,
        ("cpu_s", "peak_mib"),
        ("CPU time, s", "peak memory above the start, MiB"),
        strict=True,
    ):
        for curve in data["curves"]:
            shown = [point for point in curve["points"] if point[member] > 0]
            axes.plot(
                [point["size"] for point in shown],
                [point[member] for point in shown],
                marker="o",
                markersize=3,
                label=f"{curve['name']} ({curve['unit']})",
            )
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_title(title, loc="left")
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].legend(frameon=False, fontsize=6)
