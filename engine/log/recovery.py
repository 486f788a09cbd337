"""Takes a torn tail off a log before anything is appended (CONTRACT.md §4.5).

Only bytes that `engine.log.damage` calls a torn tail are ever cut, and never lost: they are kept
beside the log as `<log>.torn-<offset>-<first 8 digits of their sha256>`.
"""

import os
import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import attrs

from refold.engine.log.damage import after_hole
from refold.engine.log.descriptors import CLOEXEC, placed, read_at, sync
from refold.engine.values import Value

TAIL_MAX: Final = 64 * 1024**2
"""Bytes of a tail that are hashed whole."""

_PIECE: Final = 1024 * 1024


@attrs.frozen
class Cut(Value):
    """The part cut off the end of a log."""

    bytes: int
    sha256: str
    """The digest of the cut bytes, from `tail`: 64 lower-case hex digits."""
    offset: int
    """Their original offset; now the length of the log."""
    kept: Path
    """The file that keeps them."""

    def as_json(self) -> dict[str, Any]:
        """Return what `run.resumed` records: {bytes, sha256, offset}."""
        return {"bytes": self.bytes, "sha256": self.sha256, "offset": self.offset}


def cut_tail(descriptor: int, path: Path, offset: int) -> Cut:
    """Keep the bytes of an open log from `offset` on beside it, then cut them off, durably.

    Raises:
        OSError: they could not be kept, or not be cut.
    """
    size, name = tail(descriptor, offset)
    kept = path.with_name(f"{path.name}.torn-{offset}-{name[:8]}")
    _keep(descriptor, offset, size, kept)
    os.ftruncate(descriptor, offset)
    sync(descriptor)
    return Cut(size, name, offset, kept)


def tail(descriptor: int, offset: int) -> tuple[int, str]:
    """Return how many bytes an open file has from `offset` on, and their digest.

    It is their sha256. For a tail so long that it is mostly a hole, only the pieces that are not
    zeros are hashed, each after its number (CONTRACT.md §4.5).
    """
    size, digest = max(0, os.fstat(descriptor).st_size - offset), sha256()
    if size <= TAIL_MAX:
        digest.update(read_at(descriptor, size, offset))
    else:
        for number, piece in _pieces(descriptor, offset):
            digest.update(number.to_bytes(8, "big") + piece)
    return size, digest.hexdigest()


def _pieces(descriptor: int, offset: int) -> Iterator[tuple[int, bytes]]:
    """Yield the pieces of a tail that hold more than zeros, numbered from 0; holes are not read."""
    number = 0
    while (data := after_hole(descriptor, offset + number * _PIECE)) < sys.maxsize:
        number = max(number, (data - offset) // _PIECE)
        if not (piece := read_at(descriptor, _PIECE, offset + number * _PIECE)):
            return
        if piece.strip(b"\0"):
            yield number, piece
        number += 1


def _keep(descriptor: int, offset: int, size: int, kept: Path) -> None:
    # A recovery that was itself cut short may have kept the same bytes.
    with placed(kept, replaces=True) as file:
        for number, piece in _pieces(descriptor, offset):
            file.seek(number * _PIECE)
            file.write(piece)
        file.truncate(size)
    sync_path(kept.parent)


def sync_path(path: Path) -> None:
    """Make a file, or the names in a folder, durable."""
    descriptor = os.open(path, os.O_RDONLY | CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
