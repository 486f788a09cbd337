"""The program files of a recorded folder that differ from the user's: a command may run them.

Rules: CONTRACT.md §16.20.
"""

import os
from pathlib import Path
from typing import Final

from refold.engine.errors import ContentMissing
from refold.engine.workspace.entries import FolderState
from refold.engine.workspace.git import work_tree_around
from refold.engine.workspace.paths import as_text
from refold.engine.workspace.tree import TreeEntry
from refold.proxy.copies.current import held_at
from refold.replay.observed.folder import contents_of

_PROGRAMS: Final = frozenset(
    (".py", ".pth", ".so", ".js", ".mjs", ".cjs", ".ts", ".tsx", ".mts", ".sh", ".rb", ".php",
     ".pl", ".jar", ".exe", ".dll")
)  # fmt: skip


def programs_of(log: Path, folder: FolderState) -> tuple[str, ...]:
    """Return the paths of program files that are not as in the folder where the user stands.

    They have the suffix of a program, or may be executed, or are links; by path.
    """
    started = folder.started
    if started is None:
        return ()
    here = Path.cwd()
    is_in = here.is_relative_to(started.path)
    own = Path(started.path) if is_in else work_tree_around(here) or here
    with contents_of(log, folder) as contents:
        try:
            files = contents.whole(started.tree).differs
        except ContentMissing:  # the commits are not here, so nothing can be run
            files = started.tree.differs
    found = (each for each in files if _is_program(each))
    return tuple(as_text(each.path) for each in found if not _is_same(own, each))


def _is_program(entry: TreeEntry) -> bool:
    is_named = os.path.splitext(entry.path)[1] in _PROGRAMS  # noqa: PTH122 - a text
    return entry.is_restorable and (is_named or entry.mode in ("100755", "120000"))


def _is_same(own: Path, entry: TreeEntry) -> bool:
    held = held_at(own, entry.path)
    return held is not None and held.is_as(entry)
