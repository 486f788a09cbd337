"""Where `.git` is a file, it is one in the copy, and git says of work trees what it said."""

import contextlib
import itertools
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

import attrs
import pytest

from refold.engine.errors import FolderRefused
from refold.engine.workspace.entries import REPOSITORY, FolderStarted, Repository, Worktree
from refold.engine.workspace.left_out import LogFiles
from refold.engine.workspace.scanning import Scanner
from refold.engine.workspace.tree import FileTree, TreeEntry
from refold.proxy.copies.git_folders import GitFolders
from refold.proxy.copies.placing import Copying
from refold.proxy.sessions import record_command, replay_command, resume_command
from tests.proxy.copies.test_copied import all_bytes
from tests.proxy.test_sessions import program
from tests.support.folders import git, repository, start_of
from tests.support.loops import some
from tests.support.upstream import Upstream

FILES: Final = {"a": "one\n", "d/b": "two\n", ".gitignore": "ignored/\n"}
AGENT: Final = """
    import subprocess
    def runs(command):
        done = subprocess.run(command, shell=True, capture_output=True, text=True)
        return done.stdout + done.stderr
    looks = '''
        found=$(find . -name .git -prune | sort)
        for each in $found; do
            ls -dF $each; test -d $each || cat $each
            cd $(dirname $each)
            git rev-parse --absolute-git-dir; git rev-parse --git-common-dir --show-toplevel
            git status --short; git branch; git log --format=%s; git stash list
            cd "$OLDPWD"
        done
        git worktree list --porcelain; git submodule status --recursive | cut -c 1-41
    '''
    changes = '''
        for each in $(find . -mindepth 2 -name .git -not -path './ignored/*' | sort) .; do
            cd $(dirname $each)
            test $each = . && cd $OLDPWD
            echo more >> new; git add -A; git commit -qm work; cd "$HERE"
        done
        git log --format=%H
    '''
    os.environ["HERE"] = os.getcwd()
    print(text_of(ask("Hello " + runs(looks))))
    print(text_of(ask("Hello " + runs(changes))))
    if os.path.exists(os.path.join(os.path.dirname(os.path.abspath(__file__)), "broken")):
        sys.exit(1)
    print(text_of(ask("Hello " + runs(looks))))
"""


def _submodules(top: Path) -> Path:
    inner = repository(top / "inner", {"s": "sub\n"})
    deep = repository(top / "deep", {"t": "deep\n"})
    git(inner, "submodule", "--quiet", "add", str(deep), "in/deep")
    git(inner, "commit", "-qm", "with it")
    made = repository(top / "r", FILES)
    git(made, "submodule", "--quiet", "add", str(inner), "lib/sub")
    git(made, "submodule", "--quiet", "update", "--init", "--recursive")
    git(made, "commit", "-qm", "with it")
    (made / "lib" / "sub" / "s").write_text("changed\n")
    return made


def _one_of_two(top: Path) -> Path:
    main = repository(top / "main", FILES)
    git(main, "branch", "free")
    git(main, "worktree", "add", "-q", "-b", "other", str(top / "other"))
    git(main, "worktree", "add", "-q", "-b", "side", str(top / "r"))
    return top / "r"


def _below_main(top: Path) -> Path:
    main = repository(top / "main", FILES)
    git(main, "worktree", "add", "-q", "-b", "ada", ".claude/worktrees/ada")
    return main / ".claude" / "worktrees" / "ada"


def _holder(top: Path) -> Path:
    made = repository(top / "r", FILES)
    git(made, "worktree", "add", "-q", "-b", "ada", ".trees/ada")
    git(made, "worktree", "add", "-q", "--detach", str(top / "out"))
    git(made / ".trees" / "ada", "sparse-checkout", "set", "--no-cone", "/*", "!/d/")
    (made / "d" / "b").write_text("staged\n")
    git(made, "add", "d/b")
    (made / ".trees" / "ada" / "a").write_text("changed\n")
    return made


def _holder_of_ignored(top: Path) -> Path:
    made = repository(top / "r", FILES)
    git(made, "worktree", "add", "-q", "-b", "bob", "ignored/bob")
    return made


def _beside_bare(top: Path) -> Path:
    repository(top / "from", FILES)
    git(top, "clone", "-q", "--bare", "from", "all/.bare")
    git(top / "all" / ".bare", "worktree", "add", "-q", "-b", "one", "../one")
    git(top / "all" / ".bare", "worktree", "add", "-q", "-b", "two", "../two")
    return top / "all" / "two"


def _a_submodule(top: Path) -> Path:
    return _submodules(top) / "lib" / "sub"


def _submodules_in_a_worktree(top: Path) -> Path:
    made = _submodules(top)
    git(made, "worktree", "add", "-q", "-b", "side", str(top / "side"))
    git(top / "side", "submodule", "--quiet", "update", "--init", "--recursive")
    return top / "side"


def _apart(top: Path) -> Path:
    (top / "elsewhere").mkdir()
    git(top, "init", "-q", "--separate-git-dir", str(top / "elsewhere" / "g"), "r")
    return repository(top / "r", FILES)


SHAPES: Final[dict[str, Callable[[Path], Path]]] = {
    "one of two": _one_of_two, "submodules": _submodules, "below main": _below_main,
    "holder": _holder, "holder of ignored": _holder_of_ignored, "beside bare": _beside_bare,
    "a submodule": _a_submodule,
    "submodules in a worktree": _submodules_in_a_worktree, "apart": _apart,
}  # fmt: skip


@pytest.fixture(autouse=True)
def _at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a name for git, in a HOME of its own."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "ann")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "ann@example.org")


@pytest.fixture
def project(tmp_path: Path, shape: str) -> Path:
    """Return a folder of this shape."""
    (tmp_path / "theirs").mkdir()
    return SHAPES[shape](tmp_path / "theirs")


def _recorded(tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record the agent where a project is, and return its command."""
    command = program(tmp_path, AGENT)
    monkeypatch.chdir(project)
    with Upstream() as upstream:
        upstream.lead(monkeypatch)
        record_command(command, log=tmp_path / "run.jsonl")
    return command


@pytest.mark.long
@pytest.mark.parametrize("shape", some(1, [*SHAPES]))
@pytest.mark.usefixtures("way")
def test_a_replay_is_identical_where_it_was_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, project: Path
) -> None:
    """Commits in each repository included; the user's stay as they are."""
    command = _recorded(tmp_path, project, monkeypatch)
    before = all_bytes(tmp_path / "theirs")

    report = replay_command(tmp_path / "run.jsonl", command)

    assert report.identical, str(report)
    assert all_bytes(tmp_path / "theirs") == before


@pytest.mark.long
@pytest.mark.parametrize("shape", [each for each in SHAPES if each != "holder of ignored"])
@pytest.mark.usefixtures("way")
def test_a_replay_is_identical_from_a_clone_at_another_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, project: Path
) -> None:
    """Where nothing is at the recorded paths."""
    git(tmp_path, "clone", "-q", "--recurse-submodules", str(project), "clone")
    command = _recorded(tmp_path, project, monkeypatch)
    monkeypatch.chdir(tmp_path / "clone")
    (tmp_path / "theirs").rename(tmp_path / "gone")

    report = replay_command(tmp_path / "run.jsonl", command)

    assert report.identical, str(report)
    assert not (tmp_path / "theirs").exists()


@pytest.mark.long
@pytest.mark.parametrize("shape", ["one of two", "below main", "holder", "beside bare"])
@pytest.mark.usefixtures("way")
def test_a_replay_is_identical_from_another_work_tree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, project: Path
) -> None:
    """Of the same repository, which stays as it is."""
    command = _recorded(tmp_path, project, monkeypatch)
    git(project, "worktree", "add", "-q", "--detach", str(tmp_path / "mine"), "HEAD~1")
    monkeypatch.chdir(tmp_path / "mine")
    before = all_bytes(tmp_path)

    report = replay_command(tmp_path / "run.jsonl", command)

    assert report.identical, str(report)
    assert all_bytes(tmp_path) == before


@pytest.mark.long
@pytest.mark.parametrize("shape", ["one of two", "holder"])
@pytest.mark.usefixtures("way")
def test_a_resumed_run_is_replayed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, project: Path
) -> None:
    """Its log has the folder as the record of the first run has it."""
    (tmp_path / "broken").touch()
    command = _recorded(tmp_path, project, monkeypatch)
    (tmp_path / "broken").unlink()
    with Upstream() as upstream:
        upstream.lead(monkeypatch)
        resumed = resume_command(tmp_path / "run.jsonl", command, into=tmp_path / "on.jsonl")
    assert resumed.ended.exit_code == 0

    report = replay_command(tmp_path / "on.jsonl", command)

    assert report.identical, str(report)


def test_a_kept_copy_stands_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The git folder that was outside of the folder is beside it; no path leads to the user's."""
    project = _one_of_two(tmp_path)
    command = _recorded(tmp_path, project, monkeypatch)
    kept = tmp_path / "kept"

    replay_command(tmp_path / "run.jsonl", command, copying=Copying(keep=kept))

    for name in ("main", "other", "r"):
        shutil.rmtree(tmp_path / name)
    assert git(kept, "log", "--format=%s").splitlines() == ["work", "first"]
    assert git(kept, "rev-parse", "--git-common-dir") == str(tmp_path / "kept.git")


def test_each_work_tree_has_its_own_index_and_settings(tmp_path: Path) -> None:
    """The main one, and a sparse one within it."""
    top = repository(tmp_path / "r", {"a": "one\n", "d/b": "two\n"})
    git(top, "worktree", "add", "-q", "-b", "ada", "ada")
    git(top / "ada", "sparse-checkout", "set", "--no-cone", "/a")
    (top / "a").write_text("staged\n")
    git(top, "add", "a")
    copy = tmp_path / "copy"
    shutil.copytree(top, copy, ignore=shutil.ignore_patterns(".git"))
    log_files = LogFiles(tmp_path / "x.jsonl", top, top)
    with Scanner(top, log_files, packs=tmp_path / "packs") as scanner:
        started = start_of(scanner, top)
        folders = GitFolders(started, scanner.whole(), copy, tmp_path, [])

    for one in folders.in_order():
        assert folders.make(one, [str(top / ".git" / "objects")], None)[1] == []

    for name in ("", "ada"):
        assert git(copy / name, "status") == git(top / name, "status")


def test_submodules_are_active_without_the_users_repository(tmp_path: Path) -> None:
    """Those of submodules as well: `git submodule status` says of others nothing but a `-`."""
    inner = os.fsdecode(b'a/"\\b#\n\xff')
    told = {"": "", "a": "../.git/modules/a", inner: "../../.git/modules/a/modules/b"}
    head = "refs/heads/main"
    made = [Repository(path, branch=head, git_file=file) for path, file in told.items()]
    started = FolderStarted(str(tmp_path / "r"), "", FileTree(), tuple(made))
    for path in told:
        (tmp_path / "copy" / path).mkdir(parents=True)
    folders = GitFolders(started, {}, tmp_path / "copy", tmp_path, [])

    gits = [folders.make(one, [], None)[0] for one in folders.in_order()]

    asked = "config", "-z", "--get-all", "submodule.active"
    assert [each.line(*asked) for each in gits] == [
        f":(literal)a\0:(literal){inner}\0", f":(literal){inner[2:]}\0", "",
    ]  # fmt: skip


@pytest.mark.parametrize("is_shown", some(1, [True, False]))
def test_what_a_log_says_of_git_leads_nowhere_else(tmp_path: Path, *, is_shown: bool) -> None:
    """Whatever a `.git` file, a common folder and work trees are said to be."""
    victim = repository(tmp_path / "victim", {"x": "mine\n"})
    top = repository(tmp_path / "r", {"f": "x\n"})
    (tmp_path / "r" / "link").symlink_to(victim)
    before = all_bytes(tmp_path)
    git_folder = str(victim / ".git")
    led = ("../victim/.git", git_folder, "link/.git", f"{git_folder}/worktrees/x", "/etc", "../..")
    for number, (file, common) in enumerate(itertools.product(led, ("", "../..", git_folder))):
        trees = tuple(
            Worktree(name, f"{at}/.git", "refs/heads/main")
            for name, at in (("", ""), ("a", str(victim)), ("b", "/etc"), ("x", str(top)))
        )
        hostile = Repository("", "", "refs/heads/main", "", git_file=file, common=common)
        hostile = attrs.evolve(hostile, worktrees=trees)
        assert REPOSITORY.read(REPOSITORY.write(hostile)) == hostile
        started = FolderStarted(str(top), "", FileTree(), (hostile,))
        work = tmp_path.parent / f"{tmp_path.name}-{number}"
        (work / "copy").mkdir(parents=True)
        (work / "copy" / "link").symlink_to(victim)
        files = {"link": TreeEntry("link", "120000", "git", "0" * 40)}
        shown = [str(top)] if is_shown else []

        with contextlib.suppress(FolderRefused):
            folders = GitFolders(started, files, work / "copy", work, shown)
            folders.make(hostile, [], None)

        assert all_bytes(tmp_path) == before
        assert all(each.place.is_relative_to(work) for each in folders.beside)
        seen = {each.seen for each in (*folders.beside, *folders.trees)}
        assert not any(each.startswith("/etc") for each in seen)
