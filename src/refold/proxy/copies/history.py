"""The history of a copy: HEAD, branches and index as they were, objects of another repository.

Each repository is made apart from the copy, so no path of a log leads git elsewhere. Remotes and
helpers for passwords are never made, and of hooks only the user's of today, on request. Of today's
configuration only values are taken that run nothing.
"""

import contextlib
import os
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from refold.engine.errors import GitFailed
from refold.engine.workspace.entries import COMMON_TEXTS, SPARSE, Repository
from refold.engine.workspace.git import SETTINGS, Git

_TOLD: Final = r"^(submodule\..*\.url|remote\..*\.promisor)$"
"""Settings of today's repository for its submodules, and of objects that a partial clone lacks."""
_TODO: Final = "rebase-merge/git-rebase-todo"
_EXEC: Final = re.compile(r"(?m)^(\s*(?:exec|x)\b).*")
"""A line of it that would run a program."""
_BRANCH: Final = "refs/heads/"
_ALONE: Final = "[credential]\n\thelper =\n[commit]\n\tgpgSign = false\n[tag]\n\tgpgSign = false\n"
"""Puts aside what the user's own configuration names: helpers, and keys that a sandbox lacks."""


def make_history(
    apart: Path,
    top: Path,
    repository: Repository,
    borrowed: Sequence[str],
    today: Git | None,
) -> Git:
    """Make the git folder of a folder, in the folder `apart`, without what is of one work tree.

    `borrowed` are folders of objects, as the copy names them; `today` is the user's repository, if
    there is one. Returns whom to ask.
    """
    git = Git.made(top, apart, len(repository.commit) or 40, is_plain=False)
    own = Path(git.git_dir)
    git.borrow(borrowed)
    refs = [line.split(" ") for line in repository.refs.splitlines()]
    (own / "packed-refs").write_text("".join(f"{named} {ref}\n" for named, ref, *_ in refs))
    if today is not None:
        _take_over(git, today)
    settings = _settle(git, repository.settings)
    with (own / "config").open("a", encoding="utf-8") as file:
        file.write(settings + _ALONE)
        for ref, follows in (one[1:] for one in refs if one[2:]):
            if ref.startswith(_BRANCH):  # of the repository itself: there are no remotes
                section = f"branch {_quoted(ref.removeprefix(_BRANCH))}"
                file.write(_setting(section, "remote", ".") + _setting(section, "merge", follows))
            else:
                git.line("symbolic-ref", ref, follows)
    _write_texts(own, repository, COMMON_TEXTS)
    return git


def check_out(git: Git, repository: Repository) -> list[str]:
    """Give a git folder the HEAD and the index of a folder whose files are there.

    Returns what could not be given back.
    """
    write_head(Path(git.git_dir), repository.branch or repository.commit)
    _write_texts(Path(git.git_dir), repository, repository.texts.keys() - {*COMMON_TEXTS})
    try:
        _index(git, repository)
    except GitFailed as error:
        return [f"the git index could not be restored: {error.why}"]
    return []


def _write_texts(git_folder: Path, repository: Repository, names: Iterable[str]) -> None:
    for name in repository.texts.keys() & {*names}:
        file, text = git_folder / name, repository.texts[name]
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("ab") as texts:  # today's history may end elsewhere, too
            texts.write((_EXEC.sub(r"\1 :", text) if name == _TODO else text).encode())


def write_head(git_folder: Path, head: str) -> None:
    """Check out a branch, `refs/…`, or a commit, without its files."""
    begin = "ref: " if head.startswith("refs/") else ""
    (git_folder / "HEAD").write_text(f"{begin}{head}\n")


def take_hooks(git: Git, today: Git) -> None:
    """Give the repository of a copy the hooks of today's, which are the user's own.

    Raises:
        GitFailed: no repository was found.
    """
    hooks, elsewhere = _hooks_of(today)
    if hooks.is_dir():
        shutil.copytree(hooks, Path(git.git_dir, "hooks"), dirs_exist_ok=True)
    if elsewhere:
        git.output("config", "core.hooksPath", elsewhere)


def names_of_hooks(today: Git) -> list[str]:
    """Return the hooks of git that a repository runs; none if it is not one of this machine."""
    with contextlib.suppress(GitFailed, OSError):
        hooks, elsewhere = _hooks_of(today)
        found = Path(today.top, elsewhere) if elsewhere else hooks
        files = (each for each in found.iterdir() if each.suffix != ".sample" and each.is_file())
        return sorted(each.name for each in files if os.access(each, os.X_OK))
    return []


def _hooks_of(today: Git) -> tuple[Path, str]:
    """Return the folder of hooks in a repository, and the one that its configuration names."""
    common = os.fsdecode(today.output("rev-parse", "--git-common-dir")).removesuffix("\n")
    elsewhere = ""
    with contextlib.suppress(GitFailed):  # they are nowhere else
        (elsewhere,) = today.lines("config", "-z", "--local", "--get", "core.hooksPath")
    return Path(today.top, common, "hooks"), elsewhere


def _index(git: Git, repository: Repository) -> None:
    if repository.commit:
        git.output("read-tree", repository.commit)
    lines = []
    for one in repository.index:
        if one.stage <= 1 or not one.mode:  # the stages of a conflict stand for the plain entry
            lines.append(f"0 {'0' * git.width}\t{one.path}")
        if one.mode:
            lines.append(f"{one.mode} {one.id} {one.stage}\t{one.path}")
    given = os.fsencode("".join(f"{line}\0" for line in lines))
    git.output("update-index", "-z", "--index-info", given=given)
    git.line("update-index", "-q", "--refresh", "--unmerged", "--ignore-submodules")
    passed = os.fsencode("".join(f"{path}\0" for path in repository.passed))
    if SPARSE in repository.texts and repository.settings.get("core.sparsecheckout") == "true":
        passed += git.output("ls-files", "-d", "-z")
    git.output("update-index", "-z", "--skip-worktree", "--stdin", given=passed)


def _settle(git: Git, recorded: Mapping[str, str]) -> str:
    """Return the recorded settings, and git's defaults for those that only this user has."""
    plain = {name: SETTINGS[name] for name in git.settings() if SETTINGS[name]}
    named = ((*name.split("."), value) for name, value in {**plain, **recorded}.items())
    return "".join(_setting(*each) for each in named)


def _setting(section: str, name: str, value: str) -> str:
    return f"[{section}]\n\t{name} = {_quoted(value)}\n"


def _quoted(text: str) -> str:
    """Return a text as git's configuration files have it: bare, `#` and `;` begin comments."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _take_over(git: Git, today: Git) -> None:
    """Copy what today's repository knows of this machine, and where its history ends."""
    with contextlib.suppress(GitFailed):  # it says none of these
        for line in today.lines("config", "-z", "--local", "--get-regexp", _TOLD):
            name = line.partition("\n")[0]  # `git submodule status` wants an address, or `active`
            git.output("config", re.sub(r"\.url$", ".active", name), "true")
    shallow = Path(today.top, today.line("rev-parse", "--git-path", "shallow"))
    if shallow.is_file():
        Path(git.git_dir, "shallow").write_bytes(shallow.read_bytes())
