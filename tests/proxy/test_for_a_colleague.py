"""A colleague replays a recorded agent as docs/ci.md says, with neither a key nor a name."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.proxy.test_sessions import DEADLINE_SECONDS, program
from tests.support.folders import git
from tests.support.upstream import Upstream
from tests.test_documents import PAGES, Block, blocks_of

pytestmark = pytest.mark.long

AGENT: Final = """
    import pathlib, subprocess
    def runs(command):
        done = subprocess.run(command, shell=True, capture_output=True, text=True)
        return done.stdout + done.stderr
    found = runs("ls -dF .git lib/.git; cat lib/.git; git -C lib status --short; pwd; ls -A ~/x")
    print(text_of(ask("Hello " + found)))
    pathlib.Path("new.txt").write_text("new")
    made = runs("git add -A; git commit -m work; git log -1 --stat; git rev-parse HEAD")
    print(made)
    print(text_of(ask("Hello " + made)))
"""
OF_ANN: Final = """
[user]
    name = Ann
    email = ann@a.example
[core]
    abbrev = 12
[log]
    date = iso
"""


def _commands() -> list[str]:
    """Return the commands of the page: to record, to commit the log, and to replay it."""
    section = PAGES["ci.md"].partition("## Replay a recorded agent")[2].partition("## ")[0]
    blocks: list[Block] = list(blocks_of(section))
    return [each.text for each in blocks if each.language == "bash"]


def _does(command: str, folder: Path, **variables: str) -> None:
    done = subprocess.run(
        ["bash", "-euc", command], cwd=folder, env=variables, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=DEADLINE_SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("depth", ["--depth=1", "--no-single-branch"])
@pytest.mark.parametrize("way", ["sandbox", "elsewhere", "another user"])
def test_a_recording_of_ann_is_replayed_by_the_commands_of_the_page(
    tmp_path: Path, way: str, depth: str
) -> None:
    """With an empty HOME, in a fresh clone elsewhere, whether it has the history or not.

    The agent commits, and reads what git says of it.
    """
    if way != "elsewhere" and shutil.which("bwrap") is None:
        pytest.skip("no bwrap here")
    record, replay = _commands()
    programs = tmp_path / "bin"  # of a system without `bwrap`
    programs.mkdir()
    for name in ("git", "bash", "sh", "ls", "cat", "cp", "mkdir", "mv", "python3"):
        found = shutil.which(name)
        assert found is not None
        (programs / name).symlink_to(found)
    here = Path(sys.executable).parent
    path = f"{here}:{programs if way == 'elsewhere' else os.environ['PATH']}"
    ann, job = tmp_path / "ann", tmp_path / "job"
    for home in (ann, job):
        home.mkdir()
    (ann / ".gitconfig").write_text(OF_ANN)
    (ann / "project").mkdir()
    program(ann / "project", AGENT)
    _with_a_submodule(ann / "project", tmp_path / "lib")
    with Upstream() as upstream:
        address = upstream.environment()
        _does(record, ann / "project", PATH=path, HOME=str(ann), USER="ann", **address)

    there = tmp_path / "builds" / "1"
    of = (ann / "project").as_uri()
    git(tmp_path, "clone", "-q", depth, "--recurse-submodules", of, str(there))
    ann.rename(tmp_path / "gone")
    if way == "another user":
        replay = f"bwrap --dev-bind / / --unshare-user --uid 4711 --gid 4711 bash -euc '{replay}'"
    _does(replay, there, PATH=path, HOME=str(job), USER="runner")

    assert git(there, "status", "--porcelain") == ""
    assert [*job.iterdir()] == []


def _with_a_submodule(project: Path, inner: Path) -> None:
    inner.mkdir()
    for folder, file in ((inner, "l"), (project, "agent.py")):
        git(folder, "init", "-q")
        (folder / file).touch()
        if folder == project:
            git(folder, "submodule", "--quiet", "add", inner.as_uri(), "lib")
        git(folder, "add", "-A")
        git(folder, "commit", "-qm", "first")
