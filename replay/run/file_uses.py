"""The files that a watched command changed, by conversation. Rules: CONTRACT.md §16.16.

If several calls may have made a change, each of their conversations has it, marked as uncertain. A
file that is back in its original state does not count.
"""

from typing import Final

import attrs

from refold.engine.events.call_key import scope_of
from refold.engine.workspace.entries import FileChange, FolderChanged
from refold.engine.workspace.paths import as_text
from refold.engine.workspace.tree import TreeEntry
from refold.replay.run.run_node import FileUse

ROOT: Final = "0"
"""The scope of the command itself, in which all changes are."""


@attrs.define
class _Use:
    """All changes of one file."""

    before: TreeEntry | None
    after: TreeEntry | None = None
    lines: tuple[int, int] | None = (0, 0)
    is_sole: bool = True

    def take(self, change: FileChange, *, is_sole: bool) -> None:
        """Add a change."""
        self.after = change.after
        self.is_sole = self.is_sole and is_sole
        if self.lines is None or change.added is None or change.removed is None:
            self.lines = None
        else:
            self.lines = (self.lines[0] + change.added, self.lines[1] + change.removed)


class FileUses:
    """Adds up the changes of a log."""

    def __init__(self) -> None:
        self._by_scope: dict[str, dict[str, _Use]] = {}

    def take(self, entry: FolderChanged) -> None:
        """Take the changes of an entry."""
        for change in entry.changes:
            scopes = dict.fromkeys(map(scope_of, entry.suspects(change)))
            for scope in dict.fromkeys((ROOT, *scopes)):
                uses = self._by_scope.setdefault(scope, {})
                use = uses.setdefault(change.path, _Use(change.before))
                use.take(change, is_sole=scope == ROOT or len(scopes) == 1)

    def of(self, scope: str) -> tuple[FileUse, ...]:
        """Return the files of a conversation, or with `ROOT` of the command, by path."""
        found = sorted(self._by_scope.get(scope, {}).items())
        return tuple(_file_use(path, use) for path, use in found if use.before != use.after)


def _file_use(path: str, use: _Use) -> FileUse:
    added, removed = use.lines or (None, None)
    return FileUse(
        path=as_text(path),
        change="added" if use.before is None else "removed" if use.after is None else "changed",
        lines_added=added,
        lines_removed=removed,
        is_sole=use.is_sole,
    )
