"""A run comes out of a store, whole and checked: into a folder, or for as long as it is read.

It is put together in a hidden folder beside its place, each piece checked against its digest and
the run verified, and only then linked to its names, the root's log last: an interrupted pull leaves
no run, and continues when it is repeated. Rules: CONTRACT.md §4.8.
"""

import contextlib
import functools
import os
import shutil
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path

from refold.engine.errors import LogExists, LogLocked, StoreDamaged, UsageError
from refold.engine.log.lock import lock
from refold.engine.log.names import root_of
from refold.engine.log.pack import UNPACKED_MAX, temporary
from refold.engine.log.recovery import sync_path
from refold.replay.audit.verify import verify
from refold.store.manifest import Manifest, StoredFile, head_in, manifest_in, pieces_of, runs_in
from refold.store.place import ObjectStore, StoredRun
from refold.store.push import (
    AT_ONCE,
    Moved,
    Piece,
    StoreOutcome,
    at_once,
    caught,
    in_order,
    moved,
    pieces,
)

_BESIDE = ".refold-pull-"
_LEFT_SECONDS = 24 * 60 * 60


def pull(
    url: str, names: Iterable[str], folder: Path, *, heads: str = "", large: bool = False
) -> Iterator[tuple[str, StoreOutcome]]:
    """Put runs of the store at `url` into `folder`, and yield what became of each, in order.

    Without names, all runs are meant. With `heads`, a run is taken whose head is kept there; with
    `large`, one of more than 4 GiB. Leftovers of an older pull are removed after a day.

    Raises:
        LogMissing: no runs are stored there.
        StoreFailed: the store cannot be reached, or refuses.
        UsageError: not a URL of a store.
    """
    place, kept = ObjectStore(url), ObjectStore(heads) if heads else None
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with ThreadPoolExecutor(AT_ONCE) as pool:

        def one(run: str) -> tuple[str, StoreOutcome]:
            return run, caught(lambda: _pulled(place, run, folder, kept, pool, large=large))

        yield from at_once(one, names or runs_in(place))
    _remove_leftovers(folder)


def _remove_leftovers(folder: Path) -> None:
    """Remove the day-old leftovers of other pulls in a folder, unless one is active."""
    for each in folder.glob(f"{_BESIDE}*"):
        with contextlib.suppress(OSError, LogLocked):
            if each.stat(follow_symlinks=False).st_mtime < time.time() - _LEFT_SECONDS:
                with _locked(each):
                    shutil.rmtree(each)


def _pulled(
    place: ObjectStore,
    run: str,
    folder: Path,
    kept: ObjectStore | None,
    pool: ThreadPoolExecutor,
    *,
    large: bool,
) -> Moved:
    manifest = manifest_in(place, run)
    if manifest.size > UNPACKED_MAX and not large:
        size = f"{manifest.size} bytes, more than {UNPACKED_MAX}"
        raise UsageError(f"{place.url}/{run} has {size}: to copy it anyway, add --large")
    if kept is not None and (head := head_in(kept, run)) != manifest.head:
        raise StoreDamaged(f"{place.url}/{run}", f"the head {head}", manifest.head)
    missing = [file for file in manifest.files if not _is_there(folder / file.name, file)]
    beside = folder / f"{_BESIDE}{sha256(manifest.encoded()).hexdigest()[:16]}"
    came = 0
    if missing:
        if manifest.files[0] not in missing:  # the root's log is linked last: this one is not ours
            raise LogExists(str(folder / run))
        beside.mkdir(mode=0o700, exist_ok=True)
        _refuse_too_large(manifest, place, beside)
        came = _made(manifest, place, beside, pool)
    shutil.rmtree(beside, ignore_errors=True)
    return moved(manifest, "pulled" if missing else "already there", came)


def stored(url: str, names: Iterable[str]) -> Iterator[tuple[str, StoreOutcome]]:
    """Yield the manifests of the store at `url`, by default all, in order; no run is fetched.

    Raises:
        LogMissing: no runs are stored there.
        StoreFailed: the store cannot be reached, or refuses.
        UsageError: not a URL of a store.
    """
    place = ObjectStore(url)

    def one(run: str) -> tuple[str, StoreOutcome]:
        return run, caught(lambda: moved(manifest_in(place, run), "stored"))

    yield from at_once(one, names or sorted(runs_in(place)))


def _is_there(path: Path, file: StoredFile) -> bool:
    """Return whether a file is there.

    Raises:
        LogExists: another one is.
    """
    if not os.path.lexists(path):
        return False
    if path.is_symlink() or [each for each, _ in pieces_of(path)] != list(file.pieces):
        raise LogExists(str(path))
    return True


def _refuse_too_large(manifest: Manifest, place: ObjectStore, folder: Path) -> None:
    if manifest.size > (free := shutil.disk_usage(folder).free):
        room = f"{manifest.size} bytes, but {folder} only has room for {free}"
        raise UsageError(f"{place.url}/{manifest.run} has {room}")


def _made(manifest: Manifest, place: ObjectStore, beside: Path, pool: ThreadPoolExecutor) -> int:
    """Put a run together in a folder beside its place, and link it there; return what came."""
    with _locked(beside):
        came = _fetched(manifest, place, beside, pool, is_synced=True)
        _verify(manifest, place, beside)
        folders = set[Path]()
        for file in reversed(manifest.files):
            folders.update(_folders(beside.parent, file.name))
            if file is manifest.files[0]:
                for each in folders:
                    sync_path(each)
            if not _is_there(beside.parent / file.name, file):
                os.link(beside / file.name, beside.parent / file.name)
        sync_path(beside.parent)
    return came


@contextlib.contextmanager
def _locked(beside: Path) -> Iterator[None]:
    descriptor = os.open(beside, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        lock(descriptor, beside)
        yield
    finally:
        os.close(descriptor)


def _verify(manifest: Manifest, place: ObjectStore, folder: Path) -> None:
    """Refuse all but the intact and ended run of the manifest.

    Raises:
        StoreDamaged: with the first damage.
    """
    report, url = verify(folder / manifest.run), f"{place.url}/{manifest.run}"
    if not report.intact:
        first = report.damage[0]
        raise StoreDamaged(url, first.expected, f"{first.what}: {first.found}")
    if not report.complete:  # no head makes up for an end: the manifest's is the store's own word
        raise StoreDamaged(url, "only complete logs", "an incomplete one")
    if report.head != manifest.head:
        raise StoreDamaged(url, f"the head {manifest.head}", report.head)


def _fetched(
    manifest: Manifest,
    place: ObjectStore,
    folder: Path,
    pool: ThreadPoolExecutor,
    *,
    is_synced: bool,
) -> int:
    """Put the files of a run into a folder of ours; return how many bytes had to come."""
    for file in manifest.files:
        _folders(folder, file.name)
        os.close(os.open(folder / file.name, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600))
    came = sum(in_order(lambda piece: _download(piece, place), pieces(folder, manifest), pool))
    for file in manifest.files if is_synced else ():
        sync_path(folder / file.name)
    return came


def _folders(top: Path, name: str) -> list[Path]:
    """Make the folders of a file below `top`, and return them, `top` included.

    Raises:
        LogExists: one of them is a link.
    """
    found = [top / each for each in reversed(Path(name).parents)]
    for each in found:
        each.mkdir(mode=0o700, exist_ok=True)
        if each != top and each.is_symlink():
            raise LogExists(str(each))
    return found


def _download(piece: Piece, place: ObjectStore) -> int:
    """Put one piece in its place, unless it is there; return how many bytes had to come.

    Raises:
        StoreDamaged: its object is missing, or of other bytes.
    """
    if piece.is_content(piece.here()):
        return 0
    content = place.get(piece.key, piece.size)
    if content is None or not piece.is_content(content):
        expected = f"{piece.size} bytes of {piece.path.name} with this sha256"
        found = "none" if content is None else f"{len(content)} bytes with a different one"
        raise StoreDamaged(f"{place.url}/{piece.key}", expected, found)
    with piece.path.open("r+b") as file:
        file.seek(piece.offset)
        file.write(content)
    return piece.size


@functools.lru_cache(maxsize=8)
def _opened(url: str) -> ObjectStore:
    """Return a store, with its connections, for all runs that are read from it."""
    return ObjectStore(url)


@contextlib.contextmanager
def fetched(stored: StoredRun) -> Iterator[Path]:
    """Give the path of a private copy of a stored log, with its whole run, for the block.

    Each piece is checked against its digest; whether the run is intact is for the reader to ask.

    Raises:
        LogMissing: no such run.
        StoreDamaged: an object is missing, or differs from the manifest.
        UsageError: it is a store, or a run of more than 4 GiB, or of more than there is room for.
    """
    if not stored.name:
        raise UsageError(
            f"{stored} is a store: pass one of its runs (to list them, use `refold ls {stored}`)"
        )
    place = _opened(stored.url)
    manifest = manifest_in(place, root_of(Path(stored.name)).name)
    if manifest.size > UNPACKED_MAX:
        raise UsageError(
            f"{stored} has {manifest.size} bytes, and can only be read in place up to "
            f"{UNPACKED_MAX}: copy it first with `refold pull {stored} --to DIR "
            "--large`"
        )
    with temporary(manifest.size) as folder, ThreadPoolExecutor(AT_ONCE) as pool:
        _refuse_too_large(manifest, place, folder)
        _fetched(manifest, place, folder, pool, is_synced=False)
        yield folder / stored.name
