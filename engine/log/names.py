"""The paths of a run's files: a rule, so that no path is ever read from a log.

`audit.jsonl` is a root run, `audit.1.jsonl` its first child, `audit.2.1.jsonl` the first child of
its second; `audit.blobs/` has the large strings of the whole tree, `audit.files/` the contents of
files in a watched command's folder. Pure, except for `Folder` and `listed`, which list one,
`followed`, and `fresh_path`, which names a new run. The rule is CONTRACT.md §4.
"""

import contextlib
import functools
import os
import re
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from refold.engine.errors import LogExists, LogNameRefused, OptionRefused

SUFFIX: Final = ".jsonl"
BLOBS_SUFFIX: Final = ".blobs"
FILES_SUFFIX: Final = ".files"
PACKED_SUFFIX: Final = ".refold"
SIGNATURE_SUFFIX: Final = ".sig"
NAME_MAX: Final = 219
"""The length limit of a root log's name, of 255 bytes: a torn tail's name is longer (§4.5)."""

_NUMBERS: Final = re.compile(r"(\.[0-9]+)+\Z")
_LEFT: Final = re.compile(r"(\.\d+)*\.jsonl\.torn-\d+-[0-9a-f]{8}\Z|(\.\d+)+\.ray\Z|\.jsonl\.sig\Z")
_NUMBER: Final = re.compile(r"[1-9][0-9]{0,8}\Z")
_NOT_PLAIN: Final = re.compile(r"[^a-z0-9]+")
_SETTLED_NS: Final = 3_000_000_000
"""The age from which the time of a folder's last change is its own: clocks of FAT move by 2 s."""


def log_path(call: str, log: object, name: str = "log") -> Path:
    """Return the path of a log that the public `call` reads: it was given a path or a `Recording`.

    Raises:
        OptionRefused: it is neither, or begins with `~`.
    """
    if not isinstance(log, str | os.PathLike):
        found = f"{type(log).__name__} {log!r:.60}"
        raise OptionRefused(call, name, "a path, or a Recording", found)
    if begins_at_home(log):
        raise OptionRefused(call, name, NO_HOME, f"{log!r:.80}")
    return followed(Path(log))


def followed(path: Path) -> Path:
    """Return the file that a link to a log leads to: the other files of the run lie beside it."""
    return path.resolve() if path.is_symlink() and path.is_file() else path


NO_HOME: Final = "a path without ~, which only shells know (os.path.expanduser)"
"""The expected form of a path that a program gives."""


def begins_at_home(path: str | os.PathLike[str]) -> bool:
    """Return whether a path begins with `~`, which would be a folder of that name."""
    return Path(path).parts[:1] == ("~",)


def check_seq(call: str, name: str, seq: object) -> None:
    """Raise unless this is an entry number.

    Raises:
        OptionRefused: it is not.
    """
    if type(seq) is not int:
        expected = "the seq of an entry: 0 is the first, -1 the last"
        raise OptionRefused(call, name, expected, f"{type(seq).__name__} {seq!r:.60}")


def check_root(path: Path) -> None:
    """Refuse a path that cannot be a root run's log.

    Raises:
        LogNameRefused: no `.jsonl` at the end, nothing before it, or a stem that ends in a number.
    """
    stem = _stem(path)
    if _NUMBERS.search(stem):
        why = (
            "the name of a root log must not end in a number, because children are named like that"
        )
        raise LogNameRefused(str(path), f"{why}; try {_NUMBERS.sub('', stem) or 'run'}{SUFFIX}")


def check_alone(path: Path) -> Path:
    """Return the path of a new root's log, which has no old children of a different run.

    Otherwise each child of the new run would fail, because its log already exists.

    Raises:
        LogExists: one exists, for example because only the root's log was removed.
        LogNameRefused: the name leaves no room for a child's or a torn tail's suffix (§4.5).
    """
    if (size := len(os.fsencode(path.name))) > NAME_MAX:
        raise LogNameRefused(str(path), f"expected at most {NAME_MAX} bytes, found {size}")
    if path.suffix == SUFFIX and not path.exists() and child_path(path, 1).exists():
        raise LogExists(str(child_path(path, 1)), str(path))
    return path


def check_place(path: Path) -> None:
    """Refuse a path that the system does not accept: a NUL, a name too long, a file as a folder.

    Raises:
        LogNameRefused: has the system's message.
    """
    try:
        path.lstat()
    except FileNotFoundError:
        pass
    except (OSError, ValueError) as error:  # a NUL is a ValueError
        raise LogNameRefused(str(path), getattr(error, "strerror", None) or str(error)) from None


def child_path(path: Path, number: int) -> Path:
    """Return where the child `number` (1-based, in order of starts) of the log at `path` lies."""
    return path.with_name(f"{_stem(path)}.{number}{SUFFIX}")


def is_there(path: Path) -> bool:
    """Return whether a child's log is there: what a link leads to is nobody's child.

    A child so deep that the system refuses the name of its log has none.
    """
    with contextlib.suppress(OSError):
        return path.is_file() and not path.is_symlink()
    return False


def parent_of(path: Path) -> tuple[Path, int] | None:
    """Return the log of the parent, and the child's number in it; `None` for a root's log."""
    above, _, number = _stem(path).rpartition(".")
    if not above or not _NUMBER.match(number):
        return None
    return path.with_name(above + SUFFIX), int(number)


def root_of(path: Path) -> Path:
    """Return the root's log of the tree that the log at `path` belongs to."""
    return path.with_name(_root_stem(path) + SUFFIX)


def is_runs(path: Path) -> bool:
    """Return whether a file is named like a root run or a packed one; hidden files are not."""
    if path.name.startswith("."):
        return False
    return path.suffix == PACKED_SUFFIX or (path.suffix == SUFFIX and root_of(path) == path)


def missing_roots(names: Iterable[str]) -> list[str]:
    """Return the roots' logs that a folder of these names lacks, though it has more of a run."""
    names, roots = set(names), set[str]()
    for path in map(Path, names):
        if path.suffix == SUFFIX and not path.name.startswith("."):
            with contextlib.suppress(LogNameRefused):
                roots.add(root_of(path).name)
        elif path.suffix == BLOBS_SUFFIX:
            roots.add(path.with_suffix(SUFFIX).name)
    return sorted(roots - names)


def without_children(logs: Iterable[Path]) -> list[Path]:
    """Return logs without each child's log whose root's is named, too, as by `*.jsonl`."""
    given = list(logs)
    named = set(given)
    return [
        log
        for log in given
        if log.suffix != SUFFIX or root_of(log) == log or root_of(log) not in named
    ]


def each_once(logs: Iterable[Path]) -> list[Path]:
    """Return logs without links to others of them, and each other file once."""
    folder_of = functools.cache(os.path.realpath)
    found = dict[str, Path]()
    for log in sorted(given := list(logs), key=Path.is_symlink):
        is_link = log.is_symlink()
        real = os.path.realpath(log) if is_link else f"{folder_of(log.parent)}/{log.name}"
        found.setdefault(real, log)
    kept = set(found.values())
    return [log for log in dict.fromkeys(given) if log in kept]


def blobs_of(path: Path) -> Path:
    """Return the folder of the large strings, one for the whole tree."""
    return path.with_name(_root_stem(path) + BLOBS_SUFFIX)


def files_of(path: Path) -> Path:
    """Return the folder of what files of a watched command's folder hold."""
    return path.with_name(_root_stem(path) + FILES_SUFFIX)


def signature_of(path: Path) -> Path:
    """Return where the signature of the log at `path` lies (§5.5)."""
    return path.parent / (path.name + SIGNATURE_SUFFIX)


class Folder:
    """The logs of a folder by parent, as listed when this object was made.

    It is listed once for any number of runs, because a folder may have thousands. Links do not
    count as logs or children.
    """

    def __init__(self, folder: Path) -> None:
        """List the folder.

        Raises:
            OSError: it cannot be listed.
        """
        self._folder = folder
        self._below: dict[str, dict[int, str]] = {}
        with os.scandir(folder) as entries:
            for entry in entries:
                above, _, number = entry.name.removesuffix(SUFFIX).rpartition(".")
                is_named = above and entry.name.endswith(SUFFIX) and _NUMBER.match(number)
                if is_named and not entry.is_symlink():
                    self._below.setdefault(above, {})[int(number)] = entry.name

    def children(self, path: Path) -> dict[int, Path]:
        """Return the logs that lie where children of the log at `path` would, by number."""
        found = self._below.get(_stem(path), {})
        return {number: self._folder / found[number] for number in sorted(found)}

    def tree(self, path: Path) -> list[Path]:
        """Return the log at `path` and the logs of all runs below it, parents first."""
        logs = [path]
        for log in logs:
            logs.extend(self.children(log).values())
        return logs


def listed(folder: Path) -> Folder:
    """Return a folder's logs as they are now, listed once for thousands of runs in it.

    It is listed anew if it has changed, or may have since the clock of its file system last moved.

    Raises:
        OSError: it cannot be listed.
    """
    found = folder.stat()
    if time.time_ns() - found.st_mtime_ns < _SETTLED_NS:
        return Folder(folder)
    return _listed(folder, (found.st_dev, found.st_ino, found.st_mtime_ns))


@functools.lru_cache(maxsize=1)
def _listed(folder: Path, _version: tuple[int, int, int]) -> Folder:
    return Folder(folder)


def children(path: Path) -> dict[int, Path]:
    """Return the logs that lie where children of the log at `path` would, by number, ascending."""
    return listed(path.parent).children(path)


def tree(path: Path) -> list[Path]:
    """Return the log at `path` and the logs of all runs below it, parents first."""
    return listed(path.parent).tree(path)


def leftovers(path: Path) -> list[Path]:
    """Return what else was left beside the logs of the root run at `path`.

    Torn tails that were cut off (CONTRACT.md §4.5), marks of children on a node (§7.6), and the
    signature (§5.5).
    """
    stem = _stem(path)
    return sorted(
        each
        for each in path.parent.iterdir()
        if each.name.startswith(stem) and _LEFT.match(each.name, len(stem)) and not each.is_dir()
    )


def is_reserved(path: Path) -> bool:
    """Return whether a file with this name is, or may be mistaken for, a part of a run.

    That is a log, a packed log, their side files, or a file in a folder of large texts. Case is
    ignored, as some file systems do.
    """
    names = [each.casefold() for each in path.parts]
    name = names[-1] if names else ""
    is_log = name.endswith((SUFFIX, PACKED_SUFFIX)) or _LEFT.search(name) is not None
    return is_log or any(each.endswith((BLOBS_SUFFIX, FILES_SUFFIX)) for each in names)


def fresh_path(name: str) -> Path:
    """Return a new path below `runs/` in this folder, for a run of that name."""
    return default_path(Path("runs"), name, time=datetime.now(UTC), short_id=os.urandom(3).hex())


def default_path(folder: Path, name: str, *, time: datetime, short_id: str) -> Path:
    """Return `<folder>/<UTC>-<name>-<short id>.jsonl`; `time` is in UTC, `short_id` has letters."""
    plain = _NOT_PLAIN.sub("-", name.lower()).strip("-")[:40].strip("-") or "run"
    return folder / f"{time:%Y%m%dT%H%M%SZ}-{plain}-{short_id}{SUFFIX}"


def _stem(path: Path) -> str:
    name = path.name
    stem = name.removesuffix(SUFFIX)
    if stem in ("", name):
        raise LogNameRefused(str(path), f"a log's name must end in {SUFFIX}")
    return stem


def _root_stem(path: Path) -> str:
    return _NUMBERS.sub("", _stem(path)) or _stem(path)
