"""What files of a recorded tree hold."""

from pathlib import Path

import pytest

from refold.engine.errors import ContentMissing
from refold.engine.log.blobs import BlobStore
from refold.engine.log.names import files_of
from refold.engine.workspace.contents import Contents
from refold.engine.workspace.tree import Base, FileTree, TreeEntry
from tests.support.folders import git, repository


def test_contents_come_from_the_log_and_from_the_repository(tmp_path: Path) -> None:
    """Each kind of entry."""
    top = repository(tmp_path / "r", {"a": "one\n", "b": "two\n"})
    log = tmp_path / "x.jsonl"
    own = BlobStore(files_of(log)).put(b"\xff\n")
    new = TreeEntry("new", "100644", "own", own, 2)
    link = TreeEntry("l", "120000", "link", "\udcff")
    tree = FileTree.of([Base("", git(top, "rev-parse", "HEAD^{tree}"))], [new, link])

    with Contents.here(log, str(top), tree) as contents:
        whole = contents.whole(tree)
        held = {one.path: contents.content(one, tree) for one in whole.differs}

    assert held == {"a": b"one\n", "b": b"two\n", "l": b"\xff", "new": b"\xff\n"}


def test_what_is_missing_or_damaged_is_named(tmp_path: Path) -> None:
    """A content that is not what its digest says is never given."""
    log = tmp_path / "x.jsonl"
    own = BlobStore(files_of(log)).put(b"abc")
    tree = FileTree.of([Base("", "a" * 40)], [])
    (files_of(log) / own[:2] / own).write_bytes(b"abd")
    contents = Contents(log, {})

    for entry, why in (
        (TreeEntry("f", "100644", "own", own, 3), "damaged"),
        (TreeEntry("f", "100644", "own", "c" * 64, 3), "missing"),
        (TreeEntry("f", "100644", "git", "c" * 40, 3), "no repository"),
        (TreeEntry("f", "100644", "out", "large", 3), "left out: large"),
    ):
        with pytest.raises(ContentMissing, match=why):
            contents.content(entry, tree)
    with pytest.raises(ContentMissing):
        contents.whole(tree)
