"""The history of a copy: of today's configuration, only what runs nothing."""

from pathlib import Path

from refold.engine.workspace.entries import Repository
from refold.engine.workspace.git import Git
from refold.proxy.copies.history import check_out, make_history
from tests.support.folders import git, repository


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
    (top / ".git" / "info" / "exclude").write_text("*.log\n")
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "x.log").write_text("")
    (tmp_path / "latin").write_bytes(b"[user]\nemail = \xe9@a.example\n")
    git(top, "config", "include.path", str(tmp_path / "latin"))
    settings = {**Git(top).settings(), "log.date": "--edit"}
    assert "user.email" not in settings  # no log holds bytes that are not UTF-8
    said = Repository("", "", "refs/heads/topic", "", (), ("rebase",), settings)

    made = make_history(tmp_path / "apart", tmp_path / "copy", said, [], Git(top))
    notes = check_out(made, said, lambda _: b"")

    Path(made.git_dir).rename(tmp_path / "copy" / ".git")
    configured = git(tmp_path / "copy", "config", "--local", "--list")
    assert "evil" not in configured
    assert "user.name=Ann" in configured
    assert "log.date=--edit" in configured
    assert "core.autocrlf=input" in configured
    assert "submodule.lib.active=true" in configured
    assert git(tmp_path / "copy", "status", "--porcelain") == ""
    assert git(tmp_path / "copy", "symbolic-ref", "HEAD") == "refs/heads/topic"
    assert notes == ["a rebase was in progress, and its state is not in the log"]


def test_an_index_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    """The files are there all the same."""
    (tmp_path / "copy").mkdir()
    said = Repository("", "a" * 40, "refs/heads/main", f"{'a' * 40} refs/heads/main\n", ())

    made = make_history(tmp_path / "apart", tmp_path / "copy", said, [], None)
    (note,) = check_out(made, said, lambda _: b"")

    assert note.startswith("the git index could not be restored: ")
