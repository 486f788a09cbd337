"""Paths of users that are opened for reading only if that cannot wait for ever."""

import errno
import os
import stat
from pathlib import Path
from typing import Final

_GIVEN: Final = ("/dev/stdin", "/dev/fd/", "/proc/self/fd/", os.devnull)
"""Beginnings of paths that are read whatever is there: what this process was given, or nothing."""


def plain_file(path: str | os.PathLike[str]) -> Path:
    """Return the path, to be read from.

    Raises:
        OSError: it does not exist, or is a pipe or a device: opening one can wait for ever.
    """
    mode = os.stat(path).st_mode  # noqa: PTH116 - of what is named, as it is named
    is_stream = stat.S_ISFIFO(mode) or stat.S_ISCHR(mode) or stat.S_ISBLK(mode)
    if is_stream and not os.fspath(path).startswith(_GIVEN):
        raise OSError(errno.EINVAL, "a pipe or a device, not a file")
    return Path(path)
