"""A tree's files are written into an empty folder, and nothing outside of it."""

import os
import stat
import tempfile
from pathlib import Path

import pytest
from hypothesis import given

from refold.engine.errors import ContentMissing, FolderRefused
from refold.engine.workspace.restoring import restore
from refold.engine.workspace.tree import TreeEntry
from tests.support.folders import entries


def content_of(entry: TreeEntry) -> bytes:
    """Return what a file holds in these tests: its link's text, or its own path."""
    return os.fsencode(entry.value if entry.kind == "link" else entry.path)


def found_below(top: Path) -> dict[str, tuple[str, bytes]]:
    """Return what stands in a folder: by path its mode as git writes it, and its content."""
    found = {}
    for folder, folders, names in os.walk(top):
        for name in [*names, *folders]:
            path = Path(folder, name)
            if path.is_symlink():
                held = "120000", os.fsencode(path.readlink())
            elif path.is_dir():
                continue
            else:
                can_run = path.stat().st_mode & stat.S_IXUSR
                held = "100755" if can_run else "100644", path.read_bytes()
            found[str(path.relative_to(top))] = held
    return found


@given(entries())
def test_what_is_restored_is_what_the_tree_says(listed: list[TreeEntry]) -> None:
    """Any names, links to anywhere, modes; what was left out of the record is not there."""
    with tempfile.TemporaryDirectory() as top:
        missing = restore(listed, content_of, Path(top))
        expected = {
            entry.path: (entry.mode, content_of(entry)) for entry in listed if entry.kind != "out"
        }

        assert missing == []
        assert found_below(Path(top)) == expected


@pytest.mark.parametrize(
    "path",
    ["../out", "a/../../out", "/out", ".git/hooks/pre-commit", "sub/.GIT/config", "a//b", "a/./b"],
)
def test_a_path_that_leads_elsewhere_is_refused_by_name(tmp_path: Path, path: str) -> None:
    """Also where the list was not read strictly."""
    (tmp_path / "top").mkdir()

    with pytest.raises(FolderRefused) as refused:
        restore([TreeEntry(path, "100755", "own", "a" * 64, 1)], content_of, tmp_path / "top")

    assert path in str(refused.value)
    assert found_below(tmp_path) == {}


@pytest.mark.parametrize("above", ["../outside", "/tmp", "."])
def test_a_link_is_never_followed(tmp_path: Path, above: str) -> None:
    """Neither to write below it, nor in the place of it."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "top").mkdir()
    link = TreeEntry("l", "120000", "link", above)

    for path in ("l/x", "l"):
        with pytest.raises(FolderRefused, match=r"\bl\b"):
            restore(
                [link, TreeEntry(path, "100644", "own", "a" * 64, 1)], content_of, tmp_path / "top"
            )
        (tmp_path / "top" / "l").unlink()

    assert found_below(tmp_path) == {}


def test_a_name_that_is_taken_is_refused(tmp_path: Path) -> None:
    """A file is made and never opened: twice, or in the place of a folder."""
    file = TreeEntry("a", "100644", "own", "a" * 64, 1)
    inner = TreeEntry("a/b", "100644", "own", "a" * 64, 1)

    for at, listed in enumerate(([file, file], [inner, file], [file, inner])):
        top = tmp_path / str(at)
        top.mkdir()
        with pytest.raises(FolderRefused, match="recorded folder: a"):
            restore(listed, content_of, top)


def test_contents_that_are_missing_are_all_named(tmp_path: Path) -> None:
    """The others are written."""

    def content(entry: TreeEntry) -> bytes:
        if entry.path != "b":
            raise ContentMissing(entry.path, "", "gone")
        return b"b"

    listed = [TreeEntry(name, "100644", "own", "a" * 64, 1) for name in "abc"]
    missing = restore(listed, content, tmp_path)

    assert [each.file for each in missing] == ["a", "c"]
    assert found_below(tmp_path) == {"b": ("100644", b"b")}


def test_a_link_whose_text_no_system_takes_is_refused(tmp_path: Path) -> None:
    """Contents of git may hold anything."""
    link = TreeEntry("l", "120000", "git", "a" * 40)

    with pytest.raises(FolderRefused, match="NUL"):
        restore([link], lambda _: b"a\0b", tmp_path)
