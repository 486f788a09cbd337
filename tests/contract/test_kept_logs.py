"""Logs of released formats are read, folded and re-executed by every later version (§15.2).

`fixtures/logs/<version>/` holds what that version recorded of `tests.support.kept_programs`, some
with the Python that it ran on: what hangs on asyncio's order is to be the same on another.  No
file there is ever edited: whatever no longer passes is a break of the format, or of the kernel's
rules, and needs a version of its own.
"""

from pathlib import Path
from typing import Final

import pytest

import refold
from refold.replay.audit.refolding import refold_log
from refold.replay.tree.delegation_tree import delegation_tree
from tests.support.kept_programs import INPUTS, PROGRAMS, add, fetch
from tests.support.kept_watched import EXCHANGES
from tests.support.watched import replayed

KEPT: Final = Path(__file__).parents[2] / "fixtures" / "logs"
LOGS: Final = sorted(path for path in KEPT.glob("*/*.jsonl") if path.stem in PROGRAMS)
TREES: Final = {
    "0.1.0-aborting": "1efbff1f4095",
    "0.1.0-delegating": "0d61f803797c",
    "0.1.0-dropping": "25a3bd7a4def",
    "0.1.0-everything": "13a7234865b0",
    "0.1.0-failing": "878d08735752",
    "0.1.0-plainly": "401b516421d7",
    "0.1.0-polling": "0d9c79fbed0d",
    "0.1.0-stopping": "471d868837fe",
    "0.1.0-tagged": "ff554d062429",
    "0.1.0-python3.11-aborting": "61edfa24a762",
    "0.1.0-python3.11-dropping": "39c43a266f28",
    "0.1.0-python3.11-polling": "0179f34ce11c",
    "0.1.0-python3.13-aborting": "e6c96edb7d3c",
    "0.1.0-python3.13-dropping": "cff59ce4301a",
    "0.1.0-python3.13-polling": "598d2ed4e152",
}
"""The first digits of the tree digests that no seal says: they are computed from the logs."""
WATCHED: Final = sorted(KEPT.glob("*/watched.jsonl"))


def _name(log: Path) -> str:
    return f"{log.parent.name}-{log.stem}"


@pytest.mark.parametrize("log", LOGS, ids=_name)
def test_a_kept_log_is_whole(log: Path) -> None:
    """Case 90: bytes, schema, causes, children and blobs are as they were; so is the state."""
    report = refold.verify(log)

    assert report.intact, report
    assert report.complete, report
    assert refold_log(log).agrees is True
    assert report.tree_digest != ""
    assert report.tree_digest.startswith(TREES.get(_name(log), ""))


def _spins(log: Path) -> bool:
    return _name(log) == "0.1.0-polling"  # made without the flag `passes`


REEXECUTED: Final = [
    pytest.param(log, marks=pytest.mark.long if _spins(log) else (), id=_name(log)) for log in LOGS
]


@pytest.mark.parametrize("log", REEXECUTED)
def test_a_kept_log_is_reexecuted(log: Path) -> None:
    """Case 4: its program does the same now, under each supported version of Python."""
    report = refold.reexecute(log, PROGRAMS[log.stem], tools=[add, fetch])

    assert report.identical, report


@pytest.mark.parametrize("log", WATCHED, ids=_name)
def test_a_kept_log_of_a_watched_command_is_replayed(log: Path) -> None:
    """Its requests are matched, its tree is told, its bytes are as they were (§16.2)."""
    verified = refold.verify(log)
    asked = [one.asked for one in EXCHANGES]

    report = replayed(log, asked)

    assert verified.intact, verified
    assert verified.complete, verified
    assert refold_log(log).agrees is True
    assert report.identical, report
    assert report.served == len(asked)
    lead, *_ = delegation_tree(log).children
    assert [(child.name, child.how) for child in lead.children] == [
        ("hiker", "prompt"),
        ("cook", "prompt"),
    ]


def test_there_are_logs_of_this_version() -> None:
    """Each program once, with children, blobs and a failure among them."""
    here = KEPT / refold.__version__

    assert {log.stem for log in LOGS if log.parent == here} == set(PROGRAMS) == set(INPUTS)
    assert (here / "everything.2.jsonl").is_file()
    assert list((here / "everything.blobs").glob("??/*"))
    assert here / "watched.jsonl" in WATCHED
