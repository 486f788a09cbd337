"""What is written is written whole, also to who reads slowly."""

import os
import threading

import pytest

from refold.engine.log.descriptors import write_all


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
