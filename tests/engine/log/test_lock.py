"""The lock of a log (CONTRACT.md §4.3); how writers use it is tested in `test_writer`."""

import errno
import fcntl
import os
from pathlib import Path

import pytest

from refold.engine.errors import LogLocked, LogNameRefused
from refold.engine.events.events import RunStarted
from refold.engine.log.descriptors import unlock
from refold.engine.log.lock import is_locked, lock, refuse_if_locked
from refold.engine.log.writer import LogWriter


def test_a_lock_is_held_until_it_is_given_up(tmp_path: Path) -> None:
    """Two descriptors of one file cannot both hold it; giving it up frees it at once."""
    path = tmp_path / "a.jsonl"
    path.touch()
    one, two = os.open(path, os.O_RDWR), os.open(path, os.O_RDWR)
    lock(one, path)

    with pytest.raises(LogLocked) as locked:
        lock(two, path)
    with pytest.raises(LogLocked):
        refuse_if_locked(path)
    unlock(one)
    refuse_if_locked(path)
    lock(two, path)

    assert locked.value.pid == os.getpid()
    assert f"by process {os.getpid()} or one of its forks" in str(locked.value)
    assert str(locked.value).endswith("try again when that process has ended")
    os.close(one)
    os.close(two)


def test_what_is_not_there_is_not_locked(tmp_path: Path) -> None:
    """Asking makes no file."""
    refuse_if_locked(tmp_path / "none.jsonl")

    assert list(tmp_path.iterdir()) == []


def test_a_file_system_without_locks_is_named(
    tmp_path: Path, started: RunStarted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As some network file systems are: the error says which log, and what to do."""

    def refuse(_descriptor: int, _how: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    path = tmp_path / "a.jsonl"

    with pytest.raises(
        LogNameRefused, match=r"a\.jsonl: its file system does not support locks .*different"
    ):
        LogWriter.create(path, started)

    assert not path.exists()
    refuse_if_locked(path)


def test_a_log_is_locked_while_a_writer_has_it(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.touch()
    held = os.open(path, os.O_RDWR)
    lock(held, path)

    assert is_locked(path)
    os.close(held)
    assert not is_locked(path)
