"""What files of a recorded tree hold: kept in packs beside a log, and read."""

from pathlib import Path

import attrs
import pytest

from refold.engine.errors import ContentMissing, GitFailed
from refold.engine.log.beside import packs_of
from refold.engine.log.names import files_of
from refold.engine.workspace.contents import Contents, Store
from refold.engine.workspace.entries import FolderStarted
from refold.engine.workspace.git import RepositoryObjects, blob_id
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


@pytest.mark.parametrize("kind", ["sha1", "sha256"])
def test_what_is_kept_is_in_packs_beside_the_log(tmp_path: Path, kind: str) -> None:
    """One for each time, and at the end one; what was kept is not kept again."""
    log, contents = tmp_path / "x.jsonl", [b"", b"one", b"\0" * 1000]
    with Store(tmp_path, kind, files_of(log)) as store:
        names = [store.put(content) for content in contents]
        store.keep()
        store.keep()
        store.put(b"one")
        store.keep()
        late = store.put(b"late")
        store.keep()
        before = [each.name for each in packs_of(log)]
        store.merge()

    assert names == [blob_id(content, store.width) for content in contents]
    assert {*files_of(log).iterdir()} == {*packs_of(log)}
    assert before == ["0.pack", "1.pack"]
    assert [each.name for each in packs_of(log)] == ["2.pack"]
    made = packed_repository(log, names, tmp_path / "made")
    with RepositoryObjects(made) as objects:
        assert [objects.blob(each) for each in (*names, late)] == [*contents, b"late"]


def test_without_packs_contents_are_only_named(tmp_path: Path) -> None:
    with Store(tmp_path, "sha1", None) as store:
        assert store.put(b"one") == blob_id(b"one")
        store.keep()
        assert store.kept == {blob_id(b"one"): ("", 3)}


def test_packs_are_never_written_through_a_link(tmp_path: Path) -> None:
    """It may lead into a folder of the user's."""
    (tmp_path / "mine").mkdir()
    files_of(tmp_path / "x.jsonl").symlink_to(tmp_path / "mine")
    with Store(tmp_path, "sha1", files_of(tmp_path / "x.jsonl")) as store:
        store.put(b"one")
        with pytest.raises(OSError, match="symbolic links"):
            store.keep()

    assert not any((tmp_path / "mine").iterdir())


def test_without_git_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(GitFailed, match="git is not installed"):
        Store(tmp_path, "sha1", None)
