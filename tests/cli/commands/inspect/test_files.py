"""`refold files`, `refold show --files`: the folder of a recorded command, looked at."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from refold.engine.log.beside import packs_of
from refold.engine.log.names import files_of
from refold.engine.log.reader import read_entries
from refold.replay.observed.folder import folder_diffs
from refold.replay.testing.snapshot import delegation_text
from tests.support.editing import record_edits
from tests.support.folders import git
from tests.support.stores import folder_store

Invoke = Callable[..., Result]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One run."""
    return record_edits(tmp_path_factory.mktemp("recorded"), "r", {"new": "two"})


def test_files_are_listed_at_the_end_and_at_any_entry(recorded: Path, invoke: Invoke) -> None:
    """With what changed since the start."""
    end = json.loads(invoke("files", recorded, "--json").stdout)
    start = json.loads(invoke("files", recorded, "--at", "1", "--json").stdout)

    assert {file["path"]: file["change"] for file in end["files"]} == {
        "a.py": "changed", "b.py": "removed", "big": "", "pkg/new.py": "added", "pkg/x.py": "",
    }  # fmt: skip
    assert {file["path"] for file in start["files"]} == {"a.py", "b.py", "big", "pkg/x.py"}
    assert not any(file["change"] for file in start["files"])
    said = invoke("files", recorded, "pkg").stdout
    assert "pkg/new.py" in said
    assert "a.py" not in said
    assert "2 files, 1 changed" in said


def test_a_file_is_printed_as_it_was(recorded: Path, invoke: Invoke) -> None:
    """Its bytes, of the log or of the repository."""
    assert invoke("files", recorded, "a.py").stdout_bytes == b"two\n"
    assert invoke("files", recorded, "a.py", "--at", "1").stdout_bytes == b"one\n"
    assert invoke("files", recorded, "big").stdout_bytes == b"\0" * 100
    gone = invoke("files", recorded, "c.py")
    assert gone.exit_code == 2
    assert "c.py: no such file" in gone.stderr


def test_a_folder_is_restored_into_an_empty_one_alone(
    recorded: Path, invoke: Invoke, tmp_path: Path
) -> None:
    """Nothing is overwritten."""
    done = invoke("files", recorded, "-o", tmp_path / "out")
    again = invoke("files", recorded, "-o", tmp_path / "out")

    assert done.exit_code == 0, done.stderr
    files = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert {str(path.relative_to(tmp_path / "out")): path.read_bytes() for path in files} == {
        "a.py": b"two\n", "big": b"\0" * 100, "pkg/new.py": b"new\n", "pkg/x.py": b"x\n",
    }  # fmt: skip
    assert again.exit_code == 2
    assert "nothing is overwritten" in again.stderr


def test_a_log_without_a_folder_says_so(invoke: Invoke, survey_log: Path) -> None:
    """As every log of a program, and every one with `--workspace none`."""
    assert "no folder was recorded" in invoke("files", survey_log).stderr
    assert "no folder was recorded" in invoke("show", survey_log, "--files").stderr


def test_each_conversation_shows_what_it_changed(recorded: Path, invoke: Invoke) -> None:
    """In the tree, as a snapshot, and call by call as a diff."""
    tree = invoke("show", recorded).stdout
    assert "files     +1 ~1 -1" in tree
    assert "files     ~1\n" in tree
    assert "files     +1 -1" in tree
    (main,) = json.loads(invoke("show", recorded, "--json").stdout)["children"]
    assert [(use["path"], use["change"]) for use in main["files"]] == [("a.py", "changed")]
    text = delegation_text(recorded, files=True)
    assert "    file changed: a.py\n" in text
    assert "        file removed: b.py\n" in text
    assert "file" not in delegation_text(recorded)
    diffs = invoke("show", recorded, "--files").stdout
    assert "--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-one\n+two\n" in diffs
    assert "Edit" in diffs
    assert "+++ /dev/null" in diffs


def test_a_change_leads_to_the_calls_that_can_have_made_it(recorded: Path, invoke: Invoke) -> None:
    """They ran when the folder was looked at, or ended since it was before."""
    entries = {entry.seq: entry for entry in read_entries(recorded)}
    made = {seq: calls for seq, calls, _, _ in folder_diffs(recorded, has_diffs=False) if calls}
    assert made
    for seq, calls in made.items():
        causes = json.loads(invoke("why", recorded, str(seq), "--json").stdout)["causes"]
        direct = [each for each in causes if each["of"] == 0]
        assert {(each["how"], each["call"]) for each in direct} == {("during", c) for c in calls}
        assert {entries[each["seq"]].kind for each in direct} == {"tool.called"}


def test_a_repository_that_lost_its_files_is_named(
    recorded: Path, invoke: Invoke, tmp_path: Path
) -> None:
    """What is missing cannot be listed; contents of the log are there all the same."""
    top = recorded.parent / "r"
    (top / ".git").rename(tmp_path / "git")
    try:
        lost = invoke("files", recorded)
        diffs = invoke("show", recorded, "--files")
    finally:
        (tmp_path / "git").rename(top / ".git")

    assert lost.exit_code == 3
    assert "the content of" in lost.stderr
    assert "a.py: the repository has no such file" in diffs.stdout
    assert "+new" in diffs.stdout
    assert git(top, "status", "--porcelain").startswith("M a.py")


@pytest.mark.long
def test_the_final_folders_of_two_runs_are_held_side_by_side(
    recorded: Path, invoke: Invoke
) -> None:
    """Files are compared by what they hold, though the runs began in two repositories."""
    other = record_edits(recorded.parent, "other", {"new": "three"})
    (recorded.parent / "other").rename(recorded.parent / "moved")

    said = json.loads(invoke("diff", recorded, other, "--json").stdout)["files"]
    same = json.loads(invoke("diff", recorded, recorded, "--json").stdout)["files"]

    (file,) = said
    assert (file["path"], file["in_a"], file["in_b"]) == ("a.py", True, True)
    assert file["diff"][-2:] == ["-two", "+three"]
    assert same == []
    assert "a.py: the files differ at the end" in invoke("diff", recorded, other).stdout
    first, second = json.loads(invoke("ls", recorded, other, "--diff", recorded, "--json").stdout)[
        "runs"
    ]
    assert (first["differing_files"], second["differing_files"]) == ([], ["a.py"])


@pytest.mark.long
def test_runs_are_compared_by_their_files(recorded: Path, tmp_path: Path, invoke: Invoke) -> None:
    """What each changed, and which are others; those that cannot be read are said."""
    other = Path(shutil.copy(recorded, tmp_path))
    shutil.copytree(files_of(recorded), files_of(other))

    said = invoke("ls", recorded, other, "--diff", recorded)
    rows = json.loads(invoke("ls", recorded, other, "--diff", recorded, "--json").stdout)["runs"]

    assert said.exit_code == 0
    assert [row["changed_files"] for row in rows] == ["+1 ~1 -1"] * 2
    assert [row["differing_files"] for row in rows] == [[], []]
    assert said.stdout.count("+1 ~1 -1") == 2


def test_contents_go_into_a_store_on_request_and_are_listed_first(
    recorded: Path, tmp_path: Path, invoke: Invoke
) -> None:
    """What comes out of it gives all files without the repository; without them, verify says so."""
    bare, full = folder_store(tmp_path / "bare"), folder_store(tmp_path / "full")

    plain = invoke("push", recorded, bare)
    said = invoke("push", recorded, full, "--files")
    for url in (bare, full):
        invoke("pull", url, "--to", tmp_path / f"from-{url[-4:]}")
    recorded.parent.joinpath("r").rename(tmp_path / "away")
    try:
        left = tmp_path / "from-bare" / recorded.name
        found = tmp_path / "from-full" / recorded.name
        listed, given = invoke("files", found, "a.py"), invoke("files", found, "b.py", "--at", "1")
    finally:
        (tmp_path / "away").rename(recorded.parent / "r")

    assert "3 files by git" not in plain.stderr
    assert "3 files by git, 3 by content: a.py, big, pkg/new.py" in said.stderr
    assert (listed.stderr, given.stderr) == ("", "")
    assert (listed.stdout, given.stdout) == ("two\n", "bee\n")
    assert "3 contents of files not here" in invoke("verify", left).stdout
    assert "not here" not in invoke("verify", found).stdout


def test_a_changed_content_is_named_by_what_reads_it(
    recorded: Path, tmp_path: Path, invoke: Invoke
) -> None:
    """`verify`, `files`, `export` and `push`; and `verify --salvage` says where to look."""
    log = shutil.copy(recorded, tmp_path)
    shutil.copytree(files_of(recorded), files_of(Path(log)))
    for each in packs_of(Path(log)):
        each.write_bytes(b"x" * each.stat().st_size)

    for words in (
        ("verify", log),
        ("files", log, "a.py"),
        ("export", log, "--to", "refold", "--files", "-o", tmp_path / "x.refold"),
        ("push", log, folder_store(tmp_path / "store"), "--files"),
    ):
        said = invoke(*words)
        assert said.exit_code == 3, words
        what = "entries are inconsistent" if words[0] == "recover" else "damaged"
        assert what in said.output, words
    assert "a.py: " in invoke("verify", log).stdout


@pytest.mark.long
def test_a_folder_is_bound_in_the_files_of_two_runs(tmp_path: Path, invoke: Invoke) -> None:
    """As in what they asked."""
    logs = [
        record_edits(tmp_path, name, {"new": f"{tmp_path / name}/x\n"}) for name in ("one", "two")
    ]

    same = json.loads(invoke("diff", *logs, "--json").stdout)
    other = record_edits(tmp_path, "three", {"new": f"{tmp_path / 'three'}/y\n"})
    differs = json.loads(invoke("diff", logs[0], other, "--json").stdout)

    assert (same["identical"], same["files"]) == (True, [])
    assert [file["path"] for file in differs["files"]] == ["a.py"]


def test_a_page_has_diffs_on_request_and_lists_the_files_first(
    recorded: Path, tmp_path: Path, invoke: Invoke
) -> None:
    words = ("export", recorded, "--to", "html", "-o", tmp_path / "r.html")

    said = invoke(*words, "--files")

    assert said.exit_code == 0
    assert "with r.jsonl: diffs of a.py, b.py, pkg/new.py" in said.stderr
    assert "diffs of" not in invoke(*words).stderr
    assert invoke(*words, "--files", "--without-content").exit_code == 2
