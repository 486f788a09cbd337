"""The folder at the end of a replay, compared with the recorded one.

Compared are the files that the recorded run changed, and those that changed now. Files that git
ignores or the record left out are not compared. Rules: CONTRACT.md §16.20.
"""

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

import attrs

from refold.engine.errors import ContentMissing, FolderRefused, GitFailed
from refold.engine.observed.binding import Bindings
from refold.engine.workspace.contents import Contents
from refold.engine.workspace.entries import FolderState
from refold.engine.workspace.inside import DiskFile, Inside
from refold.engine.workspace.left_out import LogFiles, is_volatile
from refold.engine.workspace.paths import as_text
from refold.engine.workspace.scanning import Scanner
from refold.engine.workspace.tree import TreeEntry, changed
from refold.replay.observed.folder import differing_files

_TEXT_MAX: Final = 1024 * 1024
"""Bytes of a file whose text is compared; of a larger one, its digest."""

_WHOLE: Final = "(the folder)"
"""Stands for all files in a report that nothing could be compared."""

Texts = Mapping[str, str]
"""Contents of files by path: the text, or its replacement."""


@attrs.frozen
class EndedFolder:
    """The files that differ at the end."""

    recorded: Texts = attrs.field(factory=dict)
    now: Texts = attrs.field(factory=dict)
    """With recorded values in the place of current ones."""
    note: str = ""
    """What could not be compared, in words."""


class FolderComparison(contextlib.AbstractContextManager["FolderComparison"]):
    """Looks at a copy before its command starts and after it; a context manager."""

    def __init__(
        self,
        top: Path,
        contents: Contents,
        ignored: Iterable[str] = (),
        taken: Iterable[str] = (),
        log: str = "",
        seen: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Look at the copy as it is made.

        `contents` reads what the record held; `ignored` are patterns of paths.

        `taken` are paths that the copy does not have as recorded: of them, only new changes count.
        `log` is the path of the record in its folder, if it was there; for `seen`, see
        `linked.git_at`.
        """
        self._top = top
        self._contents = contents
        self._ignored = tuple(ignored)
        self._taken = frozenset(taken)
        self._begun: Mapping[str, TreeEntry] = {}
        place = top / log if log else top.parent / "no-log.jsonl"
        self._scanner = Scanner(top, LogFiles(place, top, top), is_copy=True, seen=seen)
        self._why = ""
        with self._failing():
            self._scanner.scan()
            self._begun = self._scanner.whole() if self._taken else {}

    def end(
        self, recorded: FolderState, bindings: Bindings, ignored: Iterable[str] = ()
    ) -> EndedFolder:
        """Compare the folder that the command left with the end of the record.

        `bindings` decide which texts are equal; `ignored` are more patterns of paths.
        """
        if recorded.lost or not recorded.is_ended:
            why = recorded.lost or "it is not in the log"
            return EndedFolder(note=f"the folder at the end was not compared: {why}")
        self._ignored = (*self._ignored, *ignored)
        then, left = dict[str, str](), dict[str, str]()
        with self._failing(), Inside(self._top) as folder:
            self._scanner.scan(is_last=True)
            before, after = self._contents.whole(recorded.tree).by_path, self._scanner.whole()
            changes = (each for each in changed(before, after) if not self._is_ignored(*each))
            was = self._contents.held

            def now(entry: TreeEntry | None) -> DiskFile | None:
                return None if entry is None else folder.held(entry.path)

            for path, *ends in differing_files(changes, bindings, was, now):
                old, new = was(ends[0]), now(ends[1])
                begins = [f"mode {one.mode}\n" for one in (old, new) if one]
                is_mode = len({*begins}) > 1
                if old is not None:
                    then[as_text(path)] = begins[0] * is_mode + _shown(old)
                if new is not None:
                    text = bindings.as_recorded_text(_shown(new))
                    left[as_text(path)] = begins[-1] * is_mode + text
        if self._why:
            return EndedFolder({_WHOLE: "compared"}, {_WHOLE: f"not compared: {self._why}"})
        return EndedFolder(then, left)

    @contextlib.contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except (ContentMissing, GitFailed, FolderRefused, OSError, ValueError) as error:
            self._why = self._why or str(error) or type(error).__name__

    def _is_ignored(self, path: str, old: TreeEntry | None, new: TreeEntry | None) -> bool:
        is_as_begun = path in self._taken and self._begun.get(path) == new
        return (
            is_as_begun
            or is_volatile(path, self._ignored)
            or any(one and (one.kind == "commit" or not one.is_restorable) for one in (old, new))
        )

    def __exit__(self, *_: object) -> None:
        self._scanner.__exit__()


def _shown(held: DiskFile) -> str:
    if len(held.content) <= _TEXT_MAX:
        with contextlib.suppress(UnicodeDecodeError):
            return held.content.decode()
    return f"{len(held.content)} bytes, {held.digest}"
