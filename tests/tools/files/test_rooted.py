import os
import socket
import threading
from pathlib import Path

import pytest

from refold.engine.errors import ToolError
from refold.tools.files import rooted
from refold.tools.files.rooted import FolderWalk, Root
from tests.support.descriptors import open_descriptors


@pytest.fixture
def root(tmp_path: Path) -> Root:
    top = tmp_path / "top"
    (top / "inner").mkdir(parents=True)
    (top / "inner" / "a.txt").write_text("inside")
    (tmp_path / "secret.txt").write_text("outside")
    return Root(top, "probe")


def read(root: Root, path: str) -> str:
    with root.file(path) as file:
        return file.read().decode()


@pytest.mark.parametrize("path", ["inner/a.txt", "./inner//a.txt", "inner/./a.txt"])
def test_a_file_is_found_by_its_relative_path(root: Root, path: str) -> None:
    """Single dots and doubled slashes say nothing."""
    assert read(root, path) == "inside"


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("../secret.txt", "outside_root"),
        ("inner/../../secret.txt", "outside_root"),
        ("inner/..", "outside_root"),
        ("/etc/passwd", "outside_root"),
        ("inner/a.txt\0.png", "outside_root"),
        ("", "not_a_file"),
        (".", "not_a_file"),
        ("inner", "not_readable"),
        ("inner/a.txt/b", "not_readable"),
        ("absent", "not_found"),
        ("absent/a.txt", "not_found"),
        ("x" * 300, "not_readable"),
    ],
)
def test_what_is_no_file_below_the_root_is_refused(root: Root, path: str, code: str) -> None:
    """A tool error with a code, so that a program can tell why."""
    with pytest.raises(ToolError) as refused:
        read(root, path)

    assert refused.value.code == code
    assert refused.value.tool == "probe"


@pytest.mark.parametrize("target", ["../secret.txt", "inner/a.txt", "nowhere"])
def test_a_link_is_not_followed(root: Root, target: str) -> None:
    """Wherever it points; as the last name or on the way."""
    (root.top / "link").symlink_to(target)
    (root.top / "folder").symlink_to(root.top / "inner")

    for path in ("link", "folder/a.txt"):
        with pytest.raises(ToolError) as refused:
            read(root, path)
        assert refused.value.code == "not_readable"
    assert root.kind("link") == "link"
    with pytest.raises(ToolError), root.folder("folder"):
        pass


def test_a_pipe_or_socket_is_not_opened(root: Root) -> None:
    """Opening a pipe would wait for a writer."""
    os.mkfifo(root.top / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(root.top / "socket"))

        for name in ("pipe", "socket"):
            with pytest.raises(ToolError) as refused:
                read(root, name)
            assert refused.value.code == "not_readable"


def test_a_folder_swapped_for_a_link_while_reading_leads_nowhere_else(root: Root) -> None:
    """There is no moment between the check and the use: never once is the outside read."""
    outside = root.top.parent / "outside"
    outside.mkdir()
    (outside / "a.txt").write_text("outside")
    inner, aside = root.top / "inner", root.top / "aside"
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            inner.rename(aside)
            inner.symlink_to(outside)
            inner.unlink()
            aside.rename(inner)

    swapping = threading.Thread(target=swap)
    swapping.start()
    seen: set[str] = set()
    try:
        for _ in range(2000):
            try:
                seen.add(read(root, "inner/a.txt"))
            except ToolError as refused:
                seen.add(refused.code)
    finally:
        stop.set()
        swapping.join()

    assert seen <= {"inside", "not_found", "not_readable"}


def test_no_descriptor_is_left_open(root: Root) -> None:
    """Neither after a refusal nor after a walk that stopped early."""
    before = open_descriptors()

    for path in ("inner/a.txt", "inner", "absent/x", "inner/absent"):
        try:
            read(root, path)
        except ToolError:
            continue
    walk = FolderWalk(root, deep=True).over("")
    next(walk)
    walk.close()

    assert open_descriptors() <= before  # fewer where the collector closed an earlier test's


def test_a_walk_goes_in_the_order_of_names(root: Root) -> None:
    """A folder before what it contains; links and pipes are shown and not entered."""
    (root.top / "b").mkdir()
    (root.top / "a.txt").write_text("")
    (root.top / "loop").symlink_to(".")
    os.mkfifo(root.top / "pipe")

    found = [(entry.path, entry.kind) for entry, _, _ in FolderWalk(root, deep=True).over("")]

    assert found == [
        ("a.txt", "file"),
        ("b", "folder"),
        ("inner", "folder"),
        ("inner/a.txt", "file"),
        ("loop", "link"),
        ("pipe", "other"),
    ]


def test_a_walk_is_bounded(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    """In names and in levels, and says so."""
    deep = root.top
    for _ in range(5):
        deep = deep / "d"
        deep.mkdir()
    monkeypatch.setattr(rooted, "LEVELS_MAX", 3)

    shallow = FolderWalk(root, deep=True)
    levels = [entry.path for entry, _, _ in shallow.over("d")]
    monkeypatch.setattr(rooted, "VISITED_MAX", 2)
    short = FolderWalk(root, deep=True)
    names = list(short.over(""))

    assert (levels, shallow.truncated) == (["d/d", "d/d/d", "d/d/d/d"], True)
    assert (len(names), short.truncated) == (2, True)
