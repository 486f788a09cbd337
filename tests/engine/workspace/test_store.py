"""Contents as objects of git, in packs beside a log."""

from pathlib import Path

import pytest

from refold.engine.errors import GitFailed
from refold.engine.log.beside import packs_of
from refold.engine.log.names import files_of
from refold.engine.workspace.git import RepositoryObjects, blob_id
from refold.engine.workspace.packing import packed_repository
from refold.engine.workspace.store import Store


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
