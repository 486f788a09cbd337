"""The paths of a test's recordings, and the replacement of old ones.

A recording is an ordinary log with its children and blobs. Its name follows from the test's:
`recordings/<test file>/<test>.jsonl`, and `<test>-2.jsonl` for the second run of the same test. A
new recording is made under a hidden name in the same folder, and renamed when it is complete, its
root last. `refold.testing` decides when to record or replay. This module renames and removes files.
The rules are CONTRACT.md §13.12.
"""

import contextlib
import os
import re
import shutil
from collections.abc import Container, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import attrs

from refold.engine.encoding import digest
from refold.engine.encoding.canonical import Json
from refold.engine.encoding.plain import to_json
from refold.engine.errors import LogNameRefused, UsageError
from refold.engine.events.events import RunStarted
from refold.engine.events.limits import CEILINGS, Limits
from refold.engine.log.lock import lock
from refold.engine.log.names import NAME_MAX, SUFFIX, blobs_of, root_of, tree
from refold.replay.difference.pointer_diff import Difference, differences

NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""The name that a test may give to one of its runs, not a number: numbers name the others."""

_RUN: Final = re.compile(rf"[1-9]\d*|{NAME.pattern}")
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_.,+=@-]")
_BYTES_MAX: Final = 100
"""Of a test's name and of a case's, each: a file's name has 255, and children add to it."""
_STEM_BYTES_MAX: Final = NAME_MAX - 32
"""Of both: a run's number, the suffix of its kind, and that of a new recording follow."""
_DIGITS: Final = 8


def stem_of(test: str, case: str | None = None) -> str:
    """Return the file name, without suffix, of a test, and of its case if it is parametrised.

    Equal for the same test, different for any other: characters that do not suit a file name become
    `_`, and a hash of the whole is added.
    """
    name = _safe(test, keeps=str.isidentifier)
    stem = name if case is None else f"{name}[{_safe(case)}]"
    return stem if len(stem.encode()) <= _STEM_BYTES_MAX else _cut(stem)


def _safe(text: str, keeps: Any = None) -> str:
    dotted = text.split(".")
    is_kept = all(map(keeps, dotted)) if keeps else not _UNSAFE.search(text)
    return text if is_kept and len(text.encode()) <= _BYTES_MAX else _cut(text)


def _cut(text: str) -> str:
    hashed = sha256(text.encode(errors="surrogatepass")).hexdigest()[:_DIGITS]
    return f"{_UNSAFE.sub('_', text)[:_BYTES_MAX]}~{hashed}"


@attrs.frozen
class Place:
    """The paths of one test's recordings."""

    folder: Path
    stem: str
    """As `stem_of` gives it."""

    def log(self, number: int, name: str | None = None) -> Path:
        """Return the log of the test's run with that name, or of its `number`-th run without one.

        Raises:
            UsageError: the name is invalid.
        """
        if name is not None and not NAME.fullmatch(name):
            raise UsageError(
                f"name={name!r}: expected letters, digits and _, not starting with a digit"
            )
        part = name or (str(number) if number > 1 else "")
        return self.folder / f"{self.stem}{'-' if part else ''}{part}{SUFFIX}"

    def recorded(self) -> list[Path]:
        """Return the logs of the runs that were recorded of this test, by name."""
        return [log for log in logs_in(self.folder) if belongs(log.stem, {self.stem})]


def logs_in(folder: Path) -> list[Path]:
    """Return the logs of root runs that lie in a folder, by name; hidden ones aside."""
    logs = sorted(folder.glob(f"[!.]*{SUFFIX}")) if folder.is_dir() else []
    return [path for path in logs if root_of(path) == path]


def belongs(name: str, stems: Container[str]) -> bool:
    """Return whether a recording is one of these tests', be it their second or a named run."""
    stem, _, run = name.rpartition("-")
    return name in stems or (stem in stems and bool(_RUN.fullmatch(run)))


def fresh_beside(log: Path) -> Path:
    """Return a hidden name beside `log` that nobody else has; the folder is made."""
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        raise LogNameRefused(str(log), getattr(error, "strerror", None) or str(error)) from None
    return log.with_name(f".{log.stem}~{os.urandom(4).hex()}{SUFFIX}")


def failed_beside(log: Path) -> Path:
    """Return where a run is kept that is not good enough for a recording: beside `log`."""
    return log.with_name(f"{log.stem}.failed{SUFFIX}")


def move_over(new: Path, log: Path) -> None:
    """Replace the tree of logs at `log`, if any, with the one at `new`.

    Each file is renamed, the root last. Then the remaining files of the old tree are removed. An
    interruption leaves logs of two trees, which every replay and `verify` refuses.
    """
    with _alone_in(log.parent):
        _drop_link(blobs_of(log))
        stale = {*tree(log), *_blobs(log)} if log.exists() else set()
        moves = {path: _renamed(path, new, log) for path in (*_blobs(new), *tree(new)[::-1])}
        for source, target in moves.items():
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            source.replace(target)
        for path in stale - set(moves.values()):
            path.unlink(missing_ok=True)
        shutil.rmtree(blobs_of(new), ignore_errors=True)
        if not _blobs(log):
            shutil.rmtree(blobs_of(log), ignore_errors=True)


def remove(log: Path) -> None:
    """Remove the tree of logs at `log`, if there is one."""
    if log.exists():
        with _alone_in(log.parent):
            _drop_link(blobs_of(log))
            for path in tree(log):
                path.unlink(missing_ok=True)
            shutil.rmtree(blobs_of(log), ignore_errors=True)


def _drop_link(blobs: Path) -> None:
    """Remove a link in the place of a folder of blobs: nothing is written or removed through it."""
    if blobs.is_symlink():
        blobs.unlink()


def _renamed(path: Path, new: Path, log: Path) -> Path:
    inside = path.relative_to(new.parent)
    first = log.stem + inside.parts[0].removeprefix(new.stem)
    return log.parent.joinpath(first, *inside.parts[1:])


def _blobs(log: Path) -> list[Path]:
    folder = blobs_of(log)
    return [path for path in folder.rglob("*") if not path.is_dir()] if folder.is_dir() else []


@contextlib.contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Hold a lock on the folder itself: two processes that record one test leave one whole tree."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        lock(descriptor, folder, waits=True)
        yield
    finally:
        os.close(descriptor)


# --- what a recording says -------------------------------------------------------------------


def asked_otherwise(
    started: RunStarted,
    argument: object,
    *,
    tools: Sequence[str],
    models: Mapping[str, str],
    limits: Limits | None = None,
    seed: str | int | None = None,
) -> tuple[Difference, ...]:
    """Return the differences between the requested run and the recorded one.

    Compared are the input, the names of the offered tools, and any given models, limits and seed.
    The program requests none of this, so a re-execution does not see it.
    """
    recorded: dict[str, Json] = {
        "input": started.input,
        "tools": [offer["name"] for offer in started.tools],
        "models": {name: started.models[name] for name in models if name in started.models},
    }
    now: dict[str, Json] = {
        "input": to_json(argument),
        "tools": sorted(tools),
        "models": dict(models),
    }
    if limits is not None:
        recorded["limits"] = started.limits
        now["limits"] = limits.completed(CEILINGS).as_json()
    if seed is not None:
        recorded["seed"], now["seed"] = started.seed, digest.of_value(digest.VALUE, seed)[:32]
    return differences(recorded, now)
