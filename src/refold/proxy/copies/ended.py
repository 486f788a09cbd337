"""The folder at the end of a replay, compared with the recorded one.

Compared are the files that the recorded run changed, and those that changed now. Files that git
ignores or the record left out are not compared. Rules: CONTRACT.md §16.20.
"""

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final, Self

import attrs

from refold.engine.errors import ContentMissing, FolderRefused, GitFailed
from refold.engine.workspace.contents import Contents
from refold.engine.workspace.entries import FolderState
from refold.engine.workspace.inside import DiskFile, Inside
from refold.engine.workspace.left_out import LogFiles, is_volatile
from refold.engine.workspace.paths import as_text
from refold.engine.workspace.scanning import Scanner
from refold.engine.workspace.tree import TreeEntry, changed

_TEXT_MAX: Final = 1024 * 1024
"""Bytes of a file whose text is compared; of a larger one, its digest."""

_WHOLE: Final = "(the folder)"
"""Stands for all files in a report that nothing could be compared."""

Texts = Mapping[str, str]
"""Contents of files by path: the text, or its replacement."""


@attrs.frozen
class EndedFolder:
    """The files that differ at the end."""

    recorded: Texts
    now: Texts
    note: str = ""
    """What could not be compared, in words."""
    modes: Mapping[str, str] = attrs.field(factory=dict)
    """Of files that were not there in one of the runs."""


class FolderComparison:
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
        """Take the copy, what reads recorded contents, and patterns of paths to ignore.

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

    def begin(self) -> None:
        """Look at the copy as it is made."""
        with self._failing():
            self._scanner.scan()
            self._begun = self._scanner.whole() if self._taken else {}

    def end(self, recorded: FolderState, ignored: Iterable[str] = ()) -> EndedFolder:
        """Compare the folder that the command left with the end of the record.

        `ignored` are more patterns of paths.
        """
        self._ignored = (*self._ignored, *ignored)
        if recorded.lost or not recorded.is_ended:
            why = recorded.lost or "it is not in the log"
            return EndedFolder({}, {}, f"the folder at the end was not compared: {why}")
        then: dict[str, str] = {}
        now: dict[str, str] = {}
        modes: dict[str, str] = {}
        with self._failing(), Inside(self._top) as folder:
            self._scanner.scan(is_last=True)
            before, after = self._contents.whole(recorded.tree).by_path, self._scanner.whole()
            for path, entry, left in changed(before, after):
                is_as_begun = path in self._taken and self._begun.get(path) == left
                if is_as_begun or self._is_ignored(path, (entry, left)):
                    continue
                held, found, name = self._recorded(entry), folder.held(path), as_text(path)
                is_mode = held is not None and found is not None and held.mode != found.mode
                if held is None or found is None:
                    modes[name] = next((one.mode for one in (held, found) if one), "")
                for texts, one in ((then, held), (now, found)):
                    if one is not None:
                        texts[name] = _shown(one, is_mode=is_mode)
        if self._why:
            return EndedFolder({_WHOLE: "compared"}, {_WHOLE: f"not compared: {self._why}"})
        return EndedFolder(then, now, modes=modes)

    @contextlib.contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except (ContentMissing, GitFailed, FolderRefused, OSError, ValueError) as error:
            self._why = self._why or str(error) or type(error).__name__

    def _is_ignored(self, path: str, entries: Iterable[TreeEntry | None]) -> bool:
        return is_volatile(path, self._ignored) or any(
            one is not None and (one.kind == "commit" or not one.is_restorable) for one in entries
        )

    def _recorded(self, entry: TreeEntry | None) -> DiskFile | None:
        """Return what a path held; in place of a missing content, why it is missing."""
        if entry is None:
            return None
        try:
            return DiskFile(entry.mode, self._contents.content(entry))
        except ContentMissing as error:
            return DiskFile(entry.mode, str(error).encode())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._scanner.__exit__()


def _shown(held: DiskFile, *, is_mode: bool) -> str:
    begin = f"mode {held.mode}\n" if is_mode else ""
    if len(held.content) <= _TEXT_MAX:
        with contextlib.suppress(UnicodeDecodeError):
            return begin + held.content.decode()
    return f"{begin}{len(held.content)} bytes, {held.digest}"
