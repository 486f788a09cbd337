r"""Paths of files as texts that a log can hold, and which of them a log may name.

In memory a path is what `os.fsdecode` gives, relative to the top of the folder, with `/`.  A log
holds no lone surrogates: there, a byte that is not UTF-8 is `\xHH`, and a backslash is doubled.
"""

import os
import re
from collections.abc import Iterable
from typing import Final

from refold.engine.errors import FolderRefused

NAME_MAX: Final = 255
"""Bytes of one name."""
PATH_MAX: Final = 4096
"""Bytes of a path, and of the text of a link."""

_CHAR_MAX: Final = 4
"""Bytes of a character."""

_ESCAPED: Final = re.compile(r"\\(?:\\|x([89a-f][0-9a-f]))")
_SPECIAL: Final = frozenset({"", ".", ".."})
_INVISIBLE: Final = re.compile("[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")
"""Characters that some file systems pass over in names."""


def as_text(path: str) -> str:
    """Return a path, or the text of a link, as a log holds it."""
    return os.fsencode(path.replace("\\", "\\\\")).decode(errors="backslashreplace")


def names_of(found: Iterable[str], most: int = 8) -> str:
    """Return paths as a person reads them: the first ones, and how many more there are."""
    names = [as_text(name) for name in found]
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + rest


def of_text(text: str) -> str:
    """Return the path that `as_text` wrote.

    Raises:
        FolderRefused: no path is written so.
    """
    path = _ESCAPED.sub(lambda found: chr(0xDC00 + int(found[1], 16)) if found[1] else "\\", text)
    if as_text(path) != text:
        expected = "a path as Refold writes it, with backslashes doubled"
        raise FolderRefused(text, expected, "a different spelling")
    return path


def checked(path: str) -> str:
    """Return a path of a log that is one of a file below the folder.

    Raises:
        FolderRefused: it leads elsewhere, or into a git repository.
    """
    names = path.split("/")
    if path.startswith("/"):
        raise FolderRefused(as_text(path), "a path below the folder", "an absolute path")
    if not _SPECIAL.isdisjoint(names):
        bad = next(name for name in names if name in _SPECIAL)
        raise FolderRefused(as_text(path), "a path below the folder", f"the name {bad!r}")
    may_be_git = "git" in path.lower() or not path.isascii()  # most are not, and each is checked
    if may_be_git and any(map(is_git, names)):
        raise FolderRefused(as_text(path), "a file outside of git's own folders", ".git")
    is_long = len(path) * _CHAR_MAX > NAME_MAX and (
        len(os.fsencode(path)) > PATH_MAX
        or any(len(os.fsencode(name)) > NAME_MAX for name in names)
    )
    if is_long or "\0" in path:
        expected = f"names of at most {NAME_MAX} bytes without NUL, {PATH_MAX} in all"
        raise FolderRefused(as_text(path)[:NAME_MAX], expected, "another name")
    return path


def is_git(name: str) -> bool:
    """Return whether a name is `.git` to git, or to a file system that takes it for that."""
    plain = _INVISIBLE.sub("", name).casefold().rstrip(". ").partition(":")[0]
    return plain in {".git", "git~1"}
