"""The folder at the end of a replay is compared with the recorded one."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from refold.engine.log.names import files_of
from refold.engine.observed.binding import Bindings
from refold.engine.workspace.contents import Contents
from refold.engine.workspace.entries import (
    FolderChanged,
    FolderLost,
    FolderState,
)
from refold.engine.workspace.git import Git
from refold.engine.workspace.left_out import LogFiles
from refold.engine.workspace.packing import contents_of
from refold.engine.workspace.scanning import Scanner
from refold.proxy.copies.ended import EndedFolder, FolderComparison
from tests.support.folders import git, repository, start_of

FILES = {"a": "one\n", "b": "two\n", "d/c": "three\n", "run": "x\n", ".gitignore": "*.log\n"}


def compared(
    folder: Path, recorded: Callable[[Path], object], now: Callable[[Path], object]
) -> EndedFolder:
    """Record what one function does to a folder, and compare with what another does to a copy."""
    top, log = repository(folder / "r", FILES), folder / "x.jsonl"
    copy = folder / "work" / "copy"
    shutil.copytree(top, copy, symlinks=True)
    state = FolderState()
    with Scanner(top, LogFiles(log, top, top), packs=files_of(log)) as scanner:
        state.apply(start_of(scanner, top))
        recorded(top)
        state.apply(FolderChanged(scanner.scan(is_last=True).changes, is_end=True))
    assert state.started is not None
    with (
        contents_of(log, state.started, folder / "made")[0] as contents,
        FolderComparison(copy, contents, ["skipped/*"]) as comparison,
    ):
        now(copy)
        return comparison.end(state, Bindings())


def edit(top: Path) -> None:
    """Do what a coding agent does: edit, create, remove, rename, commit."""
    (top / "a").write_text("changed\n")
    (top / "new").write_text("new\n")
    (top / "b").unlink()
    (top / "d" / "c").rename(top / "d" / "moved")
    git(top, "add", "-A")
    git(top, "commit", "-qm", "by the agent")
    (top / "run").chmod(0o755)


def test_the_same_work_leaves_the_same_files(tmp_path: Path) -> None:
    """Whatever its commits are called."""
    assert compared(tmp_path, edit, edit) == EndedFolder()


def test_each_file_that_differs_is_there_with_both_texts(tmp_path: Path) -> None:
    """Changed in the record or now, or in both."""

    def other(top: Path) -> None:
        edit(top)
        (top / "a").write_text("otherwise\n")
        (top / "new").unlink()
        (top / "b").write_text("two\n")
        (top / "run").chmod(0o644)
        (top / "more").write_bytes(b"\xff" * 3)
        (top / "link").symlink_to("/etc/passwd")
        (top / ".gitignore").write_text("")

    found = compared(tmp_path, edit, other)

    assert found.recorded == {
        "a": "changed\n", "new": "new\n", "run": "mode 100755\nx\n", ".gitignore": "*.log\n",
    }  # fmt: skip
    begin, more = found.now["more"].split(", ")
    assert (begin, len(more)) == ("3 bytes", 64)
    assert {path: text for path, text in found.now.items() if path != "more"} == {
        "a": "otherwise\n", "b": "two\n", "run": "mode 100644\nx\n", "link": "/etc/passwd",
        ".gitignore": "",
    }  # fmt: skip


def test_what_is_volatile_or_ignored_is_not_compared(tmp_path: Path) -> None:
    """By git, by the rules that are built in, by an option."""

    def other(top: Path) -> None:
        edit(top)
        for name in ("x.log", "m.pyc", ".aider.tags.cache.v4/x", "skipped/x"):
            (top / name).parent.mkdir(exist_ok=True)
            (top / name).write_text("x")

    assert compared(tmp_path, edit, other) == EndedFolder()


def test_a_link_in_the_place_of_a_folder_is_not_followed(tmp_path: Path) -> None:
    """Nothing of what is outside gets into a report."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "c").write_text("secret")

    def other(top: Path) -> None:
        shutil.rmtree(top / "d")
        (top / "d").symlink_to(tmp_path / "outside")

    found = compared(tmp_path, lambda _: None, other)

    assert found.recorded == {"d/c": "three\n"}
    assert found.now == {"d": str(tmp_path / "outside")}


@pytest.mark.parametrize(
    ("entries", "why"),
    [([], "it is not in the log"), ([FolderLost("disk full")], "disk full")],
)
def test_without_an_end_it_is_said_that_nothing_was_compared(
    tmp_path: Path, entries: list[FolderLost], why: str
) -> None:
    state = FolderState()
    for entry in entries:
        state.apply(entry)
    (tmp_path / "copy").mkdir()
    git_of = Git.made(tmp_path, tmp_path / "made")
    with FolderComparison(tmp_path / "copy", Contents(git_of)) as comparison:
        found = comparison.end(state, Bindings())

    assert found == EndedFolder(note=f"the folder at the end was not compared: {why}")


def test_a_command_cannot_hide_what_it_left_behind_its_repository(tmp_path: Path) -> None:
    """Nothing that it made of `.git` counts: broken, led elsewhere, or told of no work tree."""
    (tmp_path / "elsewhere").mkdir()

    def broken(top: Path) -> None:
        (top / ".git" / "HEAD").write_text("nonsense")
        (top / ".git" / "config").write_text("[core]\n\tworktree = /\n[")
        (top / "a").write_text("otherwise\n")

    def led(top: Path) -> None:
        shutil.rmtree(top / ".git")
        (top / ".git").symlink_to(tmp_path / "elsewhere")
        (top / "a").write_text("otherwise\n")

    for number, way in enumerate((broken, led)):
        (folder := tmp_path / str(number)).mkdir()
        found = compared(folder, lambda _: None, way)
        assert (found.recorded, found.now) == ({"a": "one\n"}, {"a": "otherwise\n"})


@pytest.mark.long
def test_what_was_not_compared_is_a_difference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pipe that git opens never ends."""
    monkeypatch.setattr("refold.engine.workspace.git.LIMIT", 0.5)

    def stopping(top: Path) -> None:
        (top / "d" / ".gitignore").unlink(missing_ok=True)
        os.mkfifo(top / "d" / ".gitignore")

    found = compared(tmp_path, lambda _: None, stopping)

    assert found.recorded.keys() == found.now.keys() != set()
    assert "not compared" in str(found.now)
    assert "no answer within" in str(found.now)
