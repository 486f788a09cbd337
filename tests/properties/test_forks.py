"""Laws of forks and of live runs, over random program trees.

A fork at any entry that changes nothing does what its origin did; a run whose tools are live and
answer as they did drifts nowhere, however long they take.
"""

import random
from pathlib import Path
from typing import Any, Final

import pytest

from refold import drift, fork
from refold.engine.log.names import tree
from refold.engine.runners.recorded import Recording
from refold.engine.runners.recording import record
from refold.replay.audit.verify import verify
from refold.replay.partial.sources import Sources
from refold.replay.reexecute.reexecute import reexecute
from tests.support.trees import Latency, Node, random_tree, tools_with, tree_program

CHUNK: Final = 20
LONG_CASES: Final = 1_500
LIVE: Final = Sources(model="live", tools="live", children="live", may_change=True)


def _recorded(folder: Path, seed: int) -> tuple[Node, Recording]:
    node = random_tree(seed, size=14, children=seed % 3 == 0)
    log = folder / f"tree-{seed}x.jsonl"
    tools = tools_with(Latency(seed))
    return node, record(tree_program, node, log=log, tools=tools, durability="fast", seed=seed)


def _check_fork(origin: Recording, at: int, into: Path, sources: Sources | None, note: Any) -> None:
    tools = tools_with(Latency(at, 0.0))
    forked = fork(origin.log, at, tree_program, into=into, sources=sources, tools=tools)

    assert forked.recording is not None, (note, forked)
    assert forked.recording.output == origin.output, (note, forked)
    verified = verify(into)
    assert verified.intact, (note, verified)
    assert verified.complete, (note, verified)
    report = reexecute(into, tree_program)
    assert report.identical, (note, report)
    for path in tree(into):
        path.unlink()


def _check(folder: Path, seed: int) -> None:
    node, origin = _recorded(folder, seed)
    if not origin.ok:
        return  # a tree may really wait for ever, or let its own cancelling escape
    for at in random.Random(seed).sample(range(origin.entries), 2):
        for name, sources in (("recorded", None), ("live", LIVE)):
            into = folder / f"fork-{seed}-{at}-{name}.jsonl"
            _check_fork(origin, at, into, sources, (seed, at, name, node))
    tools = tools_with(Latency(seed + 1, 0.0))
    found = drift(origin.log, tree_program, sources=LIVE, tools=tools)
    assert found.identical, (seed, node, str(found))


@pytest.mark.parametrize("first", [0, pytest.param(CHUNK, marks=pytest.mark.long)])
def test_forks_and_live_runs_do_what_was_recorded(tmp_path: Path, first: int) -> None:
    """At two entries of each tree, from the record and live; and live from the beginning."""
    for seed in range(first, first + CHUNK):
        _check(tmp_path, seed)


@pytest.mark.long
@pytest.mark.parametrize("first", range(10_000, 10_000 + LONG_CASES, CHUNK))
def test_more_forks_do_too(tmp_path: Path, first: int) -> None:
    """The same over seventy-five times as many trees."""
    for seed in range(first, first + CHUNK):
        _check(tmp_path, seed)
