"""Which folder is recorded, and which files are not."""

from pathlib import Path

import pytest

from refold.engine.errors import UsageError
from refold.engine.workspace.left_out import OF_AIDER, folder_of, is_key, is_volatile
from tests.support.folders import repository
from tests.support.loops import for_each


def test_the_folder_is_the_work_tree_or_where_the_command_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or the one that is named, or none; a home folder, and what is above it, only if named."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    top = repository(tmp_path / "r", {"a/b": "one\n"})
    (plain := tmp_path / "home" / "plain").mkdir(parents=True)

    assert folder_of(top / "a") == (top, "")
    assert folder_of(plain) == (plain, "")
    assert folder_of(plain, "none") == (None, "")
    assert folder_of(top / "a", str(top / "a")) == (top / "a", "")
    for folder in (tmp_path / "home", tmp_path, Path("/")):
        found, why = folder_of(folder)
        assert found is None
        assert f"--workspace {folder}" in why
    assert folder_of(tmp_path / "home", str(tmp_path / "home")) == (tmp_path / "home", "")


def test_of_a_home_folder_in_git_the_folder_in_it_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some keep their configuration so: the whole home would be a work tree."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    repository(tmp_path / "home", {".vimrc": "x"})
    (tmp_path / "home/project").mkdir()

    assert folder_of(tmp_path / "home/project") == (tmp_path / "home/project", "")


def test_a_folder_that_is_none_or_another_is_refused(tmp_path: Path) -> None:
    """The command must be started in it."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    for named in ("a/x", "b"):
        with pytest.raises(UsageError, match="expected a parent folder"):
            folder_of(tmp_path / "a", str(tmp_path / named))


@for_each(
    "name",
    [".env", ".env.local", ".ENV", ".envrc", "x/.env.production", "server.pem", "id_rsa",
     "id_ed25519.old", ".netrc", "_netrc", ".npmrc", ".pypirc", "tls.key", "a.p12",
     ".git-credentials", "credentials.json", "service-account-x.json"],
)  # fmt: skip
def test_what_looks_like_a_key(name: str) -> None:
    """By its name alone."""
    assert is_key(name)


@for_each(
    "name",
    [".env.example", "env", "environment.py", "id_rsa.pub", "pem.py", "keys.md", "monkey",
     "credentials.md", ".env.sample"],
)  # fmt: skip
def test_what_does_not(name: str) -> None:
    """Templates and public halves are there to be read."""
    assert not is_key(name)


def test_caches_say_nothing_of_a_run() -> None:
    assert is_volatile("d/.DS_Store")
    assert is_volatile("d/.aider.tags.cache.v4/00/x.val")
    assert is_volatile("x.log", ["*.log"])
    assert not is_volatile("x.log")
    assert not is_volatile(".aider.chat.history.md")
    assert is_volatile(".aider.chat.history.md", OF_AIDER)
