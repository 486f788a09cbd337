"""Writes to file descriptors: all of it, however often the system takes less.

Logs have a write of their own (`engine.log.writer`), for what of a line was written counts there.
"""

import os


def write_all(descriptor: int, content: bytes) -> None:
    """Write `content` whole.

    Raises:
        OSError: it cannot be written; a part of it may have been.
    """
    left = memoryview(content)
    while left:
        left = left[os.write(descriptor, left) :]
