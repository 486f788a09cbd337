"""Files that changed since the record: a program of the folder is tried as it is now."""

from pathlib import Path

import pytest

from refold.engine.log.blobs import digest_only
from refold.engine.workspace.entries import FileChange, FolderChanged, FolderStarted, FolderState
from refold.engine.workspace.left_out import LogFiles
from refold.engine.workspace.scanning import Scanner
from refold.engine.workspace.tree import FileTree, TreeEntry
from refold.proxy.copies.today import (
    changed_since,
    is_ordinary,
    runs_own,
    take_today,
    taken_today,
)
from tests.support.folders import git, repository

FILES = {"agent.py": "1\n", "lib/prompts.py": "old\n", "calc.py": "a - b\n", "notes.md": "n\n"}


def recorded(top: Path, below: str = "") -> FolderState:
    """Return a folder at its end: the run changed `calc.py`."""
    log = top.parent / "x.jsonl"
    with Scanner(top, LogFiles(log, top, top), digest_only, bytes) as scanner:
        first = scanner.scan()
    state = FolderState()
    state.apply(FolderStarted(str(top), below, first.tree, first.repositories, first.by_git))
    now = TreeEntry("calc.py", "100644", "own", digest_only(b"a + b\n"), 6)
    change = FileChange("calc.py", None, now)
    digest = FileTree.of(first.tree.bases, [*first.tree.differs, now]).digest
    state.apply(FolderChanged((change,), digest, is_end=True))
    return state


def edited(top: Path) -> None:
    """Do what a developer does after a record: edit, add, remove; and what the run did."""
    (top / "lib" / "prompts.py").write_text("new\n")
    (top / "changed.py").write_text("2\n")
    (top / "notes.md").unlink()
    (top / "calc.py").write_text("a + b\n")
    (top / "m.pyc").write_text("x")
    (top / "other.jsonl").write_text("{}")


@pytest.mark.parametrize("is_committed", [False, True])
def test_what_changed_since_is_found(tmp_path: Path, *, is_committed: bool) -> None:
    """Committed or not; without what the run itself changed, logs, and what is volatile."""
    top = repository(tmp_path / "r", FILES)
    state = recorded(top)
    edited(top)
    if is_committed:
        git(top, "add", "-A")
        git(top, "commit", "-qm", "since")
    started = state.started
    assert started is not None

    found = changed_since(state, started, tmp_path / "x.jsonl", top)

    assert found == ["changed.py", "lib/prompts.py", "notes.md"]


def test_what_was_committed_since_has_not_changed(tmp_path: Path) -> None:
    """Not what the folder held at the first commit, either; another content is another file."""
    top = tmp_path / "r"
    (top / "lib").mkdir(parents=True)
    git(top, "init", "-q")
    for path, text in FILES.items():
        (top / path).write_text(text)
    state = recorded(top)
    (top / "notes.md").write_text("new\n")
    git(top, "add", "-A")
    git(top, "-c", "user.name=a", "-c", "user.email=b", "commit", "-qm", "since")
    started = state.started
    assert started is not None

    assert changed_since(state, started, tmp_path / "x.jsonl", top) == ["notes.md"]


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (["python", "agent.py"], True),
        (["python", "{top}/agent.py"], True),
        (["python", "-m", "lib.prompts"], True),
        (["bash", "-c", "cd . && python agent.py --fast"], True),
        (["uv", "run", "./agent.py"], True),
        (["claude", "-p", "fix the notes"], False),
        (["aider", "--message", "fix", "calc.py"], False),  # it is what the run changed
        (["agent", "notes.md"], False),
        (["python", "../outside.py"], False),
        (["python", "missing.py"], False),
        (["x\0y", "a" * 5000], False),
    ],
)
def test_a_command_that_is_a_program_of_the_folder_is_known(
    tmp_path: Path, command: list[str], *, expected: bool
) -> None:
    top = repository(tmp_path / "r", FILES)
    (tmp_path / "outside.py").write_text("")
    words = [word.replace("{top}", str(top)) for word in command]

    assert runs_own(words, recorded(top), top) is expected


def test_a_program_below_the_top_is_known_by_its_name_there(tmp_path: Path) -> None:
    top = repository(tmp_path / "r", FILES)

    assert runs_own(["python", "prompts.py"], recorded(top, "lib"), top)
    assert not runs_own(["python", "prompts.py"], recorded(top), top)


def test_a_program_of_the_folder_runs_as_it_is_now(tmp_path: Path) -> None:
    """With its modules; what the run changed begins as recorded.  Another agent gets all so."""
    top = repository(tmp_path / "r", FILES)
    state = recorded(top)
    copies = [repository(tmp_path / name, FILES) for name in ("one", "two")]
    edited(top)
    was, log = list(FILES), tmp_path / "x.jsonl"

    own = taken_today(state, log, ["python", "agent.py"], top, copies[0], was)
    other = taken_today(state, log, ["claude"], top, copies[1], was)

    changed = ["changed.py", "lib/prompts.py", "notes.md"]
    told = f"changed since the recording, and taken from {top}: {', '.join(changed)}"
    assert own == (changed, [told])
    assert (copies[0] / "lib" / "prompts.py").read_text() == "new\n"
    assert (copies[0] / "changed.py").exists()
    assert not (copies[0] / "notes.md").exists()
    assert (copies[0] / "calc.py").read_text() == "a - b\n"
    told = "changed since the recording, but as recorded in the copy: lib/prompts.py, notes.md"
    assert other == ([], [told])
    assert git(copies[1], "status", "--porcelain") == ""


def test_nothing_is_written_through_a_link_of_the_copy(tmp_path: Path) -> None:
    for name in ("today/l", "copy", "outside"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "today" / "l" / "x").write_text("x")
    (tmp_path / "copy" / "l").symlink_to(tmp_path / "outside")

    take_today(["l/x", ".git/hooks/x"], tmp_path / "today", tmp_path / "copy")

    assert list((tmp_path / "outside").iterdir()) == []
    assert [each.name for each in (tmp_path / "copy").iterdir()] == ["l"]


def test_a_folder_that_cannot_be_looked_at_is_told(tmp_path: Path) -> None:
    top = repository(tmp_path / "r", FILES)
    state = recorded(top)
    (top / ".git" / "HEAD").write_text("nonsense")

    taken, (told,) = taken_today(state, tmp_path / "x.jsonl", ["a"], top, tmp_path / "copy", [])

    assert (taken, told.startswith(f"{top} was not compared with the recorded folder: ")) == (
        [],
        True,
    )


@pytest.mark.parametrize(
    ("path", "expected"),
    [("/", False), ("/usr/share", False), ("/home/ann/p", True), ("/home/ann", False),
     ("/home", False), ("/home/ann/../x", False), ("/work", True)],
)  # fmt: skip
def test_folders_of_the_system_and_of_the_user_are_not_of_work(
    path: str, monkeypatch: pytest.MonkeyPatch, *, expected: bool
) -> None:
    monkeypatch.setenv("HOME", "/home/ann")

    assert is_ordinary(path) is expected
