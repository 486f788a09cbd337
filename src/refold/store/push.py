"""A run goes into a store whole or not at all: its pieces first, and last the manifest.

Each object is made by a conditional write, so that nothing is overwritten: of two writers of one
name, the store decides which is the run. To continue an interrupted push, repeat it: objects that
are there are not sent a second time. Rules: CONTRACT.md §4.8.
"""

import functools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import Final, TypeVar

import attrs

from refold.engine.encoding.document import Document
from refold.engine.errors import RefoldError, RunExists, StoreDamaged, StoreFailed, UsageError
from refold.engine.log.pack import objects_beside, opened, removed_if_stopped
from refold.store.manifest import (
    MANIFEST_MAX,
    PIECE,
    Manifest,
    RunFiles,
    keep_head,
    key_of,
    manifest_in,
    manifest_of,
)
from refold.store.place import ObjectStore

AT_ONCE: Final = 8
"""Runs, and pieces, that are moved at the same time."""
_ASKED_FIRST: Final = 32 * 1024
"""Bytes from which on a store is asked for a piece before it is sent."""

Objects = Callable[[Path], Iterable[Path]]
"""Gives the packs of git that go with a log."""

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


@attrs.frozen
class Moved(Document):
    """What became of one run."""

    run: str
    """The name of the root's log."""
    status: str
    """`pushed`, `pulled` or `already there`; `stored` where it is listed; `refused`."""
    head: str = ""
    files: int = 0
    bytes: int = 0
    """Of all files."""
    moved_bytes: int = 0
    """Bytes of objects that were not there before."""
    problem: str = ""
    """Why it was refused."""


StoreOutcome = Moved | RefoldError
"""Of one run; a refusal stops no other run."""


def in_order(
    function: Callable[[_Item], _Result], items: Iterable[_Item], pool: ThreadPoolExecutor
) -> Iterator[_Result]:
    """Yield the results for items in their order; few are under way at a time."""
    waiting: deque[Future[_Result]] = deque()
    try:
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) >= 2 * AT_ONCE:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for each in waiting:
            each.cancel()


def at_once(function: Callable[[_Item], _Result], items: Iterable[_Item]) -> Iterator[_Result]:
    """Yield the results for items in their order, from threads of their own.

    Their temporary folders are removed before SIGTERM ends the process.
    """
    with removed_if_stopped(), ThreadPoolExecutor(AT_ONCE) as pool:
        yield from in_order(function, items, pool)


def push(
    logs: Iterable[Path], url: str, *, heads: str = "", objects: Objects | None = None
) -> Iterator[tuple[Path, StoreOutcome]]:
    """Put runs into the store at `url`, and yield what became of each, in order.

    With `heads`, the URL of another place, their heads are kept there.  Contents of files of a
    watched command's folder go with them only with `objects`.  Memory does not grow with
    the size of a run.

    Raises:
        StoreFailed: the store cannot be reached, or refuses.
        UsageError: not a URL of a store.
    """
    place = ObjectStore(url, is_made=True)
    kept = ObjectStore(heads, is_made=True) if heads else None
    listed = functools.cache(RunFiles)
    with ThreadPoolExecutor(AT_ONCE) as pool:

        def one(task: tuple[Path, RunFiles]) -> tuple[Path, StoreOutcome]:
            log, files = task
            return log, caught(lambda: _pushed(log, files, place, kept, pool, objects))

        yield from at_once(one, ((log, listed(log.parent)) for log in logs))


def caught(work: Callable[[], StoreOutcome]) -> StoreOutcome:
    """Return what `work` returns, or its refusal; what would stop every run stops this one."""
    try:
        return work()
    except StoreFailed:
        raise
    except RefoldError as error:
        return error
    except OSError as error:
        return UsageError(f"{error.filename}: {error.strerror}" if error.filename else str(error))


def _pushed(
    given: Path,
    files: RunFiles,
    place: ObjectStore,
    kept: ObjectStore | None,
    pool: ThreadPoolExecutor,
    objects: Objects | None,
) -> Moved:
    with opened(given) as log:
        if log != given:
            files = RunFiles(log.parent)
        more = () if objects is None else objects_beside(log, objects(log))
        beside = {name: path for path, name in more}
        manifest = manifest_of(log, files, beside)
        if kept is not None:  # first, so that no run is seen whose head is not kept
            keep_head(kept, manifest)
        key, content = key_of(manifest.run), manifest.encoded()
        there, sent = place.get(key, MANIFEST_MAX), 0
        if there is None:
            parts = pieces(log.parent, manifest, beside)
            sent = sum(in_order(lambda part: _sent(part, place), parts, pool))
            if place.create(key, content):
                return moved(manifest, "pushed", sent)
            there = place.get(key, MANIFEST_MAX)
        if there != content and not manifest.is_part_of(manifest_in(place, manifest.run)):
            raise RunExists(place.url, manifest.run)
    return moved(manifest, "already there", sent)


def moved(manifest: Manifest, status: str, moved_bytes: int = 0) -> Moved:
    """Return what became of a run."""
    count = len(manifest.files)
    return Moved(manifest.run, status, manifest.head, count, manifest.size, moved_bytes)


@attrs.frozen
class Piece:
    """One piece of a file, here and in a store."""

    path: Path
    offset: int
    size: int
    sha256: str

    @property
    def key(self) -> str:
        """The name of its object."""
        return f"objects/{self.sha256[:2]}/{self.sha256}"

    def here(self) -> bytes:
        """Return the file here in its place, which may be shorter or different."""
        with self.path.open("rb") as file:
            file.seek(self.offset)
            return file.read(self.size)

    def is_content(self, content: bytes) -> bool:
        """Return whether these are its bytes."""
        return sha256(content).hexdigest() == self.sha256


def pieces(
    folder: Path, manifest: Manifest, beside: Mapping[str, Path] | None = None
) -> Iterator[Piece]:
    """Yield the pieces of all files of a run that lies, or is to lie, in a folder.

    `beside` maps some names to their files.
    """
    for file in manifest.files:
        for number, name in enumerate(file.pieces):
            offset = number * PIECE
            path = (beside or {}).get(file.name, folder / file.name)
            yield Piece(path, offset, min(PIECE, file.size - offset), name)


def _sent(piece: Piece, place: ObjectStore) -> int:
    """Return how many bytes were sent: none of a piece that is there.

    Raises:
        StoreDamaged: the stored object has another size.
        UsageError: the file has changed.
    """
    size = place.size(piece.key) if piece.size >= _ASKED_FIRST else None
    if size is None:
        content = piece.here()
        if not piece.is_content(content):
            raise UsageError(f"{piece.path} was changed while it was pushed")
        if place.create(piece.key, content):
            return piece.size
        size = place.size(piece.key)
    if size != piece.size:
        raise StoreDamaged(f"{place.url}/{piece.key}", f"{piece.size} bytes", f"{size} bytes")
    return 0
