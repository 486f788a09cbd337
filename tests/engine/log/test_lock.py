"""The lock of a log (CONTRACT.md §4.3); how writers use it is tested in `test_writer`."""

import os
from pathlib import Path

import pytest

from refold.engine.errors import LogLocked
from refold.engine.log.lock import lock, refuse_if_locked, unlock


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
    os.close(one)
    os.close(two)


def test_what_is_not_there_is_not_locked(tmp_path: Path) -> None:
    """Asking makes no file."""
    refuse_if_locked(tmp_path / "none.jsonl")

    assert list(tmp_path.iterdir()) == []
