"""Folders that a command names in what it asks: the recorded ones for those of now, and back.

A command that is replayed in another folder, or by another user, says the paths of that.  They are
taken for the recorded ones, in the spellings that programs give them, and what is served says those
of now, so that tools find their files.  Pure.  Rules: CONTRACT.md §16.13.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from refold.engine.wire.parts.exchange import Asked
from refold.replay.difference.pointer_diff import counted

FOLDERS: Final = "folders"
"""The member of `run.started.rules`: {folder, home}, as they were, each with `other_` before it
for what else it is called."""
OTHER: Final = "other_"
_LEVELS_MIN: Final = 2
"""Levels that a path has from which on its other spellings are looked for."""


class Folders:
    """Puts the folders of now in the place of recorded ones, and back, in one replay."""

    def __init__(self, recorded: Mapping[str, str], now: Mapping[str, str]) -> None:
        names = [name for name in recorded if now.get(name) and not name.startswith(OTHER)]
        pairs = [
            pair
            for name in names
            for was, here in zip(_paths(recorded, name), _paths(now, name), strict=True)
            for pair in zip(_spellings(was), _spellings(here), strict=False)
        ]
        pairs.reverse()  # what stands first says what a path is that is both folders
        self._back = _Texts({here: was for was, here in pairs if was != here})
        self._forth = _Texts({was: here for was, here in pairs if was != here})
        self.count = 0
        """Requests in which a folder was taken for the recorded one."""
        self._is_printed = False
        moved = ((recorded[name], now[name]) for name in names)
        self.moved = {was: here for was, here in moved if was != here}

    def as_recorded(self, asked: Asked) -> Asked:
        """Return a request with the recorded folders."""
        if not self._back:
            return asked
        value = asked.as_json()
        plain = self._back.in_value(value)
        if plain == value:
            return asked
        self.count += 1
        return asked.asking({**plain, "model": asked.model})

    def as_recorded_text(self, text: str) -> str:
        """Return what was printed with the recorded folders."""
        plain = self._back.in_text(text)
        self._is_printed |= plain != text
        return plain

    def as_now(self, value: Any) -> Any:
        """Return a JSON value with the folders of now; itself if it names none."""
        return self._forth.in_value(value)

    def notes(self) -> list[str]:
        """Return what was taken for what, in words."""
        where = counted(self.count, "request") + " and in what was printed" * self._is_printed
        return [
            f"recorded in {was}, run in {here}: the one was taken for the other in {where}"
            for was, here in self.moved.items()
            if self.count or self._is_printed
        ]


class _Texts:
    """Texts that are replaced wherever they stand as a path, or as the beginning of one."""

    def __init__(self, stands_for: Mapping[str, str]) -> None:
        self._stands_for = stands_for
        longest = sorted(stands_for, key=len, reverse=True)
        # A path without its first slash is no end of a longer one.
        found = (("" if each[0] in "/-" else "(?<!/)") + re.escape(each) for each in longest)
        self._found = re.compile(rf"(?:(?<![\w.-])|(?<=\\[nrt]))(?:{'|'.join(found)})(?![\w])")

    def __bool__(self) -> bool:
        return bool(self._stands_for)

    def in_text(self, text: str) -> str:
        """Return a text with all of them replaced."""
        if not self:
            return text
        return self._found.sub(lambda found: self._stands_for[found[0]], text)

    def in_value(self, value: Any) -> Any:
        """Return a JSON value likewise; names of members, too."""
        if isinstance(value, str):
            return self.in_text(value)
        if isinstance(value, dict):
            return {self.in_text(name): self.in_value(item) for name, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.in_value(item) for item in value]
        return value


def _paths(folders: Mapping[str, str], name: str) -> tuple[str, str]:
    """Return what a folder is called, as it was given and otherwise, without a slash at the end."""
    given = folders[name].rstrip("/")
    other = folders.get(OTHER + name, given).rstrip("/")
    plain = [path for path in (given, other) if path.startswith("/")] or [""]
    return plain[0], plain[-1]


def _spellings(path: str) -> tuple[str, ...]:
    """Return how programs spell a path: as it is, as the name of a folder (Claude Code), from /.

    Outside of a git repository opencode names files as seen from there: `home/ann/work/a.txt`.
    """
    if path.strip("/") == "":
        return ()
    dashed = re.sub(r"[^A-Za-z0-9]", "-", path)
    return (path, dashed, path[1:]) if path.count("/") >= _LEVELS_MIN else (path,)
