"""Finds the keys in a folder's key files, which a record leaves out: a command may print them.

A shell file: it reads the folder.  Rules: CONTRACT.md §16.8.
"""

import os
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Final

from refold.engine.workspace.inside import LINK, held_at
from refold.engine.workspace.left_out import WITHOUT_GIT, folder_of, is_key

VALUE_MIN: Final = 12
"""Characters of a value; a shorter one may be a word of any text."""
_FILE_MAX: Final = 1_000_000
"""Bytes of a key file; a larger one is not read."""
_LINE_MIN: Final = 40
"""Characters of a line of a PEM body that is found by itself."""
_SKIPPED: Final = frozenset({".git", *(name.rstrip("/") for name in WITHOUT_GIT)})
_PAIR: Final = re.compile(
    r"""(?<![\w.-])["']?(?P<name>[A-Za-z_][\w.-]*)["']?[ \t]*[=:][ \t]*"""
    r"""(?:"(?P<double>[^"\n]*)"|'(?P<single>[^'\n]*)'|(?P<bare>[^\s"',{}\[]+))"""
)
"""`NAME=value`, `"name": "value"`, `//host/:_authToken=value`."""
_NETRC: Final = re.compile(r"\bpassword[ \t]+(\S+)")
_PGPASS: Final = re.compile(r"(?m)^[^:\n]+:[^:\n]+:[^:\n]+:[^:\n]+:(\S+)$")
_URL: Final = re.compile(r"https?://\S+")
_PEM: Final = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----([\s\S]*?)-----END")


def keys_of(
    content: str, is_secret: Callable[[str], object]
) -> tuple[list[tuple[str, str]], list[str]]:
    """Return names and values of secrets in the text of a key file, and URLs, which may have one.

    `is_secret` decides by a name.
    """
    pairs = ((found["name"], found[found.lastgroup or ""]) for found in _PAIR.finditer(content))
    found = [(name, value) for name, value in pairs if is_secret(name)]
    found += [("password", each) for each in (*_NETRC.findall(content), *_PGPASS.findall(content))]
    for body in _PEM.findall(content.replace("\\n", "\n")):
        lines = body.split()
        found += [("key", each) for each in ("\n".join(lines), "".join(lines))]
        found += [("key", line) for line in lines if len(line) >= _LINE_MIN]
    kept = dict.fromkeys((name, value) for name, value in found if len(value) >= VALUE_MIN)
    return list(kept), _URL.findall(content)


@lru_cache(maxsize=8)  # a test session asks for each of its tests
def key_files(here: Path) -> tuple[str, ...]:
    """Return the texts of files that look by their names as if they hold keys.

    They are those of the folder that a record made `here` has; of `here` alone if it has none, as
    in HOME.  Links are not followed; caches and installed packages are not searched.
    """
    top, _ = folder_of(here)
    return tuple(filter(None, map(_text_of, _paths(top or here, is_deep=top is not None))))


def _paths(top: Path, *, is_deep: bool) -> Iterator[Path]:
    for at, folders, files in os.walk(top):
        folders[:] = [each for each in folders if is_deep and each not in _SKIPPED]
        yield from (Path(at, each) for each in files if is_key(each))


def _text_of(path: Path) -> str:
    """Return the text of a file; empty if it is a link or a pipe, large, or not readable."""
    held = held_at(path.parent, path.name, _FILE_MAX)
    return "" if held is None or held.mode == LINK else held.content.decode(errors="replace")
