"""The history of a copy: of today's configuration, only what runs nothing."""

import contextlib
import subprocess
from pathlib import Path

import pytest

from refold.engine.workspace.entries import Repository
from refold.engine.workspace.git import Git
from refold.proxy.copies.git_folders import check_out, make_history
from tests.engine.workspace.test_scanning import Looked
from tests.support.folders import git, repository
from tests.support.loops import some


def test_values_that_run_nothing_are_taken_over(tmp_path: Path) -> None:
    """And what git is told to ignore."""
    top = repository(tmp_path / "r", {"f": "1\n"})
    for name, value in (
        ("user.name", "Ann"), ("core.autocrlf", "input"), ("core.sshCommand", "evil"),
        ("filter.lfs.smudge", "evil"), ("alias.st", "!evil"), ("core.hooksPath", "/evil"),
        ("include.path", "/evil"), ("url.evil.insteadOf", "x"), ("core.pager", "evil"),
        ("submodule.lib.url", "https://evil"), ("submodule.lib.update", "!evil"),
    ):  # fmt: skip
        git(top, "config", name, value)
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "x.log").write_text("")
    (tmp_path / "latin").write_bytes(b"[user]\nemail = \xe9@a.example\n")
    git(top, "config", "include.path", str(tmp_path / "latin"))
    settings = {**Git(top).settings(), "log.date": "--edit"}
    assert "user.email" not in settings  # no log holds bytes that are not UTF-8
    texts = {"info/exclude": "*.log\n"}
    said = Repository("", "", "refs/heads/topic", "", (), settings, texts=texts)

    made = make_history(tmp_path / "apart", tmp_path / "copy", said, [], Git(top))
    notes = check_out(made, said)

    Path(made.git_dir).rename(tmp_path / "copy" / ".git")
    configured = git(tmp_path / "copy", "config", "--local", "--list")
    assert "evil" not in configured
    assert "user.name=Ann" in configured
    assert "log.date=--edit" in configured
    assert "core.autocrlf=input" in configured
    assert "submodule.lib.active=true" in configured
    assert "commit.gpgsign=false" in configured
    assert git(tmp_path / "copy", "status", "--porcelain") == ""
    assert git(tmp_path / "copy", "symbolic-ref", "HEAD") == "refs/heads/topic"
    assert notes == []


@pytest.mark.parametrize("name", some(1, ["fix#12", "a;b", 'say-"hi"', "é"]))
def test_an_upstream_may_have_any_name_that_git_allows(tmp_path: Path, name: str) -> None:
    """Some begin a comment or a text in a configuration."""
    repository(tmp_path / "far", {"f": "1\n"})
    git(tmp_path / "far", "branch", name)
    git(tmp_path, "clone", "-q", "far", "r", "-b", name)
    (said,) = Looked(tmp_path / "r").scan().repositories
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / "f").write_text("1\n")
    objects = str(tmp_path / "r" / ".git" / "objects")

    made = make_history(tmp_path / "apart", copy, said, [objects], None)
    assert check_out(made, said) == []
    Path(made.git_dir).rename(copy / ".git")

    assert git(copy, "status", "-sb") == git(tmp_path / "r", "status", "-sb")
    assert f"...origin/{name}" in git(copy, "-c", "core.quotePath=false", "status", "-sb")


@pytest.mark.long
def test_upstreams_and_the_state_of_git_are_as_recorded(tmp_path: Path) -> None:
    """Of a clone that has stashes, is behind, has a part of its files, and is in a merge."""
    far = repository(tmp_path / "far", {"f": "1\n", "left/out": "1\n"})
    git(tmp_path, "clone", "-q", "far", "r")
    top = tmp_path / "r"
    for text in ("2\n", "3\n"):
        (top / "f").write_text(text)
        git(top, "stash")
    git(far, "checkout", "-qb", "other")
    (far / "f").write_text("other\n")
    git(far, "commit", "-qam", "since")
    git(far, "branch", "-f", "main")
    git(top, "fetch", "-q")
    git(top, "sparse-checkout", "set", "d")
    git(top, "merge", "-q", "--no-commit", "--no-ff", "origin/main")
    looked = Looked(top)
    (said,) = looked.scan().repositories
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / "f").write_text("other\n")

    made = make_history(tmp_path / "apart", copy, said, [str(top / ".git" / "objects")], None)
    assert check_out(made, said) == []

    Path(made.git_dir).rename(copy / ".git")
    for asked in (
        ("status",), ("branch", "-avv"), ("stash", "list"), ("reflog",), ("stash", "show", "-p"),
        ("rev-parse", "--abbrev-ref", "origin/HEAD"), ("log", "--format=%d", "origin/main"),
        ("sparse-checkout", "list"), ("diff", "--cached"),
    ):  # fmt: skip
        assert git(copy, *asked) == git(top, *asked), asked


@pytest.mark.parametrize(
    ("asked", "file"),
    some(
        1,
        [
            (("rebase", "--exec", "false", "other"), "rebase-merge/done"),
            (("rebase", "--apply", "other"), "rebase-apply/head-name"),
            (("cherry-pick", "main~1", "other"), "sequencer/todo"),
            (("bisect", "start", "main", "main~2"), "BISECT_LOG"),
        ],
    ),
)
def test_what_was_in_progress_is(tmp_path: Path, asked: tuple[str, ...], file: str) -> None:
    """And can be ended; no line of a log runs a program."""
    top = repository(tmp_path / "r", {"f": "0\n"})
    git(top, "checkout", "-qb", "other")
    for branch, texts in (("other", "1"), ("main", "23")):
        git(top, "checkout", "-q", branch)
        for text in texts:
            (top / "f").write_text(f"{text}\n")
            git(top, "commit", "-qam", text)
    with contextlib.suppress(subprocess.CalledProcessError):
        git(top, *asked)
    (said,) = Looked(top).scan().repositories
    assert file in said.texts
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / "f").write_bytes((top / "f").read_bytes())

    made = make_history(tmp_path / "apart", copy, said, [str(top / ".git" / "objects")], None)
    assert check_out(made, said) == []

    Path(made.git_dir).rename(copy / ".git")
    assert git(copy, "status") == git(top, "status").replace("exec false", "exec :")
    assert git(copy, "diff") == git(top, "diff")
    git(copy, *(("bisect", "reset") if asked[0] == "bisect" else (asked[0], "--abort")))
    assert git(copy, "symbolic-ref", "HEAD") == "refs/heads/main"


@pytest.mark.parametrize("flag", ["assume-unchanged", "skip-worktree"])
def test_files_at_which_git_does_not_look_stay_so(tmp_path: Path, flag: str) -> None:
    """A setting of one's own in a file that git has is hidden so."""
    top, copy = repository(tmp_path / "r", {"ä": "1\n", "f": "1\n"}), tmp_path / "copy"
    git(top, "update-index", f"--{flag}", "ä")
    copy.mkdir()
    for folder in (top, copy):
        (folder / "ä").write_text("my own\n")
        (folder / "f").write_text("2\n")
    (said,) = Looked(top).scan().repositories

    made = make_history(tmp_path / "apart", copy, said, [str(top / ".git" / "objects")], None)
    assert check_out(made, said) == []

    Path(made.git_dir).rename(copy / ".git")
    assert git(copy, "status", "--porcelain") == git(top, "status", "--porcelain") == "M f"


def test_an_index_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    """The files are there all the same."""
    (tmp_path / "copy").mkdir()
    said = Repository("", "a" * 40, "refs/heads/main", f"{'a' * 40} refs/heads/main\n", ())

    made = make_history(tmp_path / "apart", tmp_path / "copy", said, [], None)
    (note,) = check_out(made, said)

    assert note.startswith("the git index could not be restored: ")
