"""The large strings that the lines of a log tree name, and the missing ones among them.

For packing, showing or salvaging a tree without verifying it: chains are not checked, lines that
are not JSON are skipped (`replay.audit.verify` reports damage), and nothing is changed. The rules
are CONTRACT.md §3.6 and §4.6.
"""

import hashlib
import mmap
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final

from refold.engine.encoding.canonical import Json, loads
from refold.engine.log.blobs import BlobBroken, BlobStore, is_marked, resolved
from refold.engine.log.damage import Damage, lines
from refold.engine.log.line import LINE_MAX
from refold.engine.log.names import blobs_of, packs_of, tree
from refold.engine.log.reader import open_log, reading

_OF_PACKS: Final = ("sha1", "sha256")
"""Digests of repositories of git."""


Marked = tuple[Sequence[int], int, int]
"""What is known of a log: number and byte of each line with blobs, one after the other, and where
the lines end that were looked at: how many they are, and the byte."""


def named_blobs(log: Path, known: Marked = ((), 0, 0)) -> Iterator[tuple[int, int, str, int]]:
    """Yield, for each blob that a line of `log` names: line (1-based), byte, digest, size.

    Raises:
        LogMissing: the log does not exist.
    """
    marked, count, byte = known
    with open_log(log) as file, reading(log):
        for seq, at in zip(marked[::2], marked[1::2], strict=True):
            file.seek(at)
            for name, size in _names(file.readline(LINE_MAX + 1)):
                yield seq + 1, at, name, size
        file.seek(byte)
        for number, line in enumerate(lines(file), count + 1):
            if len(line) > LINE_MAX:
                break  # no log from here on, and perhaps a hole of gigabytes
            if is_marked(line):
                for name, size in _names(line):
                    yield number, byte, name, size
            byte += len(line)


def blob_gaps(
    log: str | os.PathLike[str], known: Mapping[Path, Marked] = MappingProxyType({})
) -> list[Damage]:
    """Return the damage of blobs that the log at `log`, and those below it, name.

    Raises:
        LogMissing: the log does not exist.
    """
    store = BlobStore(blobs_of(Path(log)))
    found = []
    for path in tree(Path(log)):
        if path != Path(log) and not path.is_file():
            continue  # of a log's name, and none
        for line, byte, name, size in named_blobs(path, *filter(None, [known.get(path)])):
            try:
                store.get(name, size)
            except BlobBroken as broken:
                fields = (line, byte, broken.expected, broken.found, broken.what)
                found.append(Damage(str(path), *fields))
    return found


def broken_packs(log: Path) -> Iterator[str]:
    """Yield the names of the packs of git beside a log that do not end in their digest."""
    for pack in packs_of(log):
        try:
            with (
                pack.open("rb") as file,
                mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as held,
            ):
                is_whole = held[:4] == b"PACK" and any(_ends_in(held, each) for each in _OF_PACKS)
        except (OSError, ValueError):  # ValueError: of an empty file
            is_whole = False
        if not is_whole:
            yield pack.name


def _ends_in(held: mmap.mmap, kind: str) -> bool:
    digest = hashlib.new(kind, usedforsecurity=False)
    with memoryview(held) as whole, whole[: -digest.digest_size] as content:
        digest.update(content)
    return held[-digest.digest_size :] == digest.digest()


def _names(line: bytes) -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = []

    def note(name: str, size: int) -> str:
        found.append((name, size))
        return ""

    try:
        row: Json = loads(line)
        resolved(row["data"], note)
    except (ValueError, LookupError, TypeError, BlobBroken):
        pass  # not an entry, or one whose markers are damaged
    return found
