"""Repositories whose `.git` is a file, such as submodules and linked work trees.

Input: a folder, or its start in a log. Output: the paths of git folders. In a copy, `.git` files
have the paths that its command sees. Rules: CONTRACT.md §16.20.
"""

import contextlib
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import attrs

from refold.engine.errors import FolderRefused
from refold.engine.workspace.entries import (
    COMMON_TEXTS,
    OPERATIONS,
    OWN_TEXTS,
    TEXT_MAX,
    WORKTREE,
    FolderStarted,
    Repository,
    Worktree,
)
from refold.engine.workspace.git import Git
from refold.engine.workspace.inside import LINK, held_at
from refold.engine.workspace.tree import is_below

_BEGIN: Final = b"gitdir: "
_REF: Final = "ref: "
_WHO: Final = re.compile(r"://[^/\s'\"@]+@")
"""The user and the password of an address: `git pull` writes it down as it was given."""
_LINES: Final = 100
"""Of a reflog."""
_AT_WORK: Final = ("rebase-*/*", "sequencer/*", "BISECT_*")
_MOST: Final = 1000
"""Work trees of one repository."""


def git_file_of(folder: Path) -> str:
    """Return the path in the `.git` file of a folder, as written there; empty without one."""
    held = held_at(folder, ".git")
    is_one = held is not None and held.mode != LINK and held.content.startswith(_BEGIN)
    return os.fsdecode(held.content[len(_BEGIN) :]).rstrip("\r\n") if held and is_one else ""


def git_at(top: Path, path: str, seen: Mapping[str, str]) -> Git:
    """Return the repository at a path of a folder.

    `seen` maps the paths that a copy's command sees to the copy's folders; empty without a copy.
    """
    folder = top / path
    text = git_file_of(folder) if seen else ""
    at = next((each for each, place in seen.items() if place == os.fspath(top)), "")
    led = resolved(at, path, text)
    for each, place in seen.items() if text else ():
        if is_below(led, each):
            return Git(folder, place + led.removeprefix(each))
    return Git(folder)


def resolved(*parts: str) -> str:
    """Return a path joined from parts, without `..`; links are not followed."""
    return os.path.normpath(os.path.join(*parts))  # noqa: PTH118 - texts


def git_folder(top: str, one: Repository) -> str:
    """Return the recorded path of a repository's git folder."""
    return resolved(top, one.path, one.git_file or ".git")


def common_folder(top: str, one: Repository) -> str:
    """Return the recorded path of the git folder that has its branches."""
    return resolved(git_folder(top, one), one.common)


def worktree_at(top: str, one: Repository, other: Worktree) -> str:
    """Return the recorded path of another linked work tree of a repository."""
    return os.path.dirname(resolved(common_folder(top, one), "worktrees", other.name, other.at))  # noqa: PTH120 - a text


def outside(started: FolderStarted) -> list[str]:
    """Return the outermost recorded git folders outside of a folder."""
    top = started.path
    named = {git_folder(top, one) for one in started.repositories}
    named |= {common_folder(top, one) for one in started.repositories}
    found = list[str]()
    for path in sorted(each for each in named if not is_below(each, top)):
        if not any(is_below(path, each) for each in found):
            found.append(path)
    return found


def base_of(started: FolderStarted) -> str:
    """Return the recorded folder that a folder and its git folders have in common."""
    top = started.path
    return os.path.commonpath([top, *(one for one in outside(started) if not is_below(top, one))])


def trees_outside(started: FolderStarted) -> list[str]:
    """Return the recorded paths of linked work trees outside of a folder."""
    top = started.path
    named = ((one, other) for one in started.repositories for other in one.worktrees if other.name)
    return sorted(at for at in {worktree_at(top, *each) for each in named} if not is_below(at, top))


def noted(started: FolderStarted) -> dict[str, str]:
    """Return folders outside of a recorded one that git names, by names for bindings."""
    found = {f"git folder {at}": work_tree_of(one) for at, one in enumerate(outside(started), 1)}
    return found | {f"work tree {at}": one for at, one in enumerate(trees_outside(started), 1)}


def work_tree_of(git_folder: str) -> str:
    """Return the path of the work tree around a git folder, or else the folder itself."""
    return git_folder.removesuffix("/.git")


def moved(one: Repository, top: str, to: str) -> Repository:
    """Return a repository of the folder `top`, with paths as if this were the folder `to`."""

    def there(path: str) -> str:
        return to + path.removeprefix(top) if path.startswith(f"{top}/") else path

    trees = tuple(attrs.evolve(each, at=there(each.at)) for each in one.worktrees)
    return attrs.evolve(one, git_file=there(one.git_file), worktrees=trees)


def places_of(git: Git, own: Path) -> tuple[str, str, tuple[Worktree, ...], dict[str, str]]:
    """Return `git_file`, `common`, `worktrees` and `texts`; `own` is the git folder."""
    common = _line(own / "commondir")
    trees = tuple(_worktrees(own, own / common)) if (own / common / "worktrees").is_dir() else ()
    at_work = (one.relative_to(own).as_posix() for each in _AT_WORK for one in own.glob(each))
    texts = {name: _text(own, name) for name in at_work if OPERATIONS.fullmatch(name)}
    texts |= {name: text for name in OWN_TEXTS if (text := _text(own, name))}
    texts |= {name: text for name in COMMON_TEXTS if (text := _text(own / common, name))}
    return git_file_of(git.top), common, trees, texts


def _text(folder: Path, name: str) -> str:
    """Return a file of git, of a reflog its last lines; empty if it is missing or too long."""
    text = _WHO.sub("://", _read(folder / name).decode(errors="replace"))
    if name.startswith("logs/"):
        text = "".join(text.splitlines(keepends=True)[-_LINES:])
    return text if len(text.encode()) <= TEXT_MAX else ""


def _worktrees(own: Path, common: Path) -> Iterator[Worktree]:
    if common != own:
        yield Worktree("", "", _head(common))
    for name in sorted(os.listdir(common / "worktrees"))[:_MOST]:  # noqa: PTH208 - texts
        each = common / "worktrees" / name
        if (at := _line(each / "gitdir")) and not each.samefile(own):
            with contextlib.suppress(FolderRefused):  # its name is none that a log may have
                yield WORKTREE.read(WORKTREE.write(Worktree(name, at, _head(each))))


def _head(git_folder: Path) -> str:
    return _line(git_folder / "HEAD").removeprefix(_REF)


def _line(file: Path) -> str:
    """Return the line of a file of git; empty without one."""
    return os.fsdecode(_read(file)).rstrip("\r\n")


def _read(file: Path) -> bytes:
    held = held_at(file.parent, file.name)
    return held.content if held is not None else b""
