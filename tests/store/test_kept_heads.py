"""A file of heads (CONTRACT.md §5.6)."""

from pathlib import Path

import pytest

from refold.engine.errors import LogMissing, UsageError
from refold.store.kept_heads import HeadsFile, KeptHead

_HEADS = [
    KeptHead(name, "run", 3, f"{number:064x}")
    for number, name in enumerate(["a.jsonl", "b/a.jsonl", "b/c.jsonl"])
]


@pytest.fixture
def kept(tmp_path: Path) -> HeadsFile:
    (tmp_path / "heads.txt").write_bytes(b"".join(each.encoded() for each in _HEADS))
    return HeadsFile(tmp_path / "heads.txt")


def test_a_log_is_found_by_its_place_below_a_folder(kept: HeadsFile) -> None:
    assert kept.head(Path("runs/a.jsonl"), Path("runs")) == _HEADS[0].head
    assert kept.head(Path("runs/b/a.jsonl"), Path("runs")) == _HEADS[1].head
    with pytest.raises(LogMissing, match="does not contain its head"):
        kept.head(Path("runs/b/b.jsonl"), Path("runs"))


def test_a_log_alone_is_found_by_its_name_if_that_is_clear(kept: HeadsFile) -> None:
    assert kept.head(Path("elsewhere/c.jsonl"), None) == _HEADS[2].head
    with pytest.raises(UsageError, match="2 logs named"):
        kept.head(Path("a.jsonl"), None)
    with pytest.raises(LogMissing):
        kept.head(Path("d.jsonl"), None)


def test_every_log_of_the_list_is_looked_for(kept: HeadsFile) -> None:
    assert [*kept.logs(Path("runs"))] == [Path("runs") / each.log for each in _HEADS]


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        HeadsFile(tmp_path / "none")
