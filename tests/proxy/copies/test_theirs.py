"""Program files of a recorded folder are listed if they are not as in the user's."""

from pathlib import Path

import pytest

from refold.engine.workspace.entries import FolderStarted, FolderState
from refold.engine.workspace.tree import FileTree
from refold.proxy.copies.theirs import programs_of
from tests.support.folders import kept


def test_programs_that_differ_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Changed, added, executable, linked; not texts, nor what is the same."""
    mine, log = tmp_path / "mine", tmp_path / "x.jsonl"
    mine.mkdir()
    monkeypatch.chdir(mine)
    for name in ("same.py", "agent.py"):
        (mine / name).write_text("same")
    entries = [
        kept(name, text.encode(), mode, log)
        for name, mode, text in (
            ("agent.py", "100644", "theirs"), ("notes.txt", "100644", "theirs"),
            ("run", "100755", "theirs"), ("same.py", "100644", "same"),
            ("subprocess.py", "100644", "theirs"),
        )
    ]  # fmt: skip
    tree = FileTree.of([], [*entries, kept("python", b"/bin/sh", "120000", log)])
    state = FolderState()

    assert programs_of(log, state) == ()
    state.apply(FolderStarted("/elsewhere", "", tree))
    assert programs_of(log, state) == ("agent.py", "python", "run", "subprocess.py")
