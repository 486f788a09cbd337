"""The final content of a copy, as a patch for the user's folder; nothing else writes there.

The folder is written to only if it is as the record left it, and then file by file. Rules:
CONTRACT.md §16.21.
"""

import contextlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import attrs

from refold.engine.errors import ContentMissing
from refold.engine.log.blobs import digest_only
from refold.engine.workspace.contents import Contents
from refold.engine.workspace.diffs import unified
from refold.engine.workspace.entries import FolderState
from refold.engine.workspace.inside import Inside
from refold.engine.workspace.left_out import LogFiles, is_volatile
from refold.engine.workspace.paths import as_text, of_text
from refold.engine.workspace.scanning import Scanner
from refold.engine.workspace.tree import FileTree, TreeEntry
from refold.proxy.copies.current import is_ordinary
from refold.replay.observed.folder import contents_of

_UNKNOWN: Final = ("commit", "cut", "out")
"""Kinds of entries that are neither compared nor written: their content is not recorded."""
_NAMED_MAX: Final = 8

Held = tuple[str, bytes]
"""Mode and content; both empty for a missing file."""


@attrs.frozen
class FolderPatch:
    """The files of the user's folder that a copy has otherwise."""

    folder: Path
    files: Mapping[str, tuple[Held, Held]]
    """By path: as it is, and as the copy has it."""
    moved: tuple[str, ...] = ()
    """Files that are not as the record left them: nothing may be applied."""

    @property
    def text(self) -> str:
        """The patch, as `git apply` takes it; one descriptive line for content that is not text."""
        lines = []
        for path, held in self.files.items():
            old, new = (content if mode else None for mode, content in held)
            lines += unified(old, new, as_text(path))
        return "".join(f"{line}\n" for line in lines)

    def names(self) -> str:
        """Return the names of some of its files."""
        named = self.moved or [as_text(path) for path in self.files]
        more = [f"{len(named) - _NAMED_MAX} more"] if len(named) > _NAMED_MAX else []
        return ", ".join([*named[:_NAMED_MAX], *more])

    def why_not(self, *, is_trusted: bool) -> str:
        """Return why nothing may be written; empty if it may be. A log may name any folder."""
        if self.moved:
            return f"{self.folder} has changed since the recording: {self.names()}"
        if not is_ordinary(str(self.folder)):
            return f"{self.folder} is not a folder of work"
        if not Path.cwd().is_relative_to(self.folder.resolve()):
            return f"--apply writes only where you stand: run it in {self.folder}"
        return "" if is_trusted else "the log was probably not recorded on this machine"

    def apply(self) -> None:
        """Write the files into the user's folder.

        Raises:
            FolderRefused: a path leads through a link; nothing is written.
            OSError: the system refuses to write.
        """
        with Inside(self.folder) as folder:
            for path in self.files:
                with contextlib.suppress(FileNotFoundError):
                    folder.folder(path.rpartition("/")[0])
            for path, (_, (mode, content)) in self.files.items():
                folder.put(path, mode, content)


def left_by(log: Path, folder: FolderState) -> str:
    """Return the files that a record changed: one JSON array per line.

    [path, mode, digest], the last two empty for a removed file.
    """
    if folder.started is None:
        return ""
    with contents_of(log, folder) as contents:
        return _lines(
            _changes(*(_side(contents, one) for one in (folder.started.tree, folder.tree)))
        )


def patch_of(log: Path, folder: FolderState, left: str, top: Path | None) -> FolderPatch | None:
    """Return the differences of a copy, whose log this is, from the user's folder `top`.

    `left` is the result of `left_by` for the folder's record. `None` without a folder.
    """
    started = folder.started
    if started is None or top is None:
        return None
    was = {json.loads(line)[0]: line for line in left.split("\n") if line}
    with contents_of(log, folder) as contents, _today(top, log) as today:
        start, copy = _side(contents, started.tree), _side(contents, folder.tree)
        known = {*start.files, *copy.files, *map(of_text, was)}  # of all else, nothing is said
        since = {path: held for path, held in _changes(start, today).items() if path in known}
        now = {json.loads(line)[0]: line for line in _lines(since).split("\n") if line}
        moved = {path for path in {*was, *now} if was.get(path) != now.get(path)}
        files = {path: held for path, held in _changes(today, copy).items() if path in known}
        return FolderPatch(top, files, tuple(sorted(moved)))


@attrs.frozen
class _Side:
    files: Mapping[str, TreeEntry]
    content: Callable[[TreeEntry], bytes]

    def held(self, path: str) -> Held:
        entry = self.files.get(path)
        return ("", b"") if entry is None else (entry.mode, self.content(entry))


def _side(contents: Contents, tree: FileTree) -> _Side:
    return _Side(contents.whole(tree).by_path, contents.content)


def _changes(before: _Side, after: _Side) -> dict[str, tuple[Held, Held]]:
    """Return the old and new content by path, for each changed file."""
    found = {}
    for path in sorted(before.files.keys() | after.files.keys(), key=os.fsencode):
        pair = before.files.get(path), after.files.get(path)
        is_unknown = any(one is not None and one.kind in _UNKNOWN for one in pair)
        if pair[0] == pair[1] or is_unknown or is_volatile(path):
            continue
        with contextlib.suppress(ContentMissing):
            held = before.held(path), after.held(path)
            if held[0] != held[1]:
                found[path] = held
    return found


def _lines(changes: Mapping[str, tuple[Held, Held]]) -> str:
    told = []
    for path, (_, (mode, content)) in changes.items():
        told.append([as_text(path), mode, digest_only(content) if mode else ""])
    return "\n".join(json.dumps(each) for each in told)


@contextlib.contextmanager
def _today(folder: Path, log: Path) -> Iterator[_Side]:
    """Scan the user's folder, and read it."""
    with Scanner(folder, LogFiles(log, folder, folder)) as scanner, Inside(folder) as opened:

        def content(entry: TreeEntry) -> bytes:
            held = opened.held(entry.path)
            if held is None:
                raise ContentMissing(as_text(entry.path), str(folder), "it is gone")
            return held.content

        scanner.scan(is_last=True)
        yield _Side(scanner.whole(), content)
