"""The beginning of a log copied into a new chain; rules are CONTRACT.md §12.11."""

from pathlib import Path
from typing import Any

from refold.engine.events.events import (
    Extension,
    RunFinished,
    RunStarted,
)
from refold.engine.log.reader import read_entries
from refold.engine.log.writer import LogWriter
from refold.engine.recording.ledger import Ledger
from refold.engine.runners.recording import record
from refold.replay.audit.refolding import refold_log
from refold.replay.audit.verify import verify
from refold.replay.resume.fork import Transplant, cuts
from tests.support.forks import TOOLS, model, report
from tests.support.loops import for_each


def test_a_whole_copy_is_the_same_but_for_its_chain(tmp_path: Path) -> None:
    """Data, calls and causes; digests hold, children are bound to the copy, no hash is shared."""
    origin = record(report, None, log=tmp_path / "a.jsonl", tools=TOOLS, model=model()).log

    ref = Transplant(origin, tmp_path / "b.jsonl", None).copy()

    old, new = list(read_entries(origin)), list(read_entries(tmp_path / "b.jsonl"))
    assert [(one.kind, one.call, one.cause) for one in old] == [
        (one.kind, one.call, one.cause) for one in new
    ]
    assert not {one.hash for one in old} & {one.hash for one in new}
    assert old[-1].data["data_digest"] == new[-1].data["data_digest"]
    assert (ref.head, ref.events) == (new[-1].hash, len(new))
    verified = verify(tmp_path / "b.jsonl")
    assert verified.intact, verified
    assert verified.complete, verified
    assert refold_log(tmp_path / "b.jsonl").agrees is True


def test_entries_of_others_count_in_the_copy_as_in_the_original(tmp_path: Path) -> None:
    """A third party's kind is digested like any, and the copy verifies as the original does."""
    origin, into = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    started = next(iter(read_entries(record(report, None, tools=TOOLS, model=model()).log))).event
    assert isinstance(started, RunStarted)
    ledger = Ledger.begun(LogWriter.create(origin, started), started)
    ledger.append(Extension("x-acme.note", {"said": "hello"}), None, 0)
    ledger.seal(RunFinished(status="completed", reason="done"), {})
    ledger.close()
    assert verify(origin).intact

    Transplant(origin, into, None).copy()

    assert verify(into).intact, verify(into)


@for_each("keep", [1, 5, 10])
def test_a_beginning_is_cut_at_its_entry(tmp_path: Path, keep: int) -> None:
    """It is intact, and not complete."""
    origin = record(report, None, log=tmp_path / "a.jsonl", tools=TOOLS, model=model()).log
    into = tmp_path / "b.jsonl"

    Transplant(origin, into, None, {origin: keep}, {}, {"at": keep}).copy()

    assert len(list(read_entries(into))) == keep
    assert verify(into).intact
    assert not verify(into).complete
    assert next(iter(read_entries(into))).data["origin"] == {"at": keep}


def test_a_child_that_is_to_go_on_is_copied_to_where_it_stands(tmp_path: Path) -> None:
    """As the runs above it, whose logs are cut before they join it."""
    origin = record(report, None, log=tmp_path / "a.jsonl", tools=TOOLS, model=model()).log
    kept = cuts(tmp_path / "a.1.1.jsonl", 2)

    Transplant(origin, tmp_path / "b.jsonl", None, kept, {}, {"at": 2}).copy()

    for old, count in kept.items():
        copy = list(read_entries(old.with_name(old.name.replace("a", "b", 1))))
        assert [one.kind for one in copy] == [one.kind for one in read_entries(old)][:count]
    assert verify(tmp_path / "b.jsonl").intact


def test_long_texts_are_copied_too(tmp_path: Path) -> None:
    """Into the blobs of the new tree."""

    async def notes(run: Any, _: Any) -> None:
        run.annotate("long", "x" * 100_000)

    origin = record(notes, None, log=tmp_path / "a.jsonl").log

    Transplant(origin, tmp_path / "b.jsonl", None).copy()

    (note,) = [
        entry for entry in read_entries(tmp_path / "b.jsonl", resolve=True)
        if entry.kind == "note.added"
    ]  # fmt: skip
    assert note.data["data"] == "x" * 100_000
    assert (tmp_path / "b.blobs").is_dir()
