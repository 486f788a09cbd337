"""The law of the engine: what was recorded is re-executed identically.

Random program trees (`tests/support/trees.py`), tools of random latency, every kind of waiting that
asyncio has.  A tree is recorded once, under whatever interleaving the latencies give, and then
re-executed from its log alone: here, in a process with another hash seed, under another Python.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import pytest

from refold.engine.ports.clock import FixedClock
from refold.engine.runners.recorded import Recording
from refold.engine.runners.recording import record
from refold.replay.reexecute.reexecute import reexecute
from tests.support import reexecute_logs
from tests.support.loops import some
from tests.support.trees import Latency, Node, random_tree, tools_with, tree_program

CASES: Final = 1_000
CHUNK: Final = 25
LONG_CASES: Final = 11_000


def record_tree(folder: Path, seed: int, tree: Node, *, most: float = 0.001) -> Recording:
    """Record a tree under latencies that its seed, and the machine, decide."""
    return record(
        tree_program,
        tree,
        log=folder / f"tree-{seed}.jsonl",
        tools=tools_with(Latency(seed * 7 + 1, most)),
        seed=seed,
        durability="fast",
    )


def check(folder: Path, seed: int, tree: Node) -> None:
    """Record and re-execute one tree; what a failing case prints is enough to run it again."""
    recording = record_tree(folder, seed, tree)
    if not recording.ok:  # a tree may really wait for ever, or let its own cancelling escape
        assert recording.error is not None
        assert recording.error.code in ("stuck", "cancelled"), (seed, recording.error)
    report = reexecute(recording.log, tree_program)
    assert report.identical, f"seed {seed}, tree {tree}\n{report}"
    assert report.entries >= recording.entries


@pytest.mark.parametrize("first", some(1, range(0, CASES, CHUNK)))
def test_a_recorded_tree_is_reexecuted_identically(tmp_path: Path, first: int) -> None:
    """Case 45: whatever the tree and the interleaving, every line and the output are the same."""
    for seed in range(first, first + CHUNK):
        check(tmp_path, seed, random_tree(seed))


@pytest.mark.parametrize("first", some(1, range(100_000, 100_060, 20)))
def test_trees_of_child_runs_too(tmp_path: Path, first: int) -> None:
    """Children are re-executed against their own logs, and those match as well."""
    for seed in range(first, first + 20):
        check(tmp_path, seed, random_tree(seed, size=20, children=True))


@pytest.mark.long
@pytest.mark.parametrize("first", range(1_000_000, 1_000_000 + LONG_CASES, CHUNK))
def test_larger_trees_are_reexecuted_identically(tmp_path: Path, first: int) -> None:
    """Case 45: the same over five times as many trees, four times as wide, with children."""
    for seed in range(first, first + CHUNK):
        inner = [random_tree(seed * 4 + at, size=15, children=at == 0) for at in range(4)]
        check(tmp_path, seed, ["gather", 0, inner])


@pytest.mark.long
def test_latencies_do_not_matter_to_the_data_digest(tmp_path: Path) -> None:
    """Twenty runs with random latencies, one seed and a fixed clock: one data digest.

    Only where no latency decides: what wins a race, or times out, is another run.
    """
    work = ["work", 3]
    branch = ["sequence", 0, [work, ["values", 1], ["twice", 2], ["fails", 4]]]
    nested = [
        "group",
        0,
        [branch, ["lock", 0, [work, branch]], ["queue", 0, [work, ["child", 0, [branch]]]]],
    ]
    digests = set()
    for at in range(20):
        recording = record(
            tree_program,
            ["gather", 0, [branch, nested, ["set", 0, [branch, work]]]],
            log=tmp_path / f"digest-{at}.jsonl",
            tools=tools_with(Latency(at, 0.003)),
            seed="one",
            clock=FixedClock(),
            durability="fast",
        )
        assert recording.ok
        digests.add(recording.data_digest)

    assert len(digests) == 1


def replayed_elsewhere(python: str, logs: Iterable[Path], **environment: str) -> list[str | None]:
    """Re-execute logs in another process; return each one's divergence."""
    done = subprocess.run(
        [python, reexecute_logs.__file__, *map(str, logs)],
        env={**os.environ, **environment},
        capture_output=True,
        check=True,
        text=True,
    )
    found: list[str | None] = json.loads(done.stdout)
    return found


def recorded_trees(folder: Path, first: int, count: int, **options: Any) -> list[Path]:
    """Return the logs of `count` recorded trees."""
    return [
        record_tree(folder, seed, random_tree(seed, size=20, **options)).log
        for seed in range(first, first + count)
    ]


@pytest.mark.long
@pytest.mark.parametrize("hash_seed", some(1, ["4242", "0", "1"]))
def test_another_process_with_another_hash_seed(tmp_path: Path, hash_seed: str) -> None:
    """Case 47: nothing hangs on addresses or hashes of this process, not even sets of tasks."""
    logs = recorded_trees(tmp_path, 200_000 + int(hash_seed), 40)

    found = replayed_elsewhere(sys.executable, logs, PYTHONHASHSEED=hash_seed)

    assert found == [None] * 40


def other_pythons() -> list[str]:
    """Return interpreters of other versions that have Refold: on the path, or in REFOLD_PYTHONS."""
    names = [shutil.which(f"python3.{minor}") or "" for minor in (11, 12, 13, 14)]
    given = os.environ.get("REFOLD_PYTHONS", "").split(os.pathsep)
    ours = f"{sys.version_info.major}.{sys.version_info.minor}"
    return [
        name for name in (*given, *names) if name and _version_with_refold(name) not in ("", ours)
    ]


def _version_with_refold(python: str) -> str:
    code = "import sys, refold; print('%d.%d' % sys.version_info[:2])"
    done = subprocess.run([python, "-c", code], capture_output=True, check=False, text=True)
    return done.stdout.strip()


@pytest.mark.long
def test_another_version_of_python(tmp_path: Path) -> None:
    """A log is re-executed under another Python; what its asyncio does otherwise is `environment`.

    The order of lines within a step is asyncio's own there; nine trees of ten are the same.
    """
    pythons = other_pythons()
    if not pythons:
        pytest.skip("no other Python with Refold: name some in REFOLD_PYTHONS")
    logs = recorded_trees(tmp_path, 300_000, 100)
    for python in pythons:
        found = [text for text in replayed_elsewhere(python, logs) if text is not None]

        assert len(found) <= 10, found[:3]
        assert all(text.startswith("environment:") for text in found), found[:3]
