"""A command that was killed while it edited files is resumed where it can do no harm (§16.21)."""

import sys
import textwrap
from pathlib import Path

import pytest

from refold.proxy.sessions import ResumedCommand, record_command, replay_command, resume_command
from refold.replay.audit.verify import verify
from refold.replay.observed.folder import folder_at
from tests.proxy.desks.test_resuming import Provider
from tests.proxy.test_sessions import CLIENT
from tests.support.folders import git, repository

AGENT = """
    import pathlib, signal, subprocess
    top = pathlib.Path(__file__).parent
    def runs(command):
        return subprocess.run(command, shell=True, capture_output=True, text=True).stdout
    def said(text):
        answer = text_of(ask(text))
        return f"{answer} {runs('git log --format=%s')}"
    first = said(f"in {os.getcwd()}: " + pathlib.Path("calc.py").read_text())
    pathlib.Path("calc.py").write_text("a + b")
    if (top / "dies").exists():
        os.kill(os.getpid(), signal.SIGKILL)
    runs("git add -A; git commit -qm work")
    second = said(first)
    pathlib.Path("new.py").write_text(second)
    print(said(second))
"""


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, provider: Provider) -> list[str]:
    """An agent that was killed after it had edited a file; its log is `run.jsonl`."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("GIT_AUTHOR", "GIT_COMMITTER"):
        monkeypatch.setenv(f"{name}_NAME", "ann")
        monkeypatch.setenv(f"{name}_EMAIL", "ann@example.org")
    project = repository(tmp_path / "home" / "project", {"calc.py": "a - b\n"})
    (tmp_path / "agent.py").write_text(textwrap.dedent(CLIENT) + textwrap.dedent(AGENT))
    (tmp_path / "dies").touch()
    command = [sys.executable, str(tmp_path / "agent.py")]
    monkeypatch.chdir(project)
    record_command(command, log=tmp_path / "run.jsonl")
    (tmp_path / "dies").unlink()
    provider.asked.clear()
    return command


def _resumed(command: list[str], top: Path, **how: object) -> ResumedCommand:
    into = top / "again.jsonl"
    return resume_command(top / "run.jsonl", command, into=into, **how)  # type: ignore[arg-type]


@pytest.mark.long
def test_a_killed_command_ends_as_if_it_had_not_been(
    command: list[str], tmp_path: Path, provider: Provider, way: str
) -> None:
    """In the folder of the start; the user's stays as it was, and the new log replays."""
    project = Path.cwd()

    resumed = _resumed(command, tmp_path)

    assert (resumed.ended.exit_code, resumed.served, resumed.live) == (0, 1, 2)
    assert provider.asked.total() == 2
    assert resumed.different == ()
    assert (project / "calc.py").read_text() == "a + b"
    assert not (project / "new.py").exists()
    assert git(project, "log", "--format=%s").strip() == "first"
    state = folder_at(resumed.log)
    assert state.started is not None
    assert (state.started.path, state.is_ended) == (str(project), True)
    assert {"calc.py", "new.py"} <= set(state.tree.by_path)
    assert verify(resumed.log).intact
    for _ in range(2):
        report = replay_command(resumed.log, command)
        assert (report.identical, report.served) == (True, 3), report.divergences
    assert way in ("sandbox", "elsewhere")


@pytest.mark.long
def test_two_resume_one_log_and_disturb_nobody(command: list[str], tmp_path: Path) -> None:
    """The log is only read; who comes second goes on from the same record."""
    before = (tmp_path / "run.jsonl").read_bytes()
    found = [resume_command(tmp_path / "run.jsonl", command) for _ in range(2)]

    assert [one.live for one in found] == [2, 2]
    assert found[0].log != found[1].log
    assert (tmp_path / "run.jsonl").read_bytes() == before
