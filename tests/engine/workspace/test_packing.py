"""Objects of git as files of a pack: enough for a copy where there is no repository."""

import os
from pathlib import Path
from typing import Any

import pytest

from refold.engine.errors import ContentMissing, GitFailed
from refold.engine.log.beside import packs_of
from refold.engine.log.names import files_of
from refold.engine.workspace.entries import FolderStarted, FolderState, Repository
from refold.engine.workspace.git import RepositoryObjects
from refold.engine.workspace.packing import (
    lenders,
    pack_objects,
    packed_repository,
)
from refold.engine.workspace.tree import Base, FileTree, TreeEntry
from tests.support.folders import git, repository


def state_of(top: Path, *differs: TreeEntry) -> FolderState:
    """Return a folder at its start: the commit that is checked out, and what differs."""
    tree = FileTree.of([Base("", git(top, "rev-parse", "HEAD^{tree}"))], differs)
    refs = git(top, "for-each-ref", "--format=%(objectname) %(refname)") + "\n"
    told = Repository("", git(top, "rev-parse", "HEAD"), "refs/heads/main", refs, ())
    state = FolderState()
    state.apply(FolderStarted(str(top), "", tree, (told,)))
    return state


def packed(state: FolderState, into: Path, **how: Any) -> list[Path]:
    """Write the packs of a folder."""
    assert state.started is not None
    return pack_objects(state.started, into, **how)


def old_and_new(folder: Path) -> Path:
    """Return a repository with two commits, a branch, a tag with a text, and a stash."""
    top = repository(folder / "r", {"a": "old\n", "d/b": "b\n"})
    git(top, "branch", "other")
    (top / "a").write_text("new\n")
    git(top, "commit", "-qam", "second")
    git(top, "tag", "-m", "a text", "v1")
    (top / "a").write_text("stashed\n")
    git(top, "stash", "-q")
    return top


def test_a_pack_has_the_files_of_the_commit_and_the_whole_history(tmp_path: Path) -> None:
    """And nothing of what files held before."""
    top = old_and_new(tmp_path)
    state = state_of(top)
    log = tmp_path / "x.jsonl"
    files_of(log).mkdir()
    packs = packed(state, files_of(log))
    old = git(top, "rev-parse", "other:a")
    ids = {name: git(top, "rev-parse", name) for name in ("HEAD:a", "stash:a", "v1", "other")}
    log_of = git(top, "log", "--all", "--format=%H %s")
    (tmp_path / "r").rename(tmp_path / "away")

    made = packed_repository(log, [], tmp_path / "made")

    assert packs == packs_of(log) == [files_of(log) / "0.pack"]
    with RepositoryObjects(made) as objects:
        assert objects.blob(ids["HEAD:a"]) == b"new\n"
        assert objects.blob(ids["stash:a"]) == b"stashed\n"
    commits = made.output("log", "--format=%H %s", ids["v1"], ids["other"]).decode().splitlines()
    assert len(commits) == 2
    assert {*commits} <= {*log_of.splitlines()}, "in any order: they are of one second, mostly"
    with pytest.raises(GitFailed):
        made.output("cat-file", "-e", old)


def test_a_history_of_an_early_version_of_git_is_taken_in(tmp_path: Path) -> None:
    """Known repositories have commits that git would refuse today."""
    top, log = repository(tmp_path / "r", {"a": "one\n"}), tmp_path / "x.jsonl"
    who = "me <me@example.org> 1 -7000000"
    text = f"tree {git(top, 'rev-parse', 'HEAD^{tree}')}\nauthor {who}\ncommitter {who}\n\nold\n"
    (tmp_path / "commit").write_text(text)
    named = git(top, "hash-object", "-t", "commit", "-w", "--literally", str(tmp_path / "commit"))
    git(top, "update-ref", "HEAD", named)
    packed(state_of(top), files_of(log))

    made = packed_repository(log, [], tmp_path / "made")

    assert made.output("cat-file", "-t", named) == b"commit\n"


def test_the_same_objects_give_the_same_bytes(tmp_path: Path) -> None:
    """In another clone, too, which has them in another form."""
    top = old_and_new(tmp_path)
    state = state_of(top)
    found = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (pack,) = packed(state, tmp_path / name)
        found.append(pack.read_bytes())
        git(top, "gc", "-q", "--prune=now")

    assert found[0] == found[1]


def test_keys_secrets_and_too_much_are_left_out(tmp_path: Path) -> None:
    """What only a secret is in: the repository has it anyway."""
    top = repository(tmp_path / "r", {"a": "one\n", ".env": "KEY=1\n", "s": "my secret\n"})
    state, log = state_of(top), tmp_path / "x.jsonl"
    assert packed(state, files_of(log), most=100) == []
    assert not files_of(log).exists()

    packed(state, files_of(log), most=10_000, is_public=lambda content: b"secret" not in content)

    made = packed_repository(log, [], tmp_path / "made")
    said = made.output("cat-file", "--batch-all-objects", "--batch-check").decode()
    assert sorted(line.split()[1] for line in said.splitlines()) == ["blob", "commit", "tree"]


def test_a_damaged_pack_is_refused(tmp_path: Path) -> None:
    log = tmp_path / "x.jsonl"
    files_of(log).mkdir()
    (files_of(log) / "0.pack").write_bytes(b"PACK nonsense")

    with pytest.raises(ContentMissing, match=r"0\.pack .*damaged"):
        packed_repository(log, [], tmp_path / "made")


def test_the_repository_that_has_the_objects_lends_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The recorded one, else the one where this process stands."""
    top = old_and_new(tmp_path)
    state = state_of(top)
    started = state.started
    assert started is not None
    git(tmp_path, "clone", "-q", "r", "clone")
    below = tmp_path / "clone" / "d"
    other = repository(tmp_path / "other", {"a": "1"})

    assert lenders(started)[""].top == top
    top.rename(tmp_path / "away")
    monkeypatch.chdir(below)
    assert lenders(started)[""].top == below.parent
    monkeypatch.chdir(other)
    assert lenders(started) == {}
    with pytest.raises(GitFailed, match="the repository is not here"):
        packed(state, tmp_path)


def test_each_repository_is_lent_by_one_that_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One without a commit needs none; a clone may lack a submodule that is elsewhere."""
    top, clone = repository(tmp_path / "r", {"a": "1"}), tmp_path / "clone"
    repository(top / "sub", {"s": "1"})
    git(top, "init", "-q", "empty")
    trees = [git(each, "rev-parse", "HEAD^{tree}") for each in (top, top / "sub")]
    bases = [Base(path, tree) for path, tree in zip(("", "sub"), trees, strict=True)]
    made = (Repository("empty", "", "refs/heads/main"),)
    started = FolderStarted(str(top), "", FileTree.of(bases, []), made)
    git(tmp_path, "clone", "-q", "r", "clone")
    (top / ".git").rename(tmp_path / "git")
    monkeypatch.chdir(clone)

    found = {path: each.top for path, each in lenders(started).items()}

    assert found == {"": clone, "sub": top / "sub", "empty": top / "empty"}


def test_without_a_folder_there_is_nothing_to_pack(tmp_path: Path) -> None:
    started = FolderStarted(str(tmp_path), "", FileTree())
    assert pack_objects(started, tmp_path) == []
    assert os.listdir(tmp_path) == []  # noqa: PTH208 - names
