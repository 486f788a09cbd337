"""A law: what a replay says of files that changed since the recording is what happened.

The agent reads every file that it is given. Each place where a user may stand is tried with each
change and each way to start the agent: a sample by default, all of them as a slow test.
"""

import shutil
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Final

import attrs
import pytest

from refold.engine.errors import FolderIncomplete, UsageError
from refold.engine.log.beside import packs_of
from refold.engine.log.names import files_of
from refold.proxy.copies import placing
from refold.proxy.copies.placing import Copying
from refold.proxy.sessions import record_command, replay_command
from refold.replay.observed.report import ObservedReport
from tests.proxy.copies.test_placing import no_sandbox
from tests.proxy.test_sessions import CLIENT
from tests.support.folders import git, repository
from tests.support.loops import some
from tests.support.upstream import Upstream

AGENT: Final = """
    import os
    SYSTEM = "Look at all."
    top = os.getcwd()
    while not os.path.exists(os.path.join(top, "agent.py")):
        top = os.path.dirname(top)
    os.chdir(top)
    def everything():
        found = []
        for folder, names, files in os.walk("."):
            names[:] = sorted({*names} - {".git", "__pycache__", "runs", "left"})
            for path in sorted(os.path.join(folder, name) for name in files if name != ".git"):
                found.append(path + ": " + open(path).read())
        return chr(10).join(found)
    text_of(ask("Hello " + SYSTEM + everything()))
    open("work.py", "w").write("two" + chr(10))
    os.rename("old.md", "moved.md")
    os.unlink("drop.md")
    open("made.md", "w").write("made" + chr(10))
    print(text_of(ask("Hello again " + everything())))
"""
FILES: Final = {
    "agent.py": textwrap.dedent(CLIENT) + textwrap.dedent(AGENT),
    "prompts/lead.md": "Be brief.\n", "CLAUDE.md": "Rules.\n", "work.py": "one\n",
    "old.md": "old\n", "drop.md": "drop\n", "pkg/here.md": "here\n", ".gitignore": "left\n",
    "Makefile": f"go:\n\t@{sys.executable} agent.py\n",
    "package.json": f'{{"scripts": {{"go": "{sys.executable} agent.py"}}}}\n',
}  # fmt: skip


@attrs.frozen
class World:
    """Where an agent was recorded, and where the user stands at a replay."""

    top: Path
    main: Path
    below: str = ""
    is_git: bool = True

    @property
    def log(self) -> Path:
        """The record."""
        return self.top / "run.jsonl"


# --- where the user stands ---------------------------------------------------------------------

Place = Callable[[World], Path]
"""Makes the folder; those that are made before the run are in `BEFORE`."""


def _cloned(world: World, *options: str) -> Path:
    git(world.top, "clone", "-q", *options, world.main.as_uri(), "there")
    return world.top / "there"


def _copied(world: World) -> Path:
    shutil.copytree(world.main, world.top / "there", symlinks=True)
    return world.top / "there"


def _at_another_commit(world: World) -> Path:
    there = _cloned(world)
    (there / "prompts" / "lead.md").write_text("Be very brief.\n")
    git(there, "commit", "-qam", "another")
    return there


def _worktree(world: World) -> Path:
    git(world.main, "worktree", "add", "-q", "--detach", str(world.top / "there"))
    return world.top / "there"


PLACES: Final[dict[str, Place]] = {
    "same": lambda world: world.main,
    "copy before": _copied,
    "copy after": _copied,
    "clone": _cloned,
    "another commit": _at_another_commit,
    "worktree": _worktree,
    "submodule": _cloned,
    "subfolder": _cloned,
    "plain": lambda world: world.main,
    "plain copy": _copied,
    "shallow": lambda world: _cloned(world, "--depth", "1"),
}


def _world(top: Path, place: str) -> World:
    main = top / "main"
    is_git = not place.startswith("plain")
    repository(main, FILES)
    git(main, "commit", "-q", "--allow-empty", "-m", "second")
    if place == "submodule":
        inner = repository(top / "inner", {"s.md": "sub\n"})
        git(main, "submodule", "--quiet", "add", str(inner), "lib")
        git(main, "commit", "-qm", "with it")
    if not is_git:
        shutil.rmtree(main / ".git")
    (main / "left").write_text("ignored\n")
    return World(top, main, "pkg" if place == "subfolder" else "", is_git=is_git)


# --- what became of the files ------------------------------------------------------------------

EDIT: Final = "used"
"""It is an edit: the replay differs, and names it as the cause."""


@attrs.frozen
class Change:
    """Something that a user does, and what the report says of it."""

    does: Callable[[World, Path], object]
    says: str = ""
    """`EDIT`, or the beginning of the note; empty if nothing is said."""
    path: str = ""
    """What it names."""
    in_git: bool = True
    """Whether git is to know of it."""


def _wrote(path: str, text: str) -> Callable[[World, Path], object]:
    def does(_world: World, there: Path) -> None:
        (there / path).write_text(text)

    return does


def _renamed(_world: World, there: Path) -> None:
    """Rename what the run renamed: as it is called where the user stands."""
    name = next(name for name in ("moved.md", "old.md") if (there / name).exists())
    (there / name).rename(there / "elsewhere.md")


def _merged(_world: World, there: Path) -> None:
    (there / "prompts" / "lead.md").write_text("A colleague's.\n")
    (there / "prompts" / "new.md").write_text("More.\n")


def _recorded_again(world: World, there: Path) -> None:
    if not (there / "old.md").exists():
        (there / "moved.md").rename(there / "old.md")
        (there / "drop.md").write_text("drop\n")
    record_command([sys.executable, str(there / "agent.py")], log=world.top / "second.jsonl")


NEW: Final = "new since the recording, so not in the copy: "
CHANGES: Final = {
    "nothing": Change(lambda _world, _there: None),
    "program": Change(
        _wrote("agent.py", FILES["agent.py"].replace("all", "ALL")), EDIT, "agent.py"
    ),
    "prompt": Change(_wrote("prompts/lead.md", "Be rude.\n"), EDIT, "prompts/lead.md"),
    "configuration": Change(_wrote("CLAUDE.md", "Other rules.\n"), EDIT, "CLAUDE.md"),
    "edited by both": Change(_wrote("work.py", "mine\n"), "work.py: changed by the run and by you"),
    "renamed by both": Change(_renamed, NEW, "elsewhere.md"),
    "deleted": Change(
        lambda _world, there: (there / "work.py").unlink(), "work.py: changed by the run and by you"
    ),
    "generated": Change(_wrote("report.txt", "report\n"), NEW, "report.txt", in_git=False),
    "new": Change(_wrote("prompts/new.md", "More.\n"), EDIT, "prompts/new.md"),
    "colleague": Change(_merged, EDIT, "prompts/lead.md, prompts/new.md"),
    "dirty": Change(lambda _world, _there: None),
    "second recording": Change(_recorded_again),
}
COMMITTED: Final = ("colleague", "renamed by both", "new")


# --- how the agent is started ------------------------------------------------------------------


def _outside(world: World, _there: Path) -> list[str]:
    script = world.top / "start.sh"
    up = "cd ..\n" if world.below else ""
    script.write_text(f"{up}exec {sys.executable} agent.py\n")
    return ["sh", str(script)]


def _console(world: World, there: Path) -> list[str]:
    script = world.top / f"console-{there.name}"
    script.write_text(
        f"#!{sys.executable}\nimport sys\nsys.dont_write_bytecode = True\n"
        f"sys.path.insert(0, {str(there)!r})\nimport agent\n"
    )
    script.chmod(0o755)
    return [str(script)]


def _up(world: World) -> str:
    return ".." if world.below else "."


STARTS: Final[dict[str, Callable[[World, Path], list[str]]]] = {
    "word": lambda world, _: [sys.executable, f"{_up(world)}/agent.py"],
    "make": lambda world, _: ["make", "-s", "-C", _up(world), "go"],
    "npm": lambda world, _: ["npm", "--prefix", _up(world), "--silent", "run", "go"],
    "uv": lambda world, _: [
        "uv", "--offline", "--no-cache", "run", "--no-project", "--python", sys.executable,
        f"{_up(world)}/agent.py",
    ],
    "outside": _outside,
    "console": _console,
}  # fmt: skip


# --- the law -----------------------------------------------------------------------------------


def _case(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, change: str, start: str,
    copying: Copying | None = None, profile: str = "",
) -> tuple[ObservedReport, Path]:  # fmt: skip
    """Record in one folder, stand in another, change it, and replay there."""
    if shutil.which({"word": "sh", "outside": "sh", "console": "sh"}.get(start, start)) is None:
        pytest.skip(f"{start} is not installed")
    world, done = _world(tmp_path, place), CHANGES[change]
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    if change == "dirty":
        (world.main / "prompts" / "lead.md").write_text("Dirty.\n")
        (world.main / "scratch.md").write_text("scratch\n")
    there = PLACES[place](world) if place in ("copy before", "plain copy") else None
    with Upstream() as upstream:
        upstream.lead(monkeypatch)
        monkeypatch.chdir(world.main / world.below)
        record_command(STARTS[start](world, world.main), log=world.log)
        there = there or PLACES[place](world)
        monkeypatch.chdir(there / world.below)
        done.does(world, there)
    if world.is_git and done.in_git and change in COMMITTED:
        git(there, "add", "-A")
        if change == "colleague":
            git(there, "commit", "-qm", "theirs")
    command = STARTS[start](world, there)
    return replay_command(
        world.log, command, copying=copying or Copying(), profile=profile,
        write=lambda _content: None,
    ), there  # fmt: skip


def _is_true(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, change: str, start: str
) -> None:
    report, there = _case(tmp_path, monkeypatch, place, change, start)
    done, told, whole = CHANGES[change], "\n".join(report.notes), str(report)
    is_new_in_plain = place.startswith("plain") and change in ("new", "generated")
    says = NEW if is_new_in_plain else done.says
    path = "prompts/new.md" if is_new_in_plain and change == "new" else done.path
    if place.startswith("plain") and change == "colleague":
        path = "prompts/lead.md"
    is_edit = says == EDIT or place == "another commit"

    assert report.identical is not is_edit, whole
    assert report.unused == (), whole
    assert ("your edits are the cause" in told) is is_edit, whole
    used = f"changed since the recording, and used from {there}: "
    assert (used in told) is is_edit, whole
    if says == EDIT:
        named = told.partition(used)[2].partition("\n")[0].split(", ")
        assert {*path.split(", ")} <= {*named}, whole
    elif says:
        assert any(note.startswith(says) and path in note for note in report.notes), whole
    is_elsewhere = there != tmp_path / "main"
    assert report.files.startswith(f"files: {there}, recorded in ") is is_elsewhere, whole


SAMPLE: Final = (
    ("same", "prompt", "make"), ("plain copy", "generated", "word"),
    ("shallow", "configuration", "console"), ("copy after", "renamed by both", "word"),
)  # fmt: skip
WHOLE: Final = tuple(
    (place, change, tuple(STARTS)[(row + column) % len(STARTS)])
    for row, place in enumerate(PLACES)
    for column, change in enumerate(CHANGES)
)
"""All pairs: each place and change has a way to start, in turn."""


@pytest.mark.parametrize(("place", "change", "start"), some(1, SAMPLE))
def test_what_is_said_of_changed_files_is_what_happened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str, place: str, change: str, start: str
) -> None:
    del way
    _is_true(tmp_path, monkeypatch, place, change, start)


AGENTS: Final = "claude-code"


@pytest.mark.long
@pytest.mark.parametrize(
    ("change", "profile", "copying", "is_used"),
    some(
        1,
        [
            ("prompt", AGENTS, Copying(), False),
            ("configuration", AGENTS, Copying(), True),
            ("prompt", AGENTS, Copying(files="today"), True),
            ("generated", "", Copying(files="today"), True),
            ("configuration", "", Copying(files="recorded"), False),
        ],
    ),
)
def test_edits_that_are_not_used_are_in_the_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str, profile: str,
    copying: Copying, *, is_used: bool,
) -> None:  # fmt: skip
    """An agent that works on the folder gets its own files alone; an option decides by hand."""
    report, _ = _case(tmp_path, monkeypatch, "same", change, "make", copying, profile)

    path = CHANGES[change].path
    verdict = f"identical on the recorded files; 1 has changed since: {path}; `--copy today` uses"
    assert report.identical is not is_used, str(report)
    assert report.headline.startswith(verdict) is not is_used
    assert report.unused == (() if is_used else (path,))


@pytest.mark.long
def test_a_changed_copy_of_the_program_is_not_tried_on_the_recorded_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They lack it, so that it would differ there in any case."""
    world = _world(tmp_path, "plain")
    with Upstream() as upstream:
        upstream.lead(monkeypatch)
        monkeypatch.chdir(world.main)
        record_command([sys.executable, "agent.py"], log=world.log)
    changed = (world.main / "agent.py").read_text().replace("Look at all.", "Look at some.")
    (world.main / "changed.py").write_text(changed)

    report = replay_command(world.log, [sys.executable, "changed.py"])

    assert not report.identical
    assert "on the recorded files" not in "\n".join(report.notes)


def test_files_of_today_that_are_not_here_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By default, such a record runs on its own files, and says so."""
    world = _world(tmp_path, "plain")
    (world.main / "left").unlink()
    command = [sys.executable, "agent.py"]
    with Upstream() as upstream:
        upstream.lead(monkeypatch)
        monkeypatch.chdir(world.main)
        record_command(command, log=world.log)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    shutil.rmtree(world.main)

    report = replay_command(world.log, command)

    assert report.identical, str(report)
    assert f"{world.main} is not on this machine, so all files are as recorded" in report.notes
    with pytest.raises(UsageError, match=r"--copy today: .* is not on this machine"):
        replay_command(world.log, command, copying=Copying(files="today"))


@pytest.mark.long
def test_an_ignored_file_that_the_run_changed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy has it as it is now: the log has no older content."""
    world = _world(tmp_path, "same")
    monkeypatch.chdir(world.main)
    record_command(["sh", "-c", "echo more >> left"], log=world.log)

    notes = replay_command(world.log, ["true"]).notes

    told = "changed during the recorded run, but as they are now in the copy: left; if"
    assert any(each.startswith(told) for each in notes)


LOOKS: Final = """
    import subprocess
    def runs(command):
        return subprocess.run(command, shell=True, capture_output=True, text=True).stdout
    print(text_of(ask("Hello " + runs("git log --format=%s; git status --short; cat work.py"))))
"""


@pytest.mark.long
@pytest.mark.parametrize("kept", some(1, ["in the folder", "", "all"]))
def test_a_shallow_clone_has_what_is_beside_the_log_and_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: str
) -> None:
    """The recorded commit is in neither the clone nor on this machine: files and history."""
    world = _world(tmp_path, "clone")
    (tmp_path / "looks.py").write_text(textwrap.dedent(CLIENT) + textwrap.dedent(LOOKS))
    command = [sys.executable, str(tmp_path / "looks.py")]
    log = world.main / "runs" / "run.jsonl" if kept == "in the folder" else world.log
    with Upstream() as upstream:
        upstream.lead(monkeypatch)
        monkeypatch.chdir(world.main)
        record_command(command, log=log, keeps_all=kept == "all")
    assert packs_of(log) == ([files_of(log) / "0.pack"] if kept else [])
    (world.main / "CLAUDE.md").write_text("Newer.\n")
    git(world.main, "add", "-A")
    git(world.main, "commit", "-qm", "third")
    there = _cloned(world, "--depth", "1")
    world.main.rename(tmp_path / "gone")
    monkeypatch.chdir(there)
    log = there / "runs" / "run.jsonl" if kept == "in the folder" else log
    if kept:
        report = replay_command(log, command, copying=Copying(files="recorded"))
        assert report.identical, str(report)
    else:
        with pytest.raises(FolderIncomplete, match=f"{there} is a shallow clone: fetch all"):
            replay_command(log, command)


@pytest.mark.long
@pytest.mark.parametrize("number", range(len(WHOLE)), ids=map("-".join, WHOLE))
def test_it_is_so_of_all_changes_in_all_places(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """By turns in a sandbox and without one."""
    if (number // 2 + number // len(CHANGES)) % 2:
        monkeypatch.setattr(placing, "no_layers", no_sandbox)
    _is_true(tmp_path, monkeypatch, *WHOLE[number])
