"""The parts of a stored run, by names, sizes and digests: `runs/<stem>.json` in its store.

A file is stored as pieces of 4 MiB, each by the sha256 of its bytes: equal pieces are there once,
for all runs, and no object is too large for one conditional write, which multipart uploads do not
have. The same run makes the same bytes. A manifest that is read is not trusted: names that the rule
does not give are refused, and sizes are checked before anything is asked for. Rules: CONTRACT.md
§4.8.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import attrs

from refold.engine.encoding.canonical import encode, loads
from refold.engine.errors import (
    LogMissing,
    LogNameRefused,
    LogUnsealed,
    LogUnsupported,
    RunExists,
    StoreDamaged,
)
from refold.engine.log.blobs import BlobStore
from refold.engine.log.lock import refuse_if_locked
from refold.engine.log.names import SUFFIX, Folder, blobs_of, check_root, root_of
from refold.engine.log.pack import FILES_MAX, odd_name
from refold.engine.log.reader import open_log, reading
from refold.replay.audit.verify import verify
from refold.replay.index.standing import standing_text
from refold.store.place import ObjectStore

PIECE: Final = 4 * 1024 * 1024
"""Bytes of each object that a file lies in, but for the last."""
RUNS: Final = "runs"
"""The folder of the manifests."""
HEADS: Final = "heads"
_FORMAT: Final = 1
MANIFEST_MAX: Final = 64 * 1024 * 1024
_HEAD: Final = b'{"head":"%b"}'
_BESIDE: Final = re.compile(r"\.torn-[0-9]{1,20}-[0-9a-f]{8}\Z|(?<=\.jsonl)\.sig\Z")
_HASH: Final = re.compile(r"[0-9a-f]{64}\Z")


@attrs.frozen
class StoredFile:
    """One file of a run."""

    name: str
    """Below the folder of the run: `audit.jsonl`, `audit.blobs/ab/ab…`."""
    size: int
    """In bytes."""
    pieces: tuple[str, ...]
    """The sha256 of each piece, in order."""


@attrs.frozen
class Manifest:
    """A run as it is stored."""

    head: str
    entries: int
    files: tuple[StoredFile, ...]
    """The root's log first."""

    @property
    def run(self) -> str:
        """The name of the root's log."""
        return self.files[0].name

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)

    def is_part_of(self, other: "Manifest") -> bool:
        """Return whether the other is this run, perhaps with contents of files beside."""
        return self.head == other.head and set(self.files) <= set(other.files)

    def encoded(self) -> bytes:
        """Return its canonical bytes."""
        return encode({"format": _FORMAT, **attrs.asdict(self)})


class RunFiles:
    """The files of a folder by the root run that they belong to, as the folder was at first."""

    def __init__(self, folder: Path) -> None:
        """List the folder, once for all its runs."""
        self.folder = Folder(folder)
        self._names = defaultdict[str, list[str]](list)
        for path in sorted(folder.iterdir()):
            log = _whose(path.name)
            if log.endswith(SUFFIX) and log != SUFFIX and path.is_file() and not path.is_symlink():
                self._names[root_of(Path(log)).name].append(path.name)

    def of(self, log: Path) -> list[str]:
        """Return the names of the files of a root run, its log first."""
        blobs = (str(blob.relative_to(log.parent)) for blob in BlobStore(blobs_of(log)).files())
        return [log.name, *(name for name in self._names[log.name] if name != log.name), *blobs]


def manifest_of(log: Path, files: RunFiles, beside: Mapping[str, Path] | None = None) -> Manifest:
    """Return what would be stored of the run at `log`, having verified it.

    `beside` has contents of files that go with it, by name.

    Raises:
        LogDamaged: it is not intact.
        LogLocked: somebody writes it.
        LogNameRefused: `log` is not a root's, or has a name that a store does not take.
        LogUnsealed: it has no end.
    """
    check_root(log)
    if odd_name([log.name]):
        raise LogNameRefused(
            str(log), "in a store, names must be printable and must not begin with a dot"
        )
    names = files.of(log)
    for name in names:
        if "/" not in name:
            refuse_if_locked(log.with_name(name))
    report = verify(log, beside=files.folder)
    for damage in report.damage:
        raise damage.as_error()
    for each in report.logs:
        if not each.complete:
            raise LogUnsealed(each.path, standing_text(Path(each.path)))
    paths = {name: log.parent / name for name in names} | dict(beside or {})
    return Manifest(report.head, report.entries, tuple(_stored(*each) for each in paths.items()))


def _stored(name: str, path: Path) -> StoredFile:
    pieces = pieces_of(path)
    return StoredFile(name, sum(size for _, size in pieces), tuple(each for each, _ in pieces))


def pieces_of(path: Path) -> list[tuple[str, int]]:
    """Return the sha256 and the size of each piece of a file."""
    with open_log(path) as file, reading(path):
        return [
            (sha256(piece).hexdigest(), len(piece)) for piece in iter(lambda: file.read(PIECE), b"")
        ]


def _whose(name: str) -> str:
    """Return the log that a torn tail was cut off from, or that is signed; else the name itself."""
    return name if "/" in name else _BESIDE.sub("", name)


def key_of(run: str, folder: str = RUNS) -> str:
    """Return the name of the object that holds the manifest, or with `heads` the head, of a run."""
    return f"{folder}/{run.removesuffix(SUFFIX)}.json"


def manifest_in(place: ObjectStore, run: str) -> Manifest:
    """Return the manifest of a stored run.

    Raises:
        LogMissing: no such run.
        LogNameRefused: no run can have this name.
        LogUnsupported: it is stored in a form that this version does not know.
        StoreDamaged: not a manifest, or not that of this run.
    """
    if odd_name([run]):
        raise LogNameRefused(f"{place.url}/{run}", "no run has this name")
    content = place.get(key_of(run), MANIFEST_MAX)
    if content is None:
        raise LogMissing(f"{place.url}/{run}", "no such run is stored")
    return _checked(content, run, f"{place.url}/{key_of(run)}")


def _checked(content: bytes, run: str, where: str) -> Manifest:
    try:
        row: Any = loads(content)
        if type(row["format"]) is int and row["format"] > _FORMAT:
            raise LogUnsupported(where, f"format {_FORMAT}", f"format {row['format']}")
        files = [StoredFile(**{**each, "pieces": tuple(each["pieces"])}) for each in row["files"]]
        found = Manifest(row["head"], row["entries"], tuple(files))
        wrong = _wrong(found, run)
        if not wrong and found.encoded() != content:
            wrong = "the manifest of a run, as it was written", "other JSON"
    except (ValueError, KeyError, TypeError, AttributeError):
        wrong = "the manifest of a run", "none"
    if wrong:
        raise StoreDamaged(where, *wrong)
    return found


def _wrong(found: Manifest, run: str) -> tuple[str, str] | None:
    """Return what a manifest should have and what it has; `None` if it is right."""
    if not 0 < len(found.files) <= FILES_MAX:
        return f"1 to {FILES_MAX} files", str(len(found.files))
    names = [file.name for file in found.files]
    if names[0] != run or len(set(names)) != len(names):
        return f"the files of {run!a:.80}, each once", f"the files of {names[0]!a:.80}"
    odd = odd_name(list(dict.fromkeys(map(_whose, names))))
    if odd is not None:
        return "names of a run's files", f"{odd!a:.80}"
    for file in found.files:
        is_size = type(file.size) is int and file.size >= ("/" not in file.name)  # no log is empty
        if not is_size or -(-file.size // PIECE) != len(file.pieces):
            size = f"{file.size!a:.30} bytes in {len(file.pieces)} pieces"
            return f"{file.name!a:.80} in pieces of {PIECE} bytes", size
    hashes = (found.head, *(piece for file in found.files for piece in file.pieces))
    odd = next((each for each in hashes if not _HASH.match(each)), None)
    if odd is not None or type(found.entries) is not int:
        return "a sha256 in hex, and a number of entries", f"{odd!a:.80}"
    return None


# --- heads -----------------------------------------------------------------------------------


def keep_head(place: ObjectStore, manifest: Manifest) -> None:
    """Keep the head of a run at a place of heads.

    Raises:
        RunExists: another head is kept under the run's name.
    """
    is_new = place.create(key_of(manifest.run, HEADS), _HEAD % manifest.head.encode())
    if not is_new and head_in(place, manifest.run) != manifest.head:
        raise RunExists(place.url, f"head of {manifest.run}")


def head_in(place: ObjectStore, run: str) -> str:
    """Return the head that is kept of a run.

    Raises:
        LogMissing: none is.
        StoreDamaged: the file holds no head.
    """
    key = key_of(run, HEADS)
    content = place.get(key, 1000)
    if content is None:
        raise LogMissing(f"{place.url}/{run}", "its head was not stored")
    head = content[9:73]
    if content != _HEAD % head or not _HASH.match(head.decode(errors="replace")):
        raise StoreDamaged(f"{place.url}/{key}", "a head", f"{content!a:.80}")
    return head.decode()


def runs_in(place: ObjectStore, folder: str = RUNS) -> Iterator[str]:
    """Yield the names of the runs that are stored, or, in `heads`, whose heads are kept."""
    for name in place.names(folder):
        yield name.removesuffix(".json") + SUFFIX
