"""A look is left out only if it would find nothing new."""

import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refold.engine.workspace.left_out import LogFiles
from refold.engine.workspace.listening import Listener
from refold.engine.workspace.scanning import Scanner
from tests.support.folders import git, repository

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the kernel says nothing here")


def _made(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("x")


PLACES: Final = ("a", "d", "d/b", "d/e", "d/e/c", "ignored/x", "new/deep/y", "in/z", "runs/l.jsonl")
CHANGES: Final[dict[str, Callable[[Path], object]]] = {
    "write": lambda path: path.write_text(f"{os.urandom(2).hex()}\n"),
    "append": lambda path: os.write(os.open(path, os.O_WRONLY | os.O_APPEND), b"more\n"),
    "make": _made,
    "mode": lambda path: path.chmod(path.stat().st_mode ^ 0o111),
    "remove": lambda path: shutil.rmtree(path) if path.is_dir() else path.unlink(),
    "replace": lambda path: (path.with_name("~").write_text("r"), path.with_name("~").rename(path)),
    "folder": lambda path: path.mkdir(parents=True),
    "move": lambda path: path.rename(path.with_name("moved")),
    "link": lambda path: path.symlink_to("/etc"),
}
ASKS: Final = {
    "commit": ("commit", "-qam", "more"), "add": ("add", "-A"), "force": ("add", "-f", "ignored"),
    "stash": ("stash", "-q"), "branch": ("checkout", "-qb", "side"), "status": ("status",),
    "nested": ("init", "-q", "in"), "tag": ("update-ref", "refs/heads/logs/x", "HEAD"),
    "rule": ("config", "core.excludesFile", "/dev/null"),
}  # fmt: skip
STEPS: Final = st.one_of(
    st.just(("", "")),
    st.tuples(st.sampled_from([*CHANGES]), st.sampled_from(PLACES)),
    st.tuples(st.sampled_from([*CHANGES]), st.sampled_from(PLACES)),
    st.tuples(st.just("git"), st.sampled_from([*ASKS])),
    st.tuples(st.just("rules"), st.sampled_from(["", "d/\n", "ignored\n"])),
)


def _done(top: Path, what: str, where: str) -> None:
    try:
        if what == "git":
            git(top, *ASKS[where])
        elif what == "rules":
            (top / ".gitignore").write_text(where)
        elif what:
            CHANGES[what](top / where)
    except Exception:  # noqa: BLE001 - what cannot be done changes nothing, or something
        pass


def _agree(steps: list[tuple[str, str]], *, in_git: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        top = repository(Path(folder).resolve() / "r", {"a": "1\n", "d/b": "2\n", "d/e/c": "3\n"})
        (top / ".gitignore").write_text("ignored\n")
        CHANGES["make"](top / "ignored" / "x")
        CHANGES["make"](top / "runs" / "l.jsonl")
        if not in_git:
            (top / ".git").rename(top.parent / "git")
        files = LogFiles(top / "runs" / "l.jsonl", top, top)
        with (
            Scanner(top, files, bytes.hex, bytes) as looks,
            Scanner(top, files, bytes.hex, bytes, listener=Listener(top, files)) as hears,
        ):
            for what, where in [("", ""), *steps]:
                _done(top, what, where)
                heard, found = hears.scan(), looks.scan()
                assert heard.tree == found.tree, (what, where)
                assert heard.repositories == found.repositories, (what, where)


@settings(max_examples=4, deadline=None)
@given(steps=st.lists(STEPS, min_size=1, max_size=6), in_git=st.booleans())
def test_what_is_heard_of_is_what_a_look_finds(
    steps: list[tuple[str, str]], *, in_git: bool
) -> None:
    """Of files, folders, links, modes; of commits, the index and rules of git."""
    _agree(steps, in_git=in_git)


@pytest.mark.long
@settings(max_examples=150, deadline=None)
@given(steps=st.lists(STEPS, min_size=1, max_size=9), in_git=st.booleans())
def test_what_is_heard_of_is_what_a_look_finds_in_many_more(
    steps: list[tuple[str, str]], *, in_git: bool
) -> None:
    _agree(steps, in_git=in_git)


def _listener(top: Path) -> Listener:
    listener = Listener(top, LogFiles(top / "runs" / "x.jsonl", top, top))
    listener.listen(["ignored/"])
    return listener


def test_it_is_quiet_until_something_happens(tmp_path: Path) -> None:
    """Not for what is read, in the log, in a folder that is ignored, or among git's objects."""
    for name in ("ignored", "runs", ".git/objects"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "a").write_text("one")
    listener = _listener(tmp_path)

    (tmp_path / "a").read_text()
    for name in ("ignored/x", "runs/x.jsonl", ".git/objects/x"):
        (tmp_path / name).write_text("new")
    assert listener.is_quiet()
    (tmp_path / "a").write_text("two")
    assert not listener.is_quiet()
    listener.listen()
    assert listener.is_quiet()
    (tmp_path / ".gitignore").write_text("")
    assert not listener.is_quiet()
    listener.listen()
    (tmp_path / "ignored" / "y").write_text("new")
    assert not listener.is_quiet()
    listener.close()
    assert not listener.is_quiet()


@pytest.mark.parametrize("git_dir", ["gitdir: {above}/elsewhere\n", "", None])
def test_a_repository_elsewhere_is_not_heard_of(tmp_path: Path, git_dir: str | None) -> None:
    """Its index and commits: so each look takes place."""
    top = tmp_path / "r"
    top.mkdir()
    (tmp_path / "elsewhere").mkdir()
    if git_dir is None:
        (top / ".git").symlink_to(tmp_path / "elsewhere")
    elif git_dir:
        (top / ".git").write_text(git_dir.format(above=tmp_path))

    assert _listener(top).is_quiet() is (git_dir == "")


@pytest.mark.long
def test_more_events_than_the_kernel_keeps_are_some(tmp_path: Path) -> None:
    """And each folder is listened to again."""
    listener = _listener(tmp_path)
    most = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    for _ in range(most // 2 + 1):
        os.mkdir(tmp_path / "d")  # noqa: PTH102 - many
        os.rmdir(tmp_path / "d")  # noqa: PTH106 - many
    (tmp_path / "late").mkdir()

    assert not listener.is_quiet()
    listener.listen()
    (tmp_path / "late" / "x").write_text("")
    assert not listener.is_quiet()
