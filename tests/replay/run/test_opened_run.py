"""One model of a run, for both kinds of log and for one that grows (CONTRACT.md §13.9, §16.5)."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from hypothesis import given
from hypothesis import strategies as st

from refold.engine.log.names import tree
from refold.replay.run.opened_run import OpenedRun
from tests.support.fixtures import LOGS

_NAMES: Final = ("delegating", "everything", "timing", "watched")
_KEPT: Final = [LOGS / f"{name}.jsonl" for name in _NAMES]


def _told(run: OpenedRun) -> list[Any]:
    """Return all that a run says of itself and its agents, as plain data."""
    names = ("title", "standing", "question", "folder", "forked", "totals")
    agents = [
        (each.key, each.parent, each.task_text, each.answered, each.interval, each.node.as_json())
        for each in run.agents
    ]
    turns = [[turn.as_json() for turn in each.turns] for each in run.agents]
    return [run.main.key, *(getattr(run, name) for name in names), agents, turns]


@given(
    log=st.sampled_from(_KEPT),
    cuts=st.lists(st.lists(st.integers(0, 1_000), min_size=3, max_size=3), max_size=3),
)
def test_a_run_that_grows_is_read_as_if_it_had_been_read_once(
    log: Path, cuts: list[list[int]]
) -> None:
    """Its logs grow by any number of bytes at a time, and each by its own."""
    with TemporaryDirectory() as folder:
        copies = {path: Path(folder, path.name) for path in tree(log)}
        first = log.read_bytes().index(b"\n") + 1
        copies[log].write_bytes(log.read_bytes()[:first])
        growing = OpenedRun(copies[log])
        for parts in [*sorted(cuts), [1_000] * 3]:
            for (path, copy), part in zip(copies.items(), parts, strict=False):
                known = copy.read_bytes() if copy.exists() else b""
                size = path.stat().st_size * part // 1_000
                copy.write_bytes(path.read_bytes()[: max(len(known), size)])
            growing.read()

            whole = OpenedRun(copies[log])
            assert _told(growing) == _told(whole)
            assert growing.tree == whole.tree
            assert growing.unsettled == whole.unsettled
            assert growing.totals == whole.totals
