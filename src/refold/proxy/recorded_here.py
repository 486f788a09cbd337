"""Keeps which runs were recorded on this machine: a folder of empty files, named by their heads.

A log can claim any origin, so this is kept beside it, in the user's state folder
(`$XDG_STATE_HOME/refold/recorded`, else below `~/.local/state`). If that cannot be written, nothing
is kept: then the run counts as recorded elsewhere. Rules: CONTRACT.md §16.6.
"""

import contextlib
import os
import re
from pathlib import Path
from typing import Final

from refold.engine.errors import GitFailed
from refold.engine.workspace.git import Git, work_tree_around

_MOST: Final = 4096
"""Runs that are kept; of an eighth more, those that were recorded last."""
_HEAD: Final = re.compile(r"[0-9a-f]{64}")


def _folder() -> Path | None:
    """Return where they are kept; `None` where the environment names no folder for it."""
    home = Path(os.environ.get("HOME", ""), ".local", "state")
    named = (Path(os.environ.get("XDG_STATE_HOME", "")), home)
    state = next((each for each in named if each.is_absolute()), None)
    return None if state is None else state / "refold" / "recorded"


def remember(head: str) -> None:
    """Keep that the run whose log ends with this hash was recorded here."""
    folder = _folder()
    if folder is None or not _HEAD.fullmatch(head):
        return
    with contextlib.suppress(OSError):  # a record is no worse for it
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW
        os.close(os.open(folder / head, flags, 0o600))
        names = os.listdir(folder)  # noqa: PTH208 - of thousands
        if len(names) > _MOST + _MOST // 8:  # not at each: the time of each file is asked for
            times = {name: os.lstat(folder / name).st_mtime_ns for name in names}
            for name in sorted(names, key=times.__getitem__)[:-_MOST]:
                (folder / name).unlink()


def is_recorded_here(head: str) -> bool:
    """Return whether the run whose log ends with this hash is known to be recorded here."""
    folder = _folder()
    if folder is None or not _HEAD.fullmatch(head):
        return False
    with contextlib.suppress(OSError):
        return (folder / head).is_file()
    return False


def is_trusted(log: Path, head: str) -> bool:
    """Return whether a log was recorded here, or git tracks it in the work tree of this folder."""
    if is_recorded_here(head):
        return True
    top, path = work_tree_around(Path.cwd().resolve()), log.resolve()
    if top is None or not path.is_relative_to(top):
        return False
    with contextlib.suppress(GitFailed):
        named = os.fspath(path.relative_to(top))
        asked = "ls-files", "--error-unmatch", "-z", "--", f":(top,literal){named}"
        return bool(Git(top).output(*asked))
    return False
