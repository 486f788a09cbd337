"""A recorded program run again: what it is given, and what it may not do without (§12.10)."""

from pathlib import Path

import pytest

from refold.engine.errors import ToolNeeded
from refold.engine.log.reader import read_entries
from refold.engine.runners.recording import record
from refold.replay.index.by_call import Book
from refold.replay.partial.rerun import Again, rerun
from refold.replay.partial.sources import Sources
from tests.support.forks import TOOLS, model, report


def again(sources: Sources, *, passed: bool = True) -> Again:
    """Return what is needed to run `report` again."""
    tools = {tool.name: tool for tool in TOOLS} if passed else {}
    return Again(program=report, tools=tools, models={"": model()}, session=None, sources=sources)


def test_a_run_with_everything_recorded_comes_out_line_by_line(tmp_path: Path) -> None:
    """The same kinds, calls and data in the same order, children's outcomes included."""
    origin = record(report, None, log=tmp_path / "a.jsonl", tools=TOOLS, model=model())

    recording, supply = rerun(Book(origin.log), again(Sources()), tmp_path / "b.jsonl")

    assert recording is not None
    assert recording.data_digest == origin.data_digest
    assert not supply.live
    kinds = [(entry.kind, entry.call) for entry in read_entries(origin.log)]
    assert [(entry.kind, entry.call) for entry in read_entries(tmp_path / "b.jsonl")] == kinds


def test_live_outcomes_are_delivered_in_recorded_order(tmp_path: Path) -> None:
    """However long each takes now."""
    origin = record(report, None, log=tmp_path / "a.jsonl", tools=TOOLS, model=model())

    for number in range(10):
        log = tmp_path / f"b{number}x.jsonl"
        _, supply = rerun(Book(origin.log), again(Sources(tools="live")), log)
        assert len(supply.live) == 2
        order = [entry.call for entry in read_entries(origin.log)]
        assert [entry.call for entry in read_entries(log)] == order


def test_tools_that_are_to_run_live_have_to_be_passed(tmp_path: Path) -> None:
    """Before anything is run; those that may not run are not needed."""
    origin = record(report, None, log=tmp_path / "a.jsonl", tools=TOOLS, model=model())
    book = Book(origin.log)

    with pytest.raises(ToolNeeded, match="get"):
        rerun(book, again(Sources(tools="live"), passed=False), tmp_path / "b.jsonl")
    may = Sources(tools="live", may_change=True)
    with pytest.raises(ToolNeeded, match=r"tools=\[get, put\]"):
        rerun(book, again(may, passed=False), tmp_path / "b.jsonl")
    assert not (tmp_path / "b.jsonl").exists()
    sources = Sources(tool={"put": "live"})
    assert rerun(book, again(sources, passed=False), tmp_path / "c.jsonl")[0] is not None
