"""A recorded folder is made again: files, history, and what today's folder lends."""

import contextlib
import hashlib
import os
from pathlib import Path

import attrs
import pytest

from refold.engine.errors import FolderIncomplete, FolderRefused
from refold.engine.workspace.contents import Contents
from refold.engine.workspace.entries import FolderStarted, FolderState, Repository, Staged
from refold.engine.workspace.git import Git
from refold.engine.workspace.tree import Base, FileTree, TreeEntry
from refold.proxy.copies import copied
from refold.proxy.copies.copied import BorrowedFiles, Copy, make_copy
from refold.proxy.copies.current import RecordedFolder, todays_folder
from refold.proxy.copies.whose import Files
from tests.support.folders import git, kept, repository
from tests.support.loops import some


def all_bytes(top: Path) -> dict[str, str]:
    """Return a digest of each file in a folder, and the text of each link."""
    found = {}
    for folder, _, names in os.walk(top):
        for name in names:
            path = Path(folder, name)
            held = os.fsencode(path.readlink()) if path.is_symlink() else path.read_bytes()
            found[str(path)] = hashlib.sha256(held).hexdigest()
    return found


def of_git(top: Path, path: str = "", index: tuple[Staged, ...] = ()) -> Repository:
    """Return what git says of a repository."""
    branch = git(top, "rev-parse", "--symbolic-full-name", "HEAD")
    return Repository(
        path,
        git(top, "rev-parse", "HEAD"),
        "" if branch == "HEAD" else branch,
        git(top, "for-each-ref", "--format=%(objectname) %(refname)", "refs/heads", "refs/tags")
        + "\n",
        index,
    )


def recorded(top: Path, log: Path, *differs: TreeEntry, **own: bytes) -> FolderStarted:
    """Return a folder as a record has it: its commit, and what differs from it."""
    more = [kept(path, content, log=log) for path, content in own.items()]
    tree = FileTree.of([Base("", git(top, "rev-parse", "HEAD^{tree}"))], [*differs, *more])
    return FolderStarted(str(top), "", tree, (of_git(top),))


def state_of(started: FolderStarted) -> FolderState:
    """Return a folder at its start."""
    state = FolderState()
    state.apply(started)
    return state


def made(
    log: Path,
    started: FolderStarted,
    work: Path,
    *,
    files: Files = "recorded",
    is_mounted: bool = False,
    has_layers: bool = False,
    has_hooks: bool = False,
) -> Copy:
    """Make a copy in a new folder; the user stands in the recorded one, if it is there."""
    work.mkdir()
    here = started.path if Path(started.path).is_dir() else "."
    with contextlib.chdir(here), contextlib.ExitStack() as left:
        return make_copy(
            log,
            state_of(started),
            ["agent"],
            work,
            left,
            files=files,
            is_mounted=is_mounted,
            has_layers=has_layers,
            has_hooks=has_hooks,
        )


def test_files_and_history_are_as_they_were(tmp_path: Path) -> None:
    """Whatever became of the user's folder since; it is only read."""
    top = repository(tmp_path / "r", {"a": "one\n", "d/b": "two\n", "gone": "x\n"})
    git(top, "branch", "other")
    git(top, "tag", "v1")
    log = tmp_path / "x.jsonl"
    gone = TreeEntry("gone", "", "gone")
    link = kept("l", b"/etc/passwd", "120000", log)
    started = recorded(top, log, gone, link, a=b"changed\n", new=b"\xff")
    commit = git(top, "rev-parse", "HEAD")
    (top / "a").write_text("of today\n")
    git(top, "commit", "-qam", "later")
    git(top, "config", "credential.helper", "!evil")
    git(top, "config", "core.fsmonitor", "touch /tmp/evil")
    git(top, "remote", "add", "origin", str(tmp_path))
    (top / ".git" / "hooks" / "pre-commit").write_text("#!/bin/sh\ntouch evil\n")
    before = all_bytes(top)

    copy = made(log, started, tmp_path / "w").top

    assert (copy / "a").read_text() == "changed\n"
    assert (copy / "d" / "b").read_text() == "two\n"
    assert (copy / "new").read_bytes() == b"\xff"
    assert (copy / "l").readlink() == Path("/etc/passwd")
    assert git(copy, "log", "--format=%H") == commit
    assert git(copy, "branch", "--format=%(refname:short)").split() == ["main", "other"]
    assert git(copy, "tag") == "v1"
    assert git(copy, "status", "--porcelain") == "M a\n D gone\n?? l\n?? new"
    assert git(copy, "remote") == ""
    configured = git(copy, "config", "--local", "--list")
    assert "evil" not in configured
    assert {"credential.helper=", "commit.gpgsign=false"} <= {*configured.splitlines()}
    assert not (copy / ".git" / "hooks").exists()
    git(copy, "commit", "-qam", "in the copy")
    assert all_bytes(top) == before


@pytest.mark.long
def test_what_was_staged_is_staged(tmp_path: Path) -> None:
    """Contents that no commit has; a removal; the stages of a conflict."""
    top = repository(tmp_path / "r", {"a": "one\n", "b": "two\n", "c": "three\n"})
    log = tmp_path / "x.jsonl"
    own = kept("a", b"staged\n", log=log)
    conflict = (Staged("c", "100644", own.value, stage, own.digest, 7) for stage in (1, 2, 3))
    index = (Staged("a", "100644", own.value, 0, own.digest, 7), Staged("b"), *conflict)
    started = recorded(top, log)
    started = FolderStarted(started.path, "", started.tree, (of_git(top, index=index),))

    copy = made(log, started, tmp_path / "w").top

    assert git(copy, "status", "--porcelain") == "MM a\nD  b\nUU c\n?? b"
    assert git(copy, "show", ":a") == "staged"


@pytest.mark.long
def test_objects_come_from_wherever_the_repository_has_them(tmp_path: Path) -> None:
    """Of a clone that borrows, of a work tree, of a clone in another place."""
    top = repository(tmp_path / "r", {"a": "one\n"})
    git(tmp_path, "clone", "-q", "--shared", "r", "shared")
    git(top, "worktree", "add", "-q", "--detach", str(tmp_path / "tree"))
    log = tmp_path / "x.jsonl"
    for name in ("r", "shared", "tree"):
        started = recorded(tmp_path / name, log)
        copy = made(log, started, tmp_path / f"w-{name}").top
        assert git(copy, "status", "--porcelain") == ""
        assert git(copy, "log", "--format=%s") == "first"


def test_what_a_repository_has_lost_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything runs, unless the folder has the file; another clone has it all."""
    top = repository(tmp_path / "r", {"a": "one\n", "b": "two\n"})
    log = tmp_path / "x.jsonl"
    started = recorded(top, log)
    git(tmp_path, "clone", "-q", "--no-hardlinks", "r", "clone")
    named = git(top, "rev-parse", "HEAD:b")
    (top / ".git" / "objects" / named[:2] / named[2:]).unlink()

    assert (made(log, started, tmp_path / "w0").top / "b").read_text() == "two\n"
    (top / "b").write_text("other\n")
    with pytest.raises(FolderIncomplete, match=named):
        made(log, started, tmp_path / "w")
    (tmp_path / "r").rename(tmp_path / "elsewhere")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FolderIncomplete, match="--copy none"):
        made(log, started, tmp_path / "w2")
    monkeypatch.chdir(tmp_path / "clone")
    assert (made(log, started, tmp_path / "w3").top / "b").read_text() == "two\n"


@pytest.mark.long
def test_a_submodule_and_a_repository_without_a_commit(tmp_path: Path) -> None:
    """Each has its own history."""
    top = repository(tmp_path / "r", {"a": "one\n"})
    sub = repository(top / "sub", {"s": "sub\n"})
    git(top, "init", "-q", "empty")
    log = tmp_path / "x.jsonl"
    whole = git(sub, "rev-parse", "HEAD^{tree}")
    tree = FileTree.of(
        [Base("", git(top, "rev-parse", "HEAD^{tree}")), Base("sub", whole)],
        [kept("empty/e", b"e", log=log)],
    )
    empty = Repository("empty", "", "refs/heads/main", "", ())
    started = FolderStarted(str(top), "", tree, (of_git(top), empty, of_git(sub, "sub")))

    copy = made(log, started, tmp_path / "w").top

    assert git(copy / "sub", "log", "--format=%s") == "first"
    assert git(copy / "sub", "status", "--porcelain") == ""
    assert (
        git(copy / "empty", "status", "--porcelain", "--branch")
        == "## No commits yet on main\n?? e"
    )


def test_a_file_that_may_not_be_read_is_not_lent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "f").write_text("x")
    monkeypatch.setattr(os, "access", lambda *_: False)
    lent = BorrowedFiles([tmp_path], tmp_path / "copy", "/p", is_mounted=True, has_layers=False)

    lent.take([TreeEntry("f", "100644", "out", "unreadable", 1)])

    assert lent.notes(()) == ["neither in the log nor in the copy: f"]


def test_what_the_log_left_out_is_lent_by_todays_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Up to a size; a virtual environment elsewhere would start the user's own interpreter."""
    top = repository(tmp_path / "r", {"a": "one\n"})
    for name in ("node_modules", ".venv", "large"):
        (top / name).mkdir()
        (top / name / "file").write_text("x" * (9000 if name == "large" else 10))
    (top / ".venv" / "pyvenv.cfg").write_text("home = /usr/bin")
    (top / ".env").write_text("KEY=1")
    out = [
        TreeEntry(name, "040000", "out", "ignored")
        for name in (".venv", "large", "lost", "node_modules")
    ]
    log = tmp_path / "x.jsonl"
    started = recorded(top, log, *out, TreeEntry(".env", "100644", "out", "key", 5))
    monkeypatch.setattr(copied, "LENT_MAX", 5000)

    plain = made(log, started, tmp_path / "w")
    mounted = made(log, started, tmp_path / "m", is_mounted=True)
    layered = made(log, started, tmp_path / "l", is_mounted=True, has_layers=True)

    found = sorted(each.name for each in plain.top.iterdir())
    assert found == [".env", ".git", "a", "node_modules"]
    assert f"taken from {top}: .env, node_modules" in plain.notes[1]
    assert "neither in the log nor in the copy: .venv, large, lost" in plain.notes[2]
    assert (mounted.top / ".venv" / "file").is_file()
    assert "neither in the log nor in the copy: large, lost" in mounted.notes[2]
    assert [(each.name, at) for each, at in layered.layered] == [
        (name, f"{top}/{name}") for name in (".venv", "large", "node_modules")
    ]
    assert "neither in the log nor in the copy: lost" in layered.notes[2]


def test_links_that_lead_out_of_a_copy_elsewhere_are_listed(tmp_path: Path) -> None:
    top = repository(tmp_path / "r", {"a": "one\n"})
    log = tmp_path / "x.jsonl"
    links = [kept(n, to, "120000", log) for n, to in (("in", b"a"), ("out", b"../x"))]
    started = recorded(top, log, *links)

    notes = made(log, started, tmp_path / "w").notes

    assert notes[-1] == "links that point outside the copy: out"
    assert "links that" not in str(made(log, started, tmp_path / "m", is_mounted=True).notes)


@pytest.mark.parametrize("place", some(1, [".git/hooks", "tools"]))
def test_hooks_of_today_are_in_the_copy_only_on_request(place: str, tmp_path: Path) -> None:
    """Where git looks for them: its own folder, or the one that the repository names."""
    top = repository(tmp_path / "r", {"f": "one\n"})
    log = tmp_path / "x.jsonl"
    started = recorded(top, log)
    hook = top / place / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho ran > ran\n")
    hook.chmod(0o755)
    if place == "tools":
        git(top, "config", "core.hooksPath", str(hook.parent))

    for has_hooks in (False, True):
        copy = made(log, started, tmp_path / str(has_hooks), has_hooks=has_hooks)
        git(copy.top, "commit", "-qm", "empty", "--allow-empty")

        assert (copy.top / "ran").exists() is has_hooks
        told = "your hooks" if has_hooks else "no hooks"
        assert f"the copy has {told}, no remotes and no credential helper" in copy.notes
        assert has_hooks is not any(
            "pre-commit; to run them: --copy hooks" in n for n in copy.notes
        )
    assert not (top / "ran").exists()


@pytest.mark.parametrize("is_listed", [True, False])
@pytest.mark.parametrize("path", some(1, ["a/below", "a"]))
def test_a_repository_behind_a_link_of_the_log_is_not_touched(
    path: str, tmp_path: Path, *, is_listed: bool
) -> None:
    """The link may be in the list or in a commit; its target is a repository of the user's."""
    victim = repository(tmp_path / "victim", {"below/x": "mine\n"})
    git(victim, "tag", "v1")
    git(victim, "pack-refs", "--all")
    before = all_bytes(victim)
    top = repository(tmp_path / "project", {"f": "x\n"})
    log = tmp_path / "run.jsonl"
    links = [kept("a", bytes(victim), "120000", log)]
    if not is_listed:
        (top / "a").symlink_to(victim)
        git(top, "add", "a")
        git(top, "commit", "-q", "-m", "a link")
        links = []
    folder = recorded(top, log, *links)
    hostile = Repository(path, "", "refs/heads/pwned", f"{'1' * 40} refs/tags/v1\n")

    with pytest.raises(FolderRefused, match="a folder for the repository"):
        made(log, attrs.evolve(folder, repositories=(*folder.repositories, hostile)),
             tmp_path / "work")  # fmt: skip

    assert all_bytes(victim) == before


def test_a_folder_that_a_log_from_elsewhere_names_is_not_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of it is lent, though it holds the recorded files."""
    top = repository(tmp_path / "r", {"a": "one\n"})
    (top / "secret").write_text("mine\n")
    left_out = TreeEntry("secret", "100644", "out", "large", 5)
    started = recorded(top, tmp_path / "x.jsonl", left_out)
    state = RecordedFolder(
        tmp_path / "x.jsonl", "0" * 64, state_of(started),
        Contents(Git.made(tmp_path, tmp_path / "made")), started.tree, {},
    )  # fmt: skip

    with contextlib.chdir(tmp_path):
        assert state.place is None
        assert todays_folder(state) is None
    with contextlib.chdir(top):
        assert attrs.evolve(state).place == top
        for above in ("/", str(tmp_path)):
            monkeypatch.setenv("HOME", str(tmp_path))
            moved = attrs.evolve(state, state=state_of(attrs.evolve(started, path=above)))
            assert moved.place is None, above
