"""A file that a user names is refused where opening it could wait for ever."""

import os
from pathlib import Path

import pytest

from refold.engine.plain_files import plain_file


def test_a_pipe_and_a_device_are_refused_and_what_the_process_was_given_is_not(
    tmp_path: Path,
) -> None:
    os.mkfifo(pipe := tmp_path / "pipe")
    for path in (pipe, Path("/dev/zero")):
        with pytest.raises(OSError, match="a pipe or a device, not a file"):
            plain_file(path)
    with pytest.raises(FileNotFoundError):
        plain_file(tmp_path / "none")
    given, write = os.pipe()
    os.write(write, b"given")
    os.close(write)

    assert plain_file(f"/dev/fd/{given}").read_text() == "given"
    assert plain_file(os.devnull).read_text() == ""
    os.close(given)
