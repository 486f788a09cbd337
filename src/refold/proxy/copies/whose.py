"""Whose files a copy gets, path by path: the recorded ones, or today's.  Pure.

A state is a text that is equal for equal modes and contents; empty for a missing file.  Rules:
CONTRACT.md §16.20.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final, Literal

import attrs

from refold.engine.workspace.paths import names_of

Files = Literal["recorded", "own", "edits", "today"]
"""The edits that a copy gets: none; only in the agent's own files; all; new files as well."""
Fate = Literal["known", "lent", "used", "unused", "kept", "new", "missing"]
"""What becomes of a path.

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


@attrs.frozen(kw_only=True)
class PathStates:
    """The states of one path, and its role."""

    now: str
    """Today's state."""
    known: Collection[str]
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


@attrs.frozen
class Decision:
    """What becomes of the paths whose states today differ from the start of the record."""

    fates: Mapping[str, Fate] = attrs.field(factory=dict)

    @classmethod
    def of(
        cls, paths: Mapping[str, PathStates], files: Files, start: Collection[str]
    ) -> "Decision":
        """Decide on paths; `start` lists the files at the start of the record.

        An edit is not used if the copy has a file in the place of a folder above it, or has others
        below it.
        """
        fates = {path: fate_of(states, files) for path, states in paths.items()}
        gone = {path for path, fate in fates.items() if fate == "used" and not paths[path].now}
        while True:
            made = {path for path, fate in fates.items() if fate == "used" and paths[path].now}
            whole = made | (set(start) - gone)
            above = {path[:at] for path in whole for at in _slashes(path)}
            blocked = {
                path
                for path in made
                if path in above or any(path[:at] in whole for at in _slashes(path))
            }
            if not blocked:
                return cls(fates)
            fates |= dict.fromkeys(blocked, "unused")

    def paths(self, *fates: Fate) -> tuple[str, ...]:
        """Return the paths that have one of these fates, sorted."""
        return tuple(sorted(path for path, fate in self.fates.items() if fate in fates))

    def notes(self, today: object) -> list[str]:
        """Return lines for a report; `today` is the path of today's folder."""
        told: list[tuple[Fate, str]] = [
            ("used", f"changed since the recording, and used from {today}: {{}}"),
            ("unused", "changed since the recording, but as recorded in the copy: {}"),
            ("kept", "{}: changed by the run and by you since: as recorded"),
            (
                "new",
                "new since the recording, so not in the copy: {}; for new files, use --copy today",
            ),
            ("missing", f"not in {today}, and not tracked by git, so as recorded: {{}}"),
        ]
        named = ((text, self.paths(fate)) for fate, text in told)
        return [text.replace("{}", names_of(paths)) for text, paths in named if paths]


def _slashes(path: str) -> Iterable[int]:
    return (at for at, char in enumerate(path) if char == "/")
