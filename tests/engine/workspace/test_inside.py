"""Nothing that is done in a folder happens outside of it, whatever links it has."""

import contextlib
import os
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.engine.errors import ContentMissing, FolderRefused
from refold.engine.workspace import inside
from refold.engine.workspace.entries import Mode
from refold.engine.workspace.forms import as_lines
from refold.engine.workspace.inside import (
    FILE,
    FOLDER,
    LINK,
    PROGRAM,
    Inside,
    modes_in,
    restore,
    scratch_folder,
    set_modes,
    umask_as,
    umask_here,
)
from refold.engine.workspace.tree import FileTree, TreeEntry
from tests.support.folders import entries
from tests.support.loops import for_each

_NAMES = st.sampled_from(["a", "b", "c", "..", ".", ""])
_PATHS = st.lists(_NAMES, min_size=1, max_size=3).map("/".join)
_KINDS = st.sampled_from(["file", "folder", "{outside}", "{outside}/mine", "..", "/", "a", "pipe"])


def _done(path: str, content: bytes) -> list[Callable[[Inside], object]]:
    """Return all that can be done at a path."""
    return [
        lambda folder: folder.held(path),
        lambda folder: folder.held(f"{path}/a"),
        lambda folder: folder.make(f"{path}/a", FILE, content),
        lambda folder: folder.make(path, FILE, content),
        lambda folder: folder.make(path, LINK, b"mine"),
        lambda folder: folder.make(path, FOLDER, b""),
    ]


def _seen(top: Path) -> list[tuple[str, int, bytes]]:
    """Return what a folder holds, and when each of it changed."""
    found = []
    for each in sorted([top, *top.rglob("*")]):
        held = each.read_bytes() if each.is_file() else b""
        found.append((str(each), each.lstat().st_ctime_ns, held))
    return found


@given(st.dictionaries(_PATHS, _KINDS, max_size=5), _PATHS, st.integers(0, 5))
def test_nothing_leaves_the_folder(made: dict[str, str], path: str, what: int) -> None:
    """Any files, links and pipes, anything done at any path."""
    with tempfile.TemporaryDirectory() as tmp:
        top, outside = Path(tmp, "outside", "top"), Path(tmp, "outside", "victim")
        outside.mkdir(parents=True)
        (outside / "mine").write_text("SECRET")
        before = _seen(outside)
        top.mkdir()
        around = top.parent.stat().st_mtime_ns
        for name, kind in made.items():
            with contextlib.suppress(OSError, RuntimeError):  # a loop of links
                place = Path(os.path.normpath(top / name))
                is_led = place.parent.resolve() != place.parent
                if is_led or os.path.lexists(place) or not place.is_relative_to(top):
                    continue
                place.parent.mkdir(parents=True, exist_ok=True)
                if kind == "pipe":
                    os.mkfifo(place)
                elif kind == "folder":
                    place.mkdir()
                elif kind == "file":
                    place.write_text("its own")
                else:
                    place.symlink_to(kind.format(outside=outside))
        with Inside(top) as folder, contextlib.suppress(FolderRefused, OSError):
            assert "SECRET" not in repr(_done(path, b"new")[what](folder))
        assert _seen(outside) == before
        assert top.parent.stat().st_mtime_ns == around


def test_a_file_is_older_than_an_index_that_is_written_at_once(tmp_path: Path) -> None:
    """By a whole second, as git counts: else `git add` warns of line ends in a new copy alone."""
    with Inside(tmp_path) as folder:
        folder.make("a", FILE, b"one\n")
    (tmp_path / "index").touch()

    times = [int((tmp_path / name).stat().st_mtime) for name in ("a", "index")]
    assert times[0] < times[1]


def test_files_are_made_and_read(tmp_path: Path) -> None:
    """Links as links; nothing is replaced."""
    with Inside(tmp_path) as folder:
        folder.make("d/new", FILE, b"new")
        folder.make("run", PROGRAM, b"now")
        folder.make("link", LINK, b"run")

        held = [folder.held(each) for each in ("d/new", "run", "link", "d", "no")]
        with pytest.raises(FolderRefused, match="a new file"):
            folder.make("run", FILE, b"again")
        with pytest.raises(FolderRefused, match="a folder"):
            folder.make("link/x", FILE, b"")

    assert [each and (each.mode, each.content) for each in held] == [
        (FILE, b"new"), (PROGRAM, b"now"), (LINK, b"run"), (FOLDER, b""), None,
    ]  # fmt: skip


def content_of(entry: TreeEntry) -> bytes:
    """Return what a file holds in these tests, or the text of a link: its own path."""
    return os.fsencode(entry.path)


def found_below(top: Path) -> dict[str, tuple[str, bytes]]:
    """Return what stands in a folder: by path its mode as git writes it, and its content."""
    found = {}
    for folder, folders, names in os.walk(top):
        for name in [*names, *folders]:
            path = Path(folder, name)
            if path.is_symlink():
                held = "120000", os.fsencode(path.readlink())
            elif path.is_dir():
                continue
            else:
                can_run = path.stat().st_mode & stat.S_IXUSR
                held = "100755" if can_run else "100644", path.read_bytes()
            found[str(path.relative_to(top))] = held
    return found


@given(entries())
def test_what_is_restored_is_what_the_tree_says(listed: list[TreeEntry]) -> None:
    """Any names, links to anywhere, modes; what was left out of the record is not there."""
    with tempfile.TemporaryDirectory() as top:
        missing = restore(listed, content_of, Path(top))
        expected = {
            entry.path: (entry.mode, content_of(entry)) for entry in listed if entry.kind != "out"
        }

        assert missing == []
        assert found_below(Path(top)) == expected


_PARTS = st.sampled_from(
    ["..", ".", "", "a", "A", "b", "é", ".git", ".GIT", "git~1", "hooks", "\0"]
)
_PATHS = st.one_of(st.lists(_PARTS, min_size=1, max_size=4).map("/".join), st.just("/etc/x"))
_TARGETS = st.sampled_from(["..", "../out", "/", "a", "{outside}", ".git", "", "x\0"])
_LINES = st.one_of(
    st.tuples(_PATHS, st.sampled_from(["100644", "100755"]), st.just("own"), st.just("0" * 64)),
    st.tuples(_PATHS, st.just("120000"), st.just("link"), _TARGETS),
    st.tuples(_PATHS, st.just("040000"), st.sampled_from(["folder", "out"]), st.just("")),
    st.tuples(_PATHS, st.sampled_from(["", "160000", "104755"]), st.text(), st.text()),
)


@given(listed=st.lists(_LINES, max_size=6), is_sorted=st.booleans())
def test_a_list_of_a_stranger_is_refused_or_stays_in_the_folder(
    listed: list[tuple[str, str, str, str]], *, is_sorted: bool
) -> None:
    """Absolute paths, `..`, links that lead out, names twice or below a link, git's own folders."""
    with tempfile.TemporaryDirectory() as folder:
        (outside := Path(folder, "outside")).mkdir()
        (outside / "mine").write_text("mine")
        (top := Path(folder, "top")).mkdir()
        named = [
            [path, mode, kind, value.replace("{outside}", str(outside)), 1]
            for path, mode, kind, value in (sorted(listed) if is_sorted else listed)
        ]
        with contextlib.suppress(FolderRefused):
            restore(FileTree.of_text(as_lines(named)).differs, content_of, top)

        assert sorted(os.listdir(folder)) == ["outside", "top"]  # noqa: PTH208 - names
        assert found_below(outside) == {"mine": ("100644", b"mine")}
        assert not any("git" in name.lower() for name in os.listdir(top))  # noqa: PTH208 - names


@for_each(
    "path",
    ["../out", "a/../../out", "/out", ".git/hooks/pre-commit", "sub/.GIT/config", "a//b", "a/./b"],
)
def test_a_path_that_leads_elsewhere_is_refused_by_name(tmp_path: Path, path: str) -> None:
    """Also where the list was not read strictly."""
    (tmp_path / "top").mkdir()

    with pytest.raises(FolderRefused) as refused:
        restore([TreeEntry(path, "100755", "git", "a" * 40)], content_of, tmp_path / "top")

    assert path in str(refused.value)
    assert found_below(tmp_path) == {}


@for_each("above", ["../outside", "/tmp", "."])
def test_a_link_is_never_followed(tmp_path: Path, above: str) -> None:
    """Neither to write below it, nor in the place of it."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "top").mkdir()
    link = TreeEntry("l", "120000", "git", "a" * 40)

    for path in ("l/x", "l"):
        with pytest.raises(FolderRefused, match=r"\bl\b"):
            restore(
                [link, TreeEntry(path, "100644", "git", "a" * 40)],
                lambda _: os.fsencode(above),
                tmp_path / "top",
            )
        (tmp_path / "top" / "l").unlink()

    assert found_below(tmp_path) == {}


def test_a_name_that_is_taken_is_refused(tmp_path: Path) -> None:
    """A file is made and never opened: twice, or in the place of a folder."""
    file = TreeEntry("a", "100644", "git", "a" * 40)
    inner = TreeEntry("a/b", "100644", "git", "a" * 40)

    for at, listed in enumerate(([file, file], [inner, file], [file, inner])):
        top = tmp_path / str(at)
        top.mkdir()
        with pytest.raises(FolderRefused, match="recorded folder: a"):
            restore(listed, content_of, top)


def test_contents_that_are_missing_are_all_named(tmp_path: Path) -> None:
    """The others are written."""

    def content(entry: TreeEntry) -> bytes:
        if entry.path != "b":
            raise ContentMissing(entry.path, "", "gone")
        return b"b"

    listed = [TreeEntry(name, "100644", "git", "a" * 40) for name in "abc"]
    missing = restore(listed, content, tmp_path)

    assert [each.file for each in missing] == ["a", "c"]
    assert found_below(tmp_path) == {"b": ("100644", b"b")}


def test_a_link_whose_text_no_system_takes_is_refused(tmp_path: Path) -> None:
    """Contents of git may hold anything."""
    link = TreeEntry("l", "120000", "git", "a" * 40)

    with pytest.raises(FolderRefused, match="NUL"):
        restore([link], lambda _: b"a\0b", tmp_path)


def test_files_of_more_than_a_total_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hundred names of one large file fit into a short list."""
    listed = [TreeEntry(name, "100644", "git", "a" * 40) for name in ("one", "two", "three")]

    monkeypatch.setattr(inside, "TOTAL_MAX", 6)
    restore(listed[:2], content_of, tmp_path)
    monkeypatch.setattr(inside, "TOTAL_MAX", 0)
    with pytest.raises(FolderRefused, match="three: expected files of at most 0 bytes in all"):
        restore(listed[2:], content_of, tmp_path)


_KILLED = """
import os, signal
from pathlib import Path
from refold.engine.workspace.contents import Store
with Store(Path.cwd(), "sha1", None) as store:
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_process_left_is_removed_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of every kind of folder; not what another one uses, and nothing through a link."""
    (made := tmp_path / "tmp").mkdir()
    (outside := tmp_path / "mine").mkdir(0o755)
    (outside / "file").write_text("mine")
    monkeypatch.setattr(tempfile, "tempdir", str(made))
    killed = [sys.executable, "-c", _KILLED]
    done = subprocess.run(killed, cwd=outside, env={**os.environ, "TMPDIR": str(made)}, check=False)
    assert done.returncode == -signal.SIGKILL
    (dead,) = made.iterdir()
    (dead / "out").symlink_to(outside)
    (dead / "shut").mkdir()
    (dead / "shut" / "file").write_text("")
    (dead / "shut").chmod(0o500)

    with scratch_folder() as used, scratch_folder() as mine:
        assert {*made.iterdir()} == {used, mine}
        assert _may(used) == 0o700

    assert [*made.iterdir()] == []
    assert (outside / "file").read_text() == "mine"
    assert _may(outside) == 0o755


def _may(folder: Path) -> int:
    """Return who may do what in a folder."""
    return folder.stat().st_mode & 0o777


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """Return a folder with files, one of them in a folder, and a link that leads out."""
    with umask_as("022"):
        for path in ("r/f", "r/d/g", "r/.git/h", "r/out/i", "elsewhere"):
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text("x")
        (tmp_path / "r" / "link").symlink_to(tmp_path / "elsewhere")
    return tmp_path / "r"


@given(st.sampled_from(["002", "022", "077"]), st.sampled_from(["002", "022", "077"]), st.data())
def test_modes_are_the_same_in_a_copy(before: str, now: str, data: st.DataObject) -> None:
    """Under any umask, of which only what is not as it says is noted."""
    paths = ("d", "d/p", "e", "f")
    with tempfile.TemporaryDirectory() as tmp:
        made = [Path(tmp, "one"), Path(tmp, "two")]
        for top in made:
            with umask_as(before):
                for path in ("", "d", "e"):
                    (top / path).mkdir()
                for path in ("d/p", "f"):
                    (top / path).touch(0o777 if path == "d/p" else 0o666)
        assert modes_in(made[0], (), before) == ()
        for path in data.draw(st.sets(st.sampled_from(paths))):
            mode = data.draw(
                st.integers(0o700, 0o777) if path in "de" else st.integers(0o600, 0o677)
            )
            (made[0] / path).chmod(mode | 0o100 * (path == "d/p"))

        with umask_as(now):
            assert umask_here() == now
            set_modes(made[1], modes_in(made[0], (), before))

        assert [_may(made[1] / path) for path in paths] == [_may(made[0] / path) for path in paths]


def test_what_the_user_may_not_do_is_found(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the top, too; not what a log does not have, nor what a link names. Root may do all."""
    assert modes_in(shared, {"out"}, "022") == ()
    monkeypatch.setattr(os, "access", lambda _, asked: not asked & os.W_OK)

    found = modes_in(shared, {"out"}, "022")

    assert found == (
        Mode("", "040555"), Mode("d", "040555"), Mode("d/g", "100555"), Mode("f", "100555"),
    )  # fmt: skip
    monkeypatch.setattr(inside, "_MODES_MAX", 3)
    assert modes_in(shared, {"out"}, "022") == ()


def test_in_a_copy_the_user_may_not_do_the_same(shared: Path, tmp_path: Path) -> None:
    """What was not readable is empty; a link is not followed, and a folder stays one."""
    (tmp_path / "elsewhere").chmod(0o640)
    modes = [
        Mode("", "040555"), Mode("d", "040000"), Mode("d/g", "100440"), Mode("f", "040000"),
        Mode("new", "100000"), Mode("link", "100000"), Mode("newer/in", "040111"),
        Mode("not", "100600"),
    ]  # fmt: skip

    set_modes(shared, modes)

    paths = (".", "d", "d/g", "f", "new", "newer/in", "../elsewhere")
    assert {path: _may(shared / path) for path in paths} == {
        ".": 0o555, "d": 0, "d/g": 0o440, "f": 0o644, "new": 0, "newer/in": 0o111,
        "../elsewhere": 0o640,
    }  # fmt: skip
    assert not (shared / "not").exists()
    with pytest.raises(FolderRefused):
        set_modes(shared, [Mode("link/x", "100000")])


def test_it_is_the_user_who_is_asked_for(shared: Path) -> None:
    """Read-only and unsearchable folders, a file that nobody may read; the user is not root."""
    (shared / "f").chmod(0)
    (shared / "d").chmod(0o555)
    (shared / "e").mkdir()
    (shared / "e" / "h").write_text("x")
    (shared / "e").chmod(0o444)
    code = (
        "import sys; from pathlib import Path; "
        "from refold.engine.workspace.inside import modes_in; "
        "print([(one.path, one.mode) for one in modes_in(Path(sys.argv[1]), {'out'}, '022')])"
    )
    other = ["bwrap", "--bind", "/", "/", "--unshare-user", "--uid", "1000"] * (os.geteuid() == 0)
    try:
        subprocess.run([*other, "true"], capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no user namespaces here")

    command = [*other, sys.executable, "-c", code, str(shared)]
    said = subprocess.run(command, capture_output=True, check=True, text=True).stdout

    assert said == "[('d', '040555'), ('e', '040444'), ('f', '100000')]\n"
