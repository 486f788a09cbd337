"""Recordings of tests: their names, and how one takes another's place (CONTRACT.md §13.12)."""

import errno
import fcntl
import itertools
import os
from pathlib import Path

import pytest

import refold
from refold.engine.errors import LogDamaged, LogNameRefused, UsageError
from refold.engine.log.names import blobs_of
from refold.replay.index.run_end import recording_of_log
from refold.replay.testing.recordings import (
    Place,
    failed_beside,
    fresh_beside,
    move_over,
    remove,
    stem_of,
)
from tests.support.delegating import child, planned, recorded
from tests.support.loops import for_each

LONG = "x" * 40_000
"""A text that is kept as a blob."""


# --- names -----------------------------------------------------------------------------------


def test_a_test_and_its_case_are_a_file_name() -> None:
    """Readable where it can be."""
    assert stem_of("test_a") == "test_a"
    assert stem_of("TestA.test_b", "one-2.5") == "TestA.test_b[one-2.5]"


def test_no_two_tests_share_a_file_name() -> None:
    """Whatever their ids hold; and the same test has always the same."""
    cases = ["a", "a/b", "a_b", "a:b", "a b", "a\\b", "", "é", "a_b~c14cddc0"]
    cases += ["y" * length for length in (100, 101, 300)]
    tests = ["test_a", "test_é", "TestA.test_a", "test_" + "a" * 120, "test_" + "a" * 121]

    stems = [stem_of(test, case) for test, case in itertools.product(tests, [None, *cases])]

    assert len(set(stems)) == len(stems)
    assert stem_of("test_a", "a/b") == "test_a[a_b~c14cddc0]"


@for_each("case", ["a/b", "../../x", "x.1", "\x00", "é" * 300, "a\nb", "x" * 99])
def test_a_name_can_be_that_of_a_root(case: str, tmp_path: Path) -> None:
    """No folder, no control character, not too long, and no number that says whose child it is."""
    for test in ("test_a", "test_" + "b" * 95):
        log = Place(tmp_path, f"{stem_of(test, case)}.command").log(20)

        assert log.parent == tmp_path
        assert recorded(fresh_beside(log), [("return", 1)]).ok


def test_runs_of_a_test_are_told_apart(tmp_path: Path) -> None:
    """By number from the second on, or by a name that is none."""
    place = Place(tmp_path, "test_a")

    assert place.log(1).name == "test_a.jsonl"
    assert place.log(3).name == "test_a-3.jsonl"
    assert place.log(1, "second").name == "test_a-second.jsonl"
    for name in ("", "2", "a-b", "a.b", "../a"):
        with pytest.raises(UsageError, match="not starting with a digit"):
            place.log(1, name)


def test_what_was_recorded_of_a_test_is_found_and_nothing_else(tmp_path: Path) -> None:
    """Not its children, nor what another test, or a run that broke off, left."""
    own = ["test_a-2.jsonl", "test_a-again.jsonl", "test_a.jsonl"]
    others = ["test_a.1.jsonl", "test_ab.jsonl", "test_a[x].jsonl", "test_a.failed.jsonl",
              ".test_a~1f.jsonl", "test_a-2.1.jsonl", "test_a-02.jsonl", "test_a.txt"]  # fmt: skip
    for name in own + others:
        (tmp_path / name).touch()

    assert [log.name for log in Place(tmp_path, "test_a").recorded()] == own
    assert Place(tmp_path / "none", "test_a").recorded() == []


# --- one takes another's place ---------------------------------------------------------------


def _names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_a_tree_takes_the_place_of_another_whole(tmp_path: Path) -> None:
    """With children and blobs; of the old one nothing stays, and what is there verifies."""
    log = tmp_path / "test_a.jsonl"
    recorded(log, [child("dig", [("search", LONG)]), child("dig", [("search", "x")])])
    new = fresh_beside(log)
    recorded(new, [child("dig", [("search", LONG + "y"), ("search", "z")])])
    expected = new.read_bytes()

    move_over(new, log)

    assert log.read_bytes() == expected
    assert refold.verify(log).complete
    jsonl = {name for name in _names(tmp_path) if name.endswith(".jsonl")}
    assert jsonl == {"test_a.jsonl", "test_a.1.jsonl"}
    assert len(_names(tmp_path) - jsonl) == 2  # what was asked, and what was found
    assert {path.name for path in tmp_path.iterdir() if path.is_dir()} == {"test_a.blobs"}


def test_blobs_that_both_have_stay(tmp_path: Path) -> None:
    """They are named for what they hold."""
    log = tmp_path / "test_a.jsonl"
    recorded(log, [("search", LONG)])
    new = fresh_beside(log)
    recorded(new, [("search", LONG), ("search", "x")])

    move_over(new, log)

    assert refold.verify(log).complete


def test_the_root_takes_its_place_last(tmp_path: Path) -> None:
    """Where a child cannot, the old recording is still what its root says."""
    log = tmp_path / "test_a.jsonl"
    before = recorded(log, [("search", "x")]).log.read_bytes()
    (tmp_path / "test_a.1.jsonl" / "in the way").mkdir(parents=True)
    new = fresh_beside(log)
    recorded(new, [child("dig", [("search", "x")])])

    with pytest.raises(OSError, match=r"test_a\.1\.jsonl"):
        move_over(new, log)

    assert log.read_bytes() == before


def test_a_tree_without_blobs_leaves_no_folder_of_them(tmp_path: Path) -> None:
    """Not even an empty one."""
    log = tmp_path / "test_a.jsonl"
    recorded(log, [("search", LONG)])
    assert blobs_of(log).is_dir()
    new = fresh_beside(log)
    recorded(new, [("search", "x")])

    move_over(new, log)

    assert {path.name for path in tmp_path.iterdir()} == {"test_a.jsonl"}


@pytest.mark.parametrize("is_moved", [True, False])
def test_nothing_is_written_or_removed_through_a_link(tmp_path: Path, *, is_moved: bool) -> None:
    """In the place of the folder of blobs: what it leads to is somebody else's."""
    log, others = tmp_path / "test_a.jsonl", tmp_path / "others"
    recorded(log, [("search", LONG)])
    blobs_of(log).rename(others)
    blobs_of(log).symlink_to(others)
    before = {path: path.stat().st_ino for path in others.rglob("*")}
    new = fresh_beside(log)
    recorded(new, [("search", LONG + "y")])

    if is_moved:
        move_over(new, log)
    else:
        remove(log)

    assert {path: path.stat().st_ino for path in others.rglob("*")} == before
    assert not blobs_of(log).is_symlink()
    assert blobs_of(log).is_dir() is is_moved


def test_a_tree_moves_to_where_nothing_is(tmp_path: Path) -> None:
    """The folder is made when the new log gets its name."""
    log = tmp_path / "deep" / "test_a.jsonl"
    new = fresh_beside(log)
    recorded(new, [child("dig", [("search", LONG)])])

    move_over(new, log)

    assert refold.verify(log).complete
    assert not blobs_of(new).exists()


def test_two_new_logs_have_two_names(tmp_path: Path) -> None:
    """Two processes may record the same test."""
    log = tmp_path / "test_a.jsonl"

    names = {fresh_beside(log) for _ in range(100)}

    assert len(names) == 100
    assert all(name.name.startswith(".test_a~") for name in names)
    assert failed_beside(log) not in names


def test_a_tree_is_removed_whole(tmp_path: Path) -> None:
    """And nothing else; where there is none, nothing happens."""
    log = tmp_path / "test_a.jsonl"
    recorded(log, [child("dig", [("search", LONG)])])
    recorded(tmp_path / "test_b.jsonl", [("search", LONG)])

    remove(log)
    remove(log)

    assert not [name for name in _names(tmp_path) if name.startswith("test_a")]
    assert refold.verify(tmp_path / "test_b.jsonl").complete


# --- what a recording says -------------------------------------------------------------------


def test_a_recording_is_read_with_its_blobs_and_what_its_children_spent(tmp_path: Path) -> None:
    """All that the log holds of what `record` returned."""
    plan = [child("dig", [("ask", "How?")]), ("report", LONG, ()) ]  # fmt: skip
    made = recorded(tmp_path / "a.jsonl", plan)

    read = recording_of_log(made.log, planned(plan))

    assert read.summary == LONG
    assert read.usage == made.usage
    assert read.usage.requests == 1
    assert (read.head, read.entries, read.data_digest) == (
        made.head,
        made.entries,
        made.data_digest,
    )


def test_a_log_without_its_end_is_no_recording(tmp_path: Path) -> None:
    """It says where it stops."""
    log = recorded(tmp_path / "a.jsonl", [("search", "x")]).log
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:-1]))

    with pytest.raises(LogDamaged) as damaged:
        recording_of_log(log, planned([]))

    assert (damaged.value.line, damaged.value.expected) == (4, "run.finished at the end")


def test_a_place_that_takes_no_recording_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file system without locks, a folder's name with a NUL or too long, a file in its place."""

    def refuse(_descriptor: int, _how: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    (tmp_path / "file").touch()
    for name in ("a\0b", "x" * 300, "file"):
        with pytest.raises(LogNameRefused, match=r"b\.jsonl"):
            fresh_beside(tmp_path / name / "b.jsonl")

    log = tmp_path / "a.jsonl"
    log.touch()
    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(LogNameRefused, match="its file system does not support locks"):
        remove(log)
    assert log.exists()
