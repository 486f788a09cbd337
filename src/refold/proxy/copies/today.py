"""Files of the folder that changed since the record: a command may be a program of the folder.

Then that program is under test, and its files are the current ones, except for those that the
recorded run itself changed. An agent from elsewhere gets the folder as it was. Rules: CONTRACT.md
§16.20.
"""

import contextlib
import itertools
import os
import shutil
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Final

from refold.engine.errors import FolderRefused, GitFailed
from refold.engine.log.blobs import digest_only
from refold.engine.log.names import is_taken
from refold.engine.workspace.entries import FolderStarted, FolderState
from refold.engine.workspace.git import Git, between
from refold.engine.workspace.left_out import OF_AIDER, LogFiles, is_volatile
from refold.engine.workspace.paths import is_git, names_of
from refold.engine.workspace.scanning import Scanner
from refold.engine.workspace.tree import TreeEntry

_PROGRAMS: Final = frozenset(
    (".py", ".js", ".mjs", ".cjs", ".ts", ".tsx", ".mts", ".sh", ".rb", ".php", ".pl", ".jar")
)
_OF_SYSTEM: Final = (
    "/proc", "/sys", "/dev", "/run", "/etc", "/usr", "/bin", "/sbin", "/lib", "/lib64",
)  # fmt: skip


def is_ordinary(path: str) -> bool:
    """Return whether a folder of a log is one of work: none of the system, HOME or above it."""
    plain, home = os.path.normpath(path), os.path.realpath(os.environ.get("HOME", "/"))
    above = f"{plain.rstrip('/')}/"
    return plain == path and not any(
        f"{each}/".startswith(above) or (each != home and above.startswith(f"{each}/"))
        for each in (home, *_OF_SYSTEM)
    )


def runs_own(command: Sequence[str], folder: FolderState, today: Path) -> bool:
    """Return whether a command starts a program of the folder: a word is a program or module there.

    A file that the run changed belongs to an agent's work, not to the agent.
    """
    started = folder.started
    assert started is not None
    words = [part for word in command for part in word.split()]
    modules = [word.replace(".", "/") for flag, word in itertools.pairwise(words) if flag == "-m"]
    for word in [*words, *(f"{each}{end}" for each in modules for end in (".py", "/__main__.py"))]:
        path = os.path.relpath(word, started.path) if word.startswith("/") else word
        for at in (Path(started.below, path), Path(path)):
            name = os.path.normpath(at)
            with contextlib.suppress(OSError, ValueError):
                found = today / name
                is_there = found.is_file() and not name.startswith("../")
                is_program = found.suffix in _PROGRAMS or os.access(found, os.X_OK)
                if is_there and is_program and name not in folder.touched:
                    return True
    return False


def changed_since(folder: FolderState, started: FolderStarted, log: Path, today: Path) -> list[str]:
    """Return the files of today's folder that differ, except those that the run changed.

    Raises:
        GitFailed, FolderRefused, OSError: the folder cannot be looked at.
    """
    with Scanner(today, LogFiles(log, today, today), digest_only, bytes) as scanner:
        now = scanner.scan().tree
    then = started.tree
    found = {
        path
        for path in then.by_path.keys() | now.by_path.keys()
        if then.by_path.get(path) != now.by_path.get(path)
        and _is_file(then.by_path.get(path))
        and _is_file(now.by_path.get(path))
    }
    bases = {base.path: base.tree for base in now.bases}
    for base in then.bases:
        tree = bases.get(base.path, base.tree)
        if tree != base.tree:
            git = Git(Path(today, base.path))
            found |= {os.path.join(base.path, one[0]) for one in between(git, base.tree, tree)}  # noqa: PTH118 - texts
    held = (one for one in then.differs if one.path in found)
    same = {one.path for one in held if unchanged(today, one) is not None}  # committed since
    kept = (
        path
        for path in found - folder.touched - same
        if not (is_volatile(path, OF_AIDER) or is_taken(Path(path)))
    )
    return sorted(kept, key=os.fsencode)


def unchanged(today: Path, entry: TreeEntry) -> bytes | None:
    """Return the content of a file in today's folder if it is the recorded content."""
    if entry.kind != "own":
        return None
    try:
        held = (today / entry.path).read_bytes()
    except OSError:
        return None
    return held if digest_only(held) == entry.value else None


def _is_file(entry: TreeEntry | None) -> bool:
    return entry is None or entry.kind in ("git", "own", "link", "gone")


def take_today(paths: Collection[str], today: Path, top: Path) -> None:
    """Put today's files in the place of those in a copy; through no link."""
    for path in paths:
        target, source = top / path, today / path
        above = [each for each in target.parents if each != top and each.is_relative_to(top)]
        if any(map(is_git, path.split("/"))) or any(each.is_symlink() for each in above):
            continue
        with contextlib.suppress(FileNotFoundError):
            target.unlink()
        if source.is_file() or source.is_symlink():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target, follow_symlinks=False)


def taken_today(
    folder: FolderState, log: Path, command: Sequence[str], today: Path, top: Path,
    was: Collection[str],
) -> tuple[list[str], list[str]]:  # fmt: skip
    """Give a copy today's files if the command is a program of the folder.

    `was` are the paths that the record has. Returns the paths that were taken, and the notes.
    """
    started = folder.started
    assert started is not None
    try:
        paths = changed_since(folder, started, log, today)
    except (GitFailed, FolderRefused, OSError, ValueError) as error:
        return [], [f"{today} was not compared with the recorded folder: {error}"]
    if runs_own(command, folder, today):
        take_today(paths, today, top)
        told = f"changed since the recording, and taken from {today}: {names_of(paths)}"
        return paths, [told] if paths else []
    paths = [path for path in paths if path in was]
    told = f"changed since the recording, but as recorded in the copy: {names_of(paths)}"
    return [], [told] if paths else []
