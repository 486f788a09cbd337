"""Takes a torn tail off a log before anything is appended (CONTRACT.md §4.5).

Only bytes that `engine.log.damage` calls a torn tail are ever cut, and never lost: they are kept
beside the log as `<log>.torn-<offset>-<first 8 digits of their sha256>`.
"""

import contextlib
import os
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import attrs

_CHUNK: Final = 1024 * 1024


@attrs.frozen
class Cut:
    """What was taken off the end of a log."""

    bytes: int
    sha256: str
    """Of the bytes cut, 64 lower-case hex digits."""
    offset: int
    """Where they began; now the length of the log."""
    kept: Path
    """Where they are kept."""

    def as_json(self) -> dict[str, Any]:
        """Return what `run.resumed` records: {bytes, sha256, offset}."""
        return {"bytes": self.bytes, "sha256": self.sha256, "offset": self.offset}


def cut_tail(descriptor: int, path: Path, offset: int) -> Cut:
    """Keep the bytes of an open log from `offset` on beside it, then cut them off, durably.

    Raises:
        OSError: they could not be kept, or not be cut.
    """
    digest, size = sha256(), 0
    for chunk in _from(descriptor, offset):
        digest.update(chunk)
        size += len(chunk)
    name = digest.hexdigest()
    kept = path.with_name(f"{path.name}.torn-{offset}-{name[:8]}")
    _keep(descriptor, offset, kept)
    os.ftruncate(descriptor, offset)
    os.fsync(descriptor)
    return Cut(size, name, offset, kept)


def _from(descriptor: int, offset: int) -> Iterator[bytes]:
    while chunk := os.pread(descriptor, _CHUNK, offset):
        yield chunk
        offset += len(chunk)


def _keep(descriptor: int, offset: int, kept: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        kept.unlink()  # of a recovery that was itself cut short; the bytes are the same
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(kept, flags, 0o600), "wb") as file:  # noqa: PTH123 - a descriptor
        file.writelines(_from(descriptor, offset))
        file.flush()
        os.fsync(file.fileno())
    sync_folder(kept.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in `folder` durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
