"""Records a folder while a command works in it: at the start, as it changes, at the end.

A scan runs on a separate thread while the model is working. The program continues when the answer
arrives, so earlier changes are distinguished from later ones. An error ends the recording of the
folder, but not the recording of the run. Rules: CONTRACT.md §16.16.
"""

import contextlib
import os
import re
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Final

import attrs

from refold.engine.errors import FolderRefused, GitFailed, NotCanonical
from refold.engine.events.events import Extension, scope_of
from refold.engine.log.names import files_of
from refold.engine.workspace.entries import FolderChanged, FolderLost, FolderStarted, Repository
from refold.engine.workspace.inside import modes_in, umask_here
from refold.engine.workspace.left_out import below
from refold.engine.workspace.linked import moved
from refold.engine.workspace.packing import pack_objects
from refold.engine.workspace.paths import as_text, names_of
from refold.engine.workspace.scanning import Scanner

_EDITS: Final = re.compile(r"(?i)\w*(?:edit|write|patch|replace|create_file|insert)\w*")
_READS: Final = re.compile(
    r"(?i)(?:read|view|glob|grep|search|ls|list|fetch|web|todo|think|plan|ask)\w*"
)
"""Names of tools that change the files that they name, and of those that change none."""
_PATCHED: Final = r"(?:File: |Move to: |[+-]{3} (?:[ab]/)?)"
"""How lines of patches begin that name a file."""


@attrs.frozen
class Suspect:
    """A tool call during which files may have changed."""

    call: str
    tool: str
    texts: Sequence[str]
    """Texts among its arguments."""


class WatchedFolder(contextlib.AbstractContextManager["WatchedFolder"]):
    """The folder of one command, and its log entries; a context manager."""

    def __init__(
        self,
        top: Path,
        here: Path,
        log: Path,
        scanner: Scanner,
        append: Callable[[Extension], object],
        *,
        copied: FolderStarted | None = None,
    ) -> None:
        """Take the folder, the command's start path in it, and the function that writes an entry.

        For a copy of the folder `copied`, the log has the paths of the original.
        """
        self._top = top
        self.seen_at = copied.path if copied is not None else os.fspath(top)
        """The folder's path in the log."""
        self._log_at = copied.log if copied is not None else below(log, top)
        self._below = "" if here == top else os.fspath(here.relative_to(top))
        self._log = log
        self._scanner = scanner
        self._write_down = append
        self._thread = ThreadPoolExecutor(1, "refold-folder")
        self._looks: list[tuple[Future[FolderChanged], list[Suspect]]] = []
        self._started: FolderStarted | None = None
        self._kept = ""
        self.entries = 0
        """How many were written."""
        self.lost = ""
        """Why the folder is not recorded any more; empty while it is."""

    def begin(self) -> None:
        """Write down how the folder is before the command starts."""
        if self._looked(self._thread.submit(self._scanner.scan)) is None:
            return
        state = self._scanner.state
        ignored = {one.path for one in state.tree.differs if one.value == "ignored"}
        told = (self._moved(state.repositories), state.by_git, self._log_at)
        umask = umask_here()
        self._started = FolderStarted(
            self.seen_at, self._below, state.tree, *told, umask, modes_in(self._top, ignored, umask)
        )
        self._note(self._started.as_event())

    def begin_scan(self, calls: list[Suspect], *, is_whole: bool = True) -> None:
        """Begin to look: the results of some of these calls are there, others are in progress.

        If it is not `is_whole`, only for new commits and tags.
        """
        if not self.lost:
            look = self._thread.submit(self._scanner.scan, is_whole=is_whole)
            self._looks.append((look, calls))

    def settle(self, calls: Callable[[], Iterable[Suspect]]) -> None:
        """Record the results of the started scans; `calls` are the calls since then."""
        while self._looks:
            look, before = self._looks.pop(0)
            if (scan := self._looked(look)) is not None:
                # A call may have begun and ended since, while the look was under way.
                since = [call for _, later in self._looks for call in later]
                self._write(scan, [*before, *since, *calls()])

    def end(self, calls: Iterable[Suspect]) -> None:
        """Write down how the folder is now that the command has ended."""
        self.settle(lambda: calls)
        if self.lost:
            return
        scan = self._looked(self._thread.submit(self._scanner.scan, is_last=True))
        if scan is not None:
            self._write(scan, list(calls), is_end=True)

    def keep(self, is_public: Callable[[bytes], bool], most: int | None = None) -> None:
        """Keep the objects of git beside the log, if they have at most so many bytes."""
        if self._started is None or self.lost or not self._started.tree.bases:
            return
        try:
            into = files_of(self._log)
            found = pack_objects(self._started, into, most=most, is_public=is_public)
            self._kept = ", kept beside the log" if found else f", over {most:,} bytes: not kept"
        except (GitFailed, OSError, ValueError) as error:
            self._kept = f", not kept beside the log: {error}"

    def _note(self, event: Extension) -> None:
        try:
            self._write_down(event)
        except NotCanonical as error:  # more than an entry can hold
            self.lost = str(error)
            self._write_down(FolderLost(self.lost).as_event())
        self.entries += 1

    def _looked(self, look: "Future[FolderChanged]") -> FolderChanged | None:
        if self.lost:
            return None
        try:
            return look.result()
        except (GitFailed, FolderRefused, OSError, ValueError) as error:
            self.lost = str(error) or type(error).__name__
            self._note(FolderLost(self.lost).as_event())
            return None

    def _moved(self, found: Iterable[Repository]) -> tuple[Repository, ...]:
        return tuple(moved(one, os.fspath(self._top), self.seen_at) for one in found)

    def _write(self, scan: FolderChanged, calls: list[Suspect], *, is_end: bool = False) -> None:
        every = tuple(dict.fromkeys(suspect.call for suspect in calls))
        changes = []
        for change in scan.changes:
            named = suspects(self.seen_at, change.path, calls)
            changes.append(attrs.evolve(change, calls=() if named == every else named))
        if changes or scan.repositories is not None or scan.made or is_end:
            told = None if scan.repositories is None else self._moved(scan.repositories)
            whole = attrs.evolve(
                scan, changes=tuple(changes), calls=every, repositories=told, is_end=is_end
            )
            self._note(whole.as_event())

    @property
    def summary(self) -> str:
        """A one-line summary for people."""
        if self.lost:
            return f"not recorded: {as_text(self.lost)}"
        state = self._scanner.state
        differs = state.tree.differs
        own = [each for each in differs if each.digest]
        left = [each for each in differs if each.kind in ("out", "cut") and each.value != "ignored"]
        size = sum(each.size or 0 for each in own)
        files = "1 file" if state.by_git == 1 else f"{state.by_git:,} files"
        text = f"{files} by git{self._kept}, {len(own)} by content ({size:,} bytes)"
        if left:
            names = names_of((each.path for each in left), most=3)
            text += f", {len(left)} left out: {names}"
        return text

    def __exit__(self, *_: object) -> None:
        self._thread.shutdown()
        self._scanner.__exit__()


def may_change(tool: str) -> bool:
    """Return whether a tool of that name may change files: all but those that surely read."""
    return not _READS.fullmatch(tool) or _EDITS.fullmatch(tool) is not None


def suspects(top: str, path: str, calls: Sequence[Suspect]) -> tuple[str, ...]:
    """Return the calls that can have changed a path: all but those that certainly did not.

    Editing calls name their files, and reading calls change none. If an edit names the file, other
    calls count only if they are commands of other conversations that contain its name.
    """
    able = [each for each in calls if may_change(each.tool)]
    edits = [each for each in able if _EDITS.fullmatch(each.tool)]
    own = [each for each in edits if _names(each, top, path)]
    others = [each for each in able if each not in edits]
    if own:
        scopes, name = {scope_of(each.call) for each in own}, path.rpartition("/")[2]
        others = [
            each
            for each in others
            if scope_of(each.call) not in scopes and any(name in text for text in each.texts)
        ]
    found = [*own, *others] or able or calls
    return tuple(dict.fromkeys(each.call for each in found))


def _names(suspect: Suspect, top: str, path: str) -> bool:
    """Return whether a call names a file: by a whole text, or in a patch."""
    whole = f"{top}/{path}"
    if any(text in (path, f"./{path}", whole) for text in suspect.texts):
        return True
    names = f"(?:{re.escape(path)}|{re.escape(whole)})"
    in_patch = re.compile(rf"(?m){_PATCHED}(?:\./)?{names}\s*$")
    return any(in_patch.search(text) for text in suspect.texts)
