"""git is asked, and nothing else happens."""

import os
from pathlib import Path

import pytest

from refold.engine.errors import ContentMissing, FolderRefused, GitFailed
from refold.engine.workspace import git as git_module
from refold.engine.workspace.git import (
    SETTINGS,
    Git,
    RepositoryObjects,
    blob_id,
    listed,
    object_folders,
    work_tree_around,
)
from refold.engine.workspace.left_out import LogFiles
from refold.engine.workspace.scanning import Scanner
from refold.engine.workspace.tree import TreeEntry
from tests.support.folders import git, repository


def test_objects_are_read_and_checked(tmp_path: Path) -> None:
    """Any bytes, in any order, a missing one between."""
    top = repository(tmp_path / "r", {"a": "one\n", "b/c": "", "n": "x" * 100_000})
    named = git(top, "rev-parse", "HEAD:a")

    with RepositoryObjects(Git(top)) as objects:
        assert objects.blob(named) == b"one\n"
        with pytest.raises(ContentMissing, match="no such file"):
            objects.blob("0" * 40)
        assert len(objects.blob(git(top, "rev-parse", "HEAD:n"))) == 100_000
        with pytest.raises(ContentMissing):  # a tree is no file
            objects.blob(git(top, "rev-parse", "HEAD^{tree}"))
        assert objects.blob(git(top, "rev-parse", "HEAD:b/c")) == b""
        assert [one.path for one in objects.files(git(top, "rev-parse", "HEAD^{tree}"), "x")] == [
            "x/a", "x/b/c", "x/n",
        ]  # fmt: skip
        with pytest.raises(ContentMissing):
            objects.files("1" * 40)
    assert blob_id(b"one\n") == named


def test_what_is_too_large_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pack of a few kilobytes can hold files of gigabytes, and trees of millions of files."""
    top = repository(tmp_path / "r", {"a": "one\n", "b/c/d": "x" * 1000})
    tree = git(top, "rev-parse", "HEAD^{tree}")

    monkeypatch.setattr(git_module, "CONTENT_MAX", 999)
    monkeypatch.setattr(git_module, "LINES_MAX", 3)
    with RepositoryObjects(Git(top)) as objects:
        with pytest.raises(ContentMissing, match="at most 999 bytes, found 1000"):
            objects.blob(git(top, "rev-parse", "HEAD:b/c/d"))
        assert objects.blob(git(top, "rev-parse", "HEAD:a")) == b"one\n"
        with pytest.raises(ContentMissing, match="at most 3 files and folders"):
            objects.files(tree)
    monkeypatch.setattr(git_module, "CONTENT_MAX", 1000)
    monkeypatch.setattr(git_module, "LINES_MAX", 4)
    with RepositoryObjects(Git(top)) as objects:
        assert len(objects.blob(git(top, "rev-parse", "HEAD:b/c/d"))) == 1000
        assert [one.path for one in objects.files(tree)] == ["a", "b/c/d"]


@pytest.mark.parametrize("name", ["evil", "e=vil"])
def test_a_hostile_repository_runs_and_writes_nothing(tmp_path: Path, name: str) -> None:
    """File system monitors, filters, hooks, external diffs: what a configuration can name."""
    attributes = f"a filter={name} diff=evil\n"
    top = repository(tmp_path / "r", {"a": "one\n", ".gitattributes": attributes})
    drivers = [f"filter.{name}.{what}" for what in ("clean", "smudge", "process")]
    ran = tmp_path / "ran"
    program = tmp_path / "evil.sh"
    program.write_text(f"#!/bin/sh\necho $0 >> {ran}\ncat\n")
    program.chmod(0o755)
    for setting in (
        "core.fsmonitor", *drivers,
        "diff.evil.textconv", "diff.evil.command", "diff.external", "core.sshCommand", "core.pager",
    ):  # fmt: skip
        git(top, "config", setting, str(program))
    git(top, "config", f"filter.{name}.required", "true")
    hook = top / ".git/hooks/post-index-change"
    hook.write_text(program.read_text())
    hook.chmod(0o755)
    (top / "a").write_text("two\n")
    os.utime(top / "a", (1, 1))
    index = (top / ".git/index").read_bytes()

    with RepositoryObjects(Git(top)) as objects:
        objects.blob(git(top, "rev-parse", "HEAD:a"))
    with Scanner(top, LogFiles(tmp_path / "x.jsonl", top, top)) as scanner:
        for is_last in (False, True):
            scanner.scan(is_last=is_last)
            assert scanner.state.tree.by_path.keys() == {"a"}

    assert not ran.exists()
    assert (top / ".git/index").read_bytes() == index


def test_a_repository_that_fetches_what_it_lacks_is_not_let(tmp_path: Path) -> None:
    """A partial clone asks its remote for each missing object, unless told not to."""
    repository(tmp_path / "far", {"a": "one\n"})
    git(tmp_path / "far", "config", "uploadpack.allowFilter", "true")
    url = (tmp_path / "far").as_uri()
    git(tmp_path, "clone", "-q", "--no-checkout", "--filter=blob:none", url, "near")
    named = git(tmp_path / "far", "rev-parse", "HEAD:a")

    with (
        RepositoryObjects(Git(tmp_path / "near")) as objects,
        pytest.raises(ContentMissing, match=named),
    ):
        objects.blob(named)


def test_variables_that_lead_git_elsewhere_are_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hook of git that starts an agent gives it GIT_DIR and more."""
    top = repository(tmp_path / "r", {"a": "one\n"})
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "index"))

    assert Git(top).lines("ls-files", "-z") == ["a"]


def test_settings_are_those_of_the_user(tmp_path: Path) -> None:
    """None of those with which git is asked here: of names, it quotes some."""
    top = repository(tmp_path / "r", {"a": "one\n"})
    given = {name: value or "x" for name, value in SETTINGS.items()}
    for name, value in given.items():
        git(top, "config", name, value)

    assert Git(top).settings() == given


def test_settings_of_the_environment_are_the_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as a safe directory; a repository of this process has none of them."""
    top = repository(tmp_path / "r", {"a": "one\n"})
    for name, value in (("COUNT", "1"), ("KEY_0", "user.name"), ("VALUE_0", "eve")):
        monkeypatch.setenv(f"GIT_CONFIG_{name}", value)

    assert Git(top).settings()["user.name"] == Git(top).line("config", "user.name") == "eve"
    assert Git.made(top, tmp_path / "made").line("config", "user.name") == ""


def test_what_git_complains_of_is_said(tmp_path: Path) -> None:
    """With the folder and the command."""
    with pytest.raises(GitFailed, match="status: fatal: not a git repository"):
        Git(tmp_path).output("status")


def test_a_line_of_a_tree() -> None:
    """Modes of early versions of git are those of now; hostile names are refused."""
    assert listed(f"100664 blob {'a' * 40}\tx/y") == TreeEntry("x/y", "100644", "git", "a" * 40)
    with pytest.raises(FolderRefused):
        listed(f"100644 blob {'a' * 40}\t../y")


def test_objects_that_are_borrowed_are_found_through_others(tmp_path: Path) -> None:
    """By absolute paths and by those from a folder of objects; a circle ends."""
    repository(tmp_path / "a", {"f": "1\n"})
    for name, lender in (("b", "a"), ("c", "b")):
        git(tmp_path, "clone", "-q", "--shared", lender, name)
    (tmp_path / "b/.git/objects/info/alternates").write_text(
        "# a comment\n../../../a/.git/objects\n"
    )
    (tmp_path / "a/.git/objects/info/alternates").write_text(f"{tmp_path}/c/.git/objects\n")

    found = object_folders(Git(tmp_path / "c"))

    assert found == [tmp_path / name / ".git" / "objects" for name in "cba"]


def test_git_is_told_the_work_tree_and_does_not_wait_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever a configuration says of another place, and whatever git would open."""
    top = repository(tmp_path / "r", {"a": "one\n", "d/b": ""})
    git(top, "config", "core.worktree", str(tmp_path))
    asked = "status", "--porcelain"

    assert Git(top).output(*asked) == b""
    assert work_tree_around(top / "d") == top
    assert work_tree_around(top / ".git") is None
    assert work_tree_around(tmp_path) is None

    os.mkfifo(top / "d" / ".gitignore")
    monkeypatch.setattr("refold.engine.workspace.git.LIMIT", 0.5)
    with pytest.raises(GitFailed, match="no answer within"):
        Git(top).output(*asked)
