"""Whose files a copy gets, path by path: the recorded ones, or today's.  Pure.

States are equal for equal modes and contents, and false for a missing file.  Rules: CONTRACT.md
§16.20.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final, Literal

import attrs

from refold.engine.workspace.tree import folders_above

Files = Literal["recorded", "own", "edits", "today"]
"""The edits that a copy gets: none; only in the agent's own files; all; new files as well."""
Fate = Literal["known", "lent", "used", "unused", "kept", "new", "missing"]
"""What becomes of a path whose state today differs from the start of the record.

`known`: as recorded, because the record knows today's state · `lent`: the log left it out · `used`:
today's · `unused`: as recorded, though it is an edit · `kept`: as recorded, though it was changed
by the run and again since · `new`: not in the copy, because it is new and git does not track it, or
the run wrote its content · `missing`: as recorded, because git did not track it and it is not here.
"""

_OWN_NAMES: Final = (
    "CLAUDE.md", "CLAUDE.local.md", "AGENTS.md", "AGENTS.override.md", "GEMINI.md", "QWEN.md",
    "CONVENTIONS.md", "opencode.json", "opencode.jsonc", ".mcp.json", ".aider.conf.yml",
    ".aider.model.settings.yml", ".aider.model.metadata.json", ".clinerules", ".cursorrules",
    "copilot-instructions.md",
)  # fmt: skip
_OWN_FOLDERS: Final = (
    ".claude", ".codex", ".gemini", ".qwen", ".opencode", ".clinerules", ".continue", ".cursor",
    ".agents",
)  # fmt: skip
"""Files and folders that instruct or configure agents, at any depth."""


def is_own(path: str, words: Iterable[str] = ()) -> bool:
    """Return whether a file is an agent's own: its instructions, or one that `words` name."""
    *folders, name = path.split("/")
    return name in _OWN_NAMES or any(each in _OWN_FOLDERS for each in folders) or path in words


State = tuple[str, ...] | str | None


@attrs.frozen(kw_only=True)
class PathStates:
    """The states of one path, and its role."""

    now: State
    """Today's state."""
    known: Collection[State]
    """Those in the record: at the start, at any entry, at the end, in the recorded commit."""
    is_committed: bool = False
    """Whether the recorded commit has it."""
    in_git: bool = False
    """Whether it is in a recorded repository, so that a clone lacks what was not committed."""
    is_changed: bool = False
    """Whether the run changed it."""
    is_written: bool = False
    """Whether the run wrote the content that is there today, to any path."""
    is_tracked: bool = False
    """Whether git tracks it today."""
    is_own: bool = False
    """Whether it is the agent's own."""
    is_left_out: bool = False
    """Whether the log left it out."""
    is_bulky: bool = False
    """Whether it is never an edit: a folder that git ignores, or a very large file."""


def fate_of(path: PathStates, files: Files) -> Fate:
    """Return what becomes of a path."""
    if path.is_left_out:
        return "lent"
    if path.now in path.known:
        return "known"
    if path.is_bulky:
        return "new"
    if files == "today":
        return "used"
    if not path.now and path.in_git and not path.is_committed:
        return "missing"
    if path.is_changed:
        return "kept"
    is_new = not any(path.known)
    if is_new and not path.is_own and (path.is_written or not path.is_tracked):
        return "new"
    return "used" if files == "edits" or (files == "own" and path.is_own) else "unused"


def fates_of(
    paths: Mapping[str, PathStates], files: Files, start: Collection[str]
) -> dict[str, Fate]:
    """Return what becomes of paths; `start` lists the files at the start of the record.

    An edit is not used if the copy has a file in the place of a folder above it, or has others
    below it.
    """
    fates = {path: fate_of(states, files) for path, states in paths.items()}
    gone = {path for path, fate in fates.items() if fate == "used" and not paths[path].now}
    while True:
        made = {path for path, fate in fates.items() if fate == "used" and paths[path].now}
        whole = made | (set(start) - gone)
        above = {each for path in whole for each in folders_above(path)}
        blocked = {p for p in made if p in above or not whole.isdisjoint(folders_above(p))}
        if not blocked:
            return fates
        fates |= dict.fromkeys(blocked, "unused")
