"""Blobs that are named and not there (CONTRACT.md §3.6)."""

from pathlib import Path

import pytest

from refold.engine.errors import LogMissing
from refold.engine.events.events import NoteAdded, RunStarted
from refold.engine.log.beside import blob_gaps, named_blobs
from refold.engine.log.line import LINE_MAX
from refold.engine.log.writer import LogWriter


@pytest.fixture
def path(tmp_path: Path, started: RunStarted) -> Path:
    """A log whose second line names two blobs, and whose third only looks as if."""
    made = tmp_path / "audit.jsonl"
    with LogWriter.create(made, started) as log:
        log.append(NoteAdded("x" * 40_000, ["y" * 50_000]))
        log.append(NoteAdded("n", {"$blob": "0" * 64, "bytes": 3}))
    return made


def test_each_blob_is_told_with_its_line(path: Path) -> None:
    """What a user wrote in the form of a marker is none."""
    found = list(named_blobs(path))

    assert [(line, size) for line, _, _, size in found] == [(2, 40_000), (2, 50_000)]
    assert found[0][1] == len(path.read_bytes().splitlines(keepends=True)[0])


def test_the_longest_line_that_a_log_may_have_is_looked_at(path: Path) -> None:
    """One byte more is no line of a log."""
    found = [name for _, _, name, _ in named_blobs(path)]
    first, second, *_ = path.read_bytes().splitlines(keepends=True)
    for size, most in ((LINE_MAX, 2), (LINE_MAX + 1, 0)):
        path.write_bytes(first + second[:-1].ljust(size - 1) + b"\n")

        assert [name for _, _, name, _ in named_blobs(path)] == found[:most]


def test_a_blob_that_is_gone_or_altered_is_a_gap(path: Path) -> None:
    """And a line that is no entry is passed over: damage is for others to tell."""
    assert blob_gaps(path) == []
    small, large = sorted((path.parent / "audit.blobs").glob("*/*"), key=lambda b: b.stat().st_size)
    small.unlink()
    large.write_bytes(b"z" * 50_000)
    path.write_bytes(path.read_bytes() + b'{"$": \n')

    assert [(gap.what, gap.line) for gap in blob_gaps(path)] == [
        ("blob missing", 2),
        ("blob damaged", 2),
    ]


def test_what_is_no_log_is_passed_over(path: Path) -> None:
    """A folder where a child's log would be: whoever verifies tells of it."""
    path.with_name("audit.1.jsonl").mkdir()

    assert blob_gaps(path) == []


def test_without_a_log_there_is_nothing_to_look_at(tmp_path: Path) -> None:
    """As everywhere."""
    with pytest.raises(LogMissing):
        blob_gaps(tmp_path / "none.jsonl")
