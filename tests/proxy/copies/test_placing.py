"""Where a command runs again: in a sandbox, in a copy elsewhere, or where it is started."""

import os
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest

from refold.engine.errors import FolderIncomplete, UsageError
from refold.engine.workspace.entries import FolderStarted, FolderState, Mode, Repository
from refold.engine.workspace.inside import umask_here
from refold.engine.workspace.tree import Base, FileTree, TreeEntry
from refold.proxy.command import run_command
from refold.proxy.copies import placing
from refold.proxy.copies.placing import Copying, Placement, placed, why_unboxed
from refold.proxy.copies.sandbox import SandboxRefused
from refold.proxy.signals import Signals
from tests.proxy.copies.test_copied import all_bytes, of_git
from tests.support.folders import git, kept, repository
from tests.support.loops import some

Ran = Callable[..., str]


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a log is; HOME and the folder for temporary files are this test's own."""
    for name in ("home/project/below", "tmp"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "x.jsonl"


def no_sandbox() -> bool:
    """Stand for a system without one."""
    raise SandboxRefused("forbidden")


def folder(log: Path, path: str = "", below: str = "below") -> FolderState:
    """Return a folder with one file, at its start."""
    entries = [TreeEntry("below", "040000", "folder"), kept("f", b"then", log=log)]
    return state_of(path or f"{log.parent}/home/project", FileTree.of([], entries), below)


def state_of(path: str, tree: FileTree, below: str = "") -> FolderState:
    """Return a folder at its start."""
    state = FolderState()
    state.apply(FolderStarted(path, below, tree))
    return state


def ran(place: Placement, code: str) -> str:
    """Run shell code in a place; return what it printed."""
    printed: list[bytes] = []
    with Signals() as signals:
        run_command(["sh", "-c", code], {}, signals, write=printed.append, start=place.start)
    return b"".join(printed).decode()


def test_without_a_folder_or_in_place_it_runs_where_it_is_started(log: Path) -> None:
    """And the report says so."""
    for recorded, copying, why in (
        (FolderState(), Copying(), "the log does not contain its folder"),
        (folder(log), Copying(in_place=True), "--copy none"),
    ):
        with placed(log, recorded, ["agent"], copying) as place:
            assert ran(place, "pwd") == f"{log.parent}\n"
        assert place.notes == (f"{why}: the command ran in the current folder, with your files",)
        assert place.folders == {}


@pytest.mark.parametrize("is_boxed", [True, False])
def test_a_copy_begins_as_recorded_below_its_top(
    log: Path, monkeypatch: pytest.MonkeyPatch, *, is_boxed: bool
) -> None:
    """At the recorded path where there is a sandbox; nothing of it is left."""
    if not is_boxed:
        monkeypatch.setattr(placing, "no_layers", no_sandbox)
    with placed(log, folder(log), ["agent"], Copying()) as place:
        assert place.comparison is not None
        at, _, text = ran(place, "pwd; cat ../f; echo now > ../f; chmod 0 ..").partition("\n")
        is_at = at == f"{log.parent}/home/project/below"

    assert (at, text) == (place.folders["folder"], "then")
    assert is_at is ("in a sandbox" in place.notes[0])
    assert is_boxed or "because no sandbox is available: forbidden" in place.notes[0]
    assert list((log.parent / "tmp").iterdir()) == []
    assert [each.name for each in (log.parent / "home/project").iterdir()] == ["below"]


@pytest.mark.parametrize("is_boxed", [True, False])
def test_modes_in_a_copy_are_those_of_the_record(
    log: Path, monkeypatch: pytest.MonkeyPatch, *, is_boxed: bool
) -> None:
    """Those of files that the command makes, too, whatever the umask of who replays."""
    if not is_boxed:
        monkeypatch.setattr(placing, "no_layers", no_sandbox)
    state = folder(log, below="")
    assert state.started is not None
    modes = (Mode("f", "100604"),)
    state.started = attrs.evolve(state.started, umask="027", modes=modes)
    mask = umask_here()

    with placed(log, state, ["agent"], Copying()) as place:
        assert ran(place, "touch new; umask; stat -c %a . below f new").split() == [
            "0027", "750", "750", "604", "640",
        ]  # fmt: skip
        assert umask_here() == mask


@pytest.mark.parametrize("is_boxed", [True, False])
def test_no_variable_leads_git_out_of_a_copy(
    log: Path, monkeypatch: pytest.MonkeyPatch, *, is_boxed: bool
) -> None:
    """A hook of git that starts a replay has them, and whoever keeps a repository elsewhere."""
    if not is_boxed:
        monkeypatch.setattr(placing, "no_layers", no_sandbox)
    mine = repository(log.parent / "home" / "mine", {"f": "mine"})
    monkeypatch.setenv("GIT_DIR", str(mine / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(mine / ".git" / "index"))
    before = all_bytes(mine)
    with placed(log, folder(log), ["agent"], Copying()) as place:
        told = ran(place, "git add -A 2>&1; git -C .. init -q; git -C .. status --short")

    assert "not a git repository" in told
    assert told.endswith("?? f\n")
    assert all_bytes(mine) == before


def test_no_variable_names_somebody_else_as_who_commits(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of an unknown one, the user's stays; so does one that is as recorded."""
    monkeypatch.setattr(placing, "no_layers", no_sandbox)
    settings = {"author.name": "Ann", "author.email": "ann@a.example"}
    one = Repository("", branch="refs/heads/main", settings=settings)
    state = state_of(f"{log.parent}/home/project", FileTree(), "")
    assert state.started is not None
    state.started = attrs.evolve(state.started, repositories=(one,))
    for name in ("AUTHOR_NAME", "AUTHOR_EMAIL", "COMMITTER_NAME", "COMMITTER_EMAIL"):
        monkeypatch.setenv(f"GIT_{name}", "ann@a.example" if name == "AUTHOR_EMAIL" else "Bob")

    with placed(log, state, ["agent"], Copying()) as place:
        told = ran(place, "git var GIT_AUTHOR_IDENT; env | grep ^GIT_[AC] | sort")

    assert told.startswith("Ann <ann@a.example> ")
    assert told.splitlines()[1:] == [
        "GIT_AUTHOR_EMAIL=ann@a.example", "GIT_COMMITTER_EMAIL=Bob", "GIT_COMMITTER_NAME=Bob",
    ]  # fmt: skip


def test_a_program_that_only_the_folder_of_today_has_is_named(log: Path) -> None:
    """It is on this machine, in the folder over which the copy lies: `No such file` misleads."""
    mine = log.parent / "home/project/ignored"
    mine.write_text("#!/bin/sh\n")
    mine.chmod(0o755)
    with placed(log, folder(log), ["agent"], Copying()) as place, Signals() as signals:
        if "in a sandbox" not in place.notes[0]:
            pytest.skip("no sandbox here: the copy lies elsewhere")
        with pytest.raises(UsageError, match="not in the copy of the recorded folder"):
            run_command([str(mine)], {}, signals, start=place.start)


def test_a_copy_may_be_kept(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a new folder alone."""
    monkeypatch.setattr(placing, "no_layers", no_sandbox)
    with placed(log, folder(log), ["agent"], Copying(keep=log.parent / "kept")) as place:
        ran(place, "echo now > new")

    assert (log.parent / "kept" / "below" / "new").read_text() == "now\n"
    with (
        pytest.raises(UsageError, match=r"--copy keep:.*: this folder already exists"),
        placed(log, folder(log), ["agent"], Copying(keep=log.parent / "kept")),
    ):
        pass


def test_a_copy_that_cannot_be_kept_loses_no_report(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placing, "no_layers", no_sandbox)
    keep, unkept = Copying(keep=log.parent / "way" / "kept"), list[str]()

    with placed(log, folder(log), ["agent"], keep, unkept=unkept) as place:
        ran(place, f"echo > {log.parent}/way")  # a file is in the way now

    assert [each.partition(": ")[0] for each in unkept] == [str(log.parent / "way" / "kept")]
    assert list((log.parent / "tmp").iterdir()) == []


@pytest.mark.parametrize(
    "path", some(2, ["/", "{home}", "/usr", "/etc/x", "/proc", "/home/..", "{above}"])
)
def test_a_log_lays_nothing_over_what_programs_need(log: Path, path: str) -> None:
    """Its copy stands elsewhere, and is in a sandbox all the same."""
    if why := why_unboxed(folder(log, path), Copying()):
        pytest.skip(f"no sandbox here: {why}")
    path = path.format(home=log.parent / "home", above=log.parent)
    with placed(log, folder(log, path), ["agent"], Copying()) as place:
        assert f"{path} cannot be replaced" in place.notes[1]
        assert "ran in a sandbox" in place.notes[0]
        code = f"cat ../f; echo > {log.parent}/home/new; readlink /proc/self/ns/net"
        text, _, network = ran(place, code).partition("then")
        assert (text, network.strip() != str(Path("/proc/self/ns/net").readlink())) == ("", True)
    assert not (log.parent / "home" / "new").exists()


def test_contents_that_are_missing_stop_it_before_it_runs(log: Path) -> None:
    tree = FileTree.of([Base("", "a" * 40)], [])
    with (
        pytest.raises(FolderIncomplete),
        placed(log, state_of(str(log.parent), tree), [], Copying()),
    ):
        pass

    assert list((log.parent / "tmp").iterdir()) == []


def test_what_is_kept_has_files_of_all_kinds_and_its_history(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pipe and a socket are no files to be read; objects were borrowed from the repository."""
    monkeypatch.setattr(placing, "no_layers", no_sandbox)
    top = repository(log.parent / "home" / "project", {"f": "one\n", "below/g": "two\n"})
    tree = FileTree.of([Base("", git(top, "rev-parse", "HEAD^{tree}"))], [])
    state = FolderState()
    state.apply(FolderStarted(str(top), "below", tree, (of_git(top),)))
    with placed(log, state, ["agent"], Copying(keep=log.parent / "k")) as at:
        ran(at, "cd ..; mkfifo pipe; truncate -s 1T huge; git init -q in; ln -s / root; chmod 0 f")
    (top / ".git").rename(log.parent / "gone")

    assert stat.S_ISFIFO((log.parent / "k" / "pipe").lstat().st_mode)
    assert (log.parent / "k" / "huge").lstat().st_blocks < 10**6
    assert git(log.parent / "k", "show", "HEAD:below/g") == "two"


def test_words_and_variables_name_the_copy(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what the copy has; and no other path that only begins so."""
    monkeypatch.setattr(placing, "no_layers", no_sandbox)
    project = log.parent / "home" / "project"
    monkeypatch.setenv("NAMED", f"a={project}:{project}/below/new,{project}-old;{project}/no/such")
    with placed(log, folder(log), ["agent"], Copying()) as place:
        copy = place.folders["folder"].removesuffix("/below")
        printed = ran(place, f"echo $NAMED; echo > {project}/word; echo $PATH")

    named, path = printed.splitlines()
    assert named == f"a={copy}:{copy}/below/new,{project}-old;{project}/no/such"
    assert path == os.environ["PATH"]
    assert [each.name for each in project.iterdir()] == ["below"]


@pytest.mark.parametrize("is_boxed", some(1, [True, False]))
def test_what_is_kept_follows_no_link_of_the_command(
    log: Path, monkeypatch: pytest.MonkeyPatch, *, is_boxed: bool
) -> None:
    """Of its repository, a command can replace all: nothing of the user's is written or read."""
    if not is_boxed:
        monkeypatch.setattr(placing, "no_layers", no_sandbox)
    mine = log.parent / "home" / "mine"
    mine.mkdir()
    (mine / "key").write_text("key")
    top = repository(log.parent / "home" / "project", {"f": "one\n", "below/g": "two\n"})
    tree = FileTree.of([Base("", git(top, "rev-parse", "HEAD^{tree}"))], [])
    state = FolderState()
    state.apply(FolderStarted(str(top), "", tree, (of_git(top),)))
    hostile = f"""
        ln -s {mine} .git/objects/zz; mkdir -p lent/zz; echo evil > lent/zz/canary
        echo "$PWD/lent" > .git/objects/info/alternates; echo {mine} >> .git/objects/info/alternates
    """
    with placed(log, state, ["agent"], Copying(keep=log.parent / "k")) as at:
        ran(at, hostile)

    assert [each.name for each in mine.iterdir()] == ["key"]
    assert (log.parent / "k" / "lent" / "zz" / "canary").read_text() == "evil\n"
    assert [*(log.parent / "k").glob("**/key")] == []


def test_without_git_no_folder_is_made_again(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command is not started: it would work on the user's files."""
    state = folder(log)
    monkeypatch.setenv("PATH", str(log.parent))

    with pytest.raises(UsageError, match="not installed"), placed(log, state, [], Copying()):
        pass
