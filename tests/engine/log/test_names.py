"""Where the files of a run lie (CONTRACT.md §4)."""

import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from refold.engine.errors import LogNameRefused
from refold.engine.log.names import (
    Folder,
    blobs_of,
    check_root,
    child_path,
    children,
    default_path,
    is_runs,
    parent_of,
    root_of,
    tree,
)
from refold.engine.log.pack import pack
from refold.engine.log.salvaging import salvage
from tests.support.loops import for_each


def test_children_are_named_by_number_below_their_parent() -> None:
    """`audit.jsonl` has `audit.1.jsonl`, whose second child is `audit.1.2.jsonl`."""
    first = child_path(Path("d/audit.jsonl"), 1)

    assert first == Path("d/audit.1.jsonl")
    assert child_path(first, 2) == Path("d/audit.1.2.jsonl")


@for_each("name", ["audit.jsonl", "audit.2.jsonl", "audit.2.10.1.jsonl"])
def test_the_root_follows_from_any_name_of_the_tree(name: str) -> None:
    """All logs of a tree have one root and one folder of blobs."""
    assert root_of(Path("d") / name) == Path("d/audit.jsonl")
    assert blobs_of(Path("d") / name) == Path("d/audit.blobs")


@for_each(
    "name, parent",
    [
        ("audit.2.11.jsonl", (Path("runs/audit.2.jsonl"), 11)),
        ("audit.2.jsonl", (Path("runs/audit.jsonl"), 2)),
        ("audit.jsonl", None),
        ("audit.x.jsonl", None),
        (".1.jsonl", None),
    ],
)
def test_the_parent_follows_from_the_name_of_a_child(
    name: str, parent: tuple[Path, int] | None
) -> None:
    """So does its number; a root has none."""
    assert parent_of(Path("runs") / name) == parent


@for_each("name", ["audit.1.jsonl", "a.b.22.jsonl", "audit", "audit.json", ".jsonl"])
def test_a_root_may_not_look_like_a_child_or_like_no_log(name: str) -> None:
    """A stem that ends in a number, or another suffix, is refused before anything is made."""
    with pytest.raises(LogNameRefused) as refused:
        check_root(Path(name))

    assert refused.value.path == name


@for_each("name", ["audit.jsonl", "v1.2b.jsonl", "2024.run.jsonl", "7.jsonl"])
def test_other_names_are_free(name: str) -> None:
    """Numbers elsewhere in a name are nobody's business."""
    check_root(Path(name))

    assert root_of(child_path(Path(name), 3)) == Path(name)


def test_children_are_found_by_number_and_links_are_not(tmp_path: Path) -> None:
    """Only plain names of the rule count: no padding, no grandchildren, no links, no others."""
    for name in ["a.jsonl", "a.2.jsonl", "a.10.jsonl", "a.1.1.jsonl", "a.01.jsonl", "ab.1.jsonl"]:
        (tmp_path / name).touch()
    (tmp_path / "a.3.jsonl").symlink_to(tmp_path / "a.2.jsonl")

    assert list(children(tmp_path / "a.jsonl")) == [2, 10]


def test_a_tree_lists_parents_before_children(tmp_path: Path) -> None:
    """Breadth first, in the order of numbers."""
    names = ["a.jsonl", "a.1.jsonl", "a.2.jsonl", "a.1.1.jsonl"]
    for name in names:
        (tmp_path / name).touch()

    assert [path.name for path in tree(tmp_path / "a.jsonl")] == names


def test_a_default_name_says_when_what_and_which(tmp_path: Path) -> None:
    """`<UTC>-<name>-<short id>.jsonl`, in characters that every file system takes."""
    time = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)

    path = default_path(tmp_path, "My Agent/../x", time=time, short_id="k3f")

    assert path == tmp_path / "20260102T030405Z-my-agent-x-k3f.jsonl"
    check_root(path)


def test_a_folder_tells_the_children_of_all_that_lie_in_it(tmp_path: Path) -> None:
    """As it was when it was listed; one listing serves a whole tree."""
    for name in ["a.jsonl", "a.1.jsonl", "a.1.2.jsonl", "b.3.jsonl", ".4.jsonl"]:
        (tmp_path / name).touch()
    folder = Folder(tmp_path)
    (tmp_path / "a.9.jsonl").touch()

    assert [path.name for path in folder.tree(tmp_path / "a.jsonl")] == [
        "a.jsonl",
        "a.1.jsonl",
        "a.1.2.jsonl",
    ]
    assert folder.children(tmp_path / "b.jsonl") == {3: tmp_path / "b.3.jsonl"}


def test_a_folder_that_does_not_change_is_listed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not so one that was changed just now: its time may be that of two changes."""
    log = tmp_path / "a.jsonl"
    lists: list[object] = []
    scan = os.scandir

    def counted(folder: Path) -> object:
        lists.append(folder)
        return scan(folder)

    monkeypatch.setattr(os, "scandir", counted)

    assert [children(log) for _ in range(3)] == [{}] * 3
    assert len(lists) == 3
    os.utime(tmp_path, (1, 1))
    assert [children(log) for _ in range(3)] == [{}] * 3
    assert len(lists) == 4
    (tmp_path / "a.1.jsonl").touch()
    assert list(children(log)) == [1]
    os.utime(tmp_path, (2, 2))
    assert [path.name for path in tree(log)] == ["a.jsonl", "a.1.jsonl"]
    (other := tmp_path / "other").mkdir()
    os.utime(other, (2, 2))
    assert children(other / "a.jsonl") == {}


@pytest.mark.parametrize("name", ["a\0b", "x" * 300, "a\0/b", "x" * 300 + "/b", "file/b"])
def test_a_place_where_no_file_can_be_made_is_named(
    name: str, make_log: Callable[[int], Path], tmp_path: Path
) -> None:
    """By whoever writes a log or a pack: never the system's own error."""
    log = make_log(2)
    (tmp_path / "file").touch()
    log.write_bytes(log.read_bytes() + b"no entry\n")

    for write, suffix in ((pack, ".refold"), (salvage, ".jsonl")):
        with pytest.raises(LogNameRefused):
            write(log, tmp_path / f"{name}{suffix}")


@for_each(
    "name, is_so",
    [
        ("a.jsonl", True),
        ("a.refold", True),
        ("a.1.refold", True),
        ("a.1.jsonl", False),
        ("a.txt", False),
        (".a.jsonl", False),
        (".jsonl", False),
    ],
)
def test_whether_a_file_is_named_as_a_run(name: str, *, is_so: bool) -> None:
    """A root's log, or a packed tree: what a folder is listed, replayed and verified by."""
    assert is_runs(Path(name)) is is_so
