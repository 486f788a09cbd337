"""What a look at a folder finds: hard cases of folders and of git, each by hand."""

import itertools
import os
import shutil
import socket
import stat
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from refold.engine.errors import ContentMissing
from refold.engine.log.names import files_of
from refold.engine.workspace import left_out, scanning
from refold.engine.workspace.contents import Contents
from refold.engine.workspace.entries import FileChange, FolderStarted, Repository
from refold.engine.workspace.left_out import LogFiles
from refold.engine.workspace.packing import contents_of, packed_repository
from refold.engine.workspace.scanning import Scanner
from refold.engine.workspace.tree import FileTree, TreeEntry
from tests.support.folders import git, repository, start_of
from tests.support.loops import some

_OPEN: list[Scanner] = []


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    """Scanners are closed."""
    yield
    while _OPEN:
        _OPEN.pop().__exit__()


@attrs.frozen
class Scan:
    """A folder after a look, and what changed since the one before."""

    tree: FileTree
    repositories: tuple[Repository, ...]
    by_git: int
    changes: tuple[FileChange, ...]
    altered: tuple[str, ...]


class Looked:
    """A scanner of one folder, and the log beside which contents stand."""

    def __init__(self, top: Path, **given: Any) -> None:
        self.top = top.resolve()
        self.log = top.parent / "logs" / "run.jsonl"
        self.log.parent.mkdir(exist_ok=True)
        log_files = LogFiles(self.log, self.top, self.top)
        packs = files_of(self.log)
        self.scanner = Scanner(self.top, log_files, _without_secret, packs=packs, **given)
        _OPEN.append(self.scanner)

    def scan(self, *, is_last: bool = False) -> Scan:
        """Look again."""
        found, state = self.scanner.scan(is_last=is_last), self.scanner.state
        return Scan(state.tree, state.repositories, state.by_git, found.changes, found.altered)

    def files(self, tree: FileTree) -> dict[str, bytes | str]:
        """Return all files of a tree, with what they hold; why, of what is left out."""
        found: dict[str, bytes | str] = {}
        started = FolderStarted(str(self.top), "", tree)
        made = tempfile.mkdtemp(dir=self.log.parent)
        with contents_of(self.log, started, Path(made))[0] as contents:
            for entry in contents.whole(tree).differs:
                try:
                    found[entry.path] = contents.content(entry)
                except ContentMissing:
                    found[entry.path] = entry.value
        return found


def _without_secret(content: bytes) -> bytes:
    return content.replace(b"hunter2hunter2", b"[redacted]")


def _kinds(tree: FileTree) -> dict[str, str]:
    return {entry.path: entry.kind for entry in tree.differs}


def test_an_unchanged_repository_is_its_commit(tmp_path: Path) -> None:
    """Nothing of it is stored again."""
    top = repository(tmp_path / "r", {"a": "one\n", "b/c": "two\n"})
    looked = Looked(top)

    scan = looked.scan()

    assert scan.tree.differs == ()
    assert scan.by_git == 2
    assert scan.tree.bases[0].tree == git(top, "rev-parse", "HEAD^{tree}")
    (told,) = scan.repositories
    assert (told.commit, told.branch) == (git(top, "rev-parse", "HEAD"), "refs/heads/main")
    assert told.refs == f"{told.commit} refs/heads/main\n"
    assert looked.files(scan.tree) == {"a": b"one\n", "b/c": b"two\n"}
    assert not files_of(looked.log).exists()


def test_of_many_branches_of_remotes_none_is_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A repository can have thousands."""
    top = repository(tmp_path / "r", {"a": "one\n"})
    for name in ("heads/own", "remotes/o/one", "remotes/o/two"):
        git(top, "update-ref", f"refs/{name}", "HEAD")
    names = ["refs/heads/main", "refs/heads/own", "refs/remotes/o/one", "refs/remotes/o/two"]
    for most, expected in ((2, names), (1, names[:2])):
        monkeypatch.setattr(scanning, "_REMOTE_MAX", most)
        (told,) = Looked(top).scan().repositories
        assert [line.split(" ")[1] for line in told.refs.splitlines()] == expected


@pytest.mark.parametrize("in_git", some(1, [True, False]))
def test_what_changes_is_seen_and_what_changes_back_is_the_first_tree(
    tmp_path: Path, *, in_git: bool
) -> None:
    """Content, mode, kind, name: of files of a commit, and of others."""
    files = {"a": "one\n", "b/c": "two\n", "x": "three\n"}
    top = repository(tmp_path / "r", files)
    if not in_git:
        (top / ".git").rename(tmp_path / "git")
    looked = Looked(top)
    first = looked.scan().tree

    def held(*, is_first: bool = False) -> dict[str, bytes | str]:
        tree = looked.scan().tree
        assert (tree.digest == first.digest) is is_first
        return looked.files(tree)

    a, b, x, away = top / "a", top / "b", top / "x", tmp_path / "away"
    a.write_text("ONE\n")
    assert held()["a"] == b"ONE\n"
    a.write_text("one\n")
    held(is_first=True)
    a.chmod(0o755)
    held()
    a.chmod(0o644)
    a.rename(top / "é")
    assert held().keys() >= {"é"}
    assert "a" not in held()
    (top / "é").unlink()
    a.symlink_to("/etc")
    held()
    a.unlink()
    a.write_text("one\n")
    held(is_first=True)
    b.rename(away)
    b.symlink_to(away)
    assert held()["b"] == os.fsencode(away)
    assert "b/c" not in held()
    b.unlink()
    away.rename(b)
    x.unlink()
    x.mkdir()
    (x / "y").write_text("deep")
    assert held()["x/y"] == b"deep"
    (x / "y").unlink()
    x.rmdir()
    x.write_text("three\n")
    held(is_first=True)


def test_names_of_all_kinds(tmp_path: Path) -> None:
    """Newlines, bytes that are not UTF-8, 255 bytes, differing in case alone."""
    top = repository(tmp_path / "r", {"README": "a", "readme": "b"})
    names = [b"new\nline", b"\xff\xfe", b"n" * 255, b"tab\there", b" lead", b'"quoted"', b"back\\"]
    for name in names:
        (top / os.fsdecode(name)).write_bytes(name)
    looked = Looked(top)

    files = looked.files(looked.scan().tree)

    assert {os.fsdecode(name): name for name in names}.items() <= files.items()
    assert {"README": b"a", "readme": b"b"}.items() <= files.items()
    assert FileTree.of_text(looked.scan().tree.text) == looked.scan().tree


def test_links_are_kept_as_text_and_never_followed(tmp_path: Path) -> None:
    """One that leads out, one to a folder, one that leads nowhere, one that is no UTF-8."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("secret")
    top = repository(tmp_path / "r", {"a": "one\n"})
    for name, target in {"out": "../outside", "to": "/etc/passwd", "bad": "\udcff"}.items():
        (top / name).symlink_to(target)
    looked = Looked(top)

    files = looked.files(looked.scan().tree)

    assert files == {"a": b"one\n", "out": b"../outside", "to": b"/etc/passwd", "bad": b"\xff"}


def test_what_is_left_out_is_listed(tmp_path: Path) -> None:
    """Keys, though committed; what git ignores, by its top; large files; sockets."""
    files = {".gitignore": "node_modules/\n*.o\n", ".env": "KEY=1", "deploy.pem": "k"}
    top = repository(tmp_path / "r", files)
    (top / "node_modules/x").mkdir(parents=True)
    (top / "node_modules/x/y.js").write_text("")
    (top / "a.o").write_text("obj")
    with (top / "big.bin").open("wb") as file:
        file.truncate(left_out.FILE_MAX + 1)
    (top / "id_rsa").write_text("k")
    (top / "id_rsa.pub").write_text("public")
    (top / ".env.example").write_text("KEY=")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(top / "sock"))
        tree = Looked(top).scan().tree

    left = [entry for entry in tree.differs if entry.kind == "out"]
    assert {entry.path: (entry.value, entry.size) for entry in left} == {
        ".env": ("key", 5), "deploy.pem": ("key", 1), "node_modules": ("ignored", None),
        "a.o": ("ignored", 3), "big.bin": ("large", left_out.FILE_MAX + 1), "id_rsa": ("key", 1),
    }  # fmt: skip
    assert {"id_rsa.pub", ".env.example"} < tree.by_path.keys()


def test_more_than_a_log_may_hold_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What comes first is kept, and the rest is listed."""
    monkeypatch.setattr("refold.engine.workspace.scanning.TOTAL_MAX", 10)
    (top := tmp_path / "r").mkdir()
    for name in "abc":
        (top / name).write_text(name * 4)

    tree = Looked(top).scan().tree

    assert [(one.kind, one.value if one.kind == "out" else "") for one in tree.differs] == [
        ("git", ""), ("git", ""), ("out", "total"),
    ]  # fmt: skip


def test_a_secret_is_taken_out_of_a_file(tmp_path: Path) -> None:
    """And the file is one that cannot be given back."""
    top = repository(tmp_path / "r", {"a": "one\n"})
    (top / "conf").write_text("password=hunter2hunter2\n")
    looked = Looked(top)

    tree = looked.scan().tree

    assert looked.files(tree)["conf"] == b"password=[redacted]\n"
    assert not tree.by_path["conf"].is_restorable
    kept = packed_repository(looked.log, [], tmp_path / "made")
    assert b"hunter2" not in kept.output("cat-file", "--batch-all-objects", "--batch")


def test_a_command_of_git_that_moves_the_commit(tmp_path: Path) -> None:
    """Commit, switch, stash: files are as they are, whatever the commit."""
    top = repository(tmp_path / "r", {"a": "one\n", "b": "two\n"})
    git(top, "switch", "-qc", "other")
    (top / "a").write_text("other\n")
    git(top, "commit", "-qam", "other")
    git(top, "switch", "-q", "main")
    looked = Looked(top)
    first = looked.scan()
    git(top, "switch", "-q", "other")

    switched = looked.scan()

    assert looked.files(switched.tree) == {"a": b"other\n", "b": b"two\n"}
    assert _kinds(switched.tree) == {"a": "git"}
    assert switched.repositories[0].branch == "refs/heads/other"
    git(top, "switch", "-q", "main")
    assert looked.scan().tree == first.tree
    (top / "b").write_text("new\n")
    by_content = looked.scan().tree
    git(top, "commit", "-qam", "new")
    committed = looked.scan()
    assert looked.files(committed.tree) == looked.files(by_content)
    assert committed.repositories[0].commit == git(top, "rev-parse", "HEAD")
    (top / "a").write_text("dirty\n")
    git(top, "stash")
    stashed = looked.scan()
    assert looked.files(stashed.tree)["a"] == b"one\n"
    assert "refs/stash" in stashed.repositories[0].refs


def branches(top: Path, name: str) -> None:
    """Commit two versions of a file on two branches."""
    git(top, "switch", "-qc", "other")
    (top / name).write_text("theirs\n")
    git(top, "commit", "-qam", "theirs")
    git(top, "switch", "-q", "main")
    (top / name).write_text("ours\n")
    git(top, "commit", "-qam", "ours")


def test_the_index_is_told_with_its_contents(tmp_path: Path) -> None:
    """Staged, staged and changed again, removed, new, in conflict."""
    top = repository(tmp_path / "r", {"a": "one\n", "b": "two\n", "c": "three\n"})
    branches(top, "c")
    with pytest.raises(Exception, match="merge"):
        git(top, "merge", "other")
    (top / "a").write_text("staged\n")
    git(top, "add", "a")
    (top / "a").write_text("after\n")
    git(top, "rm", "-q", "b")
    looked = Looked(top)

    scan = looked.scan()

    (told,) = scan.repositories
    git_of = packed_repository(looked.log, [], tmp_path / "made")
    with Contents(git_of) as contents:
        held = {
            (path, stage): (
                mode,
                digest and contents.content(TreeEntry(path, mode, "git", named, size, digest)),
            )
            for path, mode, named, stage, digest, size in map(attrs.astuple, told.index)
        }
    assert held == {
        ("a", 0): ("100644", b"staged\n"), ("b", 0): ("", ""), ("c", 1): ("100644", b"three\n"),
        ("c", 2): ("100644", b"ours\n"), ("c", 3): ("100644", b"theirs\n"),
    }  # fmt: skip
    assert told.texts["MERGE_HEAD"] == f"{git(top, 'rev-parse', 'other')}\n"
    assert looked.files(scan.tree)["a"] == b"after\n"
    assert "b" not in looked.files(scan.tree)


def test_a_rebase_that_is_half_done_is_told(tmp_path: Path) -> None:
    """With the files as they are, markers of conflicts included."""
    top = repository(tmp_path / "r", {"a": "one\n"})
    branches(top, "a")
    with pytest.raises(Exception, match="rebase"):
        git(top, "rebase", "other")
    looked = Looked(top)

    scan = looked.scan()

    texts = scan.repositories[0].texts
    assert texts["rebase-merge/head-name"] == "refs/heads/main\n"
    assert texts["rebase-merge/git-rebase-todo"] == ""
    assert scan.repositories[0].branch == ""
    assert looked.files(scan.tree)["a"] == (top / "a").read_bytes()


def test_no_commit_yet_and_then_one(tmp_path: Path) -> None:
    """All is by content, before and after."""
    top = repository(tmp_path / "r")
    (top / "a").write_text("one\n")
    looked = Looked(top)
    first = looked.scan()
    git(top, "add", "-A")
    git(top, "commit", "-qm", "first")

    second = looked.scan()

    assert first.tree == second.tree
    assert (first.repositories[0].commit, second.repositories[0].commit) == (
        "", git(top, "rev-parse", "HEAD"),
    )  # fmt: skip
    assert looked.files(second.tree) == {"a": b"one\n"}


def test_a_work_tree_and_a_folder_that_becomes_a_repository(tmp_path: Path) -> None:
    """`git worktree`; `git init` by the command."""
    top = repository(tmp_path / "r", {"a": "one\n"})
    git(top, "worktree", "add", "-q", "-b", "side", str(tmp_path / "side"))
    assert Looked(tmp_path / "side").scan().repositories[0].branch == "refs/heads/side"
    (plain := tmp_path / "plain").mkdir()
    (plain / "a").write_text("one\n")
    looked = Looked(plain)
    first = looked.scan()
    git(plain, "init", "-q")
    git(plain, "add", "-A")
    git(plain, "commit", "-qm", "first")

    second = looked.scan()

    assert first.repositories == ()
    assert second.tree == first.tree
    assert second.repositories[0].commit


@pytest.mark.long
def test_submodules_and_repositories_within(tmp_path: Path) -> None:
    """Their commits and their changed files; as they change."""
    inner = repository(tmp_path / "inner", {"x": "inner\n", "y": "same\n"})
    top = repository(tmp_path / "r", {"a": "one\n"})
    git(top, "submodule", "--quiet", "add", str(inner), "sub")
    git(top, "commit", "-qm", "sub")
    repository(top / "nested", {"n": "nested\n"})
    looked = Looked(top)
    first = looked.scan()
    (top / "sub/x").write_text("changed\n")
    (top / "nested/new").write_text("new\n")

    changed = looked.scan()

    assert [base.path for base in first.tree.bases] == ["", "nested", "sub"]
    assert first.tree.differs == ()
    assert [told.path for told in first.repositories] == ["", "nested", "sub"]
    assert first.by_git == 2 + 2 + 1
    files = looked.files(changed.tree)
    assert files["sub/x"] == b"changed\n"
    assert files["sub/y"] == b"same\n"
    assert files["nested/new"] == b"new\n"
    git(top / "sub", "commit", "-qam", "moved")
    moved = looked.scan().tree
    assert moved.by_path["sub"] == TreeEntry(
        "sub", "160000", "commit", git(top / "sub", "rev-parse", "HEAD")
    )
    assert looked.files(moved)["sub/x"] == b"changed\n"


@pytest.mark.parametrize("now", some(1, ["120000", None]))
def test_a_repository_within_that_is_removed(tmp_path: Path, now: str | None) -> None:
    """Whether a commit has it as a submodule or not; a link may take its place."""
    top = repository(tmp_path / "r", {"a": "one\n"})
    for name in ("made", "sub"):
        repository(top / name, {"x": "inner\n"})
    git(top, "add", "sub")
    git(top, "commit", "-qm", "with it")
    looked = Looked(top)
    looked.scan()
    for name in ("made", "sub"):
        shutil.rmtree(top / name)
        if now is not None:
            (top / name).symlink_to("a")

    changed = looked.scan()

    modes = {one.path: one.after and one.after.mode for one in changed.changes}
    new = {"made": now} if now else {}
    assert modes == {**new, "made/x": None, "sub": now, "sub/x": None}
    assert FileTree.of_text(changed.tree.text) == changed.tree


def test_files_that_git_does_not_look_at_go_by_content(tmp_path: Path) -> None:
    """Assume-unchanged, skip-worktree, sparse checkouts."""
    top = repository(tmp_path / "r", {"a": "one\n", "b": "two\n", "c": "three\n", "d": "four\n"})
    git(top, "update-index", "--assume-unchanged", "a")
    git(top, "update-index", "--skip-worktree", "b", "c", "d")
    (top / "a").write_text("changed\n")
    (top / "b").write_text("changed too\n")
    (top / "c").unlink()
    looked = Looked(top)

    tree = looked.scan().tree

    assert looked.files(tree) == {"a": b"changed\n", "b": b"changed too\n", "d": b"four\n"}
    (top / "a").write_text("again\n")
    assert looked.files(looked.scan().tree)["a"] == b"again\n"


def test_what_git_converts_goes_by_content(tmp_path: Path) -> None:
    """Filters (LFS), line ends, `ident`, encodings: on disk it is not as in the commit."""
    attributes = (
        "*.lfs filter=lfs\n*.id ident\n*.txt text eol=crlf\n*.utf working-tree-encoding=UTF-16LE\n"
    )
    top = repository(tmp_path / "r", {".gitattributes": attributes})
    git(top, "config", "filter.lfs.clean", "echo pointer")
    git(top, "config", "filter.lfs.smudge", "echo large")
    wide = "wide\n".encode("utf-16-le")
    held = {
        "a.lfs": b"large\n",
        "b.id": b"$Id$\n",
        "c.txt": b"line\r\n",
        "d.utf": wide,
        "e": b"e\n",
    }
    for name, content in held.items():
        (top / name).write_bytes(content)
    git(top, "add", "-A")
    git(top, "commit", "-qm", "second")
    for name in held:
        (top / name).unlink()
    git(top, "checkout", "-q", "--", *held)
    looked = Looked(top)

    tree = looked.scan().tree

    assert looked.files(tree) == {
        **held, ".gitattributes": attributes.encode(), "b.id": (top / "b.id").read_bytes(),
    }  # fmt: skip
    assert b"$Id: " in (top / "b.id").read_bytes()
    assert "e" not in tree.by_path


def test_line_ends_of_autocrlf(tmp_path: Path) -> None:
    """A configuration, not an attribute; files without line ends stay git's."""
    top = repository(tmp_path / "r", {"a": "one\n", "b": "no end"})
    git(top, "config", "core.autocrlf", "true")
    (top / "a").unlink()
    git(top, "checkout", "-q", "--", "a")
    looked = Looked(top)

    tree = looked.scan().tree

    assert looked.files(tree) == {"a": b"one\r\n", "b": b"no end"}
    assert list(tree.by_path) == ["a"]


def test_ignored_files_that_change_are_named_at_the_end(tmp_path: Path) -> None:
    """Changed, new or removed ones; not what Python compiles."""
    top = repository(tmp_path / "r", {".gitignore": "a\nb\nc\nd\n__pycache__\n"})
    for path in ("a", "b/deep/x", "c/y", "d", "__pycache__/m.pyc"):
        (top / path).parent.mkdir(parents=True, exist_ok=True)
        (top / path).write_text("1")
    looked = Looked(top)
    looked.scan()
    now, probe = time.time_ns(), tmp_path / "probe"
    while not probe.exists() or probe.stat().st_ctime_ns < now:  # the file system's clock is coarse
        probe.write_text("")
    (top / "b" / "deep" / "x").write_text("2")
    (top / "d").unlink()
    (top / "__pycache__" / "m.pyc").write_text("2")

    assert looked.scan(is_last=True).altered == ("b", "d")


def test_empty_folders_are_there(tmp_path: Path) -> None:
    """A command that lists them finds them in a copy; a full one is no longer empty."""
    top = repository(tmp_path / "r", {"a": "one\n", ".gitignore": "x\n"})
    (top / "out/deep").mkdir(parents=True)
    looked = Looked(top)

    assert _kinds(looked.scan().tree) == {"out/deep": "folder"}
    (top / "out/deep/f").write_text("")
    assert _kinds(looked.scan().tree) == {"out/deep/f": "git"}


def test_the_log_is_no_part_of_its_folder(tmp_path: Path) -> None:
    """Its folder, or where the command is started there, its files."""
    top = repository(tmp_path / "r", {"a": "one\n", "runs/old": "kept\n"})
    for path in ("runs/x.jsonl", "x.jsonl", "x.1.2.jsonl", "x.jsonl.sig", "x.blobs/aa/b", "xy"):
        (top / path).parent.mkdir(parents=True, exist_ok=True)
        (top / path).write_text("x")
    (top / "runs/old").write_text("changed")
    (top / "x.py").write_text("print()")  # a program beside a log that has its name

    def left(log: Path, here: Path) -> set[str]:
        with Scanner(top, LogFiles(log, top, here)) as scanner:
            return set(start_of(scanner, top).tree.by_path)

    of_x = {"x.jsonl", "x.1.2.jsonl", "x.jsonl.sig", "x.blobs/aa/b"}
    others = {"xy", "x.py"}
    assert left(top / "runs/x.jsonl", top) == of_x | others
    assert left(top / "x.jsonl", top) == {"runs/x.jsonl", "runs/old"} | others
    assert left(top / "runs/x.jsonl", top / "runs") == {"runs/old"} | of_x | others
    assert left(tmp_path / "x.jsonl", top) == {"runs/x.jsonl", "runs/old"} | of_x | others


def test_a_file_that_stays_is_read_once(tmp_path: Path) -> None:
    """Whatever else changes; and a change of the same size within a tick of the clock is seen."""
    top = repository(tmp_path / "r", {"a": "one\n"})
    (top / "new").write_text("aaaa")
    os.utime(top / "new", (1, 1))
    looked = Looked(top)
    first = looked.scan().tree

    assert looked.scan().tree == first
    for text in ("bbbb", "cccc", "dddd"):
        (top / "new").write_text(text)
        assert looked.files(looked.scan().tree)["new"] == text.encode()


def test_nothing_of_the_folder_is_written(tmp_path: Path) -> None:
    """Neither its files nor its repository: content, times, modes."""
    top = repository(tmp_path / "r", {"a": "one\n", "b": "two\n"})
    (top / "a").write_text("changed\n")
    os.utime(top / "b", (1, 1))
    before = _state(top)

    Looked(top).scan()

    assert _state(top) == before


def _state(top: Path) -> dict[str, object]:
    found: dict[str, object] = {}
    for path in sorted(top.rglob("*")):
        about = path.lstat()
        content = path.read_bytes() if stat.S_ISREG(about.st_mode) else b""
        found[str(path)] = (about.st_mode, about.st_mtime_ns, about.st_ino, content)
    return found


def test_a_filter_that_a_command_configures_is_not_run(tmp_path: Path) -> None:
    """Between two looks: what was switched off at the first is not all any more."""
    top = repository(tmp_path / "r", {"a": "one\n"})
    looked = Looked(top)
    looked.scan()
    (top / ".gitattributes").write_text("* filter=late\n")
    git(top, "config", "filter.late.clean", f"touch {tmp_path}/ran; cat")
    (top / "a").write_text("two\n")
    os.utime(top / "a", (1, 1))

    found = looked.scan().tree

    assert [entry.path for entry in found.differs] == [".gitattributes", "a"]
    assert not (tmp_path / "ran").exists()


def test_a_folder_that_changes_while_it_is_listed(tmp_path: Path) -> None:
    """Each look is of files that were there; the last one, when nothing changes, is exact."""
    top = repository(tmp_path / "r", {f"f{n}": f"{n}\n" for n in range(20)})
    looked, stop = Looked(top), threading.Event()

    def change() -> None:
        for number in itertools.cycle(range(20)):
            if stop.is_set():
                return
            (top / f"f{number}").write_text("changed\n")
            (top / "deep" / str(number)).mkdir(parents=True, exist_ok=True)
            (top / "deep" / str(number) / "x").write_text("new")
            shutil.rmtree(top / "deep")
            (top / f"f{number}").unlink()
            (top / f"f{number}").symlink_to("nowhere")
            (top / f"f{number}").unlink()

    writer = threading.Thread(target=change)
    writer.start()
    try:
        trees = [looked.scan().tree for _ in range(5)]
    finally:
        stop.set()
        writer.join()
    last = looked.scan().tree

    for tree in trees:
        assert FileTree.of_text(tree.text) == tree
    on_disk = {path.name: path.read_bytes() for path in top.iterdir() if path.is_file()}
    assert looked.files(last) == on_disk


def test_names_that_are_git_s_own_to_some_systems_are_not_recorded(tmp_path: Path) -> None:
    """A log that names them is refused, and a reader cannot know who wrote it."""
    top = repository(tmp_path / "r", {"a": "one\n"})
    for name in (".GIT", "git~1"):
        (top / name).mkdir()
        (top / name / "config").write_text("x")

    tree = Looked(top).scan().tree

    assert tree.differs == ()


def test_to_commit_what_was_seen_changes_nothing(tmp_path: Path) -> None:
    """Edited, new, renamed and removed files, text and not; a further edit is a change."""
    looked = Looked(repository(tmp_path / "r", {"a": "1\n", "b": "2\n", "c": "3\n"}))
    looked.scan()
    (looked.top / "a").write_bytes(b"\0\xff")
    (looked.top / "b").rename(looked.top / "d")
    (looked.top / "c").unlink()
    (looked.top / "new").symlink_to("a")
    edited = looked.scan().tree
    git(looked.top, "add", "-A")
    git(looked.top, "commit", "-qm", "x")
    committed = looked.scan().tree
    (looked.top / "d").write_text("4\n")
    git(looked.top, "commit", "-qam", "y")

    assert committed.differs == edited.differs
    assert looked.scan().tree.differs != edited.differs
