"""Today's folder is found, and compared with the record."""

import shutil
import tempfile
from pathlib import Path

import attrs
import pytest

from refold.engine.log.names import files_of
from refold.engine.workspace.entries import FileChange, FolderChanged, FolderStarted, FolderState
from refold.engine.workspace.left_out import LogFiles
from refold.engine.workspace.packing import contents_of
from refold.engine.workspace.scanning import Scanner
from refold.engine.workspace.tree import FileTree
from refold.proxy import recorded_here
from refold.proxy.copies.current import (
    RecordedFolder,
    edits_of,
    is_ordinary,
    programs_of,
    todays_folder,
)
from refold.proxy.copies.whose import Files
from tests.support.folders import git, kept, repository, start_of
from tests.support.loops import some

FILES = {"agent.py": "1\n", "lib/prompts.py": "old\n", "calc.py": "a - b\n", "notes.md": "n\n"}
HEAD = "a" * 64


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.chdir(tmp_path)


def recorded(top: Path, below: str = "") -> RecordedFolder:
    """Return a folder at its end: the run changed `calc.py`."""
    log = top.parent / "x.jsonl"
    with Scanner(top, LogFiles(log, top, top), packs=files_of(log)) as scanner:
        started = start_of(scanner, top, below)
    state = FolderState()
    state.apply(started)
    change = FileChange("calc.py", None, kept("calc.py", b"a + b\n"))
    state.apply(FolderChanged((change,), is_end=True))
    contents, gits = contents_of(log, started, Path(tempfile.mkdtemp(dir=top.parent)))
    with contents:
        return RecordedFolder(log, HEAD, state, contents, contents.whole(started.tree), gits)


def fates(folder: RecordedFolder, top: Path, files: Files = "edits", *words: str) -> dict[str, str]:
    """Return what becomes of files that differ."""
    found = edits_of(folder, top, files, words)
    assert not found.problem
    return {path: fate for path, fate in found.fates.items() if fate != "known"}


@pytest.mark.parametrize("is_committed", some(1, [False, True]))
def test_edits_are_found(tmp_path: Path, *, is_committed: bool) -> None:
    """Committed or not; not what the run itself left, and no cache."""
    top = repository(tmp_path / "r", FILES)
    folder = recorded(top)
    (top / "lib" / "prompts.py").write_text("new\n")
    (top / "notes.md").unlink()
    (top / "calc.py").write_text("a + b\n")
    (top / "agent.py").chmod(0o755)
    (top / "m.pyc").write_text("x")
    (top / "data.jsonl").write_text("{}")
    if is_committed:
        git(top, "add", "-A")
        git(top, "commit", "-qm", "since")

    used = dict.fromkeys(("lib/prompts.py", "notes.md", "agent.py"), "used")
    assert fates(folder, top) == {**used, "data.jsonl": "used" if is_committed else "new"}


def test_what_was_committed_since_is_no_edit(tmp_path: Path) -> None:
    """Not what the folder held before the first commit, either; another content is one."""
    top = tmp_path / "r"
    (top / "lib").mkdir(parents=True)
    git(top, "init", "-q")
    for path, text in FILES.items():
        (top / path).write_text(text)
    folder = recorded(top)
    (top / "notes.md").write_text("new\n")
    git(top, "add", "-A")
    git(top, "commit", "-qm", "since")

    assert fates(folder, top) == {"notes.md": "used"}


def test_what_was_not_committed_when_recorded_is_no_edit_in_a_clone(tmp_path: Path) -> None:
    """A file that a clone lacks is named."""
    top = repository(tmp_path / "r", FILES)
    (top / "notes.md").write_text("dirty\n")
    (top / "scratch").write_text("mine\n")
    (top / "agent.py").unlink()
    folder = recorded(top)
    git(tmp_path, "clone", "-q", "r", "clone")

    assert fates(folder, tmp_path / "clone") == {"scratch": "missing"}
    (tmp_path / "clone" / "scratch").write_text("other\n")
    assert fates(folder, tmp_path / "clone") == {"scratch": "used"}


def test_edits_are_found_in_submodules_and_in_folders_that_were_empty(tmp_path: Path) -> None:
    top = repository(tmp_path / "r", FILES)
    repository(top / "sub", {"s": "1\n"})
    git(top, "add", "sub")
    (top / "empty").mkdir()
    folder = recorded(top)
    for path in ("sub/s", "empty/new"):
        (top / path).write_text("2\n")
    git(top, "add", "empty")

    assert fates(folder, top) == dict.fromkeys(("sub/s", "empty/new"), "used")


def test_a_recording_that_was_committed_is_no_edit(tmp_path: Path) -> None:
    """Neither its log nor the packs beside it."""
    top = repository(tmp_path / "r", FILES)
    folder, log = recorded(top), top / "x.jsonl"
    files_of(log).mkdir()
    for file in (log, files_of(log) / "1.pack", top / "x.py"):
        file.write_text("1\n")
    git(top, "add", "-A")
    git(top, "commit", "-qm", "with it")

    assert fates(attrs.evolve(folder, log=log), top) == {"x.py": "used"}


def test_an_agent_that_works_on_the_folder_gets_its_own_files(tmp_path: Path) -> None:
    """Its instructions, and what its command names."""
    top = repository(tmp_path / "r", {**FILES, "CLAUDE.md": "rules\n"})
    folder = recorded(top, "lib")
    (top / "CLAUDE.md").write_text("other rules\n")
    (top / ".claude").mkdir()
    for path in ("lib/prompts.py", "agent.py", "notes.md", ".claude/x.md"):
        (top / path).write_text("new\n")

    found = fates(folder, top, "own", "claude", "--file=prompts.py", f"cat {top}/notes.md")

    own = ("CLAUDE.md", ".claude/x.md", "lib/prompts.py", "notes.md")
    assert found == {**dict.fromkeys(own, "used"), "agent.py": "unused"}


@pytest.mark.long
def test_what_git_ignores_and_is_new_is_named(tmp_path: Path) -> None:
    """An agent's own files are used, ignored or not."""
    top = repository(
        tmp_path / "r", {**FILES, ".gitignore": ".claude\nnode_modules\n.env\n*_cache\n"}
    )
    folder = recorded(top)
    for path in (".claude/deep/x.md", "node_modules/m.js", ".env", ".ruff_cache/x"):
        (top / path).parent.mkdir(parents=True, exist_ok=True)
        (top / path).write_text("1")

    new = dict.fromkeys((".claude", "node_modules", ".env"), "new")
    assert fates(folder, top) == {".claude/deep/x.md": "used", **new}
    found = edits_of(folder, top, "today", []).tree(folder.whole).by_path
    assert {".env", ".claude/deep/x.md"} <= found.keys()
    assert "node_modules" not in found


def test_a_link_is_read_as_a_link(tmp_path: Path) -> None:
    top = repository(tmp_path / "r", FILES)
    folder = recorded(top)
    (top / "notes.md").unlink()
    (top / "notes.md").symlink_to("/etc/passwd")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "prompts.py").write_text("secret\n")
    shutil.rmtree(top / "lib")
    (top / "lib").symlink_to(tmp_path / "outside")

    found = edits_of(folder, top, "today", [])

    entries = found.tree(folder.whole).by_path
    assert entries["notes.md"] == kept("notes.md", b"/etc/passwd", "120000")
    assert "lib/prompts.py" not in entries
    assert entries["lib"] == kept("lib", bytes(tmp_path / "outside"), "120000")


def test_a_folder_that_cannot_be_looked_at_is_told(tmp_path: Path) -> None:
    top = repository(tmp_path / "r", FILES)
    folder = recorded(top)
    (top / ".git" / "HEAD").write_text("nonsense")

    (told,) = edits_of(folder, top, "edits", []).notes("r")

    assert told.startswith(f"{top} was not compared with the recorded folder: ")


def test_todays_folder_is_where_one_stands_if_it_is_of_the_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The recorded one, a clone, a work tree within it, a copy; else the recorded one."""
    top = repository(tmp_path / "r", FILES)
    folder = recorded(top)
    git(tmp_path, "clone", "-q", "r", "clone")
    git(top, "worktree", "add", "-q", "--detach", "trees/one")
    shutil.copytree(tmp_path / "clone", tmp_path / "copy")
    shutil.rmtree(tmp_path / "copy" / ".git")
    repository(tmp_path / "clone" / "vendor", {"v": "1"})
    repository(tmp_path / "other", {"o": "1"})
    places = {
        "r/lib": "r", "clone/lib": "clone", "r/trees/one/lib": "r/trees/one", "copy": "copy",
        "clone/vendor": "clone", "other": "r", ".": "r", "home": "r",
    }  # fmt: skip

    for here, expected in places.items():
        monkeypatch.chdir(tmp_path / here)
        assert todays_folder(folder) == tmp_path / expected, here


def test_a_folder_of_another_machine_is_not_taken_for_the_recorded_one(tmp_path: Path) -> None:
    """At its path is something else; unless this machine remembers the run."""
    top = repository(tmp_path / "r", FILES)
    folder = recorded(top)
    shutil.rmtree(top)
    assert todays_folder(folder) is None

    repository(top, {"else.py": "1\n"})
    assert todays_folder(folder) is None
    recorded_here.remember(HEAD)
    assert todays_folder(recorded_again(folder)) == top


def recorded_again(folder: RecordedFolder) -> RecordedFolder:
    """Return the same record, without what was found out about this machine."""
    return RecordedFolder(
        folder.log, folder.head, folder.state, folder.contents, folder.whole, folder.gits
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


def test_without_a_home_the_current_folder_is_one_of_work(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Containers and services may leave it empty."""
    monkeypatch.setenv("HOME", "")
    monkeypatch.chdir(tmp_path)

    assert is_ordinary(str(tmp_path))


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
