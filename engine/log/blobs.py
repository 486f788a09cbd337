"""Large strings, stored beside the log under the digest of their content.

A string of 32 KiB or more anywhere in an entry's data is stored in `<stem>.blobs/<aa>/<sha256>`,
and `{"$blob": sha256, "bytes": n}` replaces it. A user's object with a member that begins with `$`
is wrapped as `{"$esc": {…}}`, so that user data cannot imitate a marker. If an entry still does not
fit into a line, smaller strings are stored as blobs too. The choice follows from the data alone, so
a replay makes the same bytes without writing any. The rules are CONTRACT.md §3.6.
"""

import contextlib
import errno
import os
import re
import stat
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

from refold.engine.encoding import digest
from refold.engine.encoding.canonical import DEPTH_MAX, Json, encode, escape_tags
from refold.engine.errors import NotCanonical
from refold.engine.log.descriptors import (
    CLOEXEC,
    DIRECTORY,
    LOCKS,
    NOFOLLOW,
    NONBLOCK,
    remove_left,
    sync,
    unfinished,
    write_all,
)

BLOB_MIN: Final = 32 * 1024
"""Bytes of UTF-8 from which on a string is a blob."""

BLOB_MIN_CROWDED: Final = (8 * 1024, 1024)
"""… in an entry that a line could not hold otherwise, a long conversation: the first that does."""

DATA_MAX: Final = 1024 * 1024 - 16 * 1024
"""The size limit of an entry's data without large strings: a line's limit, less space for the rest.

It depends only on the data, so a replay refuses the same data as the recording.
"""

DOLLAR: Final = 0x24
"""Looked for first, because a single byte is found ten times as fast."""

_MARKED: Final = b'"$'
_NAME: Final = re.compile(r"[0-9a-f]{64}\Z")
BLOB: Final = re.compile(r"([0-9a-f]{2})/(\1[0-9a-f]{62})\Z")
"""A blob's path within its folder."""
_UNFINISHED: Final = re.compile(r"\.[0-9a-f]{64}\.[0-9a-f]{8}\Z")
_AA: Final = re.compile(r"[0-9a-f]{2}\Z")
_OWN: Final = re.compile(
    r"([0-9a-f]{2})/(\1[0-9a-f]{62}|\.[0-9a-f]{64}\.[0-9a-f]{8})\Z|"
    r"\d+\.pack\Z|\.refold-unfinished\.[0-9a-f]{8}\Z"
)
"""A path within a folder of large texts or contents: a text, an unfinished one, a pack of git."""
_DIRECTORY: Final = os.O_RDONLY | DIRECTORY | CLOEXEC

Put = Callable[[bytes], str]
"""Keeps the content of a blob, and returns its digest."""

Get = Callable[[str, int], str]
"""Returns the text of the blob of that digest and size; raises BlobBroken."""


class BlobBroken(Exception):
    """A marker, or the blob that it names, is not as it should be: (what, expected, found)."""

    def __init__(self, what: str, expected: str, found: str) -> None:
        super().__init__(what, expected, found)
        self.what = what
        self.expected = expected
        self.found = found


def digest_only(content: bytes) -> str:
    """Return the digest of a blob without keeping it: what replay compares with."""
    return digest.of_bytes(digest.BLOB, content)


def encode_data(
    data: dict[str, Any],
    put: Put = digest_only,
    *,
    bytes_max: int = DATA_MAX,
    is_crowded: bool = True,
) -> bytes:
    """Return the canonical bytes of `data` as in a log, with large strings stored elsewhere.

    If they exceed `bytes_max` and `is_crowded` is true, smaller strings are stored elsewhere too.

    Raises:
        NotCanonical: `data` cannot be stored exactly, or has more than `bytes_max` bytes.
    """
    encoded = encode(data)
    if len(encoded) < BLOB_MIN and not is_marked(encoded):
        return escape_tags(encoded)
    outside = externalised(data, put)
    whole = escape_tags(encoded if outside is data else encode(outside))
    least = BLOB_MIN
    for smaller in BLOB_MIN_CROWDED if is_crowded else ():
        if len(whole) > bytes_max:
            least = smaller
            whole = escape_tags(encode(externalised(data, put, least)))
    if len(whole) > bytes_max:
        apart = f"strings of {least} bytes or more are stored separately, and not counted"
        expected = f"at most {bytes_max} bytes of data in one entry ({apart})"
        raise NotCanonical("", expected, f"{len(whole)} bytes")
    return whole


def externalised(value: Json, put: Put = digest_only, least: int = BLOB_MIN) -> Json:
    """Return `value` with strings of `least` bytes replaced; `value` itself where it has none."""
    kind = type(value)
    if kind is str:
        return _blob(value, put, least) if len(value) * 4 >= least else value
    if kind is dict:
        outside = {key: externalised(item, put, least) for key, item in value.items()}
        if any(key.startswith("$") for key in value):
            return {"$esc": outside}
        return outside if any(outside[key] is not value[key] for key in value) else value
    if kind is list or kind is tuple:
        items = [externalised(item, put, least) for item in value]
        return items if any(a is not b for a, b in zip(items, value, strict=True)) else value
    return value


def _blob(value: str, put: Put, least: int) -> Json:
    content = value.encode()
    if len(content) < least:
        return value
    return {"$blob": put(content), "bytes": len(content)}


def is_marked(line: bytes) -> bool:
    """Return whether a line may hold a blob or a wrapped object; false for nearly all."""
    return DOLLAR in line and line.find(_MARKED) >= 0


def resolved(value: Json, get: Get, depth: int = 0) -> Json:
    """Return `value` as it was before `externalised`.

    Raises:
        BlobBroken: a marker is malformed, or `get` raised it.
    """
    if depth > 2 * DEPTH_MAX:  # each level may be wrapped once
        raise BlobBroken("depth", f"at most {DEPTH_MAX} levels", "more")
    kind = type(value)
    if kind is list:
        return [resolved(item, get, depth + 1) for item in value]
    if kind is not dict:
        return value
    if "$blob" in value:
        return _fetched(value, get)
    if "$esc" in value:
        value = _unwrapped(value)
    elif any(key.startswith("$") for key in value):
        raise BlobBroken("marker", "$blob or $esc", f"{min(value)!a:.60}")
    return {key: resolved(item, get, depth + 1) for key, item in value.items()}


def _unwrapped(marker: dict[str, Any]) -> dict[str, Any]:
    inner = marker["$esc"]
    if len(marker) != 1 or type(inner) is not dict:
        raise BlobBroken("marker", '{"$esc": {…}}', f"{sorted(marker)!a:.60}")
    return inner


def _fetched(marker: dict[str, Any], get: Get) -> str:
    name, size = marker["$blob"], marker.get("bytes")
    is_named = type(name) is str and _NAME.match(name)
    if type(size) is not int or not is_named or marker.keys() != {"$blob", "bytes"}:
        raise BlobBroken("marker", '{"$blob": sha256, "bytes": n}', f"{marker!a:.80}")
    return get(name, size)


class BlobStore:
    """The blobs of one tree of logs.  Made on the first blob; links are never followed."""

    def __init__(self, folder: Path, *, sync: bool = True) -> None:
        self._folder = folder
        self._sync = sync

    def put(self, content: bytes) -> str:
        """Store `content`, by default durably, and return its digest.

        Raises:
            OSError: it could not be written.
        """
        # The name is the content, so a file of this name and size needs no second write.
        name = digest_only(content)
        with contextlib.ExitStack() as opened:
            inner = self._opened(name[:2], opened, make=True)
            if not _is_there(name, inner, len(content)):
                self._write(name, inner, content)
        return name

    def files(self) -> list[Path]:
        """Return the files that have a blob's name, in order: none behind a link."""
        found = [] if self._folder.is_symlink() else sorted(self._folder.glob("??/*"))
        named = (each for each in found if BLOB.match(f"{each.parent.name}/{each.name}"))
        return [each for each in named if not (each.is_symlink() or each.parent.is_symlink())]

    def sweep(self) -> None:
        """Remove the unfinished files of killed writers; a living writer's file is locked."""
        for path in self._folder.glob("??/.*"):
            is_link = self._folder.is_symlink() or path.parent.is_symlink()
            if _UNFINISHED.match(path.name) and not is_link:
                remove_left(path)

    def get(self, name: str, size: int) -> str:
        """Return the text of a blob, checked.

        Raises:
            BlobBroken: as of `content`.
        """
        return self.content(name, size).decode()

    def content(self, name: str, size: int) -> bytes:
        """Return the bytes of a blob, checked.

        Raises:
            BlobBroken: it is missing, of another size, or of other bytes.
        """
        try:
            content = self._read(name, size)
        except FileNotFoundError:
            raise BlobBroken("blob missing", f"{size} bytes", f"no file {name}") from None
        except OSError as error:
            why = error.strerror or str(error)
            raise BlobBroken("blob unreadable", f"{size} bytes", f"{why}: {name}") from None
        if digest_only(content) != name:
            raise BlobBroken("blob damaged", name, digest_only(content))
        return content

    def _read(self, name: str, size: int) -> bytes:
        with contextlib.ExitStack() as opened:
            flags = os.O_RDONLY | NOFOLLOW | CLOEXEC | NONBLOCK
            if LOCKS:
                descriptor = os.open(name, flags, dir_fd=self._opened(name[:2], opened))
            else:  # Windows opens no folders
                descriptor = os.open(self._folder / name[:2] / name, flags)
            opened.callback(os.close, descriptor)
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise BlobBroken("blob unreadable", f"{size} bytes", f"not a plain file: {name}")
            if found.st_size != size:
                raise BlobBroken("blob damaged", f"{size} bytes", f"{found.st_size} bytes")
            with open(descriptor, "rb", closefd=False) as file:
                return file.read(size)

    def _opened(self, name: str, opened: contextlib.ExitStack, *, make: bool = False) -> int:
        """Return the folder with this name in the store, never through a link."""
        descriptor = os.open(self._folder.parent, _DIRECTORY)
        opened.callback(os.close, descriptor)
        for step in (self._folder.name, name):
            if make:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(step, 0o700, dir_fd=descriptor)
                    self._settle(descriptor)
            descriptor = os.open(step, _DIRECTORY | NOFOLLOW, dir_fd=descriptor)
            opened.callback(os.close, descriptor)
        return descriptor

    def _write(self, name: str, folder: int, content: bytes) -> None:
        with unfinished(f".{name}", folder) as (made, file):
            write_all(file.fileno(), content)
            self._settle(file.fileno())
            os.rename(made, name, src_dir_fd=folder, dst_dir_fd=folder)  # locked still
        self._settle(folder)

    def _settle(self, descriptor: int) -> None:
        if self._sync:
            sync(descriptor)


def own_paths(folder: Path) -> list[Path]:
    """Return what a run has in a folder of large texts, or of contents of files.

    That is the folder itself if nothing else is in it, and if it is a link.
    """
    if folder.is_symlink():
        return [folder]
    own, is_shared = list[Path](), False
    for each in sorted(folder.rglob("*")):
        if each.is_dir() and not each.is_symlink():
            is_shared |= not _AA.match(each.relative_to(folder).as_posix())
        elif each.is_file() and _OWN.match(each.relative_to(folder).as_posix()):
            own.append(each)
        else:
            is_shared = True
    return own if is_shared else [folder] if folder.is_dir() else []


def remove_all(paths: Iterable[Path]) -> None:
    """Remove files, and folders with all that is in them; of a link, the link goes.

    Raises:
        PermissionError: a folder of one may not be written to; nothing is removed.
        OSError: one cannot be removed; those after it stay.
    """
    from shutil import rmtree  # noqa: PLC0415 - it loads compressors, and who reads removes nothing

    found = {path: path.is_dir() and not path.is_symlink() for path in paths}
    for path, is_folder in found.items():
        below = (each for each in path.rglob("*") if each.is_dir()) if is_folder else ()
        for folder in (path.parent, *((path, *below) if is_folder else ())):
            if not os.access(folder, os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), os.fspath(folder))
    for path, is_folder in found.items():
        rmtree(path) if is_folder else path.unlink()


def _is_there(name: str, folder: int, size: int) -> bool:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False).st_size == size
    except FileNotFoundError:
        return False
