"""A disk that is full (CONTRACT.md §4.4): what stays is what was acknowledged."""

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from refold.engine.log.reader import read_entries, scan
from refold.engine.log.writer import LogWriter
from tests.support import fault_programs
from tests.support.fault_programs import PROGRAMS

ROOT = Path(__file__).parents[2]

PROGRAM = """
import resource, sys
from refold.engine.errors import LogPoisoned
from refold.engine.events.events import NoteAdded, RunStarted
from refold.engine.log.writer import LogWriter
started = RunStarted(program="p", input=None, depth=0, limits={}, seed="00", tools=[],
    versions={"format": 1}, fingerprint={}, rules={}, path="", run_id="r", root_id="r")
low, high, step = map(int, sys.argv[2:])
for limit in range(low, high, step):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    acks, state = 0, "open"
    try:
        log = LogWriter.create(f"{sys.argv[1]}/l{limit}x.jsonl", started, durability="fast")
        acks = 1
        for at in range(100):
            log.append(NoteAdded("n" * at, at), f"0#{at + 1}")
            acks += 1
    except LogPoisoned:
        state = "poisoned"
        if acks:
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
            try:
                log.append(NoteAdded("again"))
                state = "alive"
            except LogPoisoned:
                pass
            log.close()
    sys.stdout.write(f"{limit} {acks} {state}\\n")
"""


def test_at_every_size_limit_the_acknowledged_entries_stay(tmp_path: Path) -> None:
    """Case 61: short writes and EFBIG wherever they fall: no entry lost, halved or added."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    out = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path), "0", "6000", "13"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    rows = [line.split() for line in out.splitlines()]

    assert len(rows) == len(range(0, 6000, 13))
    for limit, acks, state in rows:
        path = tmp_path / f"l{limit}x.jsonl"
        assert state == "poisoned"
        assert path.exists() is (acks != "0")
        if acks != "0":
            found = scan(path)
            assert (found.entries, found.damage, found.torn) == (int(acks), None, None)
    assert resource.getrlimit(resource.RLIMIT_FSIZE) == before


def test_a_log_that_met_a_full_disk_can_go_on(tmp_path: Path) -> None:
    """When there is room again, by resuming it."""
    subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path), "3000", "3001", "1"],
        capture_output=True,
        check=True,
    )
    path = tmp_path / "l3000x.jsonl"
    entries = list(read_entries(path))

    resumed = LogWriter.resume(path)
    resumed.writer.close()

    assert resumed.cut is None
    assert resumed.writer.entries == len(entries) > 3


def _ends_correctly(folder: Path, runner: str, limits: range, *names: str) -> None:
    """Each run under its limit ends with the error that the disk is full, and goes on without."""
    out = subprocess.run(
        [sys.executable, "-m", fault_programs.__name__, str(folder), runner,
         str(limits.start), str(limits.stop), str(limits.step), *names],
        cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True,
        timeout=60 + len(limits) * len(names) * 5,
    ).stdout  # fmt: skip
    rows = [json.loads(line) for line in out.splitlines()]

    assert len(rows) == len(limits) * len(names)
    for row in rows:
        raised = row.get("raised")
        assert raised == "LogPoisoned" or row.get("status") == "completed", row
        if raised and "resumed" in row:
            assert row["damaged"] == [], row
            assert (row["resumed"], row["identical"], row["verified"]) == ("completed", True, True)
    for name in names:
        assert sum("resumed" in row for row in rows if row["name"] == name) > len(limits) // 4


@pytest.mark.long
def test_a_run_ends_whose_disk_is_full(tmp_path: Path) -> None:
    """Plain or asynchronous, with children or without, whatever it makes of the error."""
    _ends_correctly(tmp_path, "in-process", range(1500, 7500, 1200), *PROGRAMS)


@pytest.mark.long
@pytest.mark.parametrize("runner", ["in-process", "subprocess"])
def test_a_run_ends_wherever_its_disk_is_full(tmp_path: Path, runner: str) -> None:
    """The same at each write of its log, and of those of its children."""
    step = 61 if runner == "in-process" else 509
    _ends_correctly(tmp_path, runner, range(0, 9000, step), *PROGRAMS)
