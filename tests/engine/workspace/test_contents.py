"""What files of a recorded tree hold."""

from pathlib import Path

import attrs
import pytest

from refold.engine.errors import ContentMissing
from refold.engine.workspace.contents import Contents
from refold.engine.workspace.entries import FolderStarted
from refold.engine.workspace.packing import contents_of, packed_repository
from refold.engine.workspace.tree import Base, FileTree, TreeEntry
from tests.support.folders import git, kept, repository


def test_contents_come_from_the_log_and_from_the_repository(tmp_path: Path) -> None:
    """Each kind of entry; those that lend objects may have any name."""
    top = repository(tmp_path / 'r:";x', {"a": "one\n", "b": "two\n"})
    log = tmp_path / "x.jsonl"
    new, link = kept("new", b"\xff\n", log=log), kept("l", b"\xff", "120000", log=log)
    tree = FileTree.of([Base("", git(top, "rev-parse", "HEAD^{tree}"))], [new, link])

    contents, _ = contents_of(log, FolderStarted(str(top), "", tree), tmp_path / "made")
    with contents:
        held = {one.path: contents.content(one) for one in contents.whole(tree).differs}

    assert held == {"a": b"one\n", "b": b"two\n", "l": b"\xff", "new": b"\xff\n"}


def test_what_is_missing_or_is_not_as_its_digest_says_is_named(tmp_path: Path) -> None:
    """Another content of the same id would be one that somebody made for it."""
    log = tmp_path / "x.jsonl"
    own = kept("f", b"abc", log=log)
    started = FolderStarted(str(tmp_path), "", FileTree.of([], [own]))
    contents, _ = contents_of(log, started, tmp_path / "made")

    with contents:
        assert contents.content(own) == b"abc"
        for entry, why in (
            (attrs.evolve(own, digest="c" * 64), "with the digest"),
            (attrs.evolve(own, size=4), "4 bytes"),
            (TreeEntry("f", "100644", "git", "c" * 40), "no such file"),
            (TreeEntry("f", "100644", "out", "large", 3), "left out: large"),
        ):
            with pytest.raises(ContentMissing, match=why):
                contents.content(entry)
        with pytest.raises(ContentMissing):
            contents.whole(FileTree.of([Base("", "a" * 40)], []))


def test_a_diff_is_one_of_git_with_the_paths_of_the_log(tmp_path: Path) -> None:
    """Texts, modes, links and others; a content that is missing is said, and stops no other."""
    log = tmp_path / "x.jsonl"
    one, two = kept("a/é\n", b"one\n", log=log), kept("a/é\n", b"two\xff", "100755", log=log)
    link, binary = kept("l", b"a", "120000", log=log), kept("b", b"\0", log=log)
    out = TreeEntry("o", "100644", "out", "large", 3)
    changes = [(one.path, one, two), ("l", None, link), ("b", binary, None), ("o", out, None)]

    with Contents(packed_repository(log, [one.value], tmp_path / "made")) as contents:
        diffs = contents.diffs(changes)

    assert diffs[0][:3] == ["diff --git a/a/é\n b/a/é\n", "old mode 100644", "new mode 100755"]
    assert diffs[0][-3:] == ["-one", "+two\\xff", "\\ No newline at end of file"]
    assert {"new file mode 120000", "+++ b/l"} < {*diffs[1]}
    assert diffs[2][-1] == "Binary files a/b and /dev/null differ"
    assert diffs[3] == ["o: left out: large"]
