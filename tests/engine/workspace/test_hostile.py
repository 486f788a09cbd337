"""Folders and stores that somebody made to harm: nothing runs, nothing outside is read or written.

A folder is recorded, and a store beside a log is read and restored.
"""

import contextlib
import hashlib
import os
import shutil
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from refold.engine.errors import ContentMissing, FolderRefused, GitFailed
from refold.engine.log.beside import packs_of
from refold.engine.log.names import files_of
from refold.engine.workspace.entries import FolderStarted
from refold.engine.workspace.inside import restore
from refold.engine.workspace.left_out import LogFiles
from refold.engine.workspace.made import NewObjects
from refold.engine.workspace.packing import contents_of, packed_repository
from refold.engine.workspace.scanning import Scanner
from refold.engine.workspace.tree import Base, FileTree, TreeEntry
from tests.support.folders import git, kept, repository
from tests.support.loops import for_each, some

SECRET: Final = b"secret of the user"
_REFUSED: Final = (ContentMissing, FolderRefused, GitFailed, OSError, ValueError)
_SETTINGS: Final = (
    "core.fsmonitor", "core.pager", "core.sshCommand", "core.editor", "core.gitProxy",
    "core.alternateRefsCommand", "diff.external", "diff.evil.textconv", "diff.evil.command",
    "filter.evil.clean", "filter.evil.smudge", "filter.evil.process", "merge.evil.driver",
    "credential.helper", "gpg.program", "uploadpack.packObjectsHook", "remote.origin.uploadpack",
)  # fmt: skip
_HOOKS: Final = (
    "post-index-change",
    "post-checkout",
    "reference-transaction",
    "fsmonitor-watchman",
)
_ATTRIBUTES: Final = "* filter=evil diff=evil merge=evil text eol=crlf ident export-subst\n"


def _program(top: Path) -> Path:
    program = top.parent / "evil.sh"
    program.write_text(f"#!/bin/sh\necho ran >> {top.parent}/ran\ncat\n")
    program.chmod(0o755)
    return program


def _configured(git_dir: Path, program: Path, path: str = "config") -> None:
    git_dir.mkdir(parents=True, exist_ok=True)
    for name in _SETTINGS:
        subprocess.run(["git", "config", "-f", git_dir / path, name, program], check=True)
    (git_dir / "hooks").mkdir(exist_ok=True)
    for name in _HOOKS:
        shutil.copy(program, git_dir / "hooks" / name)


def _setting(name: str, value: str) -> Callable[[Path], object]:
    return lambda top: git(top, "config", name, value.format(top=top, out=top.parent / "outside"))


def _all_settings(top: Path) -> None:
    _configured(top / ".git", _program(top))
    (top / ".gitattributes").write_text(_ATTRIBUTES)
    (top / ".git" / "info" / "attributes").write_text(_ATTRIBUTES)
    git(top, "config", "filter.evil.required", "true")
    for name in ("a", "d/b"):
        os.utime(top / name, (1, 1))


def _includes(top: Path) -> None:
    _configured(top.parent / "evil", _program(top), "included")
    git(top, "config", "include.path", f"{top.parent}/evil/included")
    (top / ".gitattributes").write_text(_ATTRIBUTES)
    os.utime(top / "a", (1, 1))


def _inner(at: str, made: Callable[[Path], object]) -> Callable[[Path], object]:
    def change(top: Path) -> None:
        inner = repository(top / at, {"a": "inner\n", "d/b": "x\n"})
        made(inner)
        for name in ("ran", "evil.sh"):
            assert not (inner.parent / name).exists() or name == "evil.sh"

    return change


def _git_file(text: str) -> Callable[[Path], object]:
    def change(top: Path) -> None:
        shutil.rmtree(top / ".git")
        (top / ".git").write_text(text.format(out=top.parent / "outside"))

    return change


def _git_link(top: Path) -> None:
    shutil.rmtree(top / ".git")
    (top / ".git").symlink_to(top.parent / "outside" / ".git")


def _link(path: str, target: str) -> Callable[[Path], object]:
    def change(top: Path) -> None:
        (top / path).parent.mkdir(parents=True, exist_ok=True)
        (top / path).unlink(missing_ok=True)
        (top / path).symlink_to(target.format(out=top.parent / "outside"))

    return change


def _text(path: str, text: str) -> Callable[[Path], object]:
    def change(top: Path) -> None:
        (top / path).parent.mkdir(parents=True, exist_ok=True)
        (top / path).write_text(text.format(out=top.parent / "outside", top=top))

    return change


def _replaced(top: Path) -> None:
    other = subprocess.run(
        ["git", "hash-object", "-w", "--stdin"], cwd=top, input=b"replaced", check=True,
        capture_output=True,
    ).stdout.decode().strip()  # fmt: skip
    git(top, "replace", git(top, "rev-parse", "HEAD:a"), other)


def _index_bomb(top: Path) -> None:
    """An index that says that it has four billion entries."""
    begin = b"DIRC" + struct.pack(">II", 2, 0xFFFFFFFF) + b"\0" * 64
    (top / ".git" / "index").write_bytes(begin + hashlib.sha1(begin).digest())


def _named(*names: str) -> Callable[[Path], object]:
    def change(top: Path) -> None:
        for name in names:
            (top / name).mkdir(parents=True, exist_ok=True)
            (top / name / "config").write_text(f"[core]\n\tfsmonitor = {_program(top)}\n")

    return change


def _deep(top: Path) -> None:
    (top / "/".join(["x" * 20] * 60)).mkdir(parents=True)


FOLDERS: Final[dict[str, Callable[[Path], object]]] = {
    "all settings, hooks and attributes": _all_settings,
    "an included configuration": _includes,
    "the same, in a repository within": _inner("in/ner", _all_settings),
    "includes in a repository within": _inner("in/ner", _includes),
    "two levels below": _inner("in", _inner("ner", _all_settings)),
    "a work tree elsewhere": _setting("core.worktree", "{out}"),
    "hooks elsewhere": _setting("core.hooksPath", "{top}"),
    "attributes elsewhere": _setting("core.attributesFile", "{out}/key"),
    "ignored files elsewhere": _setting("core.excludesFile", "{out}/key"),
    "a promisor": _setting("extensions.partialClone", "ext::sh -c touch% {out}/ran"),
    "a bare repository": _setting("core.bare", "true"),
    "an extension that nobody knows": _setting("extensions.evil", "true"),
    "a file that names a repository elsewhere": _git_file("gitdir: {out}/.git\n"),
    "a file that names itself": _git_file("gitdir: .git\n"),
    "a file of nonsense": _git_file("\0" * 100),
    "a link to a repository elsewhere": _git_link,
    "objects of others": _text(".git/objects/info/alternates", "{out}/.git/objects\n/proc/self\n"),
    "objects of itself": _text(".git/objects/info/alternates", "{top}/.git/objects\n"),
    "grafts": _text(".git/info/grafts", "0" * 40 + "\n"),
    "a shallow history": _text(".git/shallow", "nonsense\n"),
    "replaced objects": _replaced,
    "an index without end": _index_bomb,
    "an index that is a link": _link(".git/index", "{out}/key"),
    "a HEAD that is a link": _link(".git/HEAD", "{out}/key"),
    "a HEAD that leads out": _text(".git/HEAD", "ref: ../../outside/key\n"),
    "packed refs that are a link": _link(".git/packed-refs", "{out}/key"),
    "ignored files that are a link": _link(".gitignore", "{out}/key"),
    "attributes that are a link": _link(".gitattributes", "{out}/key"),
    "a module that is a command": _text(
        ".gitmodules", '[submodule "x"]\n\tpath = x\n\turl = ext::sh\n\tupdate = !touch {out}/ran\n'
    ),
    "names of git to other systems": _named(".GIT", ".Git ", "git~1", ".g\u200cit", "d/.GIT"),
    "links to folders elsewhere": _link("d/l", "{out}"),
    "a link in the place of a folder": _inner("d/x", _link("d2/y", "{out}/.git")),
    "patterns that take long": _text(".gitignore", "*a" * 40 + "b\n"),
    "folders without end": _deep,
}


def _outside(top: Path) -> Path:
    outside = repository(top.parent / "outside", {"key": SECRET.decode()})
    (outside / "secret").write_bytes(SECRET)
    return outside


def _seen(folder: Path) -> list[tuple[str, int, int]]:
    found = []
    for above, folders, names in os.walk(folder):
        for name in (*folders, *names):
            about = os.lstat(os.path.join(above, name))  # noqa: PTH118 - many
            found.append((f"{above}/{name}", about.st_mode, about.st_mtime_ns))
    return sorted(found)


def _kept_in(log: Path, work: Path) -> bytes:
    if not packs_of(log):
        return b""
    made = packed_repository(log, [], work)
    return made.output("cat-file", "--batch-all-objects", "--batch")


@pytest.mark.parametrize("name", some(2, [*FOLDERS]))
def test_a_hostile_folder_is_recorded_or_refused(tmp_path: Path, name: str) -> None:
    """Each at the start, and each as a command leaves it."""
    for when in ("start", "later"):
        top = repository(tmp_path / when / "r", {"a": "a" * 30 + "\n", "d/b": "two\n"})
        outside, log = _outside(top), tmp_path / when / "logs" / "x.jsonl"
        log.parent.mkdir()
        scanner = Scanner(
            top, LogFiles(log, top, top), packs=files_of(log), objects=NewObjects(top)
        )
        with scanner, contextlib.suppress(*_REFUSED):
            if when == "later":
                scanner.scan()
            FOLDERS[name](top)
            before = _seen(top), _seen(outside)
            scanner.scan()
            scanner.scan(is_last=True)

        assert (_seen(top), _seen(outside)) == before
        assert not [*tmp_path.rglob("ran")]
        assert SECRET not in _kept_in(log, tmp_path / when / "made")


def _tree(*entries: tuple[str, str, bytes]) -> bytes:
    """Return a tree of modes, names and ids, which git would not write."""
    return b"".join(f"{mode} {name}\0".encode() + named for mode, name, named in entries)


def _pack(*objects: tuple[int, bytes], count: int = 0) -> bytes:
    """Return a pack of kinds (2 a tree, 3 a file) and contents."""
    packed = b"PACK" + struct.pack(">II", 2, count or len(objects))
    for kind, content in objects:
        size, byte = len(content) >> 4, kind << 4 | len(content) & 15
        while size:
            packed += bytes([byte | 128])
            byte, size = size & 127, size >> 7
        packed += bytes([byte]) + zlib.compress(content)
    return packed + hashlib.sha1(packed).digest()


def _id(kind: str, content: bytes) -> bytes:
    return hashlib.sha1(f"{kind} {len(content)}\0".encode() + content).digest()


_BLOB: Final = _id("blob", b"theirs")


def _tree_pack(*names: tuple[str, str]) -> tuple[bytes, str]:
    tree = _tree(*((mode, name, _BLOB) for mode, name in names))
    return _pack((3, b"theirs"), (2, tree)), _id("tree", tree).hex()


TREES: Final = {
    name: _tree_pack(*entries)
    for name, entries in {
        "a file of git": (("100644", ".git"),),
        "by another case": (("100644", ".GIT"),),
        "by the name of NTFS": (("100644", "git~1"),),
        "with a sign that nobody sees": (("100644", ".g\u200cit"),),
        "upwards": (("100644", ".."),),
        "a path in a name": (("100644", "../out"),),
        "an absolute path": (("100644", "/tmp/x"),),
        "a name without letters": (("100644", ""),),
        "a name twice": (("100644", "a"), ("120000", "a")),
        "a link, and a folder of its name": (("120000", "a"), ("40000", "a")),
    }.items()
}


def _store(log: Path, user: Path) -> Path:
    """Make of the folder of contents a repository that would run programs."""
    made = files_of(log)
    git(log.parent, "init", "-q", "--bare", str(made))
    _configured(made, _program(user))
    (made / "info").mkdir(exist_ok=True)
    (made / "info" / "attributes").write_text(_ATTRIBUTES)
    (made / "objects" / "info" / "alternates").write_text(f"{user}/.git/objects\n")
    (made / ".git").mkdir()
    shutil.copy(made / "config", made / ".git" / "config")
    return made


def _strange(name: str) -> Callable[[Path, Path], object]:
    def make(folder: Path, user: Path) -> None:
        pack = folder / "7.pack"
        match name:
            case "a pipe":
                os.mkfifo(pack)
            case "a link":
                pack.symlink_to(user / "secret")
            case "a folder":
                pack.mkdir()
            case "an index of its own":
                (folder / "7.idx").write_bytes(b"\377tOc\0\0\0\2" + b"\377" * 1024)
            case "objects that are counted wrong":
                pack.write_bytes(_pack((3, b"x"), count=0xFFFFFFF0))
            case "a size that is wrong":
                pack.write_bytes(
                    b"PACK\0\0\0\2\0\0\0\1\xbf\xff\xff\xff\xff\xff\xff\x7f" + b"x" * 30
                )
            case "replaced objects":
                (folder / "refs" / "replace").mkdir(parents=True)
                (folder / "refs" / "replace" / _BLOB.hex()).write_text("0" * 40)
            case _:
                (folder / name).mkdir(exist_ok=True)

    return make


STORES: Final = (
    "a pipe", "a link", "a folder", "an index of its own", "objects that are counted wrong",
    "a size that is wrong", "replaced objects", "aa",
)  # fmt: skip


def _read(log: Path, started: FolderStarted, work: Path) -> Path:
    (into := work / "into").mkdir(parents=True)
    with contextlib.suppress(*_REFUSED):
        contents, _ = contents_of(log, started, work / "made")
        with contents:
            restore(contents.whole(started.tree).differs, contents.content, into)
    return into


@for_each("name", STORES)
def test_a_strangers_store_is_never_opened_in_place(tmp_path: Path, name: str) -> None:
    """Settings, filters, hooks and lenders of objects beside a log are nobody's."""
    user, log = repository(tmp_path / "user", {"a": "mine\n"}), tmp_path / "log" / "x.jsonl"
    (user / "secret").write_bytes(SECRET)
    git(user, "add", "-A")
    git(user, "commit", "-qm", "x")
    log.parent.mkdir()
    folder = _store(log, user)
    own = kept("theirs", b"theirs", log=log)
    _strange(name)(folder, user)
    lent = TreeEntry("lent", "100644", "git", git(user, "rev-parse", "HEAD:secret"))
    before = _seen(user), _seen(folder)
    away = str(tmp_path / "away")

    alone = _read(log, FolderStarted(away, "", FileTree.of([], [own])), tmp_path / "one")
    both = _read(log, FolderStarted(away, "", FileTree.of([], [own, lent])), tmp_path / "two")

    assert (_seen(user), _seen(folder)) == before
    assert not [*tmp_path.rglob("ran")]
    assert {each.read_bytes() for each in both.iterdir()} <= {b"theirs"}
    if "wrong" not in name:
        assert (alone / "theirs").read_bytes() == b"theirs"


@for_each("name", TREES)
def test_a_tree_that_git_would_not_write_is_refused(tmp_path: Path, name: str) -> None:
    """By git, or by its names."""
    pack, tree = TREES[name]
    log = tmp_path / "log" / "x.jsonl"
    files_of(log).mkdir(parents=True)
    (files_of(log) / "0.pack").write_bytes(pack)
    started = FolderStarted(str(tmp_path / "away"), "", FileTree.of([Base("", tree)], []))

    into = _read(log, started, tmp_path / "work")

    assert [*into.rglob("*")] == []
    assert not (tmp_path / "work" / "out").exists()


@pytest.mark.long
def test_a_small_pack_of_a_large_file_is_read_in_little_memory(tmp_path: Path) -> None:
    """600 MB in 600 KB: its content is never asked for."""
    log = tmp_path / "x.jsonl"
    files_of(log).mkdir()
    large = bytes(600_000_000)
    (files_of(log) / "0.pack").write_bytes(_pack((3, large)))
    entry = TreeEntry("a", "100644", "git", _id("blob", large).hex(), len(large), "0" * 64)
    del large
    code = (
        "import resource, sys; from pathlib import Path;"
        "from refold.engine.workspace.packing import packed_repository as read;"
        f"read(Path({str(log)!r}), [], Path({str(tmp_path / 'made')!r}));"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert int(said.stdout) < 200_000
    started = FolderStarted(str(tmp_path / "away"), "", FileTree.of([], [entry]))
    contents, _ = contents_of(log, started, tmp_path / "again")
    with contents, pytest.raises(ContentMissing, match="expected at most"):
        contents.content(entry)
