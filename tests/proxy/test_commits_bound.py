"""Commits of a replayed command stand for the recorded ones if they are equal, and no others do."""

import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from refold.proxy.copies.placing import Copying
from refold.proxy.sessions import record_command, replay_command
from refold.replay.compare.diff import diff
from tests.proxy.test_sessions import CLIENT
from tests.support.folders import git, repository
from tests.support.loops import some
from tests.support.upstream import Upstream

BEGIN = """
    import subprocess, time
    def runs(command):
        return subprocess.run(command, shell=True, capture_output=True, text=True).stdout
    def tell(text):
        text_of(ask("Hello " + text))
    time.sleep(1 - time.time() % 1)  # the next second: else two runs may make the same commit
    NAME = "-c user.name=me -c user.email=me@example.org"
"""
WAYS = [
    "git commit -qm {w}; git log -1",
    "git commit -q --amend -m {w}; git show --format=fuller",
    "git commit -qm {w}; git log -1 --format='%H %ct %ad' --date=iso; git reset -q --hard HEAD~1",
    "git stash; git stash list --format='%h %gd'; git stash drop",
    "git commit -qm {w}; git revert --no-edit HEAD; git log -2 --oneline; git cherry-pick HEAD~1",
    "git commit-tree HEAD^{tree} -p HEAD -m {w}",
    "git commit -qm {w}; git reset -q --hard @~; git gc -q; git log -1 -g --format=%h HEAD@{one}",
    "git worktree add -q tree; cd tree; git commit -q --allow-empty -m {w}; git rev-parse HEAD",
    "cd sub; git commit -q --allow-empty -m {w}; cd ..; git add sub; git commit -qm s; git log -p",
    "git tag -a {w} -m {w}; git rev-parse {w}; git tag -d {w}; git describe --match v0",
]
"""Scripts that call git, and print what they made."""


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A program outside of the folder in which it works."""
    library = repository(tmp_path / "library", {"a": "a\n"})
    top = repository(tmp_path / "top", {"a": "a\n"})
    git(top, "submodule", "--quiet", "add", str(library), "sub")
    git(top, "commit", "-qm", "sub")
    git(top, "tag", "-a", "v0", "-m", "v0")
    monkeypatch.chdir(top)
    with Upstream() as upstream:
        upstream.lead(monkeypatch)
        yield tmp_path / "agent.py"


def written(agent: Path, *lines: str) -> list[str]:
    told = "".join(f"\n    {line}" for line in lines)
    agent.write_text(textwrap.dedent(CLIENT + BEGIN + told))
    return [sys.executable, str(agent)]


def telling(agent: Path, *scripts: str) -> list[str]:
    """Return a program that commits a file, as its scripts do, and tells of it."""
    return written(
        agent,
        *(
            f"open('a', 'a').write('{n}\\n'); runs('git add a'); tell(runs({each!r}))"
            for n, each in enumerate(scripts)
        ),
    )


@pytest.mark.long
def test_commits_of_a_script_are_bound_however_they_are_made(agent: Path, way: str) -> None:
    """Loose, packed, dropped, in a worktree and in a submodule; with their times."""
    del way
    log = agent.parent / "run.jsonl"
    scripts = [way.format(w=f"w{n}", tree="{tree}", one="{1}") for n, way in enumerate(WAYS)]
    record_command(command := telling(agent, *scripts), log=log)

    report = replay_command(log, command)

    assert report.identical, str(report)
    assert any("commits" in note for note in report.notes)
    agent.write_text(agent.read_text().replace("-m w8", "-m w9"))
    changed = replay_command(log, command)
    assert not changed.identical
    assert changed.served == len(WAYS) - 2


ANN = "[user]\nname = Ann\nemail = ann@a.example\n[status]\nshort = true\n[log]\ndate = iso\n"
IDENTITIES = [
    "[user]\nname = Bob\nemail = bob@b.example\n[diff]\nnoprefix = true\n[log]\ndecorate = full\n",
    "",  # as in CI
]


@pytest.mark.parametrize("theirs", some(1, IDENTITIES))
def test_a_colleague_with_another_identity_replays_commits(
    agent: Path, theirs: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or with none, and with other settings; what would run a program is not taken."""
    log = agent.parent / "run.jsonl"
    for who, config in (("ann", ANN), ("theirs", theirs)):
        (agent.parent / who).write_text(config)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(agent.parent / "ann"))
    script = "git commit -qm fix 2>&1; git log -1; git show; git status"
    record_command(command := telling(agent, script), log=log)
    assert "Ann <ann@a.example>" in log.read_text(encoding="utf-8")

    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(agent.parent / "theirs"))
    report = replay_command(log, command)

    assert report.identical, str(report)


@pytest.mark.long
def test_the_target_of_a_moved_tag_is_a_difference(agent: Path) -> None:
    """Though the command commits quietly as well."""
    log, top = agent.parent / "run.jsonl", agent.parent / "top"
    git(top, "branch", "-f", "v1", "HEAD~1")
    command = telling(agent, "git reset --hard v1; git commit -q --allow-empty -m fix")
    record_command(command, log=log)

    git(top, "reset", "-q", "--hard", "v0")
    assert replay_command(log, command, copying=Copying(in_place=True)).identical
    git(top, "reset", "-q", "--hard", "v0")
    git(top, "commit", "-q", "--allow-empty", "-m", "more")
    git(top, "branch", "-f", "v1", "HEAD")
    report = replay_command(log, command, copying=Copying(in_place=True))

    assert not report.identical
    assert report.served == 0


@pytest.mark.long
@pytest.mark.parametrize("workspace", some(1, ["", "none"]))
def test_outside_of_the_recorded_folder_no_commit_is_bound(agent: Path, workspace: str) -> None:
    """And the report names the option."""
    log, top = agent.parent / "run.jsonl", agent.parent / ("other" if not workspace else "top")
    repository(agent.parent / "other", {"a": "a\n"})
    script = f"cd {top}; git commit -q --allow-empty -m x; git log -1 --format=%H"
    record_command(command := telling(agent, script), log=log, workspace=workspace)

    report = replay_command(log, command)

    assert not report.identical
    assert any("--workspace DIR" in note for note in report.notes)


@pytest.mark.long
def test_two_recordings_that_commit_do_not_differ(agent: Path) -> None:
    """Another commit does."""
    top, logs = agent.parent / "top", [agent.parent / f"run{n}.jsonl" for n in range(3)]
    for log, word in zip(logs, ("x", "x", "y"), strict=True):
        record_command(telling(agent, f"git commit -qm {word}; git log -1"), log=log)
        git(top, "reset", "-q", "--hard", "v0")

    assert diff(logs[0], logs[1]).identical
    assert not diff(logs[0], logs[2]).identical
