"""How much memory reading takes, each time in a new process: it must not grow with the log."""

import time
from pathlib import Path

import attrs

from refold.engine.runners.recording import record
from tests.benchmarks import programs
from tests.benchmarks.measure import call_python

ENTRY_BYTES = 520
"""Of the log of `programs.reading`, on average over its two entries a page."""

COUNTS = (10_000, 100_000)
"""Entries of the logs that commands read; `--large` adds ten times as many."""
COMMANDS = (
    ("why", "{}", "--", "-1"),
    ("why", "{}", "1"),
    ("diff", "{}", "{}"),
    ("export", "{}", "--to", "markdown", "-o", "-", "--large"),
    ("export", "{}", "--to", "perfetto", "-o", "-", "--large"),
    ("export", "{}", "--to", "html", "-o", "-", "--large"),
    ("show", "{}", "--events", "-n", "10"),
)

AT_THE_END = (
    ("ls", "{folder}"),
    ("show", "{}"),
    ("show", "{}", "--entry", "-1"),
    ("show", "{}", "--events", "-n", "10"),
    ("why", "{}", "--", "-1"),
)
"""What is asked again and again about a log that grows; the second call reads only what is new."""

_PEAK = """
import re, sys
from pathlib import Path
path, work = sys.argv[1:]
if work == "verify":
    from refold.replay.audit.verify import verify
    assert verify(path).intact
elif work == "fold":
    from refold.replay.audit.refolding import refold_log
    assert refold_log(path).agrees
else:
    from refold.replay.reexecute.reexecute import reexecute
    from tests.benchmarks.programs import reading
    assert reexecute(path, reading).identical
print(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])
"""


_COMMAND = """
import os, re, sys
from pathlib import Path
from refold.cli import main
said = os.dup(1)
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
peak = re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]
os.write(said, peak.encode())
"""


@attrs.frozen
class Peak:
    """What one way of reading takes at its highest."""

    work: str
    small_bytes: int
    """With the small log."""
    large_bytes: int
    """With the large one."""


def peaks(folder: Path, *, log_bytes: int) -> tuple[int, int, list[Peak]]:
    """Return the sizes of a large log and of one a tenth of it, and what reading each takes."""
    small = _log(folder / "small.jsonl", log_bytes // 10)
    large = _log(folder / "large.jsonl", log_bytes)
    found = [
        Peak(work, _peak(small, work), _peak(large, work))
        for work in ("verify", "fold", "re-execute")
    ]
    return small.stat().st_size, large.stat().st_size, found


def of_commands(folder: Path, *, large: bool) -> str:
    """Return a table, for a terminal, of what commands take by the number of entries."""
    counts = (*COUNTS, 10 * COUNTS[-1]) if large else COUNTS
    title = "Peak memory of commands, by entries"
    lines = [title, "-" * len(title), f"{'':36}" + "".join(f"{count:>12,}" for count in counts)]
    logs = {count: folder / f"entries-{count}.jsonl" for count in counts}
    for count, log in logs.items():
        record(programs.plain, count // 2 - 1, log=log, tools=[programs.find], durability="fast")
    for command in COMMANDS:
        peaks = [
            int(call_python(_COMMAND, *(each.format(log) for each in command))) * 1024
            for log in logs.values()
        ]
        name = " ".join(each for each in command if each not in ("{}", "--", "-o", "-"))
        lines.append(f"{name:36}" + "".join(f"{_size(peak):>12}" for peak in peaks))
    return "\n".join(lines)


def of_second_calls(folder: Path) -> str:
    """Return a table of what the first and the second call take on the large log of `peaks`."""
    log = folder / "large.jsonl"
    title = f"First and second call, on a log of {_size(log.stat().st_size)}"
    lines = [f"{title}\n{'-' * len(title)}"]
    for command in AT_THE_END:
        words = [each.format(log, folder=folder) for each in command]
        taken = []
        for _ in range(2):
            begin = time.perf_counter()
            peak = int(call_python(_COMMAND, *words)) * 1024
            taken.append(f"{time.perf_counter() - begin:8.2f} s {_size(peak):>8}")
        name = " ".join(each for each in command if each[0] != "{" and each != "--")
        lines.append(f"{name:36}" + "".join(taken))
    return "\n".join(lines)


def _log(path: Path, size: int) -> Path:
    record(programs.reading, size // (2 * ENTRY_BYTES), log=path, durability="fast")
    return path


def _peak(path: Path, work: str) -> int:
    return int(call_python(_PEAK, str(path), work)) * 1024


def as_text(small: int, large: int, found: list[Peak]) -> str:
    """Return a table for a terminal."""
    title = f"Peak memory: a log of {_size(small)}, one of {_size(large)}"
    lines = [f"{title}\n{'-' * len(title)}"]
    for peak in found:
        ratio = peak.large_bytes / peak.small_bytes
        sizes = f"{_size(peak.small_bytes):>8} {_size(peak.large_bytes):>8}"
        lines.append(f"{peak.work:36} {sizes}  {ratio:6.2f} x   (goal about 1x: flat)")
    return "\n".join(lines)


def as_markdown(small: int, large: int, found: list[Peak]) -> str:
    """Return the same table for a README."""
    lines = [f"| Peak memory | log of {_size(small)} | log of {_size(large)} |", "|---|---:|---:|"]
    lines += [
        f"| {peak.work} | {_size(peak.small_bytes)} | {_size(peak.large_bytes)} |" for peak in found
    ]
    return "\n".join(lines)


def _size(count: int) -> str:
    return f"{count / 1e6:,.0f} MB"
