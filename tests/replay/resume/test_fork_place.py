"""Where a fork leaves its origin; rules are CONTRACT.md §12.11."""

from pathlib import Path
from typing import Any

import pytest

import refold
from refold.engine.encoding.canonical import Json
from refold.engine.errors import AnswerRefused, EntryMissing
from refold.engine.log.reader import read_entries
from refold.engine.runners.recording import record
from refold.replay.resume.fork import cuts, edits_in, fork_entry
from tests.support.forks import TOOLS, model, report


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A run with a child and a grandchild."""
    return record(report, None, log=tmp_path / "a.jsonl", tools=TOOLS, model=model()).log


def test_an_entry_is_named_from_either_end(log: Path) -> None:
    """0 is the first, -1 the last."""
    entries = list(read_entries(log))

    assert fork_entry(log, 0, ())[1].hash == entries[0].hash
    assert fork_entry(log, -1, ())[1].hash == entries[-1].hash
    assert fork_entry(log, -len(entries), ())[1].hash == entries[0].hash


def test_without_a_number_it_is_where_the_first_edited_outcome_stands(log: Path) -> None:
    """In the run whose call it is."""
    path, entry = fork_entry(log, None, edits_in(log, {"0#3": 1, "0#1": "x"}, {}).values())
    below, inner = fork_entry(log, None, edits_in(log, {"0#2 > 0#2 > 0#1": 1}, {}).values())

    assert (path, entry.kind, entry.call) == (log, "model.answered", "0#1")
    assert (below.name, inner.kind) == ("a.1.1.jsonl", "tool.returned")


def test_an_edit_in_a_child_of_a_run_that_broke_off(log: Path) -> None:
    """Its key is found as in any run."""
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:-1]))

    assert (
        fork_entry(log, None, edits_in(log, {"0#2 > 0#2 > 0#1": 1}, {}).values())[0].name
        == "a.1.1.jsonl"
    )


def test_edits_in_several_runs_are_cut_in_the_run_that_has_them_all(log: Path) -> None:
    """At the first of them; one in a child counts as the start of the child."""
    places = {
        ("0#3", "0#2 > 0#1"): ("a.jsonl", "child.started", "0#2"),
        ("0#1", "0#2 > 0#2 > 0#1"): ("a.jsonl", "model.answered", "0#1"),
        ("0#2 > 0#1", "0#2 > 0#2 > 0#1"): ("a.1.jsonl", "tool.returned", "0#1"),
    }
    for keys, place in places.items():
        edits: dict[str, Json] = dict.fromkeys(keys, "x")
        path, entry = fork_entry(log, None, edits_in(log, edits, {}).values())

        assert (path.name, entry.kind, entry.call) == place


@pytest.mark.parametrize("at", [100, -100, 10**30, -(10**30)])
def test_an_entry_that_is_not_there(log: Path, at: int) -> None:
    """Is said, with how many there are."""
    with pytest.raises(EntryMissing):
        fork_entry(log, at, ())


def test_what_stands_above_is_kept_up_to_its_join(log: Path) -> None:
    """Each log above is cut before it joins the one below."""
    inner = log.with_name("a.1.1.jsonl")

    found = cuts(inner, 2)

    joined = {
        path: next(entry.seq for entry in read_entries(path) if entry.kind == "child.finished")
        for path in (log, log.with_name("a.1.jsonl"))
    }
    assert found == {inner: 2, **joined}


def test_a_result_has_to_fit_the_return_type_of_its_tool(log: Path) -> None:
    """Where the tool is given."""
    tools = {each.name: each for each in TOOLS}

    assert edits_in(log, {"0/1#1": "x"}, {})
    assert edits_in(log, {"0/1#1": {"error": {"message": "gone"}}}, tools)
    with pytest.raises(AnswerRefused, match="the return type of get"):
        edits_in(log, {"0/1#1": "x"}, tools)


@refold.tool(effect="reads")
def size(path: str) -> int:
    """Measure a file."""
    return len(path)


async def measures(run: refold.Run, _given: Any) -> int:
    return 2 * await run.tool(size, path="a.txt")


def test_a_result_of_a_tool_that_the_program_calls_itself_has_to_fit(tmp_path: Path) -> None:
    log = refold.record(measures, None, log=tmp_path / "a.jsonl").log

    with pytest.raises(AnswerRefused, match="the return type of size"):
        refold.fork(log, program=measures, into=tmp_path / "b.jsonl", edits={"0#1": "x"})
    forked = refold.fork(log, program=measures, into=tmp_path / "b.jsonl", edits={"0#1": 4})
    assert forked.recording is not None
    assert forked.recording.output == 8


def test_an_answer_has_to_fit_the_schema_of_its_question(tmp_path: Path) -> None:
    """As `resume --answer` asks for."""

    async def asks(run: refold.Run, _given: Any) -> str:
        return str(await run.ask("Who?", {"type": "string"}))

    log = refold.record(asks, None, log=tmp_path / "a.jsonl", ask=lambda _: "Ada").log

    with pytest.raises(AnswerRefused, match="0#1"):
        refold.fork(log, program=asks, into=tmp_path / "b.jsonl", edits={"0#1": 7})
    assert not (tmp_path / "b.jsonl").exists()
    forked = refold.fork(log, program=asks, into=tmp_path / "b.jsonl", edits={"0#1": "Eve"})
    assert forked.recording is not None
    assert forked.recording.output == "Eve"
