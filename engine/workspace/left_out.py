"""Which folder is recorded, and which of its files are not.  Rules: CONTRACT.md §16.16."""

import fnmatch
import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from refold.engine.errors import UsageError
from refold.engine.workspace.git import work_tree_around

FILE_MAX: Final = 10_000_000
"""Bytes of one file."""
TOTAL_MAX: Final = 200_000_000
"""Bytes of all files that are kept by content, at the start; and again of what changes later."""
NONE: Final = "none"
"""The option value for recording no folder."""
WITHOUT_GIT: Final = (
    "node_modules/", ".venv/", "venv/", "__pycache__/", ".tox/", ".mypy_cache/", ".pytest_cache/",
    ".ruff_cache/", "target/",
)  # fmt: skip
"""Files ignored in a folder that is not in git, in addition to its `.gitignore`."""

_KEYS: Final = re.compile(
    r"""(?ix) \.env(?!\.(?:example|sample|template|dist)$).*
    | .*\.(?:pem|key|p12|pfx|keystore|jks|kdbx) | id_(?:rsa|dsa|ecdsa|ed25519)(?:\..*)?(?<!\.pub)
    | [._]netrc | \.npmrc | \.pypirc | \.pgpass | \.git-credentials | \.htpasswd
    | credentials(?:\.json|\.toml)? | service[-_]account.*\.json"""
)
_OF_A_LOG: Final = r"(\.\d+)*\.(jsonl(\..*)?|ray|(blobs|files)(/.*)?)"
"""Ends of the paths of a log's files, after its stem.  A program may have the same stem."""
_ANY_LOG: Final = re.compile(rf"(.+?){_OF_A_LOG}")


_VOLATILE: Final = ("*.pyc", "*.aider.tags.cache.v*/*", ".DS_Store", "*/.DS_Store")
"""Files that programs write as a cache, or by chance."""
OF_AIDER: Final = (".aider.*", "*/.aider.*")
"""Files with times in them, for a record whose profile does not list such places."""


def is_volatile(path: str, more: Iterable[str] = ()) -> bool:
    """Return whether a file is irrelevant to a run by its path, or by other patterns."""
    return any(fnmatch.fnmatchcase(path, each) for each in (*_VOLATILE, *more))


def is_key(path: str) -> bool:
    """Return whether a file looks like one that holds a key, by its name."""
    return _KEYS.fullmatch(path.rpartition("/")[2]) is not None


def why_out(path: str, found: os.stat_result) -> str:
    """Return why a file is left out (`tree.Reason`); empty if it is not."""
    if not stat.S_ISREG(found.st_mode):
        return "" if stat.S_ISLNK(found.st_mode) else "special"
    if is_key(path):
        return "key"
    return "large" if found.st_size > FILE_MAX else ""


def folder_of(here: Path, named: str = "") -> tuple[Path | None, str]:
    """Return the folder to record for a command started `here`, and why none is.

    It is the folder of the option `--workspace`; else the top of the git work tree; else `here`.

    Raises:
        UsageError: the given path is not a folder, or the command is not started in it.
    """
    if named == NONE:
        return None, ""
    here = here.resolve()
    if named:
        top = Path(named).resolve()
        if not top.is_dir() or not here.is_relative_to(top):
            raise UsageError(f"--workspace {named}: expected a parent folder of {here}, or none")
        return top, ""
    home = Path(home_folder())
    if home.is_relative_to(here):
        kind = "home folder" if here == home else "folder above the home folder"
        return None, f"{here} is the {kind}: to record it anyway, use --workspace {here}"
    work_tree = work_tree_around(here)
    if work_tree is None or home.is_relative_to(work_tree):  # the home folder itself is in git
        return here, ""
    return work_tree, ""


def home_folder() -> str:
    """Return the real path of the home folder: `/` if HOME is empty or not set."""
    return os.path.realpath(os.environ.get("HOME") or "/")


def below(log: Path, top: Path) -> str:
    """Return the path of a log below a folder; empty if it is elsewhere."""
    real = log.parent.resolve() / log.name
    return os.fspath(real.relative_to(top)) if real.is_relative_to(top) else ""


class LogFiles:
    """The files of the log itself, which are not recorded."""

    def __init__(
        self, log: Path, top: Path, here: Path, *also: Path, holds_others: bool = False
    ) -> None:
        """Take logs; their folders are left out, unless the command is started in or below them.

        With `holds_others`, so are other logs that have the contents of a folder beside them.
        """
        self._others = top if holds_others else None
        folders = {below(each, top).rpartition("/")[0] for each in (log, *also)}
        self._folders = [each for each in folders if not here.is_relative_to(top / each)]
        beside = (re.escape(below(each.with_suffix(""), top) or "/") for each in (log, *also))
        self._beside = re.compile(f"(?:{'|'.join(beside)}){_OF_A_LOG}")

    def hold(self, path: str) -> bool:
        """Return whether a path is one of them."""
        is_in = any(f"{path}/".startswith(f"{each}/") for each in self._folders)
        return is_in or self._beside.fullmatch(path) is not None or self._is_of_another(path)

    def _is_of_another(self, path: str) -> bool:
        if self._others is None or (found := _ANY_LOG.fullmatch(path)) is None:
            return False
        stem = os.fspath(self._others / found[1])
        return Path(f"{stem}.files").is_dir() and Path(f"{stem}.jsonl").is_file()
