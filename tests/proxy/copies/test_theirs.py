"""Program files of a recorded folder are listed if they are not as in the user's."""

from pathlib import Path

import pytest

from refold.engine.log.blobs import BlobStore
from refold.engine.log.names import files_of
from refold.engine.workspace.entries import FolderStarted, FolderState
from refold.engine.workspace.tree import FileTree, TreeEntry
from refold.proxy.copies.theirs import programs_of


def test_programs_that_differ_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Changed, added, executable, linked; not texts, nor what is the same."""
    mine, log = tmp_path / "mine", tmp_path / "x.jsonl"
    mine.mkdir()
    monkeypatch.chdir(mine)
    for name in ("same.py", "agent.py"):
        (mine / name).write_text("same")
    store = BlobStore(files_of(log))
    entries = [
        TreeEntry(name, mode, "own", store.put(text.encode()), len(text))
        for name, mode, text in (
            ("agent.py", "100644", "theirs"), ("notes.txt", "100644", "theirs"),
            ("run", "100755", "theirs"), ("same.py", "100644", "same"),
            ("subprocess.py", "100644", "theirs"),
        )
    ]  # fmt: skip
    tree = FileTree.of([], [*entries, TreeEntry("python", "120000", "link", "/bin/sh", 7)])
    state = FolderState()

    assert programs_of(log, state) == ()
    state.apply(FolderStarted("/elsewhere", "", tree))
    assert programs_of(log, state) == ("agent.py", "python", "run", "subprocess.py")
