"""What lies beside a log: the large strings that its lines name, and packs of git.

Blobs are looked for without verifying the log, for packing, showing or salvaging a tree: chains are
not checked, lines that are not JSON are skipped (`replay.audit.verify` reports damage), and nothing
is changed. Packs are `<stem>.files/<number>.pack`, the contents of files in a watched command's
folder. Nothing else in that folder is ever read: git opens none of it in place, for settings that
are found there would run programs. The rules are CONTRACT.md §3.6, §4.6 and §16.16.
"""

import errno
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
from refold.engine.log.descriptors import placed
from refold.engine.log.line import LINE_MAX
from refold.engine.log.names import blobs_of, files_of, tree
from refold.engine.log.reader import open_log, reading

_KINDS: Final = ("sha1", "sha256")
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


def packs_of(log: Path) -> list[Path]:
    """Return the packs beside the log at `log`, in the order in which they were written."""
    return _packs_in(files_of(log))


def _packs_in(folder: Path) -> list[Path]:
    if folder.is_symlink() or not folder.is_dir():  # `glob` would list it all the same
        return []
    found = (one for one in folder.glob("*.pack") if one.stem.isdecimal() and not one.is_symlink())
    return sorted((one for one in found if one.is_file()), key=lambda one: int(one.stem))


def add_pack(folder: Path, source: Path) -> Path:
    """Copy a pack into a folder of contents, which is made, under the next number; synced.

    Raises:
        OSError: it could not be written, or the folder is a link.
    """
    from shutil import copyfileobj  # noqa: PLC0415 - it loads compressors, and who reads copies nothing

    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(folder))
    number = max((int(one.stem) for one in _packs_in(folder)), default=-1) + 1
    added = folder / f"{number}.pack"
    with source.open("rb") as file, placed(added, replaces=False) as made:
        copyfileobj(file, made)
    return added


def broken_packs(log: Path) -> Iterator[Path]:
    """Yield the packs beside a log that do not end in their digest."""
    for pack in packs_of(log):
        try:
            with (
                pack.open("rb") as file,
                mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as held,
            ):
                is_whole = held[:4] == b"PACK" and any(_ends_in(held, each) for each in _KINDS)
        except (OSError, ValueError):  # ValueError: of an empty file
            is_whole = False
        if not is_whole:
            yield pack


def _ends_in(held: mmap.mmap, kind: str) -> bool:
    digest = hashlib.new(kind, usedforsecurity=False)
    with memoryview(held) as whole, whole[: -digest.digest_size] as content:
        digest.update(content)
    return held[-digest.digest_size :] == digest.digest()
