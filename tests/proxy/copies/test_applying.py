"""What a resumed command made is put into the user's folder, or nothing of it is (§16.21)."""

import os
import shutil
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from refold.engine.errors import GitFailed
from refold.engine.workspace.contents import Contents
from refold.engine.workspace.packing import packed_repository
from refold.proxy.copies.applying import FolderPatch
from refold.proxy.sessions import ResumedCommand, record_command, resume_command
from tests.proxy.desks.test_resuming import Provider
from tests.proxy.test_sessions import CLIENT
from tests.support.folders import kept, patch_with, repository

AGENT = """
    import pathlib, signal
    top = pathlib.Path(__file__).parent
    calc, old, run = map(pathlib.Path, ("calc.py", "old.txt", "sub/run.sh"))
    text = calc.read_text()
    text_of(ask(text))
    calc.write_text(text + "edited once\\n")
    if (top / "dies").exists():
        os.kill(os.getpid(), signal.SIGKILL)
    text_of(ask("twice " + text))
    calc.write_text(text + "edited twice\\n")
    old.unlink()
    run.parent.mkdir()
    run.write_text("echo")
    run.chmod(0o755)
    os.symlink("calc.py", "link")
    if (top / "fails").exists():
        text_of(ask("a third time " + text))
"""
_OTHERS = ("a file that went", "a mode")
ENDED = {"calc.py": "a - b\nedited twice\n", "sub/run.sh": "echo", "other.txt": "mine"}


@pytest.fixture(params=["git", pytest.param("plain", marks=pytest.mark.long)])
def project(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A folder in which an agent was killed after one edit; others lie there that it never saw."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    folder = tmp_path / "home" / "project"
    files = {"calc.py": "a - b\n", "old.txt": "old\n", ".gitignore": "deps\n"}
    if request.param == "git":
        repository(folder, files)
    else:
        folder.mkdir(parents=True)
        for name, text in files.items():
            (folder / name).write_text(text)
    monkeypatch.chdir(folder)
    (tmp_path / "agent.py").write_text(textwrap.dedent(CLIENT) + textwrap.dedent(AGENT))
    (tmp_path / "dies").touch()
    return folder


def _recorded(project: Path) -> tuple[Path, list[str]]:
    """Record the agent until it is killed, and let it live from now on."""
    top = project.parents[1]
    command = [sys.executable, str(top / "agent.py")]
    record_command(command, log=project / "run.jsonl")
    (top / "dies").unlink()
    (project / "other.txt").write_text("mine")
    return project / "run.jsonl", command


def _resumed(log: Path, command: list[str], name: str = "again") -> ResumedCommand:
    return resume_command(log, command, into=log.with_name(f"{name}.jsonl"), applies=True)


def _held(folder: Path) -> dict[str, str]:
    """Return what the files of a folder hold, without logs and git's own."""
    return {
        os.fspath(path.relative_to(folder)): path.read_text()
        for path in folder.rglob("*")
        if path.is_file()
        and not {".git", "run.files", "again.files", "third.files"} & {*path.parts}
        and path.suffix != ".jsonl"
        and path.name != ".gitignore"
    }


def test_what_the_copy_holds_is_put_into_the_folder(project: Path, provider: Provider) -> None:
    """Edits, new files with their mode, links; what went goes, and what it never saw stays."""
    log, command = _recorded(project)

    resumed = _resumed(log, command)

    assert resumed.is_applied, resumed.kept
    assert _held(project) == {**ENDED, "link": ENDED["calc.py"]}
    assert os.access("sub/run.sh", os.X_OK)
    assert (project / "link").readlink() == Path("calc.py")
    assert resumed.patch is not None
    assert "-edited once\n+edited twice\n" in resumed.patch.text
    assert provider.asked.total() == 2


@pytest.mark.long
def test_it_is_put_into_the_folder_in_which_the_command_is_started(
    project: Path, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy of the recorded one, which is not touched."""
    log, command = _recorded(project)
    there = project.parent / "there"
    shutil.copytree(project, there, ignore=shutil.ignore_patterns("run.*"))
    monkeypatch.chdir(there)
    before = _held(project)

    resumed = _resumed(log, command)

    assert resumed.is_applied, resumed.kept
    assert resumed.notes[0] == f"files: {there}, recorded in {project}"
    assert _held(there) == {**ENDED, "link": ENDED["calc.py"]}
    assert _held(project) == before
    assert provider.asked.total() == 2


@pytest.mark.parametrize(
    "change", ["an edit", *(pytest.param(each, marks=pytest.mark.long) for each in _OTHERS)]
)
def test_a_folder_that_is_not_as_the_record_left_it_is_not_touched(
    project: Path, provider: Provider, change: str
) -> None:
    log, command = _recorded(project)
    if change == "an edit":
        (project / "calc.py").write_text("mine\n")
    elif change == "a mode":
        (project / "calc.py").chmod(0o755)
    else:
        (project / "old.txt").unlink()
    before = _held(project)

    resumed = _resumed(log, command)

    assert not resumed.is_applied
    assert resumed.patch is not None
    changed = "old.txt" if change == "a file that went" else "calc.py"
    assert resumed.kept.endswith(f"not as the record left it: changed: {changed}")
    assert _held(project) == before
    assert provider.asked.total() == 2


@pytest.mark.long
def test_a_run_that_breaks_off_twice_is_applied_when_it_ends(
    project: Path, provider: Provider
) -> None:
    """The folder is still as the first record left it, which the second log says, too."""
    log, command = _recorded(project)
    top = project.parents[1]
    (top / "fails").touch()
    provider.breaks[_third(), "429"] = 1
    first = _resumed(log, command)
    assert (first.ended.exit_code, first.is_applied) == (1, False)
    assert "edited once" in (project / "calc.py").read_text()

    second = _resumed(first.log, command, "third")

    assert (second.served, second.live, second.is_applied) == (2, 1, True)
    assert _held(project)["calc.py"] == ENDED["calc.py"]


def _third() -> str:
    system = '{"role": "system", "content": "the weather desk"}'
    return f'[{system}, {{"role": "user", "content": "a third time a - b\\n"}}]'


def _read_only(place: Path, patch: pytest.MonkeyPatch) -> None:
    place.mkdir()
    patch.setattr(os, "access", lambda path, _: Path(path) != place)  # root may write anywhere


WAYS: Final[dict[str, Callable[[Path, pytest.MonkeyPatch], object]]] = {
    "link": lambda place, _: place.symlink_to(place.parents[1] / "outside"),
    "file": lambda place, _: place.write_text("mine"),
    "folder": lambda place, _: (place / "b" / "mine").mkdir(parents=True),
    "read-only": _read_only,
}


@pytest.mark.parametrize("way", WAYS)
def test_where_something_is_in_the_way_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """Not through a link, and no other file either; git would fail when it has begun."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "in").mkdir()
    patch = patch_with(tmp_path / "in", tmp_path, {"a": b"x", "sub/b": b"x"})
    WAYS[way](tmp_path / "in" / "sub", monkeypatch)
    before = sorted(tmp_path.rglob("*"))

    with pytest.raises(GitFailed, match=r"in the way: sub(/b/mine)?$"):
        patch.apply()

    assert sorted(tmp_path.rglob("*")) == before


def test_a_folder_may_take_the_place_of_a_file_and_a_file_that_of_a_folder(tmp_path: Path) -> None:
    log = tmp_path / "x.jsonl"
    old = [kept(path, b"1", log=log) for path in ("a", "b/c")]
    new = [kept(path, b"2", log=log) for path in ("a/c", "b")]
    for one in old:
        (tmp_path / "in" / one.path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / one.path).write_text("1")
    files = [*((one.path, one, None) for one in old), *((one.path, None, one) for one in new)]
    files.sort()
    ids = [one.value for one in (*old, *new)]
    with Contents(packed_repository(log, ids, tmp_path / "made")) as contents:
        patch = FolderPatch(tmp_path / "in", files, contents.patch(files))

    patch.apply()

    assert _held(tmp_path / "in") == {"a/c": "2", "b": "2"}


@pytest.mark.long
def test_without_the_folder_there_is_no_patch(project: Path, provider: Provider) -> None:
    log, command = _recorded(project)
    moved = project.parents[1] / "moved"
    shutil.move(project, moved)
    (project.parent / "elsewhere").mkdir()
    os.chdir(project.parent / "elsewhere")

    resumed = _resumed(moved / log.name, command)

    assert (resumed.patch, resumed.is_applied) == (None, False)
    assert provider.asked.total() == 2


def test_a_log_does_not_choose_where_files_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only where the user stands, never in HOME, and only for a log of this machine."""
    (tmp_path / "home" / ".config" / "below").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    there = FolderPatch(tmp_path / "home" / ".config")
    monkeypatch.chdir(tmp_path)

    assert "only where you stand" in there.why_not(is_trusted=True)
    monkeypatch.chdir(tmp_path / "home" / ".config" / "below")
    assert there.why_not(is_trusted=True) == ""
    assert "not recorded on this machine" in there.why_not(is_trusted=False)
    assert "not a folder of work" in FolderPatch(tmp_path / "home").why_not(is_trusted=True)
