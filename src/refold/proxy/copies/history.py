"""The history of a copy: HEAD, branches and index as they were, objects of another repository.

Each repository is made apart from the copy, so no path of a log leads git elsewhere. Remotes and
helpers for passwords are never made, and of hooks only the user's of today, on request. Of today's
configuration only values are taken that run nothing.
"""

import contextlib
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from refold.engine.errors import GitFailed
from refold.engine.workspace.entries import Repository
from refold.engine.workspace.git import SETTINGS, Git
from refold.engine.workspace.packing import borrow
from refold.engine.workspace.tree import TreeEntry

_HARMLESS: Final = r"^(core\.(filemode|ignorecase|precomposeunicode)|extensions\.objectformat)$"
"""Settings of today's configuration that hang on this machine and run nothing."""
_NO_HELPER: Final = "[credential]\n\thelper =\n"
"""An empty helper puts aside those that the user's own configuration names."""


def make_history(
    apart: Path,
    top: Path,
    repository: Repository,
    borrowed: Sequence[str],
    staged: Callable[[TreeEntry], bytes],
    today: Git | None,
) -> tuple[Git, list[str]]:
    """Make the repository of a folder whose files are there, in the folder `apart`.

    `borrowed` are folders of objects, as the copy names them; `staged` returns a content beside
    the log; `today` is the user's repository, if there is one. Returns whom
    to ask, and what could not be given back.
    """
    git = Git.made(top, apart, len(repository.commit) or 40, is_plain=False)
    own = Path(git.git_dir)
    borrow(git, borrowed)
    (own / "packed-refs").write_text(repository.refs)
    head = f"ref: {repository.branch}" if repository.branch else repository.commit
    (own / "HEAD").write_text(f"{head}\n")
    if repository.commit and not repository.branch:  # git says from where: `HEAD detached at …`
        (own / "logs").mkdir(exist_ok=True)
        who = f"{'0' * len(head)} {head} refold <refold> 0 +0000"
        (own / "logs" / "HEAD").write_text(f"{who}\tcheckout: moving from HEAD to {head}\n")
    if today is not None:
        _take_over(git, today)
    _settle(git, repository.settings)
    with (own / "config").open("a") as file:
        file.write(_NO_HELPER)
    try:
        _index(git, repository, staged)
    except GitFailed as error:
        return git, [f"the git index could not be restored: {error.why}"]
    return git, [
        f"a {each} was in progress, and its state is not in the log"
        for each in repository.under_way
    ]


def take_hooks(git: Git, today: Git) -> None:
    """Give the repository of a copy the hooks of today's, which are the user's own.

    Raises:
        GitFailed: no repository was found.
    """
    common = os.fsdecode(today.said("rev-parse", "--git-common-dir")).removesuffix("\n")
    if (hooks := Path(today.top, common, "hooks")).is_dir():
        shutil.copytree(hooks, Path(git.git_dir, "hooks"), dirs_exist_ok=True)
    with contextlib.suppress(GitFailed):  # they are nowhere else
        (elsewhere,) = today.lines("config", "-z", "--local", "--get", "core.hooksPath")
        git.said("config", "core.hooksPath", elsewhere)


def _index(git: Git, repository: Repository, staged: Callable[[TreeEntry], bytes]) -> None:
    if repository.commit:
        git.said("read-tree", repository.commit)
    lines = []
    for path, mode, named, stage, digest, size in repository.staged():
        if digest:
            kept = TreeEntry(path, mode, "git", named, size, digest)
            git.said("hash-object", "-w", "--stdin", given=staged(kept))
        if stage <= 1 or not mode:  # the stages of a conflict stand for the plain entry
            lines.append(f"0 {'0' * git.width}\t{path}")
        if mode:
            lines.append(f"{mode} {named} {stage}\t{path}")
    given = os.fsencode("".join(f"{line}\0" for line in lines))
    git.said("update-index", "-z", "--index-info", given=given)
    git.line("update-index", "-q", "--refresh", "--unmerged", "--ignore-submodules")


def _settle(git: Git, recorded: Mapping[str, str]) -> None:
    """Give a copy the recorded settings, and git's defaults for those that only this user has."""
    plain = {name: SETTINGS[name] for name in git.settings() if SETTINGS[name]}
    for name, value in {**plain, **recorded}.items():
        git.said("config", name, value)


def _take_over(git: Git, today: Git) -> None:
    """Copy the settings of today's repository for ignored files and its use."""
    try:
        said = today.lines("config", "-z", "--local", "--get-regexp", _HARMLESS)
        for name, _, value in (line.partition("\n") for line in said):
            git.said("config", name, value)
    except GitFailed:  # it says none of these
        pass
    with contextlib.suppress(GitFailed):  # `git submodule status` wants an address, or this
        for line in today.lines("config", "-z", "--local", "--get-regexp", r"^submodule\..*\.url$"):
            name = line.partition("\n")[0].removesuffix(".url")
            git.said("config", f"{name}.active", "true")
    for name in ("info/exclude", "shallow"):
        listed = today.said("rev-parse", "--git-path", name).decode().strip()
        held = Path(today.top, listed)
        if held.is_file():
            Path(git.git_dir, name).parent.mkdir(exist_ok=True)
            Path(git.git_dir, name).write_bytes(held.read_bytes())
