"""What is written is written whole, also to who reads slowly."""

import os
import stat
import threading
from pathlib import Path

import pytest

from refold.engine.log.descriptors import placed, write_all


def test_more_than_a_pipe_holds_arrives_whole() -> None:
    """The system takes a part of it at a time."""
    reader, writer = os.pipe()
    os.set_blocking(writer, True)
    content = os.urandom(1_000_000)

    def write() -> None:
        write_all(writer, content)
        os.close(writer)

    writing = threading.Thread(target=write)
    writing.start()

    with open(reader, "rb") as file:  # noqa: PTH123 - a descriptor
        assert file.read() == content
    writing.join()


def test_nothing_is_written_of_nothing() -> None:
    """A descriptor that is closed is not even looked at; for anything else it is an error."""
    reader, writer = os.pipe()
    os.close(reader)
    os.close(writer)

    write_all(writer, b"")
    with pytest.raises(OSError, match="descriptor"):
        write_all(writer, b"x")


def test_a_file_has_its_name_once_it_is_whole(tmp_path: Path) -> None:
    """Private, whatever the umask; and one that is there is replaced only where that is meant."""
    place = tmp_path / "a"

    with placed(place, replaces=False) as file:
        file.write(b"one")
        assert not place.exists()
    with placed(place, replaces=True) as file:
        file.write(b"two")
        assert place.read_bytes() == b"one"
    with pytest.raises(FileExistsError), placed(place, replaces=False) as file:
        file.write(b"three")

    assert place.read_bytes() == b"two"
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [place]


@pytest.mark.parametrize("error", [OSError(28, "no room"), KeyboardInterrupt()])
def test_a_file_that_fails_leaves_nothing(tmp_path: Path, error: BaseException) -> None:
    """And the system's error names the file."""
    (tmp_path / "a").write_bytes(b"before")

    def write() -> None:
        with placed(tmp_path / "a", replaces=True) as file:
            file.write(b"half")
            raise error

    with pytest.raises(type(error)) as raised:
        write()

    assert getattr(raised.value, "filename", None) in (None, str(tmp_path / "a"))
    assert (tmp_path / "a").read_bytes() == b"before"
    assert len(list(tmp_path.iterdir())) == 1


def test_what_a_killed_writer_left_is_removed_and_a_living_ones_is_not(tmp_path: Path) -> None:
    """By the lock that a writer holds; files of other names stay."""
    left, others = tmp_path / ".refold-unfinished.0a1b2c3d", tmp_path / ".refold-unfinished.txt"
    left.touch()
    others.touch()
    (tmp_path / ".refold-unfinished.00000000").symlink_to(others)

    with placed(tmp_path / "a", replaces=True) as living:
        with placed(tmp_path / "b", replaces=True) as file:
            file.write(b"b")
        living.write(b"a")

    assert not left.exists()
    assert others.exists()
    assert ((tmp_path / "a").read_bytes(), (tmp_path / "b").read_bytes()) == (b"a", b"b")
