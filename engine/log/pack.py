"""One file of a whole tree of logs, to attach to a report; and any such file read like a log.

A packed file (`.refold`) is a zip archive: the log that was asked for first (a root's, or a
child's with what lies below it), then its children's, its signature, then blobs, under the names
that the rule gives them, without folders above, times or owners, so that packing the same tree
twice gives the same bytes.  Nothing in an archive is trusted: names that the rule does not give are
refused, and sizes are capped.  Rules: CONTRACT.md §4.6.
"""

import contextlib
import os
import re
import signal
import threading
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from refold.engine.errors import LogExists, LogNameRefused, LogUnsupported, UsageError
from refold.engine.log.beside import named_blobs
from refold.engine.log.blobs import BLOB, BlobStore
from refold.engine.log.descriptors import NEW_FILE, placed
from refold.engine.log.names import (
    PACKED_SUFFIX,
    SIGNATURE_SUFFIX,
    SUFFIX,
    blobs_of,
    check_place,
    files_of,
    is_there,
    root_of,
    signature_of,
    tree,
)
from refold.engine.log.reader import open_log, reading

if TYPE_CHECKING:
    import zipfile

UNPACKED_MAX: Final = 4 * 1024**3
"""Bytes that a packed file may unpack to."""

FILES_MAX: Final = 100_000
"""Files that a packed file may hold."""

_IN_MEMORY_MAX: Final = 256 * 1024**2
_MEMORY: Final = Path("/dev/shm")  # noqa: S108 - a folder of its own is made there, as in /tmp
_STOPS: Final = (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM))  # Windows has one
_MAGIC: Final = b"PK\x03\x04"
_END_BYTES: Final = 22
"""Size of the record that ends an archive: a mark, counts, places, and the size of a comment."""
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)
_PACK: Final = re.compile(r"[0-9]{1,4}\.pack")
"""Objects of git, of a folder that is packed."""
_CHUNK: Final = 1024 * 1024


def pack(
    path: str | os.PathLike[str],
    out: str | os.PathLike[str],
    objects: Iterable[Path] | None = None,
) -> Path:
    """Write the log at `path`, those below it and their blobs to the new file `out`.

    For a root, all blobs are packed; for a child, those that the packed logs name. The contents of
    files in a watched command's folder are packed only with `objects`: a possibly empty list of git
    packs.

    Raises:
        LogExists: `out` exists; it is never overwritten.
        LogMissing: the log at `path` does not exist.
        LogNameRefused: `path` is not named like a log, or not in printable characters, or `out`
            does not end in `.refold`, or no file can be made there.
        OSError: `out` could not be written; it was removed.
        UsageError: it is larger than `opened` accepts.
    """
    import zipfile  # noqa: PLC0415 - here and below: most logs are plain

    top, packed = Path(path), Path(out)
    root_of(top)
    open_log(top).close()
    if not _may_be_packed(top.name):
        raise LogNameRefused(
            str(top), "to be packed, its name must be printable and must not begin with a dot"
        )
    if packed.suffix != PACKED_SUFFIX:
        raise LogNameRefused(str(packed), f"a packed log's name must end in {PACKED_SUFFIX}")
    parts = _parts(top)
    if objects is not None:
        parts += objects_beside(top, objects)
    _refuse_too_much(top, parts)
    check_place(packed)
    try:
        with (
            removed_if_stopped(),
            placed(packed, replaces=False) as file,
            zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive,
        ):
            for part, name in parts:
                _add(archive, part, name)
    except FileExistsError:
        raise LogExists(str(packed)) from None
    return packed


def objects_beside(top: Path, objects: Iterable[Path]) -> list[tuple[Path, str]]:
    """Return packs of git that go with a log, and their names."""
    return [(each, f"{files_of(top).name}/{number}.pack") for number, each in enumerate(objects)]


def _parts(top: Path) -> list[tuple[Path, str]]:
    """Return the files to pack, with their names in the archive."""
    logs = [log for log in tree(top) if log == top or log.is_file()]
    blobs = blobs_of(top)
    named = (each for log in logs for _, _, each, _ in named_blobs(log))
    wanted = None if root_of(top) == top else set(named)
    beside = signature_of(top)
    parts = [(log, log.name) for log in [*logs, beside] if log != beside or is_there(log)]
    found = (each for each in BlobStore(blobs).files() if wanted is None or each.name in wanted)
    return [*parts, *((each, str(each.relative_to(top.parent))) for each in found)]


def _refuse_too_much(top: Path, parts: list[tuple[Path, str]]) -> None:
    """Raise UsageError for what `opened` would refuse, before anything is written."""
    if len(parts) > FILES_MAX:
        raise UsageError(
            f"{top}: a packed log can have at most {FILES_MAX} files; found {len(parts)}"
        )
    sizes = {name: path.stat().st_size for path, name in parts}
    if (total := sum(sizes.values())) > UNPACKED_MAX:
        most = max(sizes, key=sizes.__getitem__)
        raise UsageError(
            f"{top}: a packed log can have at most {UNPACKED_MAX} bytes; found {total}, "
            f"{sizes[most]} of them in {most}; if that file is damaged, `refold verify` shows "
            "it"
        )


def _add(archive: "zipfile.ZipFile", path: Path, name: str) -> None:
    import zipfile  # noqa: PLC0415

    info = zipfile.ZipInfo(name, _EPOCH)
    info.compress_type = zipfile.ZIP_DEFLATED
    info.external_attr = 0o600 << 16
    with open_log(path) as source, archive.open(info, "w", force_zip64=True) as sink:
        while chunk := source.read(_CHUNK):
            sink.write(chunk)


@contextlib.contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield the path of a readable log: `path` itself, or its unpacked copy.

    Raises:
        LogMissing: no file exists at `path`.
        LogUnsupported: it is an archive, or named like a packed log, but not one that `pack` makes,
            or not whole, or too large.
    """
    path = Path(path)
    with open_log(path) as file, reading(path):
        is_packed = path.suffix == PACKED_SUFFIX or file.read(len(_MAGIC)) == _MAGIC
    if not is_packed:
        yield path
        return
    with contextlib.ExitStack() as stack:
        yield _unpacked(path, stack)


def _unpacked(path: Path, stack: contextlib.ExitStack) -> Path:
    """Return the log in a folder that is removed when the stack ends.

    The directory of an archive has the sizes, and no more than these is ever read: an archive that
    is too large in total is refused before anything is written.
    """
    import zipfile  # noqa: PLC0415

    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            top = _top_of(path, names)
            _refuse_more(path, archive)
            methods = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
            if any(each.compress_type not in methods for each in archive.infolist()):
                raise _refused(path, "files compressed by another method than deflate")
            size = sum(each.file_size for each in archive.infolist())
            if size > UNPACKED_MAX:
                raise _refused(path, f"{size} bytes, more than {UNPACKED_MAX}")
            folder = stack.enter_context(temporary(size))
            for name in names:
                with archive.open(name) as source:
                    _extract(source, folder / name)
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, RuntimeError, OSError) as error:
        raise _refused(path, f"not a complete archive ({error!s:.100})") from None
    return folder / top


@contextlib.contextmanager
def temporary(size: int) -> Iterator[Path]:
    """Give a private folder for so many bytes; it is gone after the block, by SIGTERM, too."""
    import tempfile  # noqa: PLC0415

    made = tempfile.TemporaryDirectory(prefix="refold-", dir=_folder_for(size))
    with removed_if_stopped(), made as folder:
        yield Path(folder)


def _folder_for(size: int) -> Path | None:
    """Return where to unpack so many bytes; `None`: where temporary files go.

    A hundred thousand small files take a disk most of a minute, and memory two seconds.
    """
    if size > _IN_MEMORY_MAX or os.environ.get("TMPDIR"):
        return None
    try:
        free = os.statvfs(_MEMORY)
    except (AttributeError, OSError):  # AttributeError: of Windows
        return None
    is_fine = os.access(_MEMORY, os.W_OK | os.X_OK) and free.f_bavail * free.f_frsize > 4 * size
    return _MEMORY if is_fine and free.f_favail > FILES_MAX else None


@contextlib.contextmanager
def removed_if_stopped() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end the block, and then the process, unless they have handlers.

    By default they end a process at once, and leave its unpacked folder of gigabytes behind.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    stopped: list[int] = []

    def stop(number: int, _frame: object) -> None:
        stopped.append(number)
        raise SystemExit(128 + number)

    obeyed = [each for each in _STOPS if signal.getsignal(each) is signal.SIG_DFL]
    for each in obeyed:
        signal.signal(each, stop)
    try:
        yield
    finally:
        for each in obeyed:
            signal.signal(each, signal.SIG_DFL)
        if stopped:
            os.kill(os.getpid(), stopped[0])


def _refuse_more(path: Path, archive: "zipfile.ZipFile") -> None:
    """Refuse an archive with bytes around it, which nobody would look at: readers skip them."""
    with path.open("rb") as file:
        file.seek(-_END_BYTES, os.SEEK_END)
        end = file.read()
    if not (end.startswith(b"PK\5\6") and end.endswith(b"\0\0")):
        raise _refused(path, "bytes after its end")
    if archive.infolist()[0].header_offset:
        raise _refused(path, "bytes before its beginning")


def _top_of(path: Path, names: list[str]) -> str:
    """Return the name of the log that was packed, having checked all names against the rule."""
    if not 0 < len(names) <= FILES_MAX:
        raise _refused(path, f"{len(names)} files")
    if (odd := odd_name(names)) is not None:
        raise _refused(path, f"the name {odd!a:.80}")
    return names[0]


def odd_name(names: list[str]) -> str | None:
    """Return a name that does not follow the rule, or `None`.

    The first name must be the top log's; the others must be logs below it, and blobs.
    """
    top = names[0]
    if len(set(names)) != len(names) or "/" in top or not _may_be_packed(top):
        return top
    try:
        root = root_of(Path(top))
        blobs, files = blobs_of(Path(top)).name, files_of(Path(top)).name
        for name in names:
            folder, _, inner = name.partition("/")
            is_beside = (folder == blobs and BLOB.match(inner)) or (
                folder == files and _PACK.fullmatch(inner)
            )
            if not (is_beside or _is_log(name, top, root)) or "\0" in name:
                return name
    except LogNameRefused:
        return top
    return None


def _may_be_packed(name: str) -> bool:
    """Return whether a log of this name is read again from where it is packed."""
    return name.isprintable() and not name.startswith(".")


def _is_log(name: str, top: str, root: Path) -> bool:
    """Return whether this is the name of `top`, of its signature or of a log below it."""
    if name in (top, top + SIGNATURE_SUFFIX):
        return True
    is_below = name.startswith(top.removesuffix(SUFFIX) + ".") and name.endswith(SUFFIX)
    return is_below and "/" not in name and root_of(Path(name)) == root


def _extract(source: IO[bytes], target: Path) -> None:
    try:
        descriptor = os.open(target, NEW_FILE, 0o600)
    except FileNotFoundError:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(target, NEW_FILE, 0o600)
    with open(descriptor, "wb") as sink:  # noqa: PTH123 - a descriptor
        while chunk := source.read(_CHUNK):
            sink.write(chunk)


def _refused(path: Path, found: str) -> LogUnsupported:
    expected = "a packed log, as `refold export --to refold` made it"
    return LogUnsupported(str(path), expected, f"{found}: copy it again, or pack its log again")
