"""An agent that edits files is replayed in the folder in which it worked; that stays as it is."""

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import attrs
import pytest

from refold.engine.log.names import files_of
from refold.proxy.copies.placing import Copying
from refold.proxy.copies.sandbox import SandboxRefused, no_layers
from refold.proxy.sessions import fork_command, record_command, replay_command
from refold.replay.observed.report import ObservedReport
from tests.proxy.test_sessions import CLIENT, DEADLINE_SECONDS, refold_does
from tests.support.folders import git, repository
from tests.support.here import refold_here
from tests.support.upstream import Upstream

AGENT = """
    import subprocess
    def runs(command):
        done = subprocess.run(command, shell=True, capture_output=True, text=True)
        return done.stdout + done.stderr
    text = open("calc.py").read()
    found = runs("ls -A -I deps; git status --short; git log --format=%H; pwd")
    text_of(ask("Hello " + text + found))
    open("calc.py", "w").write(text.replace("-", "+"))
    open("new.py", "w").write("new")
    os.unlink("old.txt")
    os.rename("b.txt", "c.txt")
    runs("git add -A; git commit -qm work; echo x > ~/note; echo y > /tmp/refold-test-note")
    runs("git push -q origin HEAD; echo changed >> linked")
    print(text_of(ask("Hello " + runs("ls -A -I deps; git log --format=%s; git status --short"))))
"""


@attrs.frozen
class Scene:
    """A user's home with a repository, and an agent outside of it that worked there."""

    top: Path
    command: list[str]

    @property
    def log(self) -> Path:
        """The record."""
        return self.top / "run.jsonl"

    @property
    def project(self) -> Path:
        """The folder in which the agent works."""
        return self.top / "home" / "project"

    def replayed(self, **how: object) -> ObservedReport:
        """Replay the record where this process stands."""
        return replay_command(self.log, self.command, copying=Copying(**how))  # type: ignore[arg-type]

    def held(self) -> dict[str, str]:
        """Return a digest of all that the user has: home, repository, what links lead to."""
        found = {}
        for folder, _, names in os.walk(self.top):
            for path in (Path(folder, name) for name in names):
                content = os.fsencode(path.readlink()) if path.is_symlink() else path.read_bytes()
                found[str(path)] = hashlib.sha256(content).hexdigest()
        return found

    def kept(self) -> dict[str, str]:
        """Return what of it no replay may change on this system."""
        try:
            no_layers()
        except SandboxRefused:
            free = {str(self.top / "home" / "note"), str(self.top / "outside")}
            return {path: held for path, held in self.held().items() if path not in free}
        return self.held()


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    """An agent that has worked once, with the folder in the record."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("GIT_AUTHOR", "GIT_COMMITTER"):
        monkeypatch.setenv(f"{name}_NAME", "ann")
        monkeypatch.setenv(f"{name}_EMAIL", "ann@example.org")
    files = {"calc.py": "a - b\n", "old.txt": "old\n", "b.txt": "b\n", ".gitignore": "deps\n"}
    project = repository(tmp_path / "home" / "project", files)
    git(tmp_path, "init", "-q", "--bare", "remote.git")
    git(project, "remote", "add", "origin", str(tmp_path / "remote.git"))
    (tmp_path / "outside").write_text("mine\n")
    (project / "linked").symlink_to(tmp_path / "outside")
    (project / "deps").mkdir()
    (project / "deps" / "m").write_text("m")
    agent = tmp_path / "agent.py"
    agent.write_text(textwrap.dedent(CLIENT) + textwrap.dedent(AGENT))
    made = Scene(tmp_path, [sys.executable, str(agent)])
    monkeypatch.chdir(project)
    with Upstream() as upstream:
        upstream.lead(monkeypatch)
        record_command(made.command, log=made.log)
    return made


def test_it_is_identical_where_it_worked_and_nothing_is_changed(scene: Scene, way: str) -> None:
    """Edits, a new file, one removed, one renamed, a commit, a push, `~` and a link that leads out.

    Without a sandbox, what is outside of the copy is not kept from the command.
    """
    before = scene.held()

    reports = [scene.replayed() for _ in range(2)]

    assert [report.identical for report in reports] == [True, True], str(reports[0])
    assert any(
        ("in a sandbox" if way == "sandbox" else "no sandbox") in n for n in reports[0].notes
    )
    changed = {path for path, held in scene.held().items() if before.get(path) != held}
    outside = {str(scene.top / "home" / "note"), str(scene.top / "outside")}
    assert changed <= (outside if way == "elsewhere" else set())
    assert not list(Path(tempfile.gettempdir()).glob(f"refold-copy-{os.getpid()}*"))


@pytest.mark.long
def test_a_changed_file_at_the_end_is_a_difference(scene: Scene, way: str) -> None:
    """Shown as a diff, in the report and in JSON; ignored by a rule."""
    del way
    agent = scene.top / "agent.py"
    agent.write_text(agent.read_text().replace('.write("new")', '.write("newer")'))

    report = scene.replayed()
    (found,) = report.divergences
    ignored = scene.replayed(ignored=("new.py",))

    assert found.category == "output_changed"
    assert found.as_json()["now"]["arguments"] == {"files": {"new.py": "newer"}}
    assert found.as_json()["recorded"]["arguments"] == {"files": {"new.py": "new"}}
    assert "the command left different files: new.py" in str(report)
    assert ignored.identical


@pytest.mark.long
@pytest.mark.parametrize("at", [0, 3])
def test_a_fork_and_its_replay_run_in_a_copy(
    scene: Scene, at: int, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The proxy asks live; the command itself has no network. The new log has the folder, too."""
    before, into = scene.held(), scene.top / "fork.jsonl"
    with Upstream() as upstream:
        upstream.lead(monkeypatch)
        forked = fork_command(scene.log, scene.command, at=at, into=into)

    again = replay_command(into, scene.command)

    held = {path: one for path, one in scene.held().items() if "/fork." not in path}
    changed = {path for path, one in held.items() if before.get(path) != one}
    outside = {str(scene.top / "home" / "note"), str(scene.top / "outside")}
    assert forked.ended.exit_code == 0
    assert before.keys() <= held.keys()
    assert changed <= (outside if way == "elsewhere" else set())
    assert again.identical, str(again)
    for notes in (forked.notes, again.notes):
        assert any("in a copy" in note for note in notes), notes


@pytest.mark.long
def test_what_the_original_left_is_no_edit_to_a_replay_of_its_fork(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user's folder has a file that the original changed, and the fork changed another."""
    agent, origin, into = (scene.top / name for name in ("two.py", "two.jsonl", "fork.jsonl"))
    script = """
    said = text_of(ask("Hello " + open("calc.py").read() + open("new.py").read()))
    open("new.py" if said == "No idea." else "calc.py", "w").write(said)
    """
    agent.write_text(textwrap.dedent(CLIENT) + textwrap.dedent(script))
    command = [sys.executable, str(agent)]
    with Upstream() as upstream:
        upstream.lead(monkeypatch)
        record_command(command, log=origin)
        fork_command(origin, command, edits={"0/1#1": "No idea."}, into=into)

    again = replay_command(into, command)

    assert again.identical, str(again)
    assert not any("used from" in note for note in again.notes), again.notes


@pytest.mark.long
def test_a_replay_that_is_killed_changes_nothing(scene: Scene) -> None:
    """At any time: the sandbox ends with it."""
    agent = scene.top / "agent.py"
    slow = scene.top / "slow.py"
    slow.write_text(agent.read_text() + "\nprint('here', flush=True); sys.stdin.read()\n")
    before = scene.kept()
    words = [sys.executable, "-m", "refold", "replay", str(scene.log), "--", sys.executable]
    with subprocess.Popen(
        [*words, str(slow)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        stdin=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        while process.stdout.readline() not in (b"here\n", b""):
            pass
        process.send_signal(signal.SIGKILL)
        process.stdout.read()  # ends with the last process that has it
        process.wait(DEADLINE_SECONDS)

    assert scene.kept() == before
    assert scene.replayed().identical


@pytest.mark.long
def test_a_pack_is_replayed_without_the_repository(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a colleague, in a folder that has nothing of it."""
    packed = refold_does(
        "export", str(scene.log), "--to", "refold", "--files", "-o", str(scene.top / "run.refold"),
        folder=scene.project, more={"HOME": os.environ["HOME"]},
    )  # fmt: skip
    assert packed.returncode == 0, packed.stderr
    assert "4 files by git" in packed.stderr
    for path in (scene.project, files_of(scene.log)):
        shutil.rmtree(path, ignore_errors=True)
    there = scene.top / "home" / "there"
    there.mkdir()
    monkeypatch.chdir(there)

    names = (
        "HOME",
        "GIT_AUTHOR_NAME",
        "GIT_AUTHOR_EMAIL",
        "GIT_COMMITTER_NAME",
        "GIT_COMMITTER_EMAIL",
    )
    done = refold_does(
        "replay", str(scene.top / "run.refold"), "--", *scene.command,
        folder=there, more={name: os.environ[name] for name in names},
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    assert not scene.project.exists()
    assert list(there.iterdir()) == []


def test_a_folder_that_cannot_be_restored_runs_nothing(scene: Scene) -> None:
    """What is missing is named, with code 2."""
    shutil.rmtree(scene.project / ".git")
    env = {name: os.environ[name] for name in ("HOME", "PATH")}
    words = ["replay", scene.log, "--yes", "--", "touch", scene.top / "ran"]
    done = refold_here(*words, folder=scene.top, environment=env)

    assert done.exit_code == 2
    assert "the folder cannot be restored, so nothing was run; missing files:" in done.stderr
    assert not (scene.top / "ran").exists()
