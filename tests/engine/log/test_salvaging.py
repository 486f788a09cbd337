"""What still verifies of a damaged log, in a new one (CONTRACT.md §4.5)."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest

from refold.engine.errors import LogDamaged, LogExists, LogMissing, LogNameRefused, UsageError
from refold.engine.events.events import ChildFinished, ChildStarted, NoteAdded, RunStarted
from refold.engine.events.outcome import ChildRef, Outcome
from refold.engine.log.damage import TORN_TAIL
from refold.engine.log.line import NO_HASH, stored_hash, trailer
from refold.engine.log.reader import read_entries, scan
from refold.engine.log.salvaging import prefix_of, salvage
from refold.engine.log.writer import LogWriter
from tests.support.loops import some, table


@pytest.fixture
def path(make_log: Callable[[int], Path]) -> Path:
    return make_log(12)


@pytest.fixture
def tree(tmp_path: Path, started: RunStarted) -> Path:
    """A root with two children and a grandchild, each with a large string; nothing is sealed."""

    def write(place: Path, children: int, above: str = "") -> list[str]:
        """Write a log, and return the hashes of its starts."""
        depth = place.name.count(".") - 1
        parent = {"run": "run", "call": "0#1", "hash": above} if above else None
        with LogWriter.create(place, attrs.evolve(started, depth=depth, parent=parent)) as log:
            log.append(NoteAdded(f"{place.name[-7]}" * 40_000), "0#1")
            starts = []
            for number in range(1, children + 1):
                log.append(ChildStarted({}, number, f"c{number}"), f"0#{number + 1}")
                starts.append(log.head)
            log.append(NoteAdded("last"), "0#9")
        return starts

    first, second = write(tmp_path / "audit.jsonl", 2)
    (below,) = write(tmp_path / "audit.1.jsonl", 1, first)
    write(tmp_path / "audit.2.jsonl", 0, second)
    write(tmp_path / "audit.1.1.jsonl", 0, below)
    return tmp_path / "audit.jsonl"


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
    assert (tmp_path / "new.jsonl").stat().st_mode & 0o777 == 0o600


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
    assert [child["entries"] for child in note["children"]] == [0, 4, 3]  # the damaged first


def test_an_empty_child_is_no_other_child(tree: Path, tmp_path: Path) -> None:
    """It was killed before its first line: nothing is said of whose it is."""
    (tmp_path / "audit.2.jsonl").write_bytes(b"")

    salvaged = salvage(tree, tmp_path / "new.jsonl")

    (wrong,) = [child.wrong for child in salvaged.children if not child.entries]
    assert wrong is None or wrong.what == TORN_TAIL


def test_an_entry_whose_large_string_is_gone_ends_the_prefix(tree: Path, tmp_path: Path) -> None:
    """What is kept verifies, with all that it names."""
    for blob in (tmp_path / "audit.blobs").glob("*/*"):
        blob.unlink()

    found = prefix_of(tree)

    assert (found.entries, found.wrong and found.wrong.what) == (1, "blob missing")
    assert salvage(tree, tmp_path / "new.jsonl").blobs == 0


@pytest.mark.parametrize(
    ("old", "new", "what"),
    table("""
        "effect":"reads"  "effect":"rates"  schema
        tool.returned     tool.devoured     unknown kind
        "tool":"search"   "$blob":"search"  marker
        "call":"          "x":1,"call":"    no entry
    """),
)
def test_sense_counts_though_the_chain_holds(path: Path, old: str, new: str, what: str) -> None:
    """Lines of nonsense that were hashed anew are not kept either."""
    previous, out = NO_HASH, []
    for line in path.read_bytes().splitlines(keepends=True):
        body = line[: line.rindex(b',"hash":"')].replace(old.encode(), new.encode())
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
    new.symlink_to(tmp_path / "nowhere.jsonl")
    with pytest.raises(LogExists):
        salvage(path, new)
    new.unlink()
    _alter(path, 1)
    with pytest.raises(LogDamaged):
        salvage(path, new)

    assert [each.name for each in tmp_path.iterdir()] == ["audit.jsonl"]


def test_a_log_that_answers_another_start_is_not_copied(tree: Path, tmp_path: Path) -> None:
    """It would make the new tree one that is not intact; nor do those below it come along."""
    _alter(tree, 5)
    one, other = tmp_path / "audit.1.jsonl", tmp_path / "audit.2.jsonl"
    first, second = one.read_bytes(), other.read_bytes()
    one.write_bytes(second)
    other.write_bytes(first)

    salvaged = salvage(tree, tmp_path / "new.jsonl")

    whats = [child.wrong and child.wrong.what for child in salvaged.children]
    assert whats == ["another child: parent", "another child: parent"]
    expected, found = zip(
        *((child.wrong.expected, child.wrong.found) for child in salvaged.children if child.wrong),
        strict=True,
    )
    assert expected == found[::-1], "each answers the start of the other"
    assert {each.name for each in tmp_path.glob("new.*")} == {"new.jsonl", "new.blobs"}


def test_nor_is_one_of_a_newer_version(tree: Path, tmp_path: Path) -> None:
    """Its rules are not known; the salvage says which it would have to know."""
    place = tmp_path / "audit.2.jsonl"
    line = place.read_bytes().splitlines()[0].replace(b'"format":1', b'"format":2')
    line = line[: line.rindex(b',"hash":"')]
    place.write_bytes(line + trailer(NO_HASH, line))

    first, second, below = salvage(tree, tmp_path / "new.jsonl").children

    assert (first.wrong, below.wrong) == (None, None)
    assert second.wrong is not None
    assert (second.wrong.path, second.wrong.what) == (str(place), "newer format")
    assert second.wrong.found == "format 2"
    assert not (tmp_path / "new.2.jsonl").exists()


@pytest.mark.parametrize("is_same", [True, False])
def test_nor_is_one_that_ended_otherwise(
    tmp_path: Path,
    started: RunStarted,
    is_same: bool,  # noqa: FBT001 - a table
) -> None:
    """Its parent has the head that it had when it was joined; lines after it are its own affair."""
    root, place = tmp_path / "audit.jsonl", tmp_path / "audit.1.jsonl"
    with LogWriter.create(root, started) as log:
        log.append(ChildStarted({}, 1, "c1"), "0#1")
        parent = {"run": "run", "call": "0#1", "hash": log.head}
        with LogWriter.create(place, attrs.evolve(started, depth=1, parent=parent)) as child:
            child.append(NoteAdded("last"), "0#1")
        head = child.head if is_same else "0" * 64
        outcome = Outcome(status="completed", child=ChildRef(run="c1", head=head, events=2))
        log.append(ChildFinished(outcome), "0#1", 1)
        log.append(NoteAdded("last"), "0#2")
    _alter(root, 4)

    (found,) = salvage(root, tmp_path / "new.jsonl").children

    assert (found.wrong is None) is is_same
    assert found.wrong is None or found.wrong.what == "another end"
    assert (tmp_path / "new.1.jsonl").exists() is is_same


def test_who_interrupts_it_finds_nothing_left(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And is not told of anything else."""
    _alter(tree, 5)
    before = sorted(tmp_path.rglob("*"))

    def interrupted(_descriptor: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    monkeypatch.setattr(os, "fdatasync", interrupted, raising=False)
    with pytest.raises(KeyboardInterrupt):
        salvage(tree, tmp_path / "new.jsonl")

    assert sorted(tmp_path.rglob("*")) == before


SMALL = """
import resource, sys
from refold.engine.log.salvaging import salvage
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]), resource.RLIM_INFINITY))
try:
    salvage(sys.argv[1], sys.argv[2])
except Exception as error:
    sys.stdout.write(f"{type(error).__name__} {error}")
"""


@pytest.mark.parametrize("room", some(2, [0, 1, 700, 1_400, 50_000]))
def test_on_a_full_disk_nothing_is_left_behind(tree: Path, tmp_path: Path, room: int) -> None:
    """Half a salvaged log would not say that it is one; the file that has no room is named."""
    _alter(tree, 5)
    before = sorted(tmp_path.rglob("*"))
    new = tmp_path / "new.jsonl"

    said = subprocess.run(
        [sys.executable, "-c", SMALL, str(tree), str(new), str(room)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout

    if new.exists():
        assert list(read_entries(new))[-1].kind == "x-refold.salvaged"
    else:
        assert str(new) in said
        assert sorted(tmp_path.rglob("*")) == before
