"""The objects of git that a recorded folder needs: where they are, and as files of a pack.

A pack has all objects of the commits that were checked out, and of the rest of the history the
commits alone: enough for `git status` and `git log`, not for `git show` of an old commit.
Rules: CONTRACT.md §16.20.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from refold.engine.errors import GitFailed
from refold.engine.log.names import packs_of
from refold.engine.workspace.contents import Contents
from refold.engine.workspace.entries import FolderStarted, FolderState, Repository
from refold.engine.workspace.git import Git
from refold.engine.workspace.tree import Base

_PACK: Final = ("--stdout", "-q", "--threads=1", "--no-reuse-delta", "--no-reuse-object")
"""So that the same objects give the same bytes."""
_STASH: Final = "refs/stash"


def found_today(started: FolderStarted) -> tuple[Path | None, Mapping[str, Git]]:
    """Return the user's current folder, and the repository of each base and repository in it.

    That is the recorded folder, else this process's: the first that has the repositories and their
    commits. If none has, it is the first that exists, without any.
    """
    first: Path | None = None
    for folder in (Path(started.path), *_here()):
        if folder.is_dir():
            first = first or folder
            made = (one.path for one in started.repositories)
            there = [path for path in made if Path(folder, path, ".git").exists()]
            places = {*there, *(base.path for base in started.tree.bases)}
            if places and _has(folder, started.tree.bases):
                return folder, {path: Git(Path(folder, path)) for path in places}
    return first, {}


def _here() -> Iterator[Path]:
    here = Path.cwd()
    try:
        yield Path(os.fsdecode(Git(here).said("rev-parse", "--show-toplevel")).removesuffix("\n"))
    except GitFailed:
        yield here


def _has(folder: Path, bases: Iterable[Base]) -> bool:
    try:
        for base in bases:
            Git(Path(folder, base.path)).said("cat-file", "-e", base.tree)
    except (GitFailed, OSError):
        return False
    return True


def pack_objects(folder: FolderState, into: Path) -> list[Path]:
    """Write a pack of git for each repository of a recorded folder into `into`.

    Raises:
        GitFailed: a repository is missing, or has lost objects that the record needs.
    """
    started = folder.started
    if started is None:
        return []
    _, gits = found_today(started)
    held = {*started.tree.differs, *folder.tree.differs}
    told = {one.path: one for one in started.repositories}
    packs = []
    for number, base in enumerate(started.tree.bases):
        git = gits.get(base.path)
        if git is None:
            raise GitFailed(started.path, "pack-objects", "the repository is not here")
        own = [one for one in held if one.kind == "git" and started.tree.base_of(one.path) == base]
        ids = [*_wanted(git, base, told.get(base.path)), *sorted({one.value for one in own})]
        pack = into / f"{number}.pack"
        pack.write_bytes(
            git.said("pack-objects", *_PACK, given="\n".join(dict.fromkeys(ids)).encode())
        )
        packs.append(pack)
    return packs


def _wanted(git: Git, base: Base, told: Repository | None) -> list[str]:
    """Return the ids of a pack's objects: whole trees of checked-out commits, and all commits."""
    refs = [line.split(" ") for line in told.refs.splitlines()] if told is not None else []
    whole = [base.tree, *(each for each, name in refs if name == _STASH)]
    tips = [each for each, _ in refs]
    if told is not None and told.commit:
        whole.append(told.commit)
        tips.append(told.commit)
    objects = git.said("rev-list", "--objects", "--no-walk", *whole).decode(errors="replace")
    ids = [line.partition(" ")[0] for line in objects.splitlines()]
    if tips:
        commits = git.said(
            "rev-list", "--ignore-missing", "--stdin", given="\n".join(tips).encode()
        )
        ids += commits.decode().split()
        kinds = git.said("cat-file", "--batch-check", given="\n".join(tips).encode()).decode()
        ids += [line.split(" ")[0] for line in kinds.splitlines() if " tag " in line]
    return ids


def contents_of(
    log: Path, started: FolderStarted, into: Path
) -> tuple[Contents, Path | None, Mapping[str, Git]]:
    """Return what reads a log's contents, today's folder, and repositories by path.

    The repositories are today's, else one in the folder `into`, of the packs beside the log.

    Raises:
        GitFailed: a pack is damaged.
    """
    today, gits = found_today(started)
    if not gits and (packed := packed_repository(log, into)) is not None:
        gits = {base.path: packed for base in started.tree.bases}
    return Contents(log, gits), today, gits


def packed_repository(log: Path, into: Path) -> Git | None:
    """Make a repository of the packs beside a log; `None` if none exist.

    Raises:
        GitFailed: a pack is damaged.
    """
    packs = packs_of(log)
    if not packs:
        return None
    into.mkdir(exist_ok=True)
    Git(into).said("init", "-q", "--bare", "--template=", ".")
    git = Git(into, str(into))
    for pack in packs:
        git.said("index-pack", "--stdin", given=pack.read_bytes())
    _end_history(git, into / "shallow")
    return git


def _end_history(git: Git, shallow: Path) -> None:
    """End the history at the same commits as a shallow clone's."""
    asked = "--batch-all-objects", "--batch-check=%(objectname) %(objecttype)"
    listed = git.said("cat-file", *asked).decode().splitlines()
    commits = [line.split()[0] for line in listed if line.endswith(" commit")]
    given = "".join(f"{each}\n" for each in commits).encode()
    said = (
        git.said("log", "--no-walk", "--stdin", "--format=%H %P", given=given) if commits else b""
    )
    known = set(commits)
    ends = [line.split()[0] for line in said.decode().splitlines() if not known >= {*line.split()}]
    if ends:
        shallow.write_text("".join(f"{each}\n" for each in ends))
