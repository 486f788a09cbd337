"""What still verifies of a damaged log, in a new one (CONTRACT.md §4.5)."""

from collections.abc import Callable
from pathlib import Path

import attrs
import pytest

from refold.engine.errors import LogDamaged, LogExists, LogMissing, LogNameRefused, UsageError
from refold.engine.events import ChildStarted, NoteAdded, RunStarted
from refold.engine.log import LogWriter, prefix_of, read_entries, salvage, scan
from refold.engine.log.line import NO_HASH, stored_hash, trailer


@pytest.fixture
def path(make_log: Callable[[int], Path]) -> Path:
    return make_log(12)


@pytest.fixture
def tree(tmp_path: Path, started: RunStarted) -> Path:
    """A root with two children and a grandchild, each with a large string; nothing is sealed."""
    root = tmp_path / "audit.jsonl"

    def write(place: Path, depth: int, children: int) -> None:
        above = {"run": "run", "call": "0#1", "hash": "0" * 64} if depth else None
        with LogWriter.create(place, attrs.evolve(started, depth=depth, parent=above)) as log:
            log.append(NoteAdded(f"{place.name[-7]}" * 40_000), "0#1")
            for number in range(1, children + 1):
                log.append(ChildStarted({}, number, f"c{number}"), f"0#{number + 1}")
            log.append(NoteAdded("last"), "0#9")

    write(root, 0, 2)
    write(tmp_path / "audit.1.jsonl", 1, 1)
    write(tmp_path / "audit.2.jsonl", 1, 0)
    write(tmp_path / "audit.1.1.jsonl", 2, 0)
    return root


def _alter(path: Path, line: int) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    lines[line - 1] = lines[line - 1].replace(b'"data"', b'"dat\x00"')
    path.write_bytes(b"".join(lines))


def test_the_longest_prefix_is_copied_byte_for_byte_and_says_so(path: Path, tmp_path: Path) -> None:
    """Hashes stay what they were; the last entry tells what the log is and what is lost."""
    whole = path.read_bytes()
    _alter(path, 8)
    damaged = path.read_bytes()

    salvaged = salvage(path, tmp_path / "new.jsonl")

    lines = (tmp_path / "new.jsonl").read_bytes().splitlines(keepends=True)
    assert b"".join(lines[:-1]) == b"".join(whole.splitlines(keepends=True)[:7])
    found = scan(tmp_path / "new.jsonl")
    assert (found.entries, found.damage, found.torn, found.sealed) == (8, None, None, False)
    assert salvaged.head == found.head
    note = list(read_entries(tmp_path / "new.jsonl"))[-1]
    assert note.kind == "x-refold.salvaged"
    assert note.data["source"] == "audit.jsonl"
    assert (note.data["entries"], note.data["damage"]["line"]) == (7, 8)
    assert note.data["lost_bytes"] == len(damaged) - sum(map(len, lines[:-1]))
    assert path.read_bytes() == damaged


def test_a_torn_tail_is_left_behind(path: Path, tmp_path: Path) -> None:
    """It is all that is lost, and the note says so."""
    with path.open("ab") as file:
        file.write(b'{"seq":12,"ki')

    salvaged = salvage(path, tmp_path / "new.jsonl")

    assert salvaged.source.entries == 12
    note = list(read_entries(tmp_path / "new.jsonl"))[-1]
    assert (note.data["damage"]["what"], note.data["lost_bytes"]) == ("torn tail", 13)


def test_children_that_the_prefix_names_come_along(tree: Path, tmp_path: Path) -> None:
    """Whole, or as far as they verify; those whose start is lost stay where they are."""
    _alter(tree, 4)  # the start of the second child
    _alter(tmp_path / "audit.1.1.jsonl", 3)

    salvaged = salvage(tree, tmp_path / "out" / "new.jsonl")

    names = sorted(each.name for each in (tmp_path / "out").glob("*.jsonl"))
    assert names == ["new.1.1.jsonl", "new.1.jsonl", "new.jsonl"]
    assert (tmp_path / "out" / "new.1.jsonl").read_bytes() == (
        tmp_path / "audit.1.jsonl"
    ).read_bytes()
    assert [child.entries for child in salvaged.children] == [4, 2]
    assert salvaged.blobs == 2  # the grandchild has the same text as its parent
    for name in names:
        assert list(read_entries(tmp_path / "out" / name, resolve=True))


def test_a_damaged_child_is_reason_enough(tree: Path, tmp_path: Path) -> None:
    """The root may be sound: the tree is not."""
    _alter(tmp_path / "audit.2.jsonl", 1)

    salvaged = salvage(tree, tmp_path / "new.jsonl")

    assert [child.entries for child in salvaged.children] == [4, 0, 3]
    assert not (tmp_path / "new.2.jsonl").exists()
    note = list(read_entries(tmp_path / "new.jsonl"))[-1].data
    assert note["damage"] is None
    assert [child["entries"] for child in note["children"]] == [4, 0, 3]


def test_an_entry_whose_large_string_is_gone_ends_the_prefix(tree: Path, tmp_path: Path) -> None:
    """What is kept verifies, with all that it names."""
    for blob in (tmp_path / "audit.blobs").glob("*/*"):
        blob.unlink()

    found = prefix_of(tree)

    assert (found.entries, found.wrong and found.wrong.what) == (1, "blob missing")
    assert salvage(tree, tmp_path / "new.jsonl").blobs == 0


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        (b'"effect":"reads"', b'"effect":"rates"', "schema"),
        (b"tool.returned", b"tool.devoured", "unknown kind"),
        (b'"tool":"search"', b'"$blob":"search"', "marker"),
    ],
)
def test_sense_counts_though_the_chain_holds(path: Path, old: bytes, new: bytes, what: str) -> None:
    """Lines of nonsense that were hashed anew are not kept either."""
    previous, out = NO_HASH, []
    for line in path.read_bytes().splitlines(keepends=True):
        body = line[: line.rindex(b',"hash":"')].replace(old, new)
        out.append(body + trailer(previous, body))
        previous = stored_hash(out[-1]) or b""
    path.write_bytes(b"".join(out))

    found = prefix_of(path)

    assert found.wrong is not None
    assert found.wrong.what == what
    assert (found.wrong.line, found.wrong.byte) == (found.entries + 1, found.offset)
    assert 0 < found.entries < 12


def test_nothing_is_made_of_nothing(path: Path, tmp_path: Path) -> None:
    """A sound log, none at all, one without a first entry, a place that is taken or no root's."""
    new = tmp_path / "new.jsonl"
    with pytest.raises(UsageError, match="nothing to salvage"):
        salvage(path, new)
    with pytest.raises(LogMissing):
        salvage(tmp_path / "none.jsonl", new)
    _alter(path, 5)
    with pytest.raises(LogNameRefused):
        salvage(path, tmp_path / "new.1.jsonl")
    with pytest.raises(LogExists):
        salvage(path, path)
    _alter(path, 1)
    with pytest.raises(LogDamaged):
        salvage(path, new)

    assert [each.name for each in tmp_path.iterdir()] == ["audit.jsonl"]
