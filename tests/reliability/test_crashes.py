"""A writer that dies, a tail that is torn (CONTRACT.md §4.4, §4.5).

An entry whose `append` returned survives the death of the process, in every mode; whatever was
half written is taken off, and nothing else is.
"""

import os
import random
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from refold.engine.events.events import NoteAdded
from refold.engine.log.reader import read_entries, scan
from refold.engine.log.writer import LogWriter
from tests.support.loops import for_each, some
from tests.support.started import STARTED


def _write_until_killed(path: Path, ready: int) -> None:
    """Append without end; one byte through the pipe after each append that returned."""
    log = LogWriter.create(path, STARTED, durability="fast")
    at = 0
    while True:
        log.append(NoteAdded("x" * (at * 37 % 3000), at), f"0#{at + 1}")
        os.write(ready, b".")
        at += 1


def _killed(path: Path, after: float, acknowledged: int) -> int:
    """Start a writer, kill it some time after its first appends, and return how many it made."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            _write_until_killed(path, writing)
        finally:
            os._exit(1)
    os.close(writing)
    acks = 0
    while acks < acknowledged:
        acks += len(os.read(reading, acknowledged - acks))
    select.select([], [], [], after)  # the moment of death is what is tried
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    while more := os.read(reading, 65536):
        acks += len(more)
    os.close(reading)
    return acks


def _kill_many(folder: Path, times: int, seed: int) -> None:
    draw = random.Random(seed)
    for at in range(times):
        path = folder / f"run-{at}x.jsonl"
        acks = _killed(path, draw.random() * 0.003, draw.randrange(1, 4))

        found = scan(path)

        assert found.damage is None
        assert found.entries >= acks + 1, f"{acks} were acknowledged (seed {seed}, kill {at})"
        resumed = LogWriter.resume(path)
        assert resumed.writer.append(NoteAdded("after")) == found.entries
        resumed.writer.close()
        assert scan(path).entries == found.entries + 1
        path.unlink()


def test_no_acknowledged_entry_is_lost_by_kill(tmp_path: Path) -> None:
    """6 writers killed with SIGKILL at random moments; each log recovers and goes on."""
    _kill_many(tmp_path, 6, seed=1)


@pytest.mark.long
def test_no_acknowledged_entry_is_lost_by_many_kills(tmp_path: Path) -> None:
    """The same, 10,000 times, with another seed each time."""
    seed = random.SystemRandom().randrange(2**32)
    print("seed", seed)  # noqa: T201 - to do it again
    _kill_many(tmp_path, 10_000, seed)


@pytest.mark.parametrize("count", some(1, [8, 15]))
def test_every_cut_recovers_the_longest_valid_prefix(tmp_path: Path, count: int) -> None:
    """Case 57: a log of so many entries cut at each byte: what is whole stays, the rest is torn."""
    path, cut = tmp_path / "whole.jsonl", tmp_path / "cut.jsonl"
    with LogWriter.create(path, STARTED, durability="fast") as log:
        for at in range(count - 1):
            log.append(NoteAdded("n", at), f"0#{at + 1}")
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    ends = [sum(map(len, lines[:kept])) for kept in range(count + 1)]
    cut.write_bytes(whole)
    for at in range(len(whole), -1, -1):
        os.truncate(cut, at)
        entries = sum(1 for end in ends[1:] if end <= at)

        found = scan(cut)

        assert (found.entries, found.offset) == (entries, ends[entries])
        assert found.damage is None
        assert (found.torn is not None) is (at != ends[entries] or at == 0)


@for_each("where", range(0, 500, 23))
def test_a_cut_log_goes_on_where_it_was_whole(tmp_path: Path, where: int) -> None:
    """Cut somewhere in its last entries, resumed, and read to its new end."""
    path = tmp_path / "audit.jsonl"
    with LogWriter.create(path, STARTED, durability="fast") as log:
        for at in range(5):
            log.append(NoteAdded("n", at), f"0#{at + 1}")
    before = [entry.line for entry in read_entries(path)]
    os.truncate(path, path.stat().st_size - where)

    resumed = LogWriter.resume(path)
    resumed.writer.append(NoteAdded("on"))
    resumed.writer.close()

    entries = list(read_entries(path))
    assert [entry.line for entry in entries[:-1]] == before[: len(entries) - 1]
    assert entries[-1].data == {"text": "on"}


def test_an_unfinished_blob_is_not_mistaken_for_one(tmp_path: Path) -> None:
    """Killed while it wrote blobs, a process leaves whole ones under their names, or none."""
    program = f"""
import os, signal
from refold.engine.log.blobs import BlobStore
from tests.support.started import STARTED
from pathlib import Path
store = BlobStore(Path({str(tmp_path / "a.blobs")!r}), sync=False)
rename = os.rename
def die(*args, **kwargs):
    os.kill(os.getpid(), signal.SIGKILL)
store.put(b"whole")
os.rename = die
store.put(b"half")
"""
    done = subprocess.run([sys.executable, "-c", program], check=False)
    names = [p.name for p in (tmp_path / "a.blobs").rglob("*") if p.is_file()]

    assert done.returncode == -signal.SIGKILL
    assert len([name for name in names if not name.startswith(".")]) == 1
    assert len(names) == 2
