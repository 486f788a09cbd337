"""Runs a command to its end: its environment, what it prints, and how it ended.

The command has this process's standard input and error.  What it writes to standard output passes
through, and is kept.  Ctrl-C goes to the command, as it would without Refold; so does SIGTERM.
Rules: CONTRACT.md §16.2.
"""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import BinaryIO, Final

import attrs

from refold.engine.errors import UsageError

KEPT_BYTES: Final = 1024 * 1024
"""Of standard output; all of it is hashed."""
_READ_BYTES: Final = 64 * 1024
_NOT_FOUND, _NOT_EXECUTABLE, _BY_SIGNAL = 127, 126, 128


@attrs.frozen
class Ended:
    """How a command ended."""

    exit_code: int
    """As a shell says it: 128 and the number of the signal that ended it."""
    stdout: str
    """What it printed, the first `KEPT_BYTES` of it."""
    stdout_bytes: int
    stdout_sha256: str
    """Of all that it printed."""


def run_command(
    command: Sequence[str],
    variables: Mapping[str, str],
    write: Callable[[bytes], None] | None = None,
) -> Ended:
    """Run a command with `variables` added to this environment, and wait for its end.

    `write` gets what it prints; by default it goes to standard output.

    Raises:
        UsageError: it cannot be started.
    """
    try:
        process = subprocess.Popen(
            list(command), env={**os.environ, **variables}, stdout=subprocess.PIPE
        )
    except (OSError, ValueError) as error:
        raise UsageError(f"{command[0]}: {getattr(error, 'strerror', None) or error}") from None
    output = _Output(write or _printed)
    assert process.stdout is not None
    reading = threading.Thread(target=output.drain, args=(process.stdout,), daemon=True)
    reading.start()
    code = _waited(process)
    reading.join()
    return output.ended(code if code >= 0 else _BY_SIGNAL - code)


def _waited(process: "subprocess.Popen[bytes]") -> int:
    """Wait, and leave signals to the command; only the main thread can do that."""
    if threading.current_thread() is not threading.main_thread():
        return process.wait()
    before = {
        signal.SIGINT: signal.signal(signal.SIGINT, lambda *_: None),
        signal.SIGTERM: signal.signal(signal.SIGTERM, lambda *_: process.terminate()),
    }
    try:
        return process.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Output:
    """Passes on what is printed, and keeps its beginning."""

    def __init__(self, write: Callable[[bytes], None]) -> None:
        self._write = write
        self._kept = bytearray()
        self._hash = sha256()
        self._bytes = 0

    def drain(self, stream: BinaryIO) -> None:
        """Read to the end."""
        while content := os.read(stream.fileno(), _READ_BYTES):
            self._hash.update(content)
            self._bytes += len(content)
            self._kept += content[: KEPT_BYTES - len(self._kept)]
            self._write(content)

    def ended(self, code: int) -> Ended:
        """Return all of it, with the exit code."""
        text = self._kept.decode(errors="replace")
        return Ended(code, text, self._bytes, self._hash.hexdigest())


def _printed(content: bytes) -> None:
    sys.stdout.buffer.write(content)
    sys.stdout.buffer.flush()
